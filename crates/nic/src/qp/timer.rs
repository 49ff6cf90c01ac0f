//! Deadlines of a queue pair, and the time codes of IBTA.

use crate::time::{Duration, Instant};

/// What a queue pair waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// An answer to what was sent (IBTA 9.7.6.1.3).
    Retransmit,
    /// The end of a wait that the responder asked for because it had no receive (IBTA 9.7.5.2.8). It is
    /// apart from the retransmit timer, which must not shorten it.
    RnrWait,
    /// The end of a pause that congestion control imposed.
    Pacing,
}

/// One deadline for each timer that runs.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Timers {
    deadlines: [Option<Instant>; 3],
}

impl Timers {
    const ALL: [Timer; 3] = [Timer::Retransmit, Timer::RnrWait, Timer::Pacing];

    /// Starts a timer, or moves it.
    pub fn set(&mut self, timer: Timer, deadline: Instant) {
        self.deadlines[timer as usize] = Some(deadline);
    }

    /// Stops a timer.
    pub fn stop(&mut self, timer: Timer) {
        self.deadlines[timer as usize] = None;
    }

    /// Stops all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Whether a timer runs.
    pub fn is_running(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize].is_some()
    }

    /// The earliest deadline.
    pub fn next(&self) -> Option<Instant> {
        self.deadlines.iter().flatten().min().copied()
    }

    /// Stops and returns one timer that is due.
    pub fn expire(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| self.deadlines[*timer as usize].is_some_and(|deadline| deadline <= now);
        let timer = Self::ALL.into_iter().find(due)?;
        self.stop(timer);
        Some(timer)
    }
}

/// How long to wait for an acknowledgement, for a local ACK timeout code of five bits; for ever if it is
/// zero.
///
/// IBTA 9.7.6.1.3 defines T = 4.096 us times two to the code and lets an adapter take anything from T to
/// 4T. We take 2T: the peer may be a program that is not always scheduled, and T itself would resend to
/// a peer that is merely late.
pub(crate) fn ack_timeout(code: u8) -> Option<Duration> {
    match code & 0x1F {
        0 => None,
        code => Some(Duration::from_nanos(2 * (4096 << code))),
    }
}

/// The wait that an RNR NAK's timer code of five bits asks for (IBTA table 45).
pub(crate) fn rnr_wait(code: u8) -> Duration {
    const MICROSECONDS: [u64; 32] = [
        655_360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1_280, 1_920, 2_560, 3_840,
        5_120, 7_680, 10_240, 15_360, 20_480, 30_720, 40_960, 61_440, 81_920, 122_880, 163_840, 245_760,
        327_680, 491_520,
    ];
    Duration::from_micros(MICROSECONDS[usize::from(code & 0x1F)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_timer_is_next_and_each_expires_once() {
        let mut timers = Timers::default();
        assert_eq!(timers.next(), None);
        timers.set(Timer::RnrWait, Instant::from_nanos(20));
        timers.set(Timer::Retransmit, Instant::from_nanos(10));
        assert_eq!(timers.next(), Some(Instant::from_nanos(10)));
        assert_eq!(timers.expire(Instant::from_nanos(9)), None);
        assert_eq!(timers.expire(Instant::from_nanos(10)), Some(Timer::Retransmit));
        assert_eq!(timers.expire(Instant::from_nanos(10)), None);
        assert_eq!(timers.next(), Some(Instant::from_nanos(20)));
    }

    #[test]
    fn ack_timeouts_double_with_the_code_and_zero_is_for_ever() {
        assert_eq!(ack_timeout(0), None);
        assert_eq!(ack_timeout(1), Some(Duration::from_nanos(2 * 8_192)));
        assert_eq!(ack_timeout(14), Some(Duration::from_nanos(2 * 67_108_864)));
        assert_eq!(ack_timeout(31), Some(Duration::from_nanos(2 * (4096 << 31))));
    }

    #[test]
    fn rnr_codes_grow_from_1_on_and_0_is_the_longest() {
        assert_eq!(rnr_wait(0), Duration::from_micros(655_360));
        assert_eq!(rnr_wait(12), Duration::from_micros(640));
        assert!((1..31).all(|code| rnr_wait(code) < rnr_wait(code + 1)));
        assert!(rnr_wait(31) < rnr_wait(0));
    }
}
