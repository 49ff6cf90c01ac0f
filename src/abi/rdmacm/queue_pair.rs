//! The queue pair of an id, what it is made of, and what the id does with it.

use std::{ffi::c_int, ptr::null_mut};

use libc::c_void;
use nic::cm::{connection_init, datagram_change};
use nic::verbs::{QpChange, QpState};

use super::id::{Depths, Id, Stage, State};
use crate::abi::{
    convert::{qp_change_attr, qp_state},
    errno::{Errno, zero_or_minus_one},
    layout::Zeroed,
    object::Object,
    types::{
        cm::{RDMA_UDP_QKEY, rdma_cm_id},
        completion::{ibv_comp_channel, ibv_cq},
        constants::*,
        memory::ibv_pd,
        queue_pair::{ibv_qp, ibv_qp_attr, ibv_qp_init_attr, ibv_qp_init_attr_ex},
        receive::{ibv_srq_init_attr, ibv_srq_init_attr_ex},
    },
    verbs,
};

/// `rdma_create_qp(3)`.
///
/// # Safety
///
/// `id` is an id, `pd` a protection domain or null, `attr` is valid and the objects it names are alive.
pub(super) unsafe extern "C" fn create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
) -> c_int {
    // SAFETY: the caller's promises are passed on.
    zero_or_minus_one(unsafe { create_plain(Id::of(id), pd, &mut *attr) })
}

/// Makes a queue pair from plain attributes.
///
/// # Safety
///
/// `pd` is a protection domain or null, and the objects that `attr` names are alive.
pub(super) unsafe fn create_plain(
    id: &Id,
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
) -> Result<(), Errno> {
    let mut extended = ibv_qp_init_attr_ex {
        qp_context: attr.qp_context,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        cap: attr.cap,
        qp_type: attr.qp_type,
        sq_sig_all: attr.sq_sig_all,
        comp_mask: IBV_QP_INIT_ATTR_PD,
        pd: if pd.is_null() { id.seen(|c| c.pd) } else { pd },
        ..ibv_qp_init_attr_ex::zeroed()
    };
    // SAFETY: the caller's promises are passed on.
    unsafe { create(id, &mut extended)? };
    (attr.send_cq, attr.recv_cq, attr.srq) = (extended.send_cq, extended.recv_cq, extended.srq);
    attr.cap = extended.cap;
    Ok(())
}

/// `rdma_create_qp_ex(3)`.
///
/// # Safety
///
/// `id` is an id, `attr` is valid and the objects it names are alive.
pub(super) unsafe extern "C" fn create_qp_ex(id: *mut rdma_cm_id, attr: *mut ibv_qp_init_attr_ex) -> c_int {
    // SAFETY: the caller's promises are passed on.
    zero_or_minus_one(unsafe { create(Id::of(id), &mut *attr) })
}

/// Makes the queue pair of an id, and the completion queues that are not given.
///
/// # Safety
///
/// The objects that `attr` names are alive.
unsafe fn create(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let (qp, verbs, own_pd, own_srq) = id.seen(|c| (c.qp, c.verbs, c.pd, c.srq));
    if !qp.is_null() || verbs.is_null() {
        return Err(Errno::INVALID);
    }
    if attr.comp_mask & IBV_QP_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr.pd = own_pd;
    }
    // SAFETY: a protection domain is the caller's, or the device's.
    if attr.pd.is_null() || unsafe { (*attr.pd).context } != verbs {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promises are passed on.
    unsafe { provide_cqs(id, attr)? };
    if attr.srq.is_null() {
        attr.srq = own_srq;
    }
    // SAFETY: the objects are alive: the caller's, or the id's.
    let qp = unsafe { verbs::create_qp_ex(verbs, attr) };
    let made = if qp.is_null() { Err(Errno::last()) } else { Ok(()) };
    // SAFETY: if there is a queue pair, it was just made.
    let begun = made.and_then(|()| unsafe { begin(id, qp) });
    if let Err(error) = begun {
        if !qp.is_null() {
            // SAFETY: nobody knows it yet.
            unsafe { verbs::destroy_qp(qp) };
        }
        // SAFETY: nothing uses them.
        unsafe { destroy_cqs(id) };
        return Err(error);
    }
    id.show(|c| {
        c.qp = qp;
        c.pd = attr.pd;
    });
    Ok(())
}

/// Makes the completion queues that neither the attributes nor the id have.
///
/// # Safety
///
/// The id is bound to a device.
unsafe fn provide_cqs(id: &Id, attr: &mut ibv_qp_init_attr_ex) -> Result<(), Errno> {
    let (send, recv) = id.seen(|c| (c.send_cq, c.recv_cq));
    let differs =
        |ours: *mut ibv_cq, given: *mut ibv_cq| !ours.is_null() && !given.is_null() && ours != given;
    if differs(send, attr.send_cq) || differs(recv, attr.recv_cq) {
        return Err(Errno::INVALID);
    }
    if recv.is_null() && attr.recv_cq.is_null() && attr.cap.max_recv_wr > 0 {
        // SAFETY: the id is bound to a device.
        let (channel, cq) = unsafe { create_cq(id, attr.cap.max_recv_wr)? };
        id.show(|c| (c.recv_cq_channel, c.recv_cq) = (channel, cq));
    }
    if send.is_null() && attr.send_cq.is_null() && attr.cap.max_send_wr > 0 {
        // SAFETY: the id is bound to a device.
        let (channel, cq) = unsafe { create_cq(id, attr.cap.max_send_wr) }.inspect_err(|_| {
            // SAFETY: nothing uses what was just made.
            unsafe { destroy_cqs(id) };
        })?;
        id.show(|c| (c.send_cq_channel, c.send_cq) = (channel, cq));
    }
    let (send, recv) = id.seen(|c| (c.send_cq, c.recv_cq));
    if attr.send_cq.is_null() {
        attr.send_cq = send;
    }
    if attr.recv_cq.is_null() {
        attr.recv_cq = recv;
    }
    Ok(())
}

/// Makes a completion queue with a channel of its own.
///
/// # Safety
///
/// The id is bound to a device.
unsafe fn create_cq(id: &Id, entries: u32) -> Result<(*mut ibv_comp_channel, *mut ibv_cq), Errno> {
    let verbs = id.seen(|c| c.verbs);
    let entries = c_int::try_from(entries).map_err(|_| Errno::INVALID)?;
    // SAFETY: the device is open.
    let channel = unsafe { verbs::create_comp_channel(verbs) };
    if channel.is_null() {
        return Err(Errno::last());
    }
    // SAFETY: device and channel are open; the context is the id, as the manual page of the helpers has it.
    let cq = unsafe { verbs::create_cq(verbs, entries, id.c().cast::<c_void>(), channel, 0) };
    if cq.is_null() {
        let error = Errno::last();
        // SAFETY: nothing uses it.
        unsafe { verbs::destroy_comp_channel(channel) };
        return Err(error);
    }
    Ok((channel, cq))
}

/// Unmakes the completion queues that the id made.
///
/// # Safety
///
/// Nothing uses them any more.
unsafe fn destroy_cqs(id: &Id) {
    let made = id.seen(|c| [(c.recv_cq, c.recv_cq_channel), (c.send_cq, c.send_cq_channel)]);
    for (cq, channel) in made {
        if !cq.is_null() {
            // SAFETY: the caller promises that it is unused.
            unsafe { verbs::destroy_cq(cq) };
        }
        if !channel.is_null() {
            // SAFETY: its queue is gone.
            unsafe { verbs::destroy_comp_channel(channel) };
        }
    }
    id.show(|c| {
        (c.recv_cq, c.recv_cq_channel) = (null_mut(), null_mut());
        (c.send_cq, c.send_cq_channel) = (null_mut(), null_mut());
    });
}

/// Brings a new queue pair as far as it comes without a peer: to INIT, or to RTS if it is for datagrams.
///
/// # Safety
///
/// `qp` is a queue pair.
unsafe fn begin(id: &Id, qp: *mut ibv_qp) -> Result<(), Errno> {
    if !id.is_datagram() {
        // SAFETY: the caller passes a queue pair.
        return unsafe { verbs::apply(qp, &connection_init()) };
    }
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        // SAFETY: the caller passes a queue pair.
        unsafe { verbs::apply(qp, &datagram_change(state, RDMA_UDP_QKEY)?)? };
    }
    Ok(())
}

/// `rdma_destroy_qp(3)`.
///
/// # Safety
///
/// `id` is an id, whose queue pair is no longer used.
pub(super) unsafe extern "C" fn destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let qp = id.seen(|c| c.qp);
    if !qp.is_null() {
        // SAFETY: the caller is done with it.
        unsafe { verbs::destroy_qp(qp) };
        id.show(|c| c.qp = null_mut());
    }
    // SAFETY: the queue pair is gone.
    unsafe { destroy_cqs(id) };
}

/// `rdma_create_srq(3)`.
///
/// # Safety
///
/// `id` is an id, `pd` a protection domain or null, and `attr` is valid.
pub(super) unsafe extern "C" fn create_srq(
    id: *mut rdma_cm_id,
    pd: *mut ibv_pd,
    attr: *mut ibv_srq_init_attr,
) -> c_int {
    // SAFETY: the caller passes attributes.
    let init = unsafe { &mut *attr };
    let mut extended = ibv_srq_init_attr_ex {
        srq_context: init.srq_context,
        attr: init.attr,
        comp_mask: if pd.is_null() { 0 } else { IBV_SRQ_INIT_ATTR_PD },
        pd,
        ..ibv_srq_init_attr_ex::zeroed()
    };
    // SAFETY: the caller's promises are passed on.
    let created = unsafe { create_srq_of(Id::of(id), &mut extended) };
    init.attr = extended.attr;
    zero_or_minus_one(created)
}

/// `rdma_create_srq_ex(3)`.
///
/// # Safety
///
/// `id` is an id, `attr` is valid and the objects it names are alive.
pub(super) unsafe extern "C" fn create_srq_ex(id: *mut rdma_cm_id, attr: *mut ibv_srq_init_attr_ex) -> c_int {
    // SAFETY: the caller's promises are passed on.
    zero_or_minus_one(unsafe { create_srq_of(Id::of(id), &mut *attr) })
}

/// # Safety
///
/// The objects that `attr` names are alive.
unsafe fn create_srq_of(id: &Id, attr: &mut ibv_srq_init_attr_ex) -> Result<(), Errno> {
    let (verbs, own_pd) = id.seen(|c| (c.verbs, c.pd));
    if verbs.is_null() {
        return Err(Errno::INVALID);
    }
    if attr.comp_mask & IBV_SRQ_INIT_ATTR_PD == 0 || attr.pd.is_null() {
        attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
        attr.pd = own_pd;
    }
    // SAFETY: a protection domain is the caller's, or the device's.
    if attr.pd.is_null() || unsafe { (*attr.pd).context } != verbs {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller's promises are passed on.
    let srq = unsafe { verbs::create_srq_ex(verbs, attr) };
    if srq.is_null() {
        return Err(Errno::last());
    }
    id.show(|c| {
        c.srq = srq;
        c.pd = attr.pd;
    });
    Ok(())
}

/// `rdma_destroy_srq(3)`.
///
/// # Safety
///
/// `id` is an id, whose shared receive queue is no longer used.
pub(super) unsafe extern "C" fn destroy_srq(id: *mut rdma_cm_id) {
    // SAFETY: the caller passes an id.
    let id = unsafe { Id::of(id) };
    let srq = id.seen(|c| c.srq);
    if !srq.is_null() {
        // SAFETY: the caller is done with it.
        unsafe { verbs::destroy_srq(srq) };
        id.show(|c| c.srq = null_mut());
    }
}

/// `rdma_init_qp_attr(3)`: what to modify a queue pair to that the program made itself.
///
/// # Safety
///
/// `id` is an id; `attr` and `mask` are valid.
pub(super) unsafe extern "C" fn init_qp_attr(
    id: *mut rdma_cm_id,
    attr: *mut ibv_qp_attr,
    mask: *mut c_int,
) -> c_int {
    // SAFETY: the caller passes an id and attributes.
    let (id, attr, mask) = unsafe { (Id::of(id), &mut *attr, &mut *mask) };
    let mut init = || -> Result<(), Errno> {
        let state = qp_state(attr.qp_state)?;
        (*attr, *mask) = qp_change_attr(&change(id, &id.state(), state)?);
        Ok(())
    };
    zero_or_minus_one(init())
}

/// What to modify the queue pair of an id to.
fn change(id: &Id, state: &State, wanted: QpState) -> Result<QpChange, Errno> {
    match (state.stage, state.device) {
        _ if id.is_datagram() => Ok(datagram_change(wanted, RDMA_UDP_QKEY)?),
        (Stage::Connection(connection, _), Some(device)) => {
            let change = device.manager.qp_change(connection, wanted)?;
            let timeout = change.timeout.map(|timeout| state.options.ack_timeout.unwrap_or(timeout));
            Ok(QpChange { timeout, ..change })
        }
        (Stage::Resolved(_) | Stage::Routed(_), Some(_)) if wanted == QpState::Init => Ok(connection_init()),
        _ => Err(Errno::INVALID),
    }
}

/// Brings the queue pair of an id to RTS. `depths` are what the program accepts with, unless the connection knows.
///
/// # Safety
///
/// `qp` is a queue pair.
pub(super) unsafe fn make_ready(
    id: &Id,
    state: &State,
    qp: *mut ibv_qp,
    depths: Option<Depths>,
) -> Result<(), Errno> {
    for wanted in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let mut change = change(id, state, wanted)?;
        if let Some(depths) = depths {
            change.max_dest_rd_atomic = change.max_dest_rd_atomic.map(|_| depths.responder_resources);
            change.max_rd_atomic = change.max_rd_atomic.map(|_| depths.initiator_depth);
        }
        // SAFETY: the caller passes a queue pair.
        unsafe { verbs::apply(qp, &change)? };
    }
    Ok(())
}

/// Brings the queue pair of an id to ERROR, if it has one.
pub(super) fn fail(id: &Id) -> Result<(), Errno> {
    let qp = id.seen(|c| c.qp);
    if qp.is_null() || id.is_datagram() {
        return Ok(());
    }
    let change = QpChange { state: Some(QpState::Error), ..QpChange::default() };
    // SAFETY: the id's queue pair is alive until the program destroys it.
    unsafe { verbs::apply(qp, &change) }
}
