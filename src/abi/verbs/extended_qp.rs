//! Extended queue pairs: requests put together by one call per part, and posted together.
//!
//! `wr_start` takes the queue pair for the calling thread until `wr_complete` or `wr_abort`. Between them each operation
//! adds a draft, and each setter completes the newest. What is wrong on the way is told by `wr_complete`, which then posts
//! nothing.

use std::ffi::{c_int, c_void};

use nic::verbs::{
    DatagramDestination, PostError, QpCapabilities, QpType, Remote, SendData, SendFlags, SendOperation,
    SendRequest, Sge,
};
use smallvec::SmallVec;
use wire::Qpn;

use super::{address::Ah, queue_pair::Qp};
use crate::abi::{
    convert::{Flags, SgeList, bind_operation, bytes, send_flags, sge_list, sge_slice},
    errno::{Errno, status},
    layout::Zeroed,
    object::Object,
    types::{
        address::ibv_ah,
        constants::*,
        memory::{ibv_data_buf, ibv_mw, ibv_mw_bind_info, ibv_sge},
        queue_pair::ibv_qp_ex,
    },
};

/// Less room than asked for: requests, elements or inline data.
const NO_SPACE: Errno = Errno(libc::ENOSPC);

/// What every connected queue pair can be asked to do.
const CONNECTED: u64 = IBV_QP_EX_WITH_RDMA_WRITE
    | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM
    | IBV_QP_EX_WITH_SEND
    | IBV_QP_EX_WITH_SEND_WITH_IMM
    | IBV_QP_EX_WITH_LOCAL_INV
    | IBV_QP_EX_WITH_BIND_MW;

/// What only a reliable connection can be asked to do.
const RELIABLE: u64 = IBV_QP_EX_WITH_RDMA_READ
    | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP
    | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD
    | IBV_QP_EX_WITH_SEND_WITH_INV;

/// What a datagram queue pair can be asked to do.
const DATAGRAM: u64 = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;

/// Requests that are being put together.
pub(super) struct Drafts {
    granted: QpCapabilities,
    requests: Vec<Draft>,
    error: Option<Errno>,
}

/// A request that is being put together.
struct Draft {
    wr_id: u64,
    operation: SendOperation,
    flags: SendFlags,
    data: DraftData,
    destination: Option<DatagramDestination>,
}

/// Its data.
enum DraftData {
    Gather(SgeList),
    Inline(SmallVec<[u8; 64]>),
}

impl DraftData {
    /// The bytes that are to be sent as they are.
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Gather(_) => &[],
            Self::Inline(bytes) => bytes,
        }
    }
}

impl Drafts {
    /// None yet, for a queue pair of this size.
    pub(super) fn new(granted: QpCapabilities) -> Self {
        Self { granted, requests: Vec::new(), error: None }
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.error = None;
    }

    fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
    }

    fn newest(&mut self) -> Option<&mut Draft> {
        if self.requests.is_empty() {
            self.fail(Errno::INVALID); // a setter before any operation
        }
        self.requests.last_mut()
    }

    fn set_gather(&mut self, list: SgeList) {
        if list.len() > self.granted.max_send_sge as usize {
            return self.fail(NO_SPACE);
        }
        if let Some(draft) = self.newest() {
            draft.data = DraftData::Gather(list);
        }
    }

    fn set_inline<'a>(&mut self, pieces: impl Iterator<Item = &'a [u8]>) {
        let mut data = SmallVec::new();
        for piece in pieces {
            if data.len() + piece.len() > self.granted.max_inline_data as usize {
                return self.fail(NO_SPACE);
            }
            data.extend_from_slice(piece);
        }
        if let Some(draft) = self.newest() {
            draft.data = DraftData::Inline(data);
        }
    }
}

/// The functions of a queue pair that is to send `operations`.
pub(super) fn functions(qp_type: QpType, operations: u64) -> Result<ibv_qp_ex, Errno> {
    let known = match qp_type {
        QpType::Rc => CONNECTED | RELIABLE,
        QpType::Uc => CONNECTED,
        QpType::Ud => DATAGRAM,
    };
    operations.only(known, Errno::UNSUPPORTED)?;
    Ok(ibv_qp_ex {
        wr_atomic_cmp_swp: Some(wr_atomic_cmp_swp),
        wr_atomic_fetch_add: Some(wr_atomic_fetch_add),
        wr_bind_mw: Some(wr_bind_mw),
        wr_local_inv: Some(wr_local_inv),
        wr_rdma_read: Some(wr_rdma_read),
        wr_rdma_write: Some(wr_rdma_write),
        wr_rdma_write_imm: Some(wr_rdma_write_imm),
        wr_send: Some(wr_send),
        wr_send_imm: Some(wr_send_imm),
        wr_send_inv: Some(wr_send_inv),
        wr_set_ud_addr: Some(wr_set_ud_addr),
        wr_set_inline_data: Some(wr_set_inline_data),
        wr_set_inline_data_list: Some(wr_set_inline_data_list),
        wr_set_sge: Some(wr_set_sge),
        wr_set_sge_list: Some(wr_set_sge_list),
        wr_start: Some(wr_start),
        wr_complete: Some(wr_complete),
        wr_abort: Some(wr_abort),
        ..ibv_qp_ex::zeroed()
    })
}

/// The drafts of a queue pair whose functions these are.
///
/// # Safety
///
/// `qp` is an extended queue pair that the calling thread holds, and the drafts are not referred to elsewhere.
unsafe fn drafts<'a>(qp: *mut ibv_qp_ex) -> &'a mut Drafts {
    // SAFETY: the caller passes a queue pair that its thread holds.
    let drafts = unsafe { Qp::of(qp.cast()).drafts.as_ref().map(|drafts| drafts.value()) };
    drafts.expect("only extended queue pairs have these functions")
}

unsafe extern "C" fn wr_start(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes an extended queue pair, which its thread holds from here on.
    unsafe {
        Qp::of(qp.cast()).drafts.as_ref().inspect(|drafts| drafts.take());
        drafts(qp).clear();
    }
}

unsafe extern "C" fn wr_abort(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes an extended queue pair that its thread holds, and lets go of here.
    unsafe {
        drafts(qp).clear();
        Qp::of(qp.cast()).drafts.as_ref().inspect(|drafts| drafts.give_back());
    }
}

unsafe extern "C" fn wr_complete(qp: *mut ibv_qp_ex) -> c_int {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    let posted = unsafe { post(Qp::of(qp.cast()), drafts(qp)) };
    // SAFETY: as above.
    unsafe { wr_abort(qp) };
    status(posted)
}

/// Posts all drafts, or none if anything is wrong with them or the queue has no room for all.
fn post(pair: &Qp, drafts: &Drafts) -> Result<(), Errno> {
    if let Some(error) = drafts.error {
        return Err(error);
    }
    pair.context.adapter.post(|poster| {
        if poster.send_room(pair.qpn).is_some_and(|room| room < drafts.requests.len()) {
            return Err(PostError::QueueFull.into());
        }
        drafts.requests.iter().try_for_each(|draft| {
            let pieces = [draft.data.bytes()];
            let data = match &draft.data {
                DraftData::Gather(list) => SendData::Gather(list),
                DraftData::Inline(_) => SendData::Inline(&pieces),
            };
            let &Draft { wr_id, operation, flags, destination, .. } = draft;
            Ok(poster.send(pair.qpn, &SendRequest { wr_id, operation, data, flags, destination })?)
        })
    })
}

/// Adds a draft with the identifier and the flags that the program set before the call.
///
/// # Safety
///
/// `qp` is an extended queue pair that the calling thread holds.
unsafe fn add(qp: *mut ibv_qp_ex, operation: SendOperation) {
    // SAFETY: the caller passes a queue pair that its thread holds; the fields are the program's to set before the call.
    let (drafts, wr_id, flags) = unsafe { (drafts(qp), (*qp).wr_id, (*qp).wr_flags) };
    if drafts.requests.len() >= drafts.granted.max_send_wr as usize {
        return drafts.fail(NO_SPACE);
    }
    drafts.requests.push(Draft {
        wr_id,
        operation,
        flags: send_flags(flags),
        data: DraftData::Gather(SgeList::new()),
        destination: None,
    });
}

unsafe extern "C" fn wr_atomic_cmp_swp(qp: *mut ibv_qp_ex, rkey: u32, address: u64, compare: u64, swap: u64) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::CompareSwap { remote: Remote { address, rkey }, compare, swap }) };
}

unsafe extern "C" fn wr_atomic_fetch_add(qp: *mut ibv_qp_ex, rkey: u32, address: u64, addend: u64) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::FetchAdd { remote: Remote { address, rkey }, add: addend }) };
}

unsafe extern "C" fn wr_bind_mw(
    qp: *mut ibv_qp_ex,
    mw: *mut ibv_mw,
    rkey: u32,
    info: *const ibv_mw_bind_info,
) {
    // SAFETY: the program passes an extended queue pair that its thread holds, a window, and what to bind it to.
    unsafe {
        match bind_operation(mw, rkey, &*info) {
            Ok(operation) => add(qp, operation),
            Err(error) => drafts(qp).fail(error),
        }
    }
}

unsafe extern "C" fn wr_local_inv(qp: *mut ibv_qp_ex, rkey: u32) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::LocalInvalidate(rkey)) };
}

unsafe extern "C" fn wr_rdma_read(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::Read(Remote { address, rkey })) };
}

unsafe extern "C" fn wr_rdma_write(qp: *mut ibv_qp_ex, rkey: u32, address: u64) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::Write(Remote { address, rkey })) };
}

unsafe extern "C" fn wr_rdma_write_imm(qp: *mut ibv_qp_ex, rkey: u32, address: u64, immediate: u32) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::WriteWithImmediate(Remote { address, rkey }, u32::from_be(immediate))) };
}

unsafe extern "C" fn wr_send(qp: *mut ibv_qp_ex) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::Send) };
}

unsafe extern "C" fn wr_send_imm(qp: *mut ibv_qp_ex, immediate: u32) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::SendWithImmediate(u32::from_be(immediate))) };
}

unsafe extern "C" fn wr_send_inv(qp: *mut ibv_qp_ex, rkey: u32) {
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { add(qp, SendOperation::SendWithInvalidate(rkey)) };
}

unsafe extern "C" fn wr_set_ud_addr(qp: *mut ibv_qp_ex, ah: *mut ibv_ah, qpn: u32, qkey: u32) {
    // SAFETY: the program passes an extended queue pair that its thread holds, and an address handle.
    let (drafts, ah) = unsafe { (drafts(qp), Ah::of(ah).handle()) };
    if let Some(draft) = drafts.newest() {
        draft.destination = Some(DatagramDestination { ah, qpn: Qpn::new(qpn), qkey });
    }
}

unsafe extern "C" fn wr_set_inline_data(qp: *mut ibv_qp_ex, address: *mut c_void, length: usize) {
    // SAFETY: the program passes an extended queue pair that its thread holds, and readable memory.
    unsafe { drafts(qp).set_inline([bytes(address.cast(), length)].into_iter()) };
}

unsafe extern "C" fn wr_set_inline_data_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_data_buf) {
    // SAFETY: the program passes an extended queue pair that its thread holds, and a list of readable memory.
    unsafe {
        let pieces =
            (0..count).map(|place| &*list.add(place)).map(|piece| bytes(piece.addr.cast(), piece.length));
        drafts(qp).set_inline(pieces);
    }
}

unsafe extern "C" fn wr_set_sge(qp: *mut ibv_qp_ex, lkey: u32, address: u64, length: u32) {
    let list = SgeList::from_slice(&[Sge { address, length, lkey }]);
    // SAFETY: the program passes an extended queue pair that its thread holds.
    unsafe { drafts(qp).set_gather(list) };
}

unsafe extern "C" fn wr_set_sge_list(qp: *mut ibv_qp_ex, count: usize, list: *const ibv_sge) {
    // SAFETY: the program passes an extended queue pair that its thread holds, and a list of so many elements.
    unsafe {
        let drafts = drafts(qp);
        match sge_slice(list, c_int::try_from(count).unwrap_or(-1), drafts.granted.max_send_sge) {
            Ok(list) => drafts.set_gather(sge_list(list)),
            Err(_) => drafts.fail(NO_SPACE),
        }
    }
}
