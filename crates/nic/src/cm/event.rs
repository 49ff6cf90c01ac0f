//! What a program learns of its connections.

use alloc::boxed::Box;
use alloc::vec::Vec;

use wire::cm::{IpCmHeader, RejReason, RejectedMessage, ServiceId, SidrStatus, TransportService};
use wire::{Psn, Qpn};

use super::{CmId, Endpoint, ListenerId, Path, Patience};

/// News of a connection, from [`Cm::poll_event`](super::Cm::poll_event). Private data is the whole area
/// that the message carries, zeros at the end included: its length is not told on the wire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CmEvent {
    /// Somebody wants to connect: accept or reject.
    Request(Box<ConnectRequest>),
    /// The peer accepted: bring the queue pair to RTS, then establish or reject.
    Reply(Box<ConnectReply>),
    /// The peer is ready too (passive side).
    Established {
        /// The connection.
        id: CmId,
        /// Of the RTU; empty if a packet told before the RTU did.
        private_data: Vec<u8>,
    },
    /// The peer, or its host, refused or gave up.
    Rejected {
        /// The connection.
        id: CmId,
        /// Why.
        reason: RejReason,
        /// What it refused.
        message: RejectedMessage,
        /// More about the reason.
        info: Vec<u8>,
        /// For the program.
        private_data: Vec<u8>,
    },
    /// The peer did not answer, however often it was asked.
    Unreachable {
        /// The connection or resolution.
        id: CmId,
    },
    /// The connection is over: bring the queue pair to ERROR.
    Disconnected {
        /// The connection.
        id: CmId,
    },
    /// No packet of the connection is under way any more: the queue pair may be used again.
    TimewaitExit {
        /// The connection.
        id: CmId,
    },
    /// Somebody asks for the queue pair of a datagram service.
    SidrRequest(Box<SidrRequest>),
    /// The peer answered such a question.
    SidrReply(Box<SidrReply>),
}

impl CmEvent {
    /// The connection or resolution it is about.
    pub fn id(&self) -> CmId {
        match self {
            Self::Request(request) => request.id,
            Self::Reply(reply) => reply.id,
            Self::SidrRequest(request) => request.id,
            Self::SidrReply(reply) => reply.id,
            Self::Established { id, .. }
            | Self::Rejected { id, .. }
            | Self::Unreachable { id }
            | Self::Disconnected { id }
            | Self::TimewaitExit { id } => *id,
        }
    }
}

/// A request for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectRequest {
    /// The new connection's name.
    pub id: CmId,
    /// Who took it.
    pub listener: ListenerId,
    /// The way back, as the datagram came.
    pub path: Path,
    /// What is asked for.
    pub service: ServiceId,
    /// The IP addresses, if the service is a port: its source is the peer.
    pub addresses: Option<IpCmHeader>,
    /// The kind of connection.
    pub transport: TransportService,
    /// What the peer brings.
    pub remote: Endpoint,
    /// The first PSN that we send.
    pub send_psn: Psn,
    /// The peer's adapter.
    pub remote_ca_guid: u64,
    /// The ACK timeout that our queue pair shall use.
    pub ack_timeout: u8,
    /// The retries after a timeout that it shall make.
    pub retry_count: u8,
    /// How patient both sides are, seen from ours.
    pub patience: Patience,
    /// For the program, without the addresses.
    pub private_data: Vec<u8>,
}

/// A peer's consent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectReply {
    /// The connection.
    pub id: CmId,
    /// What the peer brings.
    pub remote: Endpoint,
    /// The first PSN that we send.
    pub send_psn: Psn,
    /// The peer's adapter.
    pub remote_ca_guid: u64,
    /// How long it takes to acknowledge, as an exponent.
    pub target_ack_delay: u8,
    /// For the program.
    pub private_data: Vec<u8>,
}

/// A question for a datagram service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidrRequest {
    /// The new resolution's name.
    pub id: CmId,
    /// Who took it.
    pub listener: ListenerId,
    /// The way back, as the datagram came.
    pub path: Path,
    /// What is asked for.
    pub service: ServiceId,
    /// The IP addresses, if the service is a port: its source is the peer.
    pub addresses: Option<IpCmHeader>,
    /// For the program, without the addresses.
    pub private_data: Vec<u8>,
}

/// The answer to one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SidrReply {
    /// The resolution.
    pub id: CmId,
    /// Whether the rest counts.
    pub status: SidrStatus,
    /// The queue pair that serves.
    pub qpn: Qpn,
    /// The queue key it wants.
    pub qkey: u32,
    /// More about the status.
    pub info: Vec<u8>,
    /// For the program.
    pub private_data: Vec<u8>,
}
