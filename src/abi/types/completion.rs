//! Completion queues, their channels and what is polled from them.

use std::ffi::{c_int, c_uint, c_void};

use libc::{pthread_cond_t, pthread_mutex_t};

use super::{context::ibv_context, memory::ibv_pd};
use crate::abi::layout::c_structs;

/// A function that reads one value of the completion that an extended completion queue stands at.
pub(crate) type Read<T> = Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> T>;

c_structs! {
    /// A completion channel.
    struct ibv_comp_channel {
        context: *mut ibv_context,
        fd: c_int,
        refcnt: c_int,
    }

    /// A completion queue.
    struct ibv_cq {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
    }

    /// How to start polling; has only room for extensions.
    struct ibv_poll_cq_attr {
        comp_mask: u32,
    }

    /// The tag of a message that matched one.
    struct ibv_wc_tm_info {
        tag: u64,
        r#priv: u32,
    }

    /// A completion queue read one value at a time; begins like [`ibv_cq`].
    struct ibv_cq_ex {
        context: *mut ibv_context,
        channel: *mut ibv_comp_channel,
        cq_context: *mut c_void,
        handle: u32,
        cqe: c_int,
        mutex: pthread_mutex_t,
        cond: pthread_cond_t,
        comp_events_completed: u32,
        async_events_completed: u32,
        comp_mask: u32,
        status: c_uint,
        wr_id: u64,
        start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
        next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
        end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
        read_opcode: Read<c_uint>,
        read_vendor_err: Read<u32>,
        read_byte_len: Read<u32>,
        read_imm_data: Read<u32>,
        read_qp_num: Read<u32>,
        read_src_qp: Read<u32>,
        read_wc_flags: Read<c_uint>,
        read_slid: Read<u32>,
        read_sl: Read<u8>,
        read_dlid_path_bits: Read<u8>,
        read_completion_ts: Read<u64>,
        read_cvlan: Read<u16>,
        read_flow_tag: Read<u32>,
        read_tm_info: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_wc_tm_info)>,
        read_completion_wallclock_ns: Read<u64>,
    }

    /// How to make an extended completion queue.
    struct ibv_cq_init_attr_ex {
        cqe: u32,
        cq_context: *mut c_void,
        channel: *mut ibv_comp_channel,
        comp_vector: u32,
        wc_flags: u64,
        comp_mask: u32,
        flags: u32,
        parent_domain: *mut ibv_pd,
    }

    /// When a completion queue raises events.
    struct ibv_moderate_cq {
        cq_count: u16,
        cq_period: u16,
    }

    /// What to change of a completion queue.
    struct ibv_modify_cq_attr {
        attr_mask: u32,
        moderate: ibv_moderate_cq,
    }

    /// A work completion.
    struct ibv_wc {
        wr_id: u64,
        status: c_uint,
        opcode: c_uint,
        vendor_err: u32,
        byte_len: u32,
        /// Immediate data, big-endian, or the rkey that the peer invalidated.
        imm_data: u32,
        qp_num: u32,
        src_qp: u32,
        wc_flags: c_uint,
        pkey_index: u16,
        slid: u16,
        sl: u8,
        dlid_path_bits: u8,
    }
}
