//! What enters and leaves an adapter.

use alloc::sync::Arc;
use core::ops::Range;

use smallvec::SmallVec;
use wire::{Extended, Gid, Headers, Immediate, Operation, Qpn};

use crate::memory::Segment;

/// Where a packet goes and how it is to be treated on the way; constant for a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Source address. IPv4 is IPv4-mapped.
    pub source: Gid,
    /// Destination address. IPv4 is IPv4-mapped.
    pub destination: Gid,
    /// Index of `source` in the GID table, which names the interface.
    pub source_gid_index: u8,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// 20 bits; IPv6 and GRH only.
    pub flow_label: u32,
    /// Service level, which becomes the 802.1p priority or the virtual lane.
    pub service_level: u8,
    /// UDP source port: entropy for ECMP (IBTA A17.9.3), constant for a connection.
    pub source_port: u16,
}

/// What carried an arriving packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who sent it.
    pub source: Gid,
    /// The address it was sent to: one of ours, or a multicast group.
    pub destination: Gid,
    /// DSCP and ECN bits as they arrived.
    pub traffic_class: u8,
    /// TTL or hop limit as it arrived.
    pub hop_limit: u8,
}

/// Where the payload of a [`Transmit`] is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PayloadSource {
    /// In registered memory. A segment may be cut by packet boundaries.
    Memory(SmallVec<[Segment; 4]>),
    /// In the request itself: it was copied when it was posted (inline data, MADs).
    Inline {
        /// A buffer that holds the whole message from its first byte on, and may be longer.
        bytes: Arc<[u8]>,
        /// The part that this run sends.
        range: Range<u32>,
    },
}

/// A run of packets to send: one destination, one message, consecutive PSNs, equal payloads but the
/// last. The headers of a message's first and last packets may be longer than those between.
///
/// A host sends it as one segmented datagram; a simulator takes it packet by packet as its port falls
/// free. The payload must be read before the adapter is called again: the memory may be deregistered,
/// and the completion that gives it back to its owner may already be on its queue (datagrams, UC).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub route: Route,
    /// The queue pair that sends.
    pub source_qp: Qpn,
    /// Where the payload of the whole run is, in order.
    pub payload: PayloadSource,
    /// Payload bytes of the whole run.
    pub payload_length: u32,
    /// The headers of the first packet, and what is said once for the whole message: its RETH,
    /// immediate data and solicited bit.
    pub(crate) first: Headers,
    /// How the headers of the other packets follow from those.
    pub(crate) run: Run,
}

/// The shape of a [`Transmit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// What kind of message it is a part of.
    pub message: Message,
    /// Number of packets, at least one.
    pub packets: u32,
    /// Payload bytes of each packet but the last.
    pub mtu: u32,
    /// Whether its first packet is the message's.
    pub begins: bool,
    /// Whether its last packet is the message's.
    pub ends: bool,
    /// Whether its last packet asks for an acknowledgement.
    pub ack_request: bool,
}

/// Messages by the opcodes of their packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// SEND FIRST, MIDDLE, LAST or ONLY.
    Send,
    /// RDMA WRITE FIRST, MIDDLE, LAST or ONLY.
    Write,
    /// RDMA READ response FIRST, MIDDLE, LAST or ONLY.
    ReadResponse,
    /// One packet whose opcode is that of the headers given.
    Single,
}

impl Run {
    /// The run of a message of one packet.
    pub const SINGLE: Self =
        Self { message: Message::Single, packets: 1, mtu: 0, begins: true, ends: true, ack_request: false };
}

impl Message {
    fn operation(self, begins: bool, ends: bool, immediate: Immediate) -> Option<Operation> {
        use Operation as O;
        Some(match (self, begins, ends, immediate) {
            (Self::Send, true, false, _) => O::SendFirst,
            (Self::Send, false, false, _) => O::SendMiddle,
            (Self::Send, false, true, Immediate::None) => O::SendLast,
            (Self::Send, false, true, Immediate::Data(_)) => O::SendLastImm,
            (Self::Send, false, true, Immediate::Invalidate(_)) => O::SendLastInv,
            (Self::Send, true, true, Immediate::None) => O::SendOnly,
            (Self::Send, true, true, Immediate::Data(_)) => O::SendOnlyImm,
            (Self::Send, true, true, Immediate::Invalidate(_)) => O::SendOnlyInv,
            (Self::Write, true, false, _) => O::WriteFirst,
            (Self::Write, false, false, _) => O::WriteMiddle,
            (Self::Write, false, true, Immediate::Data(_)) => O::WriteLastImm,
            (Self::Write, false, true, _) => O::WriteLast,
            (Self::Write, true, true, Immediate::Data(_)) => O::WriteOnlyImm,
            (Self::Write, true, true, _) => O::WriteOnly,
            (Self::ReadResponse, true, false, _) => O::ReadResponseFirst,
            (Self::ReadResponse, false, false, _) => O::ReadResponseMiddle,
            (Self::ReadResponse, false, true, _) => O::ReadResponseLast,
            (Self::ReadResponse, true, true, _) => O::ReadResponseOnly,
            (Self::Single, ..) => return None,
        })
    }
}

impl Transmit {
    /// The number of packets, at least one.
    pub fn packets(&self) -> usize {
        self.run.packets as usize
    }

    /// The headers of packet `index`, pad count included.
    ///
    /// # Panics
    /// If there is no such packet.
    pub fn headers(&self, index: usize) -> Headers {
        assert!(index < self.packets(), "packet {index} of {}", self.packets());
        let is_last = index + 1 == self.packets();
        let mut headers = self.first;
        headers.bth.pad_count = (self.payload_range(index).len() as u32).wrapping_neg() as u8 & 0x3;
        headers.bth.ack_request = is_last && self.run.ack_request;
        let (begins, ends) = (index == 0 && self.run.begins, is_last && self.run.ends);
        let Some(operation) = self.run.message.operation(begins, ends, headers.immediate) else {
            return headers;
        };
        headers.bth.psn += index as u32;
        headers.bth.opcode.operation = operation;
        headers.bth.solicited &= ends;
        if !ends {
            headers.immediate = Immediate::None;
        }
        let keeps_extended = begins || (ends && self.run.message == Message::ReadResponse);
        if !keeps_extended {
            headers.extended = Extended::None;
        }
        headers
    }

    /// Which bytes of the run's payload packet `index` carries, without pad.
    pub fn payload_range(&self, index: usize) -> Range<u32> {
        if self.run.packets == 1 {
            return 0..self.payload_length;
        }
        let start = index as u32 * self.run.mtu;
        start..(start + self.run.mtu).min(self.payload_length)
    }
}
