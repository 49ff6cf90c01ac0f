//! Posting work requests: the data path, called through the first table.

use std::ffi::c_int;

use host::Poster;
use nic::verbs::{RecvRequest, SendData, SendRequest};

use super::{queue_pair::Qp, receive::Srq};
use crate::abi::{
    convert::{
        Flags, bind_operation, destination, inline_pieces, send_flags, send_operation, sge_list, sge_slice,
    },
    errno::{Errno, status},
    object::Object,
    types::{
        constants::*,
        memory::{ibv_mw, ibv_mw_bind},
        queue_pair::ibv_qp,
        receive::ibv_srq,
        work::{ibv_recv_wr, ibv_send_wr},
    },
};

/// A work request that names the next of a list.
trait Listed {
    fn next(&self) -> *mut Self;
}

impl Listed for ibv_send_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

impl Listed for ibv_recv_wr {
    fn next(&self) -> *mut Self {
        self.next
    }
}

/// Posts a list of requests one after the other, up to the first that is refused, which `bad` then names.
///
/// # Safety
///
/// `request` heads a list of valid requests, or is null; `bad` is valid or null.
unsafe fn post_list<R: Listed>(
    mut request: *mut R,
    bad: *mut *mut R,
    mut post: impl FnMut(&R) -> Result<(), Errno>,
) -> c_int {
    // SAFETY: the caller passes a list of valid requests.
    while let Some(current) = unsafe { request.as_ref() } {
        if let Err(error) = post(current) {
            if !bad.is_null() {
                // SAFETY: the caller passes a valid place.
                unsafe { *bad = request };
            }
            return error.0;
        }
        request = current.next();
    }
    0
}

/// `ibv_post_send(3)`.
///
/// # Safety
///
/// `qp` is a queue pair, `request` heads a list of valid requests, and `bad` is valid.
pub(super) unsafe extern "C" fn post_send(
    qp: *mut ibv_qp,
    request: *mut ibv_send_wr,
    bad: *mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    // SAFETY: the caller's promises are passed on.
    pair.context
        .adapter
        .post(|poster| unsafe { post_list(request, bad, |request| send(poster, pair, request)) })
}

/// Posts one send request.
///
/// # Safety
///
/// The request is valid: its lists are there, what is to be copied is readable, and objects that it names are alive.
unsafe fn send(poster: &mut Poster<'_>, pair: &Qp, request: &ibv_send_wr) -> Result<(), Errno> {
    // SAFETY: the caller's promises are passed on.
    let (operation, destination, list) = unsafe {
        (
            send_operation(request)?,
            destination(pair.qp_type, request)?,
            sge_slice(request.sg_list, request.num_sge, pair.context.max_sge)?,
        )
    };
    let flags = send_flags(request.send_flags);
    let mut post = |data| {
        poster.send(pair.qpn, &SendRequest { wr_id: request.wr_id, operation, data, flags, destination })
    };
    let posted = if request.send_flags.has(IBV_SEND_INLINE) {
        // SAFETY: the caller promises that inline data is readable.
        post(SendData::Inline(&unsafe { inline_pieces(list) }))
    } else {
        post(SendData::Gather(&sge_list(list)))
    };
    Ok(posted?)
}

/// `ibv_post_recv(3)`.
///
/// # Safety
///
/// `qp` is a queue pair, `request` heads a list of valid requests, and `bad` is valid.
pub(super) unsafe extern "C" fn post_recv(
    qp: *mut ibv_qp,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    pair.context.adapter.post(|poster| {
        let post = |request: &ibv_recv_wr| {
            // SAFETY: the caller passes valid requests.
            let scatter =
                sge_list(unsafe { sge_slice(request.sg_list, request.num_sge, pair.context.max_sge) }?);
            Ok(poster.recv(pair.qpn, &RecvRequest { wr_id: request.wr_id, scatter: &scatter })?)
        };
        // SAFETY: the caller passes a list of valid requests.
        unsafe { post_list(request, bad, post) }
    })
}

/// `ibv_post_srq_recv(3)`.
///
/// # Safety
///
/// `srq` is a shared receive queue, `request` heads a list of valid requests, and `bad` is valid.
pub(super) unsafe extern "C" fn post_srq_recv(
    srq: *mut ibv_srq,
    request: *mut ibv_recv_wr,
    bad: *mut *mut ibv_recv_wr,
) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Srq::of(srq) };
    queue.context.adapter.post(|poster| {
        let post = |request: &ibv_recv_wr| {
            // SAFETY: the caller passes valid requests.
            let scatter =
                sge_list(unsafe { sge_slice(request.sg_list, request.num_sge, queue.context.max_sge) }?);
            Ok(poster.srq_recv(queue.handle, &RecvRequest { wr_id: request.wr_id, scatter: &scatter })?)
        };
        // SAFETY: the caller passes a list of valid requests.
        unsafe { post_list(request, bad, post) }
    })
}

/// `ibv_bind_mw(3)`: binds a window of type 1, whose key changes with every bind.
///
/// # Safety
///
/// `qp` is a queue pair, `mw` a window, and `bind` is valid and names a region that is alive, or none.
pub(super) unsafe extern "C" fn bind_mw(qp: *mut ibv_qp, mw: *mut ibv_mw, bind: *mut ibv_mw_bind) -> c_int {
    // SAFETY: the caller passes a queue pair, a window and a bind.
    let (pair, bind) = unsafe { (Qp::of(qp), &*bind) };
    if bind.bind_info.mw_access_flags.has(IBV_ACCESS_ZERO_BASED) {
        return libc::EINVAL; // addresses of a type 1 window are the region's (IBTA vol. 1, 10.6.7.2)
    }
    // SAFETY: the window is the program's, which does not use it elsewhere during this call.
    let rkey = next_key(unsafe { (*mw).rkey });
    let post = || -> Result<(), Errno> {
        let request = SendRequest {
            wr_id: bind.wr_id,
            // SAFETY: the caller's promises are passed on.
            operation: unsafe { bind_operation(mw, rkey, &bind.bind_info) }?,
            data: SendData::Gather(&[]),
            flags: send_flags(bind.send_flags),
            destination: None,
        };
        pair.context.adapter.post(|poster| poster.send(pair.qpn, &request))?;
        // SAFETY: as above.
        unsafe { (*mw).rkey = rkey };
        Ok(())
    };
    status(post())
}

/// The key after `key`: only its last byte changes (IBTA vol. 1, 10.6.7.2).
fn next_key(key: u32) -> u32 {
    key & !0xff | u32::from((key as u8).wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_key_keeps_its_index() {
        assert_eq!(next_key(0x1234_56fe), 0x1234_56ff);
        assert_eq!(next_key(0x1234_56ff), 0x1234_5600);
    }
}
