//! Packets on their way: lost, late, doubled, forged.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, Ipv6Addr};

use nic::packet::PayloadSource;
use nic::verbs::{AddressVector, GidEntry, GidType};
use nic::{Arrival, Nic, Transmit};
use wire::Gid;

use super::memory::GuardedMemory;
use super::operation::{Mutation, Side};

/// A packet from its BTH on, without ICRC.
#[derive(Clone, Debug)]
pub struct Packet {
    pub to: Side,
    pub arrival: Arrival,
    pub bytes: Vec<u8>,
}

/// All packets between the adapters, in the order of their arrival.
#[derive(Debug, Default)]
pub struct Network {
    packets: VecDeque<Packet>,
}

impl Network {
    /// So many packets at most: floods are cut.
    const MOST: usize = 4096;

    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub fn send(&mut self, packet: Packet) {
        if self.packets.len() < Self::MOST {
            self.packets.push_back(packet);
        }
    }

    pub fn take(&mut self) -> Option<Packet> {
        self.packets.pop_front()
    }

    pub fn clear(&mut self) {
        self.packets.clear();
    }

    /// True if there was one.
    pub fn lose(&mut self, pick: u8) -> bool {
        self.picked(pick).and_then(|at| self.packets.remove(at)).is_some()
    }

    pub fn double(&mut self, pick: u8) -> bool {
        let Some(at) = self.picked(pick) else { return false };
        let copy = self.packets[at].clone();
        self.send(copy);
        true
    }

    pub fn delay(&mut self, pick: u8) -> bool {
        let Some(late) = self.picked(pick).and_then(|at| self.packets.remove(at)) else { return false };
        self.packets.push_back(late);
        true
    }

    pub fn corrupt(&mut self, pick: u8, mutation: &Mutation) -> bool {
        let Some(at) = self.picked(pick) else { return false };
        let bytes = &mut self.packets[at].bytes;
        match *mutation {
            Mutation::Flip { at, bits } => {
                if let Some(byte) = bytes.get_mut(usize::from(at)) {
                    *byte ^= bits;
                }
            }
            Mutation::Truncate { to } => bytes.truncate(usize::from(to)),
            Mutation::Extend { by } => bytes.extend(std::iter::repeat_n(0xEE, usize::from(by))),
        }
        true
    }

    fn picked(&self, pick: u8) -> Option<usize> {
        usize::from(pick).checked_rem(self.packets.len())
    }
}

/// The packets of a run, as a host would put them on the wire.
pub fn packets(transmit: &Transmit, nic: &mut Nic<GuardedMemory>, to: Side) -> Vec<Packet> {
    let payload = payload(transmit, nic.memory());
    assert_eq!(payload.len(), transmit.payload_length as usize, "the payload is where it is said to be");
    let arrival = Arrival {
        source: transmit.route.source,
        destination: transmit.route.destination,
        traffic_class: transmit.route.traffic_class,
        hop_limit: transmit.route.hop_limit,
    };
    let packet = |index| {
        let headers = transmit.headers(index);
        assert!(headers.is_consistent(), "{headers:?}");
        let mut bytes = vec![0; headers.len()];
        headers.emit(&mut bytes);
        let range = transmit.payload_range(index);
        bytes.extend(&payload[range.start as usize..range.end as usize]);
        bytes.extend(std::iter::repeat_n(0, usize::from(headers.bth.pad_count)));
        Packet { to, arrival, bytes }
    };
    (0..transmit.packets()).map(packet).collect()
}

fn payload(transmit: &Transmit, memory: &GuardedMemory) -> Vec<u8> {
    match &transmit.payload {
        PayloadSource::Memory(segments) => {
            let mut bytes = Vec::with_capacity(transmit.payload_length as usize);
            for segment in segments {
                let end = bytes.len() + segment.length as usize;
                bytes.extend_from_slice(memory.gather(segment.address, segment.length));
                // Memory that was registered but does not exist reads as zeros.
                bytes.resize(end, 0);
            }
            bytes
        }
        PayloadSource::Inline { bytes, range } => bytes[range.start as usize..range.end as usize].to_vec(),
    }
}

/// Who has which address.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    pub is_ipv6: bool,
}

impl Addresses {
    pub fn gid(self, side: Side) -> Gid {
        let last = side.index() as u8 + 1;
        match self.is_ipv6 {
            true => Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, u16::from(last)).into(),
            false => Ipv4Addr::new(10, 0, 0, last).into(),
        }
    }

    /// The multicast group.
    pub fn group(self) -> Gid {
        match self.is_ipv6 {
            true => Ipv6Addr::new(0xFF05, 0, 0, 0, 0, 0, 0, 9).into(),
            false => Ipv4Addr::new(239, 0, 0, 9).into(),
        }
    }

    pub fn entry(self, side: Side) -> GidEntry {
        GidEntry { gid: self.gid(side), gid_type: GidType::RoceV2, interface_index: 1 }
    }

    /// The path to an address.
    pub fn path(self, destination: Gid) -> AddressVector {
        AddressVector { destination, is_global: true, port: 1, ..AddressVector::default() }
    }

    /// The path from a side to the other.
    pub fn path_from(self, side: Side) -> AddressVector {
        self.path(self.gid(side.other()))
    }
}
