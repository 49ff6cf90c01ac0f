//! Extended completion queues: polled one completion and one value at a time.
//!
//! `start_poll` takes the queue for the calling thread until `end_poll`, unless it finds nothing. An empty `next_poll`
//! leaves it taken: `end_poll` follows, and must not give back anything that `next_poll` gave back already. Completions
//! leave the queue when they are reached, so `end_poll` has nothing to advance.

use std::ffi::{c_int, c_uint};

use nic::verbs::Completion;

use super::{
    completion::{self, Cq, CqInit},
    context::ContextRef,
};
use crate::abi::{
    convert::{Flags, imm_data, opcode_code, status_code, wc_flags},
    errno::{Errno, pointer, status},
    layout::Zeroed,
    object::Object,
    types::{
        completion::{ibv_cq_ex, ibv_cq_init_attr_ex, ibv_poll_cq_attr},
        constants::*,
        context::ibv_context,
    },
};

/// What a completion can be asked for.
const WC_FLAGS: u64 = IBV_WC_EX_WITH_BYTE_LEN
    | IBV_WC_EX_WITH_IMM
    | IBV_WC_EX_WITH_QP_NUM
    | IBV_WC_EX_WITH_SRC_QP
    | IBV_WC_EX_WITH_SLID
    | IBV_WC_EX_WITH_SL
    | IBV_WC_EX_WITH_DLID_PATH_BITS
    | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;

/// `ibv_create_cq_ex(3)`.
///
/// # Safety
///
/// `context` is an open device, `attr` is valid and its channel is one of the device, or null.
pub(super) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    // SAFETY: the caller passes an open device and valid attributes.
    let (device, attr) = unsafe { (ContextRef::of(context), &*attr) };
    let create = || -> Result<*mut ibv_cq_ex, Errno> {
        attr.comp_mask.only(IBV_CQ_INIT_ATTR_MASK_FLAGS, Errno::UNSUPPORTED)?;
        let flags = if attr.comp_mask.has(IBV_CQ_INIT_ATTR_MASK_FLAGS) { attr.flags } else { 0 };
        flags.only(IBV_CREATE_CQ_ATTR_SINGLE_THREADED, Errno::UNSUPPORTED)?;
        attr.wc_flags.only(WC_FLAGS, Errno::UNSUPPORTED)?;
        let init = CqInit {
            entries: attr.cqe,
            context: attr.cq_context,
            channel: attr.channel,
            vector: c_int::try_from(attr.comp_vector).map_err(|_| Errno::INVALID)?,
        };
        // SAFETY: the caller promises that the channel is alive unless it is null.
        unsafe { completion::create(device, &init, functions()) }.map(|cq| cq.cast())
    };
    pointer(create())
}

/// The functions of every extended queue. What was not asked for at creation may be asked for all the same.
fn functions() -> ibv_cq_ex {
    ibv_cq_ex {
        start_poll: Some(start_poll),
        next_poll: Some(next_poll),
        end_poll: Some(end_poll),
        read_opcode: Some(read_opcode),
        read_vendor_err: Some(read_vendor_err),
        read_byte_len: Some(read_byte_len),
        read_imm_data: Some(read_imm_data),
        read_qp_num: Some(read_qp_num),
        read_src_qp: Some(read_src_qp),
        read_wc_flags: Some(read_wc_flags),
        read_slid: Some(read_slid),
        read_sl: Some(read_sl),
        read_dlid_path_bits: Some(read_dlid_path_bits),
        read_completion_ts: Some(read_completion_ts),
        ..ibv_cq_ex::zeroed()
    }
}

/// `ibv_start_poll`.
///
/// # Safety
///
/// `cq` is an extended completion queue that the calling thread does not poll already; `attr` is valid or null.
unsafe extern "C" fn start_poll(cq: *mut ibv_cq_ex, attr: *mut ibv_poll_cq_attr) -> c_int {
    // SAFETY: the caller passes a queue and attributes, or null.
    let (queue, attr) = unsafe { (Cq::of(cq.cast()), attr.as_ref()) };
    if attr.is_some_and(|attr| attr.comp_mask != 0) {
        return libc::EINVAL;
    }
    queue.current.take();
    // SAFETY: this thread holds the queue.
    let found = unsafe { advance(queue) };
    if found.is_err() {
        // SAFETY: this thread holds the queue, and no reference to its value.
        unsafe { queue.current.give_back() };
    }
    status(found)
}

/// `ibv_next_poll`.
///
/// # Safety
///
/// `cq` is an extended completion queue that the calling thread polls.
unsafe extern "C" fn next_poll(cq: *mut ibv_cq_ex) -> c_int {
    // SAFETY: the caller passes a queue that its thread holds.
    status(unsafe { advance(Cq::of(cq.cast())) })
}

/// `ibv_end_poll`.
///
/// # Safety
///
/// `cq` is an extended completion queue that the calling thread polls.
unsafe extern "C" fn end_poll(cq: *mut ibv_cq_ex) {
    // SAFETY: the caller passes a queue that its thread holds, and no value of it is read meanwhile.
    unsafe { Cq::of(cq.cast()).current.give_back() };
}

/// Takes the next completion out of the queue and shows its first values.
///
/// # Safety
///
/// The calling thread holds the queue.
unsafe fn advance(queue: &Cq) -> Result<(), Errno> {
    // SAFETY: the caller holds the queue.
    let current = unsafe { queue.current.value() };
    *current = None;
    queue.context.adapter.poll_cq(queue.handle, 1, |completion| *current = Some(*completion))?;
    let completion = current.as_ref().ok_or(Errno::NO_ENTRY)?;
    // SAFETY: the program reads these fields only in the thread that polls, between this call and the next.
    unsafe {
        (*queue.c.get()).status = status_code(completion.status);
        (*queue.c.get()).wr_id = completion.wr_id;
    }
    Ok(())
}

/// A value of the completion that the queue stands at; 0 if it stands at none.
///
/// # Safety
///
/// `cq` is an extended completion queue that the calling thread polls.
unsafe fn read<T: Default>(cq: *mut ibv_cq_ex, value: impl FnOnce(&Completion) -> T) -> T {
    // SAFETY: the caller passes a queue that its thread holds.
    unsafe { Cq::of(cq.cast()).current.value() }.as_ref().map(value).unwrap_or_default()
}

/// Defines the functions that read one value each.
macro_rules! readers {
    ($($name:ident: $type:ty = $value:expr;)*) => { $(
        unsafe extern "C" fn $name(cq: *mut ibv_cq_ex) -> $type {
            // SAFETY: the caller passes a queue that its thread polls.
            unsafe { read(cq, $value) }
        }
    )* };
}

readers! {
    read_opcode: c_uint = |completion| opcode_code(completion.opcode);
    read_vendor_err: u32 = |completion| completion.vendor_error;
    read_byte_len: u32 = |completion| completion.byte_length;
    read_imm_data: u32 = imm_data;
    read_qp_num: u32 = |completion| completion.qpn.value();
    read_src_qp: u32 = |completion| completion.source_qp.value();
    read_wc_flags: c_uint = wc_flags;
    read_slid: u32 = |_| 0;
    read_sl: u8 = |completion| completion.service_level;
    read_dlid_path_bits: u8 = |_| 0;
    read_completion_ts: u64 = |completion| completion.timestamp;
}
