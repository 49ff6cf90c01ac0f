//! Between `nic`'s vocabulary and the numbers of `verbs.h`.

use std::{
    ffi::{c_int, c_uint},
    mem::zeroed,
};

use nic::verbs::*;
use wire::{Immediate, Psn, Qpn};

use super::bindings::*;

/// `enum ibv_access_flags`.
pub(super) fn access_flags(access: Access) -> c_uint {
    [
        access.local_write,
        access.remote_write,
        access.remote_read,
        access.remote_atomic,
        access.window_bind,
        access.zero_based,
        access.on_demand,
    ]
    .into_iter()
    .enumerate()
    .map(|(bit, is_set)| c_uint::from(is_set) << bit)
    .sum()
}

fn access(flags: c_uint) -> Access {
    let has = |bit: u32| flags & (1 << bit) != 0;
    Access {
        local_write: has(0),
        remote_write: has(1),
        remote_read: has(2),
        remote_atomic: has(3),
        window_bind: has(4),
        zero_based: has(5),
        on_demand: has(6),
        relaxed_ordering: has(20),
    }
}

/// `enum ibv_qp_type`.
pub(super) fn qp_type(qp_type: QpType) -> c_uint {
    match qp_type {
        QpType::Rc => 2,
        QpType::Uc => 3,
        QpType::Ud => 4,
    }
}

/// `enum ibv_mw_type`.
pub(super) fn mw_type(mw_type: MwType) -> c_uint {
    match mw_type {
        MwType::Type1 => 1,
        MwType::Type2 => 2,
    }
}

/// `enum ibv_qp_state`.
const STATES: [QpState; 7] =
    [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd, QpState::Sqe, QpState::Error];

/// `enum ibv_mtu`, which begins at 1.
const MTUS: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

/// `enum ibv_wc_status`, where we have a word for it.
const STATUSES: [(c_uint, Status); 15] = [
    (0, Status::Success),
    (1, Status::LocalLengthError),
    (2, Status::LocalQpOperationError),
    (4, Status::LocalProtectionError),
    (5, Status::WorkRequestFlushed),
    (6, Status::MemoryWindowBindError),
    (7, Status::BadResponse),
    (8, Status::LocalAccessError),
    (9, Status::RemoteInvalidRequest),
    (10, Status::RemoteAccessError),
    (11, Status::RemoteOperationError),
    (12, Status::RetryExceeded),
    (13, Status::RnrRetryExceeded),
    (16, Status::RemoteAborted),
    (21, Status::GeneralError),
];

/// `enum ibv_wc_opcode`.
const OPCODES: [(c_uint, CompletionOpcode); 9] = [
    (0, CompletionOpcode::Send),
    (1, CompletionOpcode::Write),
    (2, CompletionOpcode::Read),
    (3, CompletionOpcode::CompareSwap),
    (4, CompletionOpcode::FetchAdd),
    (5, CompletionOpcode::BindWindow),
    (6, CompletionOpcode::LocalInvalidate),
    (128, CompletionOpcode::Recv),
    (129, CompletionOpcode::RecvWriteWithImmediate),
];

fn code_of<T: PartialEq>(all: &[T], value: T) -> c_uint {
    all.iter().position(|other| *other == value).map_or(c_uint::MAX, |at| at as c_uint)
}

/// Sizes of queues.
pub(super) fn capabilities(capabilities: &QpCapabilities) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: capabilities.max_send_wr,
        max_recv_wr: capabilities.max_recv_wr,
        max_send_sge: capabilities.max_send_sge,
        max_recv_sge: capabilities.max_recv_sge,
        max_inline_data: capabilities.max_inline_data,
    }
}

/// An address.
pub(super) fn ah_attr(path: &AddressVector) -> ibv_ah_attr {
    ibv_ah_attr {
        grh: ibv_global_route {
            dgid: ibv_gid { raw: path.destination.0, align: [] },
            flow_label: path.flow_label,
            sgid_index: path.source_gid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
        },
        dlid: path.destination_lid,
        sl: path.service_level,
        src_path_bits: path.source_path_bits,
        static_rate: path.static_rate,
        is_global: path.is_global.into(),
        port_num: path.port,
    }
}

/// Attributes, and the mask that names those that are set.
pub(super) fn qp_attr(change: &QpChange) -> (ibv_qp_attr, c_int) {
    // SAFETY: plain numbers, for which zero is a value.
    let mut attr: ibv_qp_attr = unsafe { zeroed() };
    let mut mask = 0;
    let state = |state| code_of(&STATES, state);
    /// Copies each attribute that is given and notes its bit of `enum ibv_qp_attr_mask`.
    macro_rules! set {
        ($($bit:literal: $given:ident => $field:ident = $convert:expr;)*) => { $(
            if let Some(value) = change.$given {
                attr.$field = $convert(value);
                mask |= 1 << $bit;
            }
        )* };
    }
    set! {
        0: state => qp_state = state;
        1: current_state => cur_qp_state = state;
        2: sqd_notify => en_sqd_async_notify = u8::from;
        3: access => qp_access_flags = access_flags;
        4: pkey_index => pkey_index = u16::from;
        5: port => port_num = u8::from;
        6: qkey => qkey = u32::from;
        7: path => ah_attr = |path| ah_attr(&path);
        8: path_mtu => path_mtu = |mtu| code_of(&MTUS, mtu) + 1;
        9: timeout => timeout = u8::from;
        10: retry_count => retry_cnt = u8::from;
        11: rnr_retry => rnr_retry = u8::from;
        12: rq_psn => rq_psn = Psn::value;
        13: max_rd_atomic => max_rd_atomic = u8::from;
        15: min_rnr_timer => min_rnr_timer = u8::from;
        16: sq_psn => sq_psn = Psn::value;
        17: max_dest_rd_atomic => max_dest_rd_atomic = u8::from;
        20: dest_qp => dest_qp_num = Qpn::value;
    }
    (attr, mask)
}

/// Attributes as they were told; those that scenarios do not look at are left out.
pub(super) fn qp_attributes(init: QpInit, attr: &ibv_qp_attr) -> QpAttributes {
    QpAttributes {
        init,
        state: STATES.get(attr.qp_state as usize).copied().expect("a state"),
        sq_draining: attr.sq_draining != 0,
        sqd_notify: attr.en_sqd_async_notify != 0,
        access: access(attr.qp_access_flags),
        pkey_index: attr.pkey_index,
        port: attr.port_num,
        qkey: attr.qkey,
        path: AddressVector::default(),
        path_mtu: MTUS.get((attr.path_mtu as usize).wrapping_sub(1)).copied().unwrap_or_default(),
        timeout: attr.timeout,
        retry_count: attr.retry_cnt,
        rnr_retry: attr.rnr_retry,
        rq_psn: Psn::new(attr.rq_psn),
        sq_psn: Psn::new(attr.sq_psn),
        max_rd_atomic: attr.max_rd_atomic,
        max_dest_rd_atomic: attr.max_dest_rd_atomic,
        min_rnr_timer: attr.min_rnr_timer,
        alternate: AlternatePath::default(),
        path_mig_state: PathMigState::default(),
        dest_qp: Qpn::new(attr.dest_qp_num),
        rate_limit: attr.rate_limit,
    }
}

/// Elements of a request.
pub(super) fn sges(sges: &[Sge]) -> Vec<ibv_sge> {
    sges.iter().map(|sge| ibv_sge { addr: sge.address, length: sge.length, lkey: sge.lkey }).collect()
}

/// Bytes to be sent inline, as elements.
pub(super) fn inline(parts: &[&[u8]]) -> Vec<ibv_sge> {
    let sge = |part: &&[u8]| ibv_sge { addr: part.as_ptr() as u64, length: part.len() as u32, lkey: 0 };
    parts.iter().map(sge).collect()
}

/// `enum ibv_send_flags`.
pub(super) fn send_flags(request: &SendRequest<'_>) -> c_uint {
    let SendFlags { signaled, solicited, fence } = request.flags;
    let is_inline = matches!(request.data, SendData::Inline(_));
    c_uint::from(fence)
        | c_uint::from(signaled) << 1
        | c_uint::from(solicited) << 2
        | c_uint::from(is_inline) << 3
}

/// `enum ibv_wr_opcode`, and the word of the request that immediate data and invalidated keys share.
pub(super) fn opcode(operation: &SendOperation) -> (c_uint, u32) {
    match *operation {
        SendOperation::Write(_) => (0, 0),
        SendOperation::WriteWithImmediate(_, immediate) => (1, immediate.to_be()),
        SendOperation::Send => (2, 0),
        SendOperation::SendWithImmediate(immediate) => (3, immediate.to_be()),
        SendOperation::Read(_) => (4, 0),
        SendOperation::CompareSwap { .. } => (5, 0),
        SendOperation::FetchAdd { .. } => (6, 0),
        SendOperation::LocalInvalidate(key) => (7, key),
        SendOperation::BindWindow { .. } => (8, 0),
        SendOperation::SendWithInvalidate(key) => (9, key),
    }
}

/// The memory that a request is aimed at.
pub(super) fn target(operation: &SendOperation) -> send_wr_target {
    let atomic = |remote: Remote, compare_add, swap| send_wr_target {
        atomic: send_wr_atomic { remote_addr: remote.address, compare_add, swap, rkey: remote.rkey },
    };
    match *operation {
        SendOperation::Write(remote)
        | SendOperation::WriteWithImmediate(remote, _)
        | SendOperation::Read(remote) => {
            send_wr_target { rdma: send_wr_rdma { remote_addr: remote.address, rkey: remote.rkey } }
        }
        SendOperation::CompareSwap { remote, compare, swap } => atomic(remote, compare, swap),
        SendOperation::FetchAdd { remote, add } => atomic(remote, add, 0),
        _ => atomic(Remote { address: 0, rkey: 0 }, 0, 0),
    }
}

/// A completion. Of a failed one only what verbs promise is looked at.
pub(super) fn completion(wc: &ibv_wc) -> Completion {
    const GRH: c_uint = 1;
    const WITH_IMMEDIATE: c_uint = 2;
    const WITH_INVALIDATE: c_uint = 8;
    let status = STATUSES.iter().find(|(code, _)| *code == wc.status).map(|(_, status)| *status);
    let status = status.unwrap_or_else(|| panic!("a completion with status {}", wc.status));
    let opcode = OPCODES.iter().find(|(code, _)| *code == wc.opcode).map(|(_, opcode)| *opcode);
    let opcode = match (opcode, status) {
        (Some(opcode), _) => opcode,
        (None, Status::Success) => panic!("a completion with opcode {}", wc.opcode),
        (None, _) => CompletionOpcode::Send,
    };
    let immediate = match wc.wc_flags & (WITH_IMMEDIATE | WITH_INVALIDATE) {
        WITH_IMMEDIATE => Immediate::Data(u32::from_be(wc.imm_data)),
        WITH_INVALIDATE => Immediate::Invalidate(wc.imm_data),
        _ => Immediate::None,
    };
    Completion {
        wr_id: wc.wr_id,
        status,
        vendor_error: wc.vendor_err,
        opcode,
        byte_length: wc.byte_len,
        immediate,
        qpn: Qpn::new(wc.qp_num),
        source_qp: Qpn::new(wc.src_qp),
        has_grh: wc.wc_flags & GRH != 0,
        service_level: wc.sl,
        timestamp: 0,
    }
}
