//! Packets on their way: header values and a length, in one flat pool.

use wire::{Headers, TrafficClass};

use crate::topology::HostId;

/// Names a packet of the pool while it is in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub u32);

impl Handle {
    /// No packet: the end of a queue.
    pub const NONE: Self = Self(u32::MAX);
}

/// What a switch looks at: half a cache line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    /// The next packet of the same queue, or of the pool's free ones.
    pub next: Handle,
    /// Who sent it.
    pub source: HostId,
    /// Whom it is for.
    pub destination: HostId,
    /// UDP source port in the low half, destination port in the high one.
    pub ports: u32,
    /// The flow it belongs to.
    pub flow: u32,
    /// The port by which it entered the node where it is.
    pub ingress: u32,
    /// Length of the frame.
    pub frame: u16,
    /// Payload bytes of the transport.
    pub payload: u16,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// How many more switches may forward it.
    pub hops: u8,
    /// Its priority at the switch where it is.
    pub priority: u8,
    /// Bits named below.
    pub flags: u8,
}

impl Packet {
    /// A bit was wrong on some link; whoever checks the frame will drop it.
    pub const CORRUPT: u8 = 1;
    /// A cut-through switch waits for its end.
    pub const STORED: u8 = 2;

    /// A packet that was not sent yet.
    pub fn new(source: HostId, destination: HostId, frame: u16, payload: u16) -> Self {
        Self {
            next: Handle::NONE,
            source,
            destination,
            ports: 0,
            flow: 0,
            ingress: 0,
            frame,
            payload,
            traffic_class: 0,
            hops: 64,
            priority: 0,
            flags: 0,
        }
    }

    /// Whether a bit is set.
    pub const fn is(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Sets the congestion mark, if the sender reacts to it.
    pub const fn mark(&mut self) -> bool {
        let mut class = TrafficClass::from_byte(self.traffic_class);
        if matches!(class.ecn, wire::Ecn::NotCapable) {
            return false;
        }
        class.ecn = wire::Ecn::CongestionExperienced;
        self.traffic_class = class.byte();
        true
    }
}

/// All packets in flight. Memory grows to the most that ever were, and is used again.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    packets: Vec<Packet>,
    /// The transport headers of each, for hosts that have a transport.
    headers: Vec<Headers>,
    free: Handle,
    in_use: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Self { packets: Vec::new(), headers: Vec::new(), free: Handle::NONE, in_use: 0 }
    }
}

impl Pool {
    /// Adds a packet.
    pub fn insert(&mut self, packet: Packet) -> Handle {
        self.in_use += 1;
        let handle = self.free;
        if handle == Handle::NONE {
            self.packets.push(packet);
            return Handle(self.packets.len() as u32 - 1);
        }
        let slot = &mut self.packets[handle.0 as usize];
        self.free = slot.next;
        *slot = packet;
        handle
    }

    /// Adds a packet with its transport headers.
    pub fn insert_with(&mut self, packet: Packet, headers: Headers) -> Handle {
        let handle = self.insert(packet);
        let index = handle.0 as usize;
        if index >= self.headers.len() {
            self.headers.resize(index + 1, Headers::default());
        }
        self.headers[index] = headers;
        handle
    }

    /// The transport headers of a packet that was inserted with some.
    pub fn headers(&self, handle: Handle) -> &Headers {
        &self.headers[handle.0 as usize]
    }

    /// Something of a packet's transport headers, if it has some.
    pub fn first_word(&self, handle: Handle) -> u32 {
        self.headers.get(handle.0 as usize).map_or(0, |headers| headers.bth.psn.value())
    }

    /// Takes a packet out.
    pub fn remove(&mut self, handle: Handle) {
        debug_assert!(self.in_use > 0);
        self.in_use -= 1;
        self.packets[handle.0 as usize].next = self.free;
        self.free = handle;
    }

    /// Number of packets.
    pub fn len(&self) -> u32 {
        self.in_use
    }

    /// The most packets there ever were.
    pub fn peak(&self) -> u32 {
        self.packets.len() as u32
    }
}

impl std::ops::Index<Handle> for Pool {
    type Output = Packet;

    fn index(&self, handle: Handle) -> &Packet {
        &self.packets[handle.0 as usize]
    }
}

impl std::ops::IndexMut<Handle> for Pool {
    fn index_mut(&mut self, handle: Handle) -> &mut Packet {
        &mut self.packets[handle.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(frame: u16) -> Packet {
        Packet::new(HostId(0), HostId(1), frame, 0)
    }

    #[test]
    fn places_are_used_again() {
        let mut pool = Pool::default();
        let (a, b) = (pool.insert(packet(1)), pool.insert(packet(2)));
        pool.remove(a);
        let c = pool.insert(packet(3));
        assert_eq!((a, pool[b].frame, pool[c].frame), (c, 2, 3));
        assert_eq!((pool.len(), pool.peak()), (2, 2));
    }

    #[test]
    fn only_capable_packets_are_marked() {
        let mut packet = packet(64);
        assert!(!packet.mark());
        packet.traffic_class = 26 << 2 | 2;
        assert!(packet.mark());
        assert_eq!(packet.traffic_class, 26 << 2 | 3);
        assert!(packet.mark());
    }

    #[test]
    fn a_packet_is_half_a_cache_line() {
        assert_eq!(size_of::<Packet>(), 32);
    }
}
