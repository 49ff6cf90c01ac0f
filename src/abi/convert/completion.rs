//! Work completions.

use std::ffi::c_uint;

use nic::verbs::{Completion, CompletionOpcode, Status};
use wire::Immediate;

use crate::abi::types::{completion::ibv_wc, constants::*};

/// A completion as `ibv_poll_cq(3)` gives it.
pub(crate) fn wc(completion: &Completion) -> ibv_wc {
    ibv_wc {
        wr_id: completion.wr_id,
        status: status_code(completion.status),
        opcode: opcode_code(completion.opcode),
        vendor_err: completion.vendor_error,
        byte_len: completion.byte_length,
        imm_data: imm_data(completion),
        qp_num: completion.qpn.value(),
        src_qp: completion.source_qp.value(),
        wc_flags: wc_flags(completion),
        pkey_index: 0,
        slid: 0,
        sl: completion.service_level,
        dlid_path_bits: 0,
    }
}

/// Immediate data in big-endian order, or the key that was invalidated.
pub(crate) fn imm_data(completion: &Completion) -> u32 {
    match completion.immediate {
        Immediate::None => 0,
        Immediate::Data(data) => data.to_be(),
        Immediate::Invalidate(rkey) => rkey,
    }
}

/// `enum ibv_wc_flags`.
pub(crate) fn wc_flags(completion: &Completion) -> c_uint {
    let grh = if completion.has_grh { IBV_WC_GRH } else { 0 };
    grh | match completion.immediate {
        Immediate::None => 0,
        Immediate::Data(_) => IBV_WC_WITH_IMM,
        Immediate::Invalidate(_) => IBV_WC_WITH_INV,
    }
}

/// `enum ibv_wc_status`.
pub(crate) fn status_code(status: Status) -> c_uint {
    match status {
        Status::Success => IBV_WC_SUCCESS,
        Status::LocalLengthError => IBV_WC_LOC_LEN_ERR,
        Status::LocalQpOperationError => IBV_WC_LOC_QP_OP_ERR,
        Status::LocalProtectionError => IBV_WC_LOC_PROT_ERR,
        Status::WorkRequestFlushed => IBV_WC_WR_FLUSH_ERR,
        Status::MemoryWindowBindError => IBV_WC_MW_BIND_ERR,
        Status::BadResponse => IBV_WC_BAD_RESP_ERR,
        Status::LocalAccessError => IBV_WC_LOC_ACCESS_ERR,
        Status::RemoteInvalidRequest => IBV_WC_REM_INV_REQ_ERR,
        Status::RemoteAccessError => IBV_WC_REM_ACCESS_ERR,
        Status::RemoteOperationError => IBV_WC_REM_OP_ERR,
        Status::RetryExceeded => IBV_WC_RETRY_EXC_ERR,
        Status::RnrRetryExceeded => IBV_WC_RNR_RETRY_EXC_ERR,
        Status::RemoteAborted => IBV_WC_REM_ABORT_ERR,
        Status::GeneralError => IBV_WC_GENERAL_ERR,
    }
}

/// `enum ibv_wc_opcode`.
pub(crate) fn opcode_code(opcode: CompletionOpcode) -> c_uint {
    match opcode {
        CompletionOpcode::Send => IBV_WC_SEND,
        CompletionOpcode::Write => IBV_WC_RDMA_WRITE,
        CompletionOpcode::Read => IBV_WC_RDMA_READ,
        CompletionOpcode::CompareSwap => IBV_WC_COMP_SWAP,
        CompletionOpcode::FetchAdd => IBV_WC_FETCH_ADD,
        CompletionOpcode::BindWindow => IBV_WC_BIND_MW,
        CompletionOpcode::LocalInvalidate => IBV_WC_LOCAL_INV,
        CompletionOpcode::Recv => IBV_WC_RECV,
        CompletionOpcode::RecvWriteWithImmediate => IBV_WC_RECV_RDMA_WITH_IMM,
    }
}
