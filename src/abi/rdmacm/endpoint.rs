//! Endpoints: ids that come with all they need, for synchronous programs.

use std::{ffi::c_int, ptr::null_mut};

use super::{
    event,
    id::{self, Id, Stage},
    queue_pair, resolve,
};
use crate::abi::{
    errno::{Errno, zero_or_minus_one},
    object::Object,
    types::{
        cm::{rdma_addrinfo, rdma_cm_event, rdma_cm_id, *},
        memory::ibv_pd,
        queue_pair::ibv_qp_init_attr,
    },
};

/// What the queue pairs of a listener's connections are made of.
#[derive(Clone, Copy)]
pub(super) struct Passive {
    pd: *mut ibv_pd,
    attr: ibv_qp_init_attr,
}

impl std::fmt::Debug for Passive {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Passive").field("pd", &self.pd).finish_non_exhaustive()
    }
}

// SAFETY: what it points to may be used by any thread.
unsafe impl Send for Passive {}

/// How long to wait for addresses and routes, in milliseconds.
const PATIENCE: c_int = 2000;

/// `rdma_create_ep(3)`.
///
/// # Safety
///
/// `id` is valid, `info` came from `rdma_getaddrinfo(3)` or is like it, `pd` is a protection domain or null, and `attr`
/// is valid or null.
pub(super) unsafe extern "C" fn create_ep(
    id: *mut *mut rdma_cm_id,
    info: *mut rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    let create = || -> Result<(), Errno> {
        // SAFETY: the caller passes addresses.
        let info = unsafe { &*info };
        let (ps, qp_type) = (info.ai_port_space.cast_unsigned(), info.ai_qp_type.cast_unsigned());
        // SAFETY: without a channel the id has its own.
        let made = unsafe { Id::create(null_mut(), null_mut(), ps, qp_type)? };
        // SAFETY: the id was just made; the caller's promises are passed on.
        let equipped = unsafe { equip(made, info, pd, attr) };
        match equipped {
            // SAFETY: the caller passes a valid place.
            Ok(()) => unsafe { *id = made },
            // SAFETY: nobody knows it yet.
            Err(_) => unsafe { destroy_ep(made) },
        }
        equipped
    };
    zero_or_minus_one(create())
}

/// Gives a new id its addresses and its queue pair, or what the queue pairs of its connections are made of.
///
/// # Safety
///
/// As for [`create_ep`].
unsafe fn equip(
    id: *mut rdma_cm_id,
    info: &rdma_addrinfo,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    // SAFETY: the caller passes an id and attributes, or null.
    let (object, attr) = unsafe { (Id::of(id), attr.as_mut()) };
    if info.ai_flags & RAI_PASSIVE != 0 {
        // SAFETY: the addresses are as long as their families say.
        succeeded(unsafe { resolve::bind_addr(id, info.ai_src_addr) })?;
        object.state().passive = attr.map(|attr| Passive { pd, attr: *attr });
        return Ok(());
    }
    // SAFETY: as above.
    succeeded(unsafe { resolve::resolve_addr(id, info.ai_src_addr, info.ai_dst_addr, PATIENCE) })?;
    // SAFETY: the caller passes an id.
    succeeded(unsafe { resolve::resolve_route(id, PATIENCE) })?;
    let Some(attr) = attr else { return Ok(()) };
    attr.qp_type = info.ai_qp_type.cast_unsigned();
    // SAFETY: the caller's promises are passed on.
    unsafe { queue_pair::create_plain(object, pd, attr) }
}

fn succeeded(status: c_int) -> Result<(), Errno> {
    if status == 0 { Ok(()) } else { Err(Errno::last()) }
}

/// `rdma_destroy_ep(3)`.
///
/// # Safety
///
/// `id` is an id, of which nothing is used any more.
pub(super) unsafe extern "C" fn destroy_ep(id: *mut rdma_cm_id) {
    // SAFETY: the caller is done with it.
    unsafe {
        queue_pair::destroy_qp(id);
        queue_pair::destroy_srq(id);
        id::destroy_id(id);
    }
}

/// `rdma_get_request(3)`: waits for a request to a synchronous listener.
///
/// # Safety
///
/// `listener` is an id and `id` is valid.
pub(super) unsafe extern "C" fn get_request(listener: *mut rdma_cm_id, id: *mut *mut rdma_cm_id) -> c_int {
    // SAFETY: the caller passes an id.
    let listener = unsafe { Id::of(listener) };
    let next = || -> Result<(), Errno> {
        let state = listener.state();
        if !state.is_synchronous || !matches!(state.stage, Stage::Listening(_)) {
            return Err(Errno::INVALID);
        }
        let passive = state.passive;
        drop(state);
        listener.forget_event();
        let channel = listener.seen(|c| c.channel);
        // SAFETY: the channel is the id's own.
        let event = unsafe { event::next(channel) }?;
        // SAFETY: the event was just made.
        let child = unsafe { take_request(event, passive) }.inspect_err(|_| {
            listener.show(|c| c.event = event);
        })?;
        // SAFETY: the caller passes a valid place.
        unsafe { *id = child };
        Ok(())
    };
    zero_or_minus_one(next())
}

/// Takes the id out of a request, and gives it its queue pair. The event stays with it.
///
/// # Safety
///
/// `event` was not acknowledged.
unsafe fn take_request(
    event: *mut rdma_cm_event,
    passive: Option<Passive>,
) -> Result<*mut rdma_cm_id, Errno> {
    // SAFETY: the caller passes an event.
    let (kind, child) = unsafe { ((*event).event, (*event).id) };
    if kind != RDMA_CM_EVENT_CONNECT_REQUEST {
        return Err(Errno::INVALID);
    }
    // SAFETY: the event made the id.
    let id = unsafe { Id::of(child) };
    if let Some(Passive { pd, mut attr }) = passive {
        attr.qp_type = id.seen(|c| c.qp_type);
        // SAFETY: what the attributes name is alive as long as the listener that has them.
        if let Err(error) = unsafe { queue_pair::create_plain(id, pd, &mut attr) } {
            // SAFETY: nobody knows it; the peer is refused.
            unsafe { id::destroy_id(child) };
            return Err(error);
        }
    }
    id.show(|c| c.event = event);
    Ok(child)
}
