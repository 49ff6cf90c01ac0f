//! Attributes of objects.

use wire::{Gid, Psn, Qpn};

use super::{AddressVector, Cq, Pd, Srq};

/// Rights on a memory region or window, or of a queue pair's peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The local adapter may write (receives, READ responses, atomic results).
    pub local_write: bool,
    /// The peer may write.
    pub remote_write: bool,
    /// The peer may read.
    pub remote_read: bool,
    /// The peer may do atomics.
    pub remote_atomic: bool,
    /// Windows may be bound to it.
    pub window_bind: bool,
    /// Addresses are offsets from its start.
    pub zero_based: bool,
    /// On-demand paging; trivially true in software.
    pub on_demand: bool,
    /// Writes may be reordered; trivially true in software.
    pub relaxed_ordering: bool,
}

impl Access {
    /// Reading, writing and atomics, for the peer and the local adapter.
    pub const ALL: Self = Self {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        window_bind: false,
        zero_based: false,
        on_demand: false,
        relaxed_ordering: false,
    };

    /// Writing for the local adapter: for the targets of receives and reads.
    pub const LOCAL: Self =
        Self { remote_write: false, remote_read: false, remote_atomic: false, ..Self::ALL };
}

/// A registered region's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MrInfo {
    /// The region.
    pub mr: super::Mr,
    /// Names it in local work requests.
    pub lkey: u32,
    /// Names it to peers.
    pub rkey: u32,
}

/// What `rereg_mr` changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MrChange {
    /// Another protection domain.
    pub pd: Option<Pd>,
    /// Other memory: address, length and iova.
    pub translation: Option<(u64, u64, u64)>,
    /// Other rights.
    pub access: Option<Access>,
}

/// The two kinds of memory window (IBTA 10.6.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MwType {
    /// Bound by a verb; key chosen by the adapter; belongs to a protection domain.
    Type1,
    /// Bound by a work request with a key of the consumer's; belongs to a queue pair.
    Type2,
}

/// Kinds of queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QpType {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagram.
    Ud,
}

/// States of a queue pair (IBTA 10.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum QpState {
    /// Created, or sent back to the start.
    #[default]
    Reset,
    /// Receives may be posted.
    Init,
    /// Ready to receive.
    Rtr,
    /// Ready to send.
    Rts,
    /// The send queue drains.
    Sqd,
    /// The send queue is in error (UC, UD).
    Sqe,
    /// In error.
    Error,
}

/// Path MTU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mtu {
    /// 256 bytes.
    Mtu256,
    /// 512 bytes.
    Mtu512,
    /// 1024 bytes.
    #[default]
    Mtu1024,
    /// 2048 bytes.
    Mtu2048,
    /// 4096 bytes.
    Mtu4096,
}

impl Mtu {
    /// In bytes.
    pub const fn bytes(self) -> u32 {
        match self {
            Self::Mtu256 => 256,
            Self::Mtu512 => 512,
            Self::Mtu1024 => 1024,
            Self::Mtu2048 => 2048,
            Self::Mtu4096 => 4096,
        }
    }

    /// The largest that fits in `bytes`, at least 256.
    pub const fn fitting(bytes: u32) -> Self {
        match bytes {
            4096.. => Self::Mtu4096,
            2048.. => Self::Mtu2048,
            1024.. => Self::Mtu1024,
            512.. => Self::Mtu512,
            _ => Self::Mtu256,
        }
    }
}

/// Sizes of a queue pair's queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCapabilities {
    /// Outstanding send requests.
    pub max_send_wr: u32,
    /// Outstanding receive requests.
    pub max_recv_wr: u32,
    /// Elements of a send request.
    pub max_send_sge: u32,
    /// Elements of a receive request.
    pub max_recv_sge: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
}

/// What a queue pair is created with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpInit {
    /// Its protection domain.
    pub pd: Pd,
    /// Its kind.
    pub qp_type: QpType,
    /// Where its sends complete.
    pub send_cq: Cq,
    /// Where its receives complete.
    pub recv_cq: Cq,
    /// Where it takes receives from, if not from its own queue.
    pub srq: Option<Srq>,
    /// Its sizes.
    pub capabilities: QpCapabilities,
    /// Whether every send request is signaled.
    pub signal_all: bool,
}

/// What `modify_qp` changes: the attributes named by the caller, and only those.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpChange {
    /// The state to go to; without it the state stays.
    pub state: Option<QpState>,
    /// The state the caller believes it is in.
    pub current_state: Option<QpState>,
    /// Whether draining ends in an event.
    pub sqd_notify: Option<bool>,
    /// The peer's rights.
    pub access: Option<Access>,
    /// Partition key index.
    pub pkey_index: Option<u16>,
    /// Port, from 1.
    pub port: Option<u8>,
    /// Queue key.
    pub qkey: Option<u32>,
    /// The path.
    pub path: Option<AddressVector>,
    /// Path MTU.
    pub path_mtu: Option<Mtu>,
    /// Local ACK timeout: 4.096 us times two to this power; 0 is for ever (IBTA 9.7.6.1.3).
    pub timeout: Option<u8>,
    /// Retries after a timeout or sequence error, 0 to 7.
    pub retry_count: Option<u8>,
    /// Retries after RNR, 0 to 6; 7 is for ever.
    pub rnr_retry: Option<u8>,
    /// First PSN expected.
    pub rq_psn: Option<Psn>,
    /// READs and atomics outstanding to the peer.
    pub max_rd_atomic: Option<u8>,
    /// The alternate path, with its port, partition key index and timeout.
    pub alternate: Option<AlternatePath>,
    /// RNR NAK timer code, 0 to 31.
    pub min_rnr_timer: Option<u8>,
    /// First PSN sent.
    pub sq_psn: Option<Psn>,
    /// READs and atomics accepted from the peer.
    pub max_dest_rd_atomic: Option<u8>,
    /// Path migration state.
    pub path_mig_state: Option<PathMigState>,
    /// Other sizes.
    pub capabilities: Option<QpCapabilities>,
    /// The peer.
    pub dest_qp: Option<Qpn>,
    /// Rate limit in kb/s.
    pub rate_limit: Option<u32>,
}

/// The alternate path of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AlternatePath {
    /// The path.
    pub path: AddressVector,
    /// Its partition key index.
    pub pkey_index: u16,
    /// Its port.
    pub port: u8,
    /// Its local ACK timeout code.
    pub timeout: u8,
}

/// Path migration state (IBTA 17.2.8).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathMigState {
    /// Migrated; also the state of a connection without an alternate path.
    #[default]
    Migrated,
    /// Asked to re-arm.
    Rearm,
    /// Armed.
    Armed,
}

/// All there is to know of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpAttributes {
    /// What it was created with; capabilities are those granted.
    pub init: QpInit,
    /// Its state; SQD may still be draining.
    pub state: QpState,
    /// Whether the send queue is draining.
    pub sq_draining: bool,
    /// Whether draining ends in an event.
    pub sqd_notify: bool,
    /// The peer's rights.
    pub access: Access,
    /// Partition key index.
    pub pkey_index: u16,
    /// Port.
    pub port: u8,
    /// Queue key.
    pub qkey: u32,
    /// The path.
    pub path: AddressVector,
    /// Path MTU.
    pub path_mtu: Mtu,
    /// Local ACK timeout code.
    pub timeout: u8,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry: u8,
    /// Next PSN expected.
    pub rq_psn: Psn,
    /// Next PSN to send.
    pub sq_psn: Psn,
    /// READs and atomics outstanding to the peer.
    pub max_rd_atomic: u8,
    /// READs and atomics accepted from the peer.
    pub max_dest_rd_atomic: u8,
    /// RNR NAK timer code.
    pub min_rnr_timer: u8,
    /// The alternate path.
    pub alternate: AlternatePath,
    /// Path migration state.
    pub path_mig_state: PathMigState,
    /// The peer.
    pub dest_qp: Qpn,
    /// Rate limit in kb/s.
    pub rate_limit: u32,
}

impl QpAttributes {
    /// The attributes of a queue pair in RESET, as created.
    pub(crate) fn in_reset(init: QpInit) -> Self {
        Self {
            init,
            state: QpState::Reset,
            sq_draining: false,
            sqd_notify: false,
            access: Access::default(),
            pkey_index: 0,
            port: 0,
            qkey: 0,
            path: AddressVector::default(),
            path_mtu: Mtu::default(),
            timeout: 0,
            retry_count: 0,
            rnr_retry: 0,
            rq_psn: Psn::ZERO,
            sq_psn: Psn::ZERO,
            max_rd_atomic: 0,
            max_dest_rd_atomic: 0,
            min_rnr_timer: 0,
            alternate: AlternatePath::default(),
            path_mig_state: PathMigState::default(),
            dest_qp: Qpn::default(),
            rate_limit: 0,
        }
    }
}

/// What a shared receive queue is created with, and can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqAttributes {
    /// Outstanding receive requests.
    pub max_wr: u32,
    /// Elements of a request.
    pub max_sge: u32,
    /// Fewer than so many raise one event; 0 is off.
    pub limit: u32,
}

/// What `modify_srq` changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrqChange {
    /// Another size.
    pub max_wr: Option<u32>,
    /// Arms the limit event.
    pub limit: Option<u32>,
}

/// How a GID is put on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GidType {
    /// Ethernet frames of type 0x8915.
    RoceV1,
    /// UDP port 4791.
    RoceV2,
}

/// One entry of the GID table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GidEntry {
    /// The GID.
    pub gid: Gid,
    /// How it is put on the wire.
    pub gid_type: GidType,
    /// The interface it belongs to.
    pub interface_index: u32,
}

/// State of the port as verbs report it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortState {
    /// No link.
    #[default]
    Down,
    /// Usable.
    Active,
}

/// Limits of the adapter, as `query_device` reports them and as every verb enforces them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Queue pairs.
    pub max_qp: u32,
    /// Requests on any queue.
    pub max_qp_wr: u32,
    /// Elements of a request.
    pub max_sge: u32,
    /// Elements of a READ.
    pub max_sge_rd: u32,
    /// Completion queues.
    pub max_cq: u32,
    /// Entries of a completion queue.
    pub max_cqe: u32,
    /// Memory regions.
    pub max_mr: u32,
    /// Bytes of a memory region.
    pub max_mr_size: u64,
    /// Memory windows.
    pub max_mw: u32,
    /// Protection domains.
    pub max_pd: u32,
    /// READs and atomics of one queue pair, as responder.
    pub max_qp_rd_atom: u8,
    /// READs and atomics of one queue pair, as initiator.
    pub max_qp_init_rd_atom: u8,
    /// Address handles.
    pub max_ah: u32,
    /// Shared receive queues.
    pub max_srq: u32,
    /// Requests of a shared receive queue.
    pub max_srq_wr: u32,
    /// Elements of a shared receive request.
    pub max_srq_sge: u32,
    /// Multicast groups.
    pub max_mcast_grp: u32,
    /// Queue pairs of one multicast group.
    pub max_mcast_qp_attach: u32,
    /// Bytes of inline data.
    pub max_inline_data: u32,
    /// Bytes of a message.
    pub max_message_size: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_qp: 65_000,
            max_qp_wr: 32_768,
            max_sge: 32,
            max_sge_rd: 32,
            max_cq: 65_536,
            max_cqe: 4_194_303,
            max_mr: 1 << 20,
            max_mr_size: u64::MAX,
            max_mw: 1 << 20,
            max_pd: 65_536,
            max_qp_rd_atom: 128,
            max_qp_init_rd_atom: 128,
            max_ah: 1 << 20,
            max_srq: 65_536,
            max_srq_wr: 32_768,
            max_srq_sge: 32,
            max_mcast_grp: 8_192,
            max_mcast_qp_attach: 56,
            max_inline_data: 1_024,
            max_message_size: 1 << 31,
        }
    }
}
