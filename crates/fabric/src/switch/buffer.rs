//! The shared buffer of a switch: what is charged to whom.
//!
//! Lossless packets are charged to the port and priority by which they came in (a [`Group`]): first to its
//! reserved bytes, then to the shared part up to a threshold, then to its headroom. Lossy packets are
//! charged to the shared part, up to a threshold of the queue by which they go out. A packet that leaves
//! at once, through a free port, is charged to nobody; bytes are free again when the packet begins to
//! leave, as cells are when they are read.

use super::config::Threshold;

/// The common part of a buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedBuffer {
    /// All that is neither reserved nor headroom.
    size: u64,
    used: u64,
    peak: u64,
}

/// What one priority of one port has in the buffer of its switch: the accounting of PFC.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Group {
    /// Reserved and shared bytes.
    pub used: u32,
    /// Headroom bytes.
    pub headroom: u32,
    /// The most headroom bytes there ever were.
    pub peak_headroom: u32,
    /// How often it said XOFF.
    pub xoffs: u32,
}

/// What limits a group.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupLimits {
    pub reserved: u32,
    pub headroom: u32,
    pub xon_offset: u32,
    pub threshold: Threshold,
}

impl SharedBuffer {
    /// An empty buffer.
    pub fn new(size: u64) -> Self {
        Self { size, used: 0, peak: 0 }
    }

    /// The bytes nobody uses.
    pub fn free(&self) -> u64 {
        self.size - self.used
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// The most bytes that ever were in use.
    pub fn peak(&self) -> u64 {
        self.peak
    }

    fn take(&mut self, bytes: u64) {
        self.used += bytes;
        self.peak = self.peak.max(self.used);
    }

    fn give(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.used, "{bytes} bytes given back, {} in use", self.used);
        self.used -= bytes;
    }

    /// Charges a lossy packet to a queue of `queued` bytes; says whether there was room.
    pub fn admit_lossy(&mut self, queued: u32, limit: Threshold, bytes: u32) -> bool {
        let limit = limit.limit(self.free()).min(u64::from(queued) + self.free());
        if u64::from(queued) + u64::from(bytes) > limit {
            return false;
        }
        self.take(u64::from(bytes));
        true
    }

    /// Gives back a lossy packet.
    pub fn release_lossy(&mut self, bytes: u32) {
        self.give(u64::from(bytes));
    }

    /// Charges a packet to a group; says whether there was room. If not, a lossless packet is lost: the
    /// headroom is too small. The packet that reaches the threshold is still shared: headroom is for what
    /// comes after XOFF.
    pub fn admit(&mut self, group: &mut Group, limits: &GroupLimits, bytes: u32) -> bool {
        let shared = group.used.saturating_sub(limits.reserved);
        let more = (group.used + bytes).saturating_sub(limits.reserved) - shared;
        let is_below = shared == 0 || u64::from(shared) < limits.threshold.limit(self.free());
        if is_below && group.headroom == 0 && u64::from(more) <= self.free() {
            group.used += bytes;
            self.take(u64::from(more));
            return true;
        }
        if group.headroom + bytes > limits.headroom {
            return false;
        }
        group.headroom += bytes;
        group.peak_headroom = group.peak_headroom.max(group.headroom);
        true
    }

    /// Gives back a packet of a group: headroom first.
    pub fn release(&mut self, group: &mut Group, limits: &GroupLimits, bytes: u32) {
        let from_headroom = group.headroom.min(bytes);
        let rest = bytes - from_headroom;
        debug_assert!(rest <= group.used, "{rest} bytes given back, {} in use", group.used);
        let shared_before = group.used.saturating_sub(limits.reserved);
        group.headroom -= from_headroom;
        group.used -= rest;
        self.give(u64::from(shared_before - group.used.saturating_sub(limits.reserved)));
    }

    /// Whether a group is to say XOFF.
    pub fn is_over(&self, group: &Group, limits: &GroupLimits) -> bool {
        let shared = group.used.saturating_sub(limits.reserved);
        group.headroom > 0 || (shared > 0 && u64::from(shared) >= limits.threshold.limit(self.free()))
    }

    /// Whether a group that said XOFF may say XON.
    pub fn is_under(&self, group: &Group, limits: &GroupLimits) -> bool {
        let shared = u64::from(group.used.saturating_sub(limits.reserved));
        let below = shared + u64::from(limits.xon_offset) <= limits.threshold.limit(self.free());
        group.headroom == 0 && (shared == 0 || below)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: GroupLimits =
        GroupLimits { reserved: 2_000, headroom: 3_000, xon_offset: 2_000, threshold: Threshold::Dynamic(0) };

    #[test]
    fn a_group_takes_its_reserve_then_the_shared_part_then_headroom() {
        let mut buffer = SharedBuffer::new(10_000);
        let mut group = Group::default();
        for _ in 0..2 {
            assert!(buffer.admit(&mut group, &LIMITS, 1_000));
        }
        assert_eq!((buffer.used(), group.used), (0, 2_000));
        // One times what is free: half of the shared part.
        for taken in 1..=5 {
            assert!(!buffer.is_over(&group, &LIMITS));
            assert!(buffer.admit(&mut group, &LIMITS, 1_000));
            assert_eq!(buffer.used(), taken * 1_000);
        }
        assert!(buffer.is_over(&group, &LIMITS));
        for _ in 0..3 {
            assert!(buffer.admit(&mut group, &LIMITS, 1_000));
        }
        assert_eq!((buffer.used(), group.headroom), (5_000, 3_000));
        assert!(!buffer.admit(&mut group, &LIMITS, 1));

        for _ in 0..3 {
            buffer.release(&mut group, &LIMITS, 1_000);
        }
        assert_eq!((buffer.used(), group.headroom), (5_000, 0));
        assert!(!buffer.is_under(&group, &LIMITS));
        buffer.release(&mut group, &LIMITS, 1_000);
        assert!(buffer.is_under(&group, &LIMITS), "4000 + 2000 of 6000 free");
    }

    #[test]
    fn a_group_that_is_empty_says_xon_however_little_is_free() {
        let mut buffer = SharedBuffer::new(1_000);
        assert!(buffer.admit_lossy(0, Threshold::Static(1_000), 1_000));
        let mut group = Group::default();
        assert!(buffer.admit(&mut group, &LIMITS, 2_000));
        assert!(!buffer.is_over(&group, &LIMITS), "its reserve is its own");
        assert!(buffer.admit(&mut group, &LIMITS, 100));
        assert_eq!(group.headroom, 100);
        buffer.release(&mut group, &LIMITS, 100);
        assert!(buffer.is_under(&group, &LIMITS));
    }

    #[test]
    fn lossy_queues_share_by_what_is_free() {
        let mut buffer = SharedBuffer::new(9_000);
        let mut queued = 0;
        while buffer.admit_lossy(queued, Threshold::Dynamic(1), 1_000) {
            queued += 1_000;
        }
        assert_eq!(queued, 6_000, "twice what is free: two thirds");
        let mut other = 0;
        while buffer.admit_lossy(other, Threshold::Dynamic(8), 1_000) {
            other += 1_000;
        }
        assert_eq!(other, 3_000, "no more than there is");
    }

    proptest! {
        #[test]
        fn what_is_admitted_is_given_back(operations in proptest::collection::vec((0usize..3, 64u32..2_000, any::<bool>()), 1..300)) {
            let mut buffer = SharedBuffer::new(20_000);
            let mut groups = [Group::default(); 3];
            let mut packets = [const { Vec::new() }; 3];
            for (index, bytes, arrives) in operations {
                if arrives {
                    if buffer.admit(&mut groups[index], &LIMITS, bytes) {
                        packets[index].push(bytes);
                    }
                } else if let Some(bytes) = packets[index].pop() {
                    buffer.release(&mut groups[index], &LIMITS, bytes);
                }
                let shared: u32 = groups.iter().map(|group| group.used.saturating_sub(LIMITS.reserved)).sum();
                prop_assert_eq!(buffer.used(), u64::from(shared));
                for (group, packets) in groups.iter().zip(&packets) {
                    prop_assert_eq!(group.used + group.headroom, packets.iter().sum::<u32>());
                }
            }
        }
    }
}
