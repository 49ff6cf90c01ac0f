//! What enters and leaves an adapter.

use alloc::sync::Arc;
use core::ops::Range;

use smallvec::SmallVec;
use wire::{Gid, Headers, Qpn};

use crate::memory::Segment;

/// Where a packet goes and how it is to be treated on the way; constant for a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        /// The bytes of the whole message.
        bytes: Arc<[u8]>,
        /// The part that this run sends.
        range: Range<u32>,
    },
}

/// A run of packets to send: one destination, one message, consecutive PSNs, equal sizes but the last.
///
/// A host sends it as one segmented datagram; a simulator takes it packet by packet as its port falls
/// free.
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
    // The nic's author adds what is needed to derive each packet's headers.
    pub(crate) first: Headers,
}

impl Transmit {
    /// The number of packets, at least one.
    pub fn packets(&self) -> usize {
        todo!()
    }

    /// The headers of packet `index`, pad count included.
    pub fn headers(&self, index: usize) -> Headers {
        let _ = index;
        self.first
    }

    /// Which bytes of the run's payload packet `index` carries, without pad.
    pub fn payload_range(&self, index: usize) -> Range<u32> {
        let _ = index;
        todo!()
    }
}
