//! The request for a connection (IBTA 12.6.5).

use super::{Data, IpCmHeader, PrivateData, ServiceId};
use crate::bytes::{array, bit, put, u16_at, u24_at, u32_at, u64_at};
use crate::{Gid, Psn, Qpn};

/// REQ: asks for a connection. Timeouts are exponents: 4.096 us times two to their power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Req {
    /// The sender's name for the connection.
    pub local_id: u32,
    /// Vendor of the enhanced connection establishment that is offered, 24 bits; 0 is none.
    pub vendor_id: u32,
    /// What is asked for.
    pub service: ServiceId,
    /// The sender's adapter.
    pub ca_guid: u64,
    /// The sender's queue key, for datagrams.
    pub qkey: u32,
    /// The sender's queue pair.
    pub qpn: Qpn,
    /// READs and atomics that the sender takes at once.
    pub responder_resources: u8,
    /// READs and atomics that the sender means to have outstanding.
    pub initiator_depth: u8,
    /// How long the receiver may take to answer, 5 bits.
    pub remote_response_timeout: u8,
    /// The kind of connection.
    pub transport: TransportService,
    /// Whether the sender's receive queue tells its credits.
    pub flow_control: bool,
    /// The first PSN that the sender expects: the *receiver* begins to send with it (IBTA 12.7).
    pub starting_psn: Psn,
    /// How long the sender takes to answer at most, 5 bits.
    pub local_response_timeout: u8,
    /// Retries after a timeout that the receiver's queue pair shall make, 3 bits.
    pub retry_count: u8,
    /// The partition.
    pub pkey: u16,
    /// The path MTU's code, 4 bits: 1 is 256 bytes, 5 is 4096.
    pub path_mtu: u8,
    /// Retries after RNR that the receiver's queue pair shall make, 3 bits.
    pub rnr_retry_count: u8,
    /// How often either side sends a message again before it gives up, 4 bits.
    pub max_cm_retries: u8,
    /// Whether the sender's queue pair takes receives from a shared queue.
    pub srq: bool,
    /// The path, as the sender sees it.
    pub primary: CmPath,
    /// Another path; all zeros if there is none.
    pub alternate: CmPath,
    /// For the program; of a request to a port it begins with an [`IpCmHeader`].
    pub private_data: PrivateData<{ Req::PRIVATE_LEN }>,
}

impl Req {
    /// The length of the private data.
    pub const PRIVATE_LEN: usize = 92;

    /// The length of the private data of a request to a port.
    pub const IP_PRIVATE_LEN: usize = Req::PRIVATE_LEN - IpCmHeader::LEN;

    pub(super) fn parse(data: &Data) -> Self {
        Req {
            local_id: u32_at(data, 0),
            vendor_id: u24_at(data, 5),
            service: ServiceId(u64_at(data, 8)),
            ca_guid: u64_at(data, 16),
            qkey: u32_at(data, 28),
            qpn: Qpn::new(u32_at(data, 32) >> 8),
            responder_resources: data[35],
            initiator_depth: data[39],
            remote_response_timeout: data[43] >> 3,
            transport: TransportService::from_bits(data[43] >> 1, data[51]),
            flow_control: data[43] & 1 != 0,
            starting_psn: Psn::new(u32_at(data, 44) >> 8),
            local_response_timeout: data[47] >> 3,
            retry_count: data[47] & 7,
            pkey: u16_at(data, 48),
            path_mtu: data[50] >> 4,
            rnr_retry_count: data[50] & 7,
            max_cm_retries: data[51] >> 4,
            srq: data[51] & 8 != 0,
            primary: CmPath::parse(&array(data, 52)),
            alternate: CmPath::parse(&array(data, 96)),
            private_data: PrivateData::at(data, 140),
        }
    }

    pub(super) fn emit(&self, out: &mut Data) {
        put(out, 0, self.local_id.to_be_bytes());
        put(out, 4, (self.vendor_id & 0xFF_FFFF).to_be_bytes());
        put(out, 8, self.service.0.to_be_bytes());
        put(out, 16, self.ca_guid.to_be_bytes());
        put(out, 28, self.qkey.to_be_bytes());
        put(out, 32, (self.qpn.value() << 8).to_be_bytes());
        out[35] = self.responder_resources;
        out[39] = self.initiator_depth;
        let (transport, extended) = self.transport.bits();
        out[43] = self.remote_response_timeout << 3 | transport << 1 | bit(self.flow_control, 0);
        put(out, 44, (self.starting_psn.value() << 8).to_be_bytes());
        out[47] = self.local_response_timeout << 3 | self.retry_count & 7;
        put(out, 48, self.pkey.to_be_bytes());
        out[50] = self.path_mtu << 4 | self.rnr_retry_count & 7;
        out[51] = self.max_cm_retries << 4 | bit(self.srq, 3) | extended;
        put(out, 52, self.primary.emit());
        put(out, 96, self.alternate.emit());
        self.private_data.put(out, 140);
    }
}

/// The kind of connection asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TransportService {
    /// Reliable connection.
    #[default]
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram, which nobody has.
    Rd,
    /// Extended reliable connection.
    Xrc,
    /// Another extended type, 3 bits.
    Extended(u8),
}

impl TransportService {
    /// Of the two bits of the type, and the three of the extended type that count if the type is 3.
    const fn from_bits(transport: u8, extended: u8) -> Self {
        match (transport & 3, extended & 7) {
            (0, _) => TransportService::Rc,
            (1, _) => TransportService::Uc,
            (2, _) => TransportService::Rd,
            (_, 1) => TransportService::Xrc,
            (_, other) => TransportService::Extended(other),
        }
    }

    const fn bits(self) -> (u8, u8) {
        match self {
            TransportService::Rc => (0, 0),
            TransportService::Uc => (1, 0),
            TransportService::Rd => (2, 0),
            TransportService::Xrc => (3, 1),
            TransportService::Extended(other) => (3, other & 7),
        }
    }
}

/// A path between the two ports, as the sender of the REQ sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CmPath {
    /// The sender's LID; on RoCE the permissive one.
    pub local_lid: u16,
    /// The receiver's LID.
    pub remote_lid: u16,
    /// The sender's address.
    pub local_gid: Gid,
    /// The receiver's address.
    pub remote_gid: Gid,
    /// 20 bits.
    pub flow_label: u32,
    /// Rate code, 6 bits; 0 is the port's.
    pub packet_rate: u8,
    /// DSCP and ECN bits.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub hop_limit: u8,
    /// Service level, 4 bits.
    pub service_level: u8,
    /// Whether it stays within one subnet.
    pub subnet_local: bool,
    /// The ACK timeout that the receiver's queue pair shall use, an exponent of 5 bits.
    pub local_ack_timeout: u8,
}

impl CmPath {
    const LEN: usize = 44;

    fn parse(bytes: &[u8; Self::LEN]) -> Self {
        CmPath {
            local_lid: u16_at(bytes, 0),
            remote_lid: u16_at(bytes, 2),
            local_gid: Gid(array(bytes, 4)),
            remote_gid: Gid(array(bytes, 20)),
            flow_label: u32_at(bytes, 36) >> 12,
            packet_rate: bytes[39] & 0x3F,
            traffic_class: bytes[40],
            hop_limit: bytes[41],
            service_level: bytes[42] >> 4,
            subnet_local: bytes[42] & 8 != 0,
            local_ack_timeout: bytes[43] >> 3,
        }
    }

    fn emit(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        put(&mut out, 0, self.local_lid.to_be_bytes());
        put(&mut out, 2, self.remote_lid.to_be_bytes());
        put(&mut out, 4, self.local_gid.0);
        put(&mut out, 20, self.remote_gid.0);
        put(&mut out, 36, (self.flow_label << 12 | u32::from(self.packet_rate & 0x3F)).to_be_bytes());
        out[40] = self.traffic_class;
        out[41] = self.hop_limit;
        out[42] = self.service_level << 4 | bit(self.subnet_local, 3);
        out[43] = self.local_ack_timeout << 3;
        out
    }
}
