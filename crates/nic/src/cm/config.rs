//! What connection management is made with, and what it counts.

use crate::time::{Duration, Instant};
use crate::verbs::Mtu;

/// What a [`Cm`](super::Cm) is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CmConfig {
    /// Every number it gives to a connection ends in these bits, so that datagrams can be routed to
    /// the program that it serves.
    pub id_suffix: u32,
    /// How many bits `id_suffix` has, at most 16; 0 for one that has the whole space.
    pub id_suffix_bits: u8,
    /// Seeds numbers and PSNs. Programs that follow each other should differ in it, so that what is
    /// left of one is not taken for the other's.
    pub seed: u64,
    /// The adapter's GUID, which peers are told.
    pub ca_guid: u64,
    /// The largest path MTU that our port carries; more is refused.
    pub mtu: Mtu,
    /// Connections, pending requests and what lingers of either.
    pub max_ids: u32,
    /// Listeners.
    pub max_listeners: u32,
    /// How long to wait for an answer before the first retry; it doubles with every further one, up to
    /// what the peer was granted for its answer. The kernel waits that long from the start, which makes
    /// one lost packet cost six seconds.
    pub first_retry: Duration,
    /// The longest wait between two retries, whatever the peer asks for.
    pub longest_retry: Duration,
    /// The longest patience with a peer that asked for it.
    pub longest_patience: Duration,
    /// How long a connection that is over is remembered. The kernel takes the ACK timeout of the path.
    pub linger: Duration,
    /// How long our program may take to answer, which an impatient peer is told: an exponent as in
    /// [`cm_timeout`].
    pub service_timeout: u8,
    /// How long our adapter takes to acknowledge, which peers are told: an exponent likewise.
    pub target_ack_delay: u8,
    /// The RNR NAK timer code of connected queue pairs. The kernel takes 0, which is the longest wait
    /// there is (655 ms).
    pub min_rnr_timer: u8,
}

impl Default for CmConfig {
    /// What the kernel does, but for the times it takes to recover.
    fn default() -> Self {
        Self {
            id_suffix: 0,
            id_suffix_bits: 0,
            seed: 0,
            ca_guid: 0,
            mtu: Mtu::Mtu4096,
            max_ids: 1 << 16,
            max_listeners: 1 << 12,
            first_retry: Duration::from_millis(250),
            longest_retry: Duration::from_millis(8_000),
            longest_patience: Duration::from_millis(120_000),
            linger: Duration::from_millis(2_000),
            service_timeout: 24,
            target_ack_delay: 15,
            min_rnr_timer: 12,
        }
    }
}

/// Counters since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CmCounters {
    /// Datagrams that arrived.
    pub received: u64,
    /// Datagrams sent.
    pub sent: u64,
    /// Of those, sent again because no answer came.
    pub retransmitted: u64,
    /// Arrived that had arrived before, or came too late to matter.
    pub duplicates: u64,
    /// Dropped: no message of this class, or one that no honest peer sends.
    pub malformed: u64,
    /// Dropped or refused: about a connection that is not there.
    pub unmatched: u64,
    /// Requests that nobody listens for.
    pub no_listener: u64,
    /// Requests refused for what they ask.
    pub unacceptable: u64,
    /// Requests dropped because the listener has too many unanswered ones.
    pub backlog_full: u64,
    /// Requests dropped, or datagrams not sent, because there are too many.
    pub no_room: u64,
    /// Connections that a peer has forgotten: it uses the queue pair for another one.
    pub superseded: u64,
    /// Given up after the last retry.
    pub timeouts: u64,
}

/// The time that a CM timeout code stands for (IBTA 12.7): 4.096 us times two to its power.
pub const fn cm_timeout(exponent: u8) -> Duration {
    let exponent = if exponent > 31 { 31 } else { exponent };
    Duration::from_nanos(4096 << exponent)
}

/// Two instants and a span say when to try again, and how long to wait then.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Backoff {
    interval: Duration,
    ceiling: Duration,
    left: u8,
}

impl Backoff {
    /// `retries` of them, the first after `first`, no two further apart than `ceiling`.
    pub const fn new(first: Duration, ceiling: Duration, retries: u8) -> Self {
        let interval = if first.as_picos() < ceiling.as_picos() { first } else { ceiling };
        Self { interval, ceiling, left: retries }
    }

    /// When to look for an answer to what was sent `now`: up to a quarter sooner or later, as `chance`
    /// has it, so that those who were refused together do not come back together.
    pub fn deadline(&self, now: Instant, chance: u16) -> Instant {
        let interval = self.interval.as_picos();
        let sway = (interval >> 17) * u64::from(chance);
        now + Duration::from_picos(interval - interval / 4 + sway)
    }

    /// Takes a retry, if there is one left.
    pub fn retry(&mut self) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        self.interval = (self.interval + self.interval).min(self.ceiling);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_those_of_the_specification() {
        assert_eq!(cm_timeout(0), Duration::from_nanos(4_096));
        assert_eq!(cm_timeout(20), Duration::from_nanos(4_294_967_296));
        assert_eq!(cm_timeout(255), cm_timeout(31));
    }

    #[test]
    fn retries_come_less_and_less_often_and_end() {
        let mut backoff = Backoff::new(Duration::from_millis(100), Duration::from_millis(350), 4);
        let mut waits = std::vec![];
        loop {
            let wait = |chance| (backoff.deadline(Instant::ZERO, chance) - Instant::ZERO).as_nanos_ceil();
            assert!(wait(0) < wait(1) && wait(u16::MAX) < 2 * wait(0));
            waits.push(wait(0) / 750_000);
            if !backoff.retry() {
                break;
            }
        }
        assert_eq!(waits, [100, 200, 350, 350, 350]);
    }
}
