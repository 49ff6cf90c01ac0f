//! What programs say about the connections they want.

use wire::cm::{IpCmHeader, ServiceId, TransportService};
use wire::{Gid, Qpn};

use crate::packet::Route;
use crate::port::PORT;
use crate::verbs::{AddressVector, Mtu};

/// A connection, or the resolution of a datagram service: its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CmId(pub u32);

/// Something that is listened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// The way to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Our address.
    pub source: Gid,
    /// The peer's.
    pub destination: Gid,
    /// Index of `source` in the GID table.
    pub source_gid_index: u8,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// 20 bits.
    pub flow_label: u32,
    /// Service level.
    pub service_level: u8,
    /// Partition key.
    pub pkey: u16,
    /// Path MTU of the connection.
    pub mtu: Mtu,
    /// How long a packet lives on its way, as an exponent ([`cm_timeout`](super::cm_timeout)). The ACK
    /// timeout of the queue pairs is twice that.
    pub packet_life_time: u8,
}

impl Default for Path {
    /// From nowhere to nowhere, but good for what is to be filled in.
    fn default() -> Self {
        Self {
            source: Gid::UNSPECIFIED,
            destination: Gid::UNSPECIFIED,
            source_gid_index: 0,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            service_level: 0,
            pkey: 0xFFFF,
            mtu: Mtu::Mtu1024,
            packet_life_time: 16,
        }
    }
}

impl Path {
    /// The way of management datagrams.
    pub fn route(&self) -> Route {
        Route {
            source: self.source,
            destination: self.destination,
            source_gid_index: self.source_gid_index,
            traffic_class: self.traffic_class,
            hop_limit: if self.hop_limit == 0 { 64 } else { self.hop_limit },
            flow_label: self.flow_label,
            service_level: self.service_level,
            source_port: source_port(self.source, self.destination),
        }
    }

    /// The way of the queue pairs.
    pub fn address_vector(&self) -> AddressVector {
        AddressVector {
            destination: self.destination,
            source_gid_index: self.source_gid_index,
            traffic_class: self.traffic_class,
            hop_limit: self.hop_limit,
            flow_label: self.flow_label,
            service_level: self.service_level,
            is_global: true,
            port: PORT,
            ..AddressVector::default()
        }
    }
}

/// A UDP source port of the dynamic range for a pair of hosts (IBTA A17.9.3).
fn source_port(source: Gid, destination: Gid) -> u16 {
    let mixed = (source.interface_id() ^ destination.interface_id().rotate_left(32))
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    0xC000 | (mixed >> 50) as u16
}

/// What one side brings into a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Endpoint {
    /// Its queue pair.
    pub qpn: Qpn,
    /// READs and atomics that it takes at once.
    pub responder_resources: u8,
    /// READs and atomics that it means to have outstanding.
    pub initiator_depth: u8,
    /// Whether its receive queue tells its credits.
    pub flow_control: bool,
    /// RNR retries that the *other* side shall make; 7 is for ever.
    pub rnr_retry_count: u8,
    /// Whether it takes receives from a shared queue.
    pub srq: bool,
    /// Its queue key, for datagrams.
    pub qkey: u32,
    /// Enhanced connection establishment.
    pub ece: Ece,
}

/// Enhanced connection establishment: options that only adapters of one vendor understand.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ece {
    /// The vendor, 24 bits; 0 is none.
    pub vendor_id: u32,
    /// The options.
    pub options: u32,
}

/// How patient both sides are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// How long the peer may take to answer, as an exponent of 5 bits.
    pub remote_response_timeout: u8,
    /// How long we take at most, likewise.
    pub local_response_timeout: u8,
    /// How often a message is sent again, at most 15.
    pub max_retries: u8,
}

impl Default for Patience {
    /// The kernel's RDMA CM: 4.3 s, 15 retries.
    fn default() -> Self {
        Self { remote_response_timeout: 20, local_response_timeout: 20, max_retries: 15 }
    }
}

/// What [`Cm::connect`](super::Cm::connect) asks for.
#[derive(Clone, Copy, Debug)]
pub struct ReqParams<'a> {
    /// The way to the peer.
    pub path: Path,
    /// What is asked for.
    pub service: ServiceId,
    /// The IP addresses, if the service is a port.
    pub addresses: Option<IpCmHeader>,
    /// The kind of connection.
    pub transport: TransportService,
    /// What we bring.
    pub local: Endpoint,
    /// Retries after a timeout, of both queue pairs; at most 7.
    pub retry_count: u8,
    /// How patient both sides are.
    pub patience: Patience,
    /// For the peer's program: at most 56 bytes with addresses, 92 without.
    pub private_data: &'a [u8],
}

/// What [`Cm::accept`](super::Cm::accept) answers.
#[derive(Clone, Copy, Debug, Default)]
pub struct RepParams<'a> {
    /// What we bring.
    pub local: Endpoint,
    /// For the peer's program: at most 196 bytes.
    pub private_data: &'a [u8],
}

/// What [`Cm::resolve`](super::Cm::resolve) asks for.
#[derive(Clone, Copy, Debug)]
pub struct SidrParams<'a> {
    /// The way to the peer.
    pub path: Path,
    /// What is asked for.
    pub service: ServiceId,
    /// The IP addresses, if the service is a port.
    pub addresses: Option<IpCmHeader>,
    /// How patient we are.
    pub patience: Patience,
    /// For the peer's program: at most 180 bytes with addresses, 216 without.
    pub private_data: &'a [u8],
}
