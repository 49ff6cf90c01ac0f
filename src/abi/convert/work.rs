//! Work requests.

use std::{ffi::c_int, slice};

use nic::verbs::{Binding, DatagramDestination, QpType, Remote, SendFlags, SendOperation, Sge};
use smallvec::SmallVec;
use wire::Qpn;

use super::{Flags, access};
use crate::abi::{
    errno::Errno,
    object::Object,
    types::{
        constants::*,
        memory::{ibv_mw, ibv_mw_bind_info, ibv_sge},
        work::ibv_send_wr,
    },
    verbs::{Ah, Mr, Mw},
};

/// A scatter/gather list, on the stack unless it is long.
pub(crate) type SgeList = SmallVec<[Sge; 8]>;

/// A program's scatter/gather list of at most `most` elements. A longer one is refused unread: a count that is far off
/// has no memory behind it.
///
/// # Safety
///
/// If `count` is at most `most`, `list` points to so many elements, which stay as they are while the slice lives.
pub(crate) unsafe fn sge_slice<'a>(
    list: *const ibv_sge,
    count: c_int,
    most: u32,
) -> Result<&'a [ibv_sge], Errno> {
    match u32::try_from(count) {
        Ok(0) => Ok(&[]),
        Ok(count) if count <= most && !list.is_null() => {
            // SAFETY: the caller promises so many elements.
            Ok(unsafe { slice::from_raw_parts(list, count as usize) })
        }
        _ => Err(Errno::INVALID),
    }
}

/// Pieces of registered memory.
pub(crate) fn sge_list(list: &[ibv_sge]) -> SgeList {
    list.iter().map(|sge| Sge { address: sge.addr, length: sge.length, lkey: sge.lkey }).collect()
}

/// The bytes of a scatter/gather list whose data is to be copied.
///
/// # Safety
///
/// Each element names memory that is readable while the slices live.
pub(crate) unsafe fn inline_pieces<'a>(list: &[ibv_sge]) -> SmallVec<[&'a [u8]; 8]> {
    list.iter()
        // SAFETY: the caller promises readable memory.
        .map(|sge| unsafe { bytes(sge.addr as *const u8, sge.length as usize) })
        .collect()
}

/// Bytes of a program's; an address without bytes behind it may be anything.
///
/// # Safety
///
/// The memory is readable while the slice lives.
pub(crate) unsafe fn bytes<'a>(address: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller promises readable memory.
    unsafe { slice::from_raw_parts(address, length) }
}

/// What a request does.
///
/// # Safety
///
/// The fields that its opcode gives a meaning are set, and objects that they name are alive.
pub(crate) unsafe fn send_operation(request: &ibv_send_wr) -> Result<SendOperation, Errno> {
    // SAFETY: the caller promises that the union has the field that belongs to the opcode; all bytes are initialized.
    let (rdma, atomic) = unsafe { (request.wr.rdma, request.wr.atomic) };
    let remote = Remote { address: rdma.remote_addr, rkey: rdma.rkey };
    let word = Remote { address: atomic.remote_addr, rkey: atomic.rkey };
    let immediate = u32::from_be(request.imm_data);
    Ok(match request.opcode {
        IBV_WR_SEND => SendOperation::Send,
        IBV_WR_SEND_WITH_IMM => SendOperation::SendWithImmediate(immediate),
        IBV_WR_SEND_WITH_INV => SendOperation::SendWithInvalidate(request.imm_data),
        IBV_WR_RDMA_WRITE => SendOperation::Write(remote),
        IBV_WR_RDMA_WRITE_WITH_IMM => SendOperation::WriteWithImmediate(remote, immediate),
        IBV_WR_RDMA_READ => SendOperation::Read(remote),
        IBV_WR_ATOMIC_CMP_AND_SWP => {
            SendOperation::CompareSwap { remote: word, compare: atomic.compare_add, swap: atomic.swap }
        }
        IBV_WR_ATOMIC_FETCH_AND_ADD => SendOperation::FetchAdd { remote: word, add: atomic.compare_add },
        IBV_WR_LOCAL_INV => SendOperation::LocalInvalidate(request.imm_data),
        IBV_WR_BIND_MW => {
            let bind = &request.bind_mw;
            // SAFETY: the caller promises a window, and a region if one is named.
            unsafe { bind_operation(bind.mw, bind.rkey, &bind.bind_info)? }
        }
        _ => return Err(Errno::INVALID),
    })
}

/// The bind of a memory window.
///
/// # Safety
///
/// Objects that are named are alive.
pub(crate) unsafe fn bind_operation(
    mw: *mut ibv_mw,
    rkey: u32,
    info: &ibv_mw_bind_info,
) -> Result<SendOperation, Errno> {
    if mw.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller promises that the window is alive, and the region unless it is null.
    let (window, region) = unsafe { (Mw::of(mw), info.mr.as_ref().map(|_| Mr::of(info.mr))) };
    let binding = Binding {
        lkey: region.map_or(0, |region| region.lkey()),
        address: info.addr,
        length: info.length,
        access: access(info.mw_access_flags)?,
    };
    Ok(SendOperation::BindWindow { window: window.handle(), rkey, binding })
}

/// Where a request goes on a queue pair of this type.
///
/// # Safety
///
/// On a datagram queue pair the request's address handle is alive, or null.
pub(crate) unsafe fn destination(
    qp_type: QpType,
    request: &ibv_send_wr,
) -> Result<Option<DatagramDestination>, Errno> {
    if qp_type != QpType::Ud {
        return Ok(None);
    }
    // SAFETY: on a datagram queue pair the union has this field.
    let ud = unsafe { request.wr.ud };
    if ud.ah.is_null() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller promises that the address handle is alive.
    let ah = unsafe { Ah::of(ud.ah) };
    Ok(Some(DatagramDestination { ah: ah.handle(), qpn: Qpn::new(ud.remote_qpn), qkey: ud.remote_qkey }))
}

/// `enum ibv_send_flags`, but for `INLINE`, which tells where the data is.
pub(crate) fn send_flags(flags: std::ffi::c_uint) -> SendFlags {
    SendFlags {
        signaled: flags.has(IBV_SEND_SIGNALED),
        solicited: flags.has(IBV_SEND_SOLICITED),
        fence: flags.has(IBV_SEND_FENCE),
    }
}
