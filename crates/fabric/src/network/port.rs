//! Ports: the sending end of a link, its queues, and what its peer told it.

use nic::Instant;

use crate::packet::{Handle, Pool};
use crate::priority::{PRIORITIES, Priorities};
use crate::random::Random;
use crate::rate::{ByteTime, Rate};
use crate::topology::{LinkId, Loss, NodeId};

/// What every packet touches: one cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
pub(crate) struct Port {
    /// When it may begin the next frame, in picoseconds.
    pub busy_until: u64,
    pub byte_time: ByteTime,
    /// From the end of a frame here to its handling by the peer: propagation and the peer's latency.
    pub delay: u64,
    /// Bytes and frames that were put on the wire, with everything around them.
    pub sent_bytes: u64,
    pub sent_frames: u64,
    pub peer: u32,
    pub node: NodeId,
    /// Bytes in all its queues.
    pub queued: u32,
    /// After so many bytes of a frame the peer handles it.
    pub peer_sees: u16,
    /// Queues that have packets.
    pub waiting: Priorities,
    /// Priorities that the peer paused.
    pub paused: Priorities,
    /// Priorities of which the peer is to be told whether they are held.
    pub owed: Priorities,
    /// Priorities in which we hold the peer: XOFF was said, or is to be.
    pub holding: Priorities,
    /// Whose turn it is among weighted queues.
    pub turn: u8,
    flags: u8,
}

impl Port {
    /// The link is down.
    pub const DOWN: u8 = 1;
    /// An event will come when the port falls free.
    pub const AWAKENING: u8 = 2;
    /// The link loses frames.
    pub const LOSSY: u8 = 4;
    /// The link has been down once.
    pub const SCARRED: u8 = 8;
    /// The watchdog does not obey the peer in some priority.
    pub const STALLED: u8 = 16;

    pub fn new(node: NodeId, peer: u32, rate: Rate, delay: u64) -> Self {
        Self {
            busy_until: 0,
            byte_time: rate.into(),
            delay,
            sent_bytes: 0,
            sent_frames: 0,
            peer,
            node,
            queued: 0,
            peer_sees: u16::MAX,
            waiting: Priorities::NONE,
            paused: Priorities::NONE,
            owed: Priorities::NONE,
            holding: Priorities::NONE,
            turn: 0,
            flags: 0,
        }
    }

    /// Whether a flag, or one of several, is set.
    pub const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sets or clears a flag.
    pub const fn set(&mut self, flag: u8, value: bool) {
        self.flags = if value { self.flags | flag } else { self.flags & !flag };
    }

    /// Queues that may send.
    pub const fn eligible(&self) -> Priorities {
        self.waiting.without(self.paused)
    }

    /// Whether a packet of `priority` could leave at this very moment.
    pub const fn is_free_for(&self, priority: u8, now: Instant) -> bool {
        self.busy_until <= now.as_picos()
            && self.waiting.is_empty()
            && self.owed.is_empty()
            && !self.paused.contains(priority)
    }
}

/// A queue of a switch's port: packets linked by the pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queue {
    pub head: Handle,
    pub tail: Handle,
    pub bytes: u32,
    /// Packets sent, to see whether it moves; wraps.
    pub sent: u32,
    pub peak: u32,
    pub marks: u32,
}

impl Queue {
    pub const EMPTY: Self =
        Self { head: Handle::NONE, tail: Handle::NONE, bytes: 0, sent: 0, peak: 0, marks: 0 };

    /// Appends a packet of `bytes`.
    pub fn push(&mut self, packets: &mut Pool, handle: Handle, bytes: u32) {
        packets[handle].next = Handle::NONE;
        if self.tail == Handle::NONE {
            self.head = handle;
        } else {
            packets[self.tail].next = handle;
        }
        self.tail = handle;
        self.bytes += bytes;
        self.peak = self.peak.max(self.bytes);
    }

    /// Takes the first packet, if there is one.
    pub fn pop(&mut self, packets: &Pool) -> Option<Handle> {
        if self.head == Handle::NONE {
            return None;
        }
        let handle = self.head;
        self.head = packets[handle].next;
        if self.head == Handle::NONE {
            self.tail = Handle::NONE;
        }
        Some(handle)
    }

    /// Its packets, from the first on.
    pub fn iter<'a>(&self, packets: &'a Pool) -> impl Iterator<Item = Handle> + use<'a> {
        let mut next = self.head;
        std::iter::from_fn(move || {
            let handle = (next != Handle::NONE).then_some(next)?;
            next = packets[handle].next;
            Some(handle)
        })
    }
}

/// What only rare events of a port touch.
#[derive(Clone, Debug)]
pub(crate) struct PortSide {
    pub link: LinkId,
    pub rate: Rate,
    /// From the end of a pause frame here to the peer's obedience.
    pub pause_delay: u64,
    pub loss: Loss,
    pub random: Random,
    /// When the link last went down.
    pub last_down: Instant,
    /// A refresh of our pauses is planned.
    pub refreshing: bool,
    /// The quanta of our pauses.
    pub quanta: u16,
    /// Priorities in which the watchdog does not obey the peer.
    pub disobeyed: Priorities,
    /// Until when each priority is paused, if nothing else is heard.
    pub pause_until: [Instant; PRIORITIES],
    /// Since when each priority is paused.
    pub paused_since: [Instant; PRIORITIES],
    pub counters: PortCounters,
}

/// What a port counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortCounters {
    /// Pause frames sent, by which at least one priority was stopped.
    pub xoff_sent: u64,
    /// Pause frames sent, by which at least one priority was let go.
    pub xon_sent: u64,
    /// Pause frames received.
    pub pauses_received: u64,
    /// How long each priority was paused by the peer, in picoseconds; pauses that last are not in it.
    pub paused: [u64; PRIORITIES],
    /// Packets dropped here, by reason.
    pub drops: [u64; Drop::COUNT],
}

/// Why a packet was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Drop {
    /// The switch has no way to its destination.
    NoRoute,
    /// It passed as many switches as its hop limit allows.
    HopLimit,
    /// A lossy queue was full.
    Tail,
    /// A lossless priority had no headroom left.
    Headroom,
    /// A bit was wrong on a link.
    Damaged,
    /// A link failed while it was on it, or in the queue before it.
    LinkDown,
    /// The watchdog emptied a stalled queue.
    Watchdog,
}

impl Drop {
    /// Number of reasons.
    pub const COUNT: usize = 7;

    /// All reasons.
    pub const ALL: [Self; Self::COUNT] = [
        Self::NoRoute,
        Self::HopLimit,
        Self::Tail,
        Self::Headroom,
        Self::Damaged,
        Self::LinkDown,
        Self::Watchdog,
    ];
}

/// All ports: those of switches first, then those of hosts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ports {
    pub all: Vec<Port>,
    pub sides: Vec<PortSide>,
    /// Eight for every port of a switch.
    pub queues: Vec<Queue>,
    /// What the weighted queues of every port of a switch may still send in their turn.
    pub deficits: Vec<[u32; PRIORITIES]>,
}

impl Ports {
    /// Where the queue and the group of a switch's port and a priority are.
    pub const fn index(port: u32, priority: u8) -> usize {
        port as usize * PRIORITIES + priority as usize
    }

    /// Whether a port is a host's.
    pub fn is_host(&self, port: u32) -> bool {
        port as usize >= self.deficits.len()
    }

    /// A queue of a switch's port.
    pub fn queue(&self, port: u32, priority: u8) -> &Queue {
        &self.queues[Self::index(port, priority)]
    }
}

impl std::ops::Index<u32> for Ports {
    type Output = Port;

    fn index(&self, port: u32) -> &Port {
        &self.all[port as usize]
    }
}

impl std::ops::IndexMut<u32> for Ports {
    fn index_mut(&mut self, port: u32) -> &mut Port {
        &mut self.all[port as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Packet;
    use crate::topology::HostId;

    #[test]
    fn what_every_packet_touches_is_one_cache_line() {
        assert_eq!((size_of::<Port>(), size_of::<Queue>()), (64, 24));
    }

    #[test]
    fn a_queue_is_first_in_first_out() {
        let mut pool = Pool::default();
        let packets: Vec<Handle> =
            (0..3).map(|_| pool.insert(Packet::new(HostId(0), HostId(1), 100, 0))).collect();
        let mut queue = Queue::EMPTY;
        for handle in &packets {
            queue.push(&mut pool, *handle, 100);
        }
        assert_eq!((queue.bytes, queue.peak), (300, 300));
        assert_eq!(queue.iter(&pool).collect::<Vec<_>>(), packets);
        for handle in packets {
            assert_eq!(queue.pop(&pool), Some(handle));
        }
        assert_eq!((queue.pop(&pool), queue.tail), (None, Handle::NONE));
    }
}
