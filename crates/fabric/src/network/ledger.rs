//! Every byte is accounted for.

use super::port::Drop;

/// Bytes of frames: what hosts sent is what was delivered, dropped, or is in flight.
///
/// The parts are counted where they happen, each on its own: on a wire from the start of a frame to its
/// handling, in a queue from its admission to its departure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Sent by hosts.
    pub sent: u64,
    /// Delivered to the hosts they were for.
    pub delivered: u64,
    /// Dropped by anyone.
    pub dropped: u64,
    /// On wires.
    pub on_wire: u64,
    /// In the queues of switches.
    pub queued: u64,
    /// Packets dropped, by reason.
    pub drops: [u64; Drop::COUNT],
    /// Packets delivered.
    pub delivered_packets: u64,
    /// Packets marked.
    pub marked_packets: u64,
}

impl Ledger {
    /// Bytes sent that were neither delivered nor dropped yet.
    pub const fn in_flight(&self) -> u64 {
        self.on_wire + self.queued
    }

    /// Packets dropped for a reason.
    pub const fn dropped_for(&self, reason: Drop) -> u64 {
        self.drops[reason as usize]
    }

    /// Whether every byte is somewhere.
    pub const fn balances(&self) -> bool {
        self.sent == self.delivered + self.dropped + self.in_flight()
    }

    #[cfg(debug_assertions)]
    pub(crate) fn check(&self) {
        assert!(self.balances(), "bytes unaccounted for: {self:?}");
    }
}
