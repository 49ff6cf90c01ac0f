//! Queue pairs: their life, their attributes and their multicast groups.

use std::ffi::c_int;

use nic::verbs::{QpChange, QpInit, QpType};
use wire::Qpn;

use super::{
    completion::Cq,
    context::ContextRef,
    extended_qp::{self, Drafts},
    memory::Pd,
    port::path_error,
    receive::Srq,
};
use crate::abi::{
    convert::{self, Flags, capabilities, gid, qp_attr, qp_cap, qp_change, qp_type, qp_type_code},
    errno::{Errno, pointer, status},
    held::Held,
    layout::Zeroed,
    object::{Acknowledgements, Object, Visible},
    types::{
        constants::*,
        context::ibv_context,
        device::ibv_gid,
        memory::ibv_pd,
        queue_pair::{ibv_qp, ibv_qp_attr, ibv_qp_ex, ibv_qp_init_attr, ibv_qp_init_attr_ex},
    },
};

/// A queue pair.
#[repr(C)]
pub(crate) struct Qp {
    pub(super) c: Visible<ibv_qp_ex>,
    pub(super) context: ContextRef,
    pub(super) qpn: Qpn,
    pub(super) qp_type: QpType,
    /// Requests that are being put together, on an extended queue pair.
    pub(super) drafts: Option<Held<Drafts>>,
    pub(super) events: Acknowledgements,
}

// SAFETY: it begins with what C sees: `ibv_qp_ex` begins with `ibv_qp`.
unsafe impl Object for Qp {
    type C = ibv_qp;
}

/// `ibv_create_qp(3)`.
///
/// # Safety
///
/// `pd` is a protection domain, `attr` is valid and the objects it names are alive.
pub(super) unsafe extern "C" fn create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp {
    // SAFETY: the caller's promises are passed on.
    pointer(unsafe { create(pd, &mut *attr, None) })
}

/// `ibv_create_qp_ex(3)`.
///
/// # Safety
///
/// `context` is an open device, `attr` is valid and the objects it names are alive.
pub(in crate::abi) unsafe extern "C" fn create_qp_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
) -> *mut ibv_qp {
    let create = || -> Result<*mut ibv_qp, Errno> {
        // SAFETY: the caller passes valid attributes.
        let extension = unsafe { &*attr };
        let known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        extension.comp_mask.only(known, Errno::UNSUPPORTED)?;
        if extension.comp_mask.has(IBV_QP_INIT_ATTR_CREATE_FLAGS) {
            extension.create_flags.only(0, Errno::UNSUPPORTED)?;
        }
        if !extension.comp_mask.has(IBV_QP_INIT_ATTR_PD) || extension.pd.is_null() {
            return Err(Errno::INVALID);
        }
        let operations =
            extension.comp_mask.has(IBV_QP_INIT_ATTR_SEND_OPS_FLAGS).then_some(extension.send_ops_flags);
        let pd = extension.pd;
        // SAFETY: the extended attributes begin like the plain ones; the caller's other promises are passed on.
        unsafe { create(pd, &mut *attr.cast::<ibv_qp_init_attr>(), operations) }
    };
    pointer(create())
}

/// Makes a queue pair, extended if operations are asked for.
///
/// # Safety
///
/// `pd` is a protection domain and the objects that `attr` names are alive.
unsafe fn create(
    pd: *mut ibv_pd,
    attr: &mut ibv_qp_init_attr,
    operations: Option<u64>,
) -> Result<*mut ibv_qp, Errno> {
    let qp_type = qp_type(attr.qp_type)?;
    if attr.send_cq.is_null() || attr.recv_cq.is_null() {
        return Err(Errno::INVALID);
    }
    let functions = operations.map(|operations| extended_qp::functions(qp_type, operations)).transpose()?;
    // SAFETY: the caller promises that the objects are alive; the shared receive queue may be null.
    let (domain, send_cq, recv_cq, srq) = unsafe {
        (Pd::of(pd), Cq::of(attr.send_cq), Cq::of(attr.recv_cq), attr.srq.as_ref().map(|_| Srq::of(attr.srq)))
    };
    let device = domain.context;
    let all_here =
        send_cq.context == device && recv_cq.context == device && srq.is_none_or(|srq| srq.context == device);
    if !all_here {
        return Err(Errno::INVALID);
    }
    let (qpn, granted) = device.adapter.create_qp(&QpInit {
        pd: domain.handle,
        qp_type,
        send_cq: send_cq.handle,
        recv_cq: recv_cq.handle,
        srq: srq.map(|srq| srq.handle),
        capabilities: capabilities(&attr.cap),
        signal_all: attr.sq_sig_all != 0,
    })?;
    attr.cap = qp_cap(&granted);
    let qp_base = ibv_qp {
        context: device.c(),
        qp_context: attr.qp_context,
        pd,
        send_cq: attr.send_cq,
        recv_cq: attr.recv_cq,
        srq: attr.srq,
        handle: qpn.value(),
        qp_num: qpn.value(),
        state: IBV_QPS_RESET,
        qp_type: attr.qp_type,
        ..ibv_qp::zeroed()
    };
    let qp = Qp {
        c: Visible::new(ibv_qp_ex { qp_base, ..functions.unwrap_or_else(ibv_qp_ex::zeroed) }),
        context: device,
        qpn,
        qp_type,
        drafts: operations.map(|_| Held::new(Drafts::new(granted))),
        events: Acknowledgements::default(),
    }
    .hand_out();
    // SAFETY: it was just made.
    device.objects.qps.add(qpn, unsafe { Qp::of(qp) });
    Ok(qp)
}

/// `ibv_qp_to_qp_ex`.
///
/// # Safety
///
/// `qp` is a queue pair.
pub(super) unsafe extern "C" fn qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex {
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    if pair.drafts.is_some() { pair.c.get() } else { std::ptr::null_mut() }
}

/// `ibv_modify_qp(3)`.
///
/// # Safety
///
/// `qp` is a queue pair and `attr` is valid.
pub(super) unsafe extern "C" fn modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int {
    // SAFETY: the caller passes a queue pair and attributes.
    let change = unsafe { qp_change(&*attr, mask) };
    // SAFETY: the caller passes a queue pair.
    status(change.and_then(|change| unsafe { apply(qp, &change) }))
}

/// Changes a queue pair.
///
/// # Safety
///
/// `qp` is a queue pair.
pub(in crate::abi) unsafe fn apply(qp: *mut ibv_qp, change: &QpChange) -> Result<(), Errno> {
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    pair.context.adapter.modify_qp(pair.qpn, change).map_err(|error| match &change.path {
        Some(path) => path_error(&pair.context, path, error.into()),
        None => error.into(),
    })?;
    if let Some(state) = change.state {
        // SAFETY: the field is ours to write during a call of the program's that changes it.
        unsafe { (*qp).state = convert::state_code(state) };
    }
    Ok(())
}

/// `ibv_query_qp(3)`: tells every attribute, whatever `mask` asks for.
///
/// # Safety
///
/// `qp` is a queue pair; `attr` and `init_attr` are valid.
pub(super) unsafe extern "C" fn query_qp(
    qp: *mut ibv_qp,
    attr: *mut ibv_qp_attr,
    mask: c_int,
    init_attr: *mut ibv_qp_init_attr,
) -> c_int {
    if let Err(error) = mask.only(IBV_QP_RATE_LIMIT - 1, Errno::UNSUPPORTED) {
        return error.0;
    }
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    let Some(attributes) = pair.context.adapter.query_qp(pair.qpn) else { return libc::EINVAL };
    // SAFETY: the caller passes valid places; the program's part of the queue pair may be read in a call about it.
    unsafe {
        *attr = qp_attr(&attributes);
        *init_attr = ibv_qp_init_attr {
            qp_context: (*qp).qp_context,
            send_cq: (*qp).send_cq,
            recv_cq: (*qp).recv_cq,
            srq: (*qp).srq,
            cap: qp_cap(&attributes.init.capabilities),
            qp_type: qp_type_code(attributes.init.qp_type),
            sq_sig_all: attributes.init.signal_all.into(),
        };
        if mask.has(IBV_QP_STATE) {
            (*qp).state = (*attr).qp_state;
        }
    }
    0
}

/// `ibv_destroy_qp(3)`: waits until every event of the queue pair was acknowledged.
///
/// # Safety
///
/// `qp` is a queue pair.
pub(in crate::abi) unsafe extern "C" fn destroy_qp(qp: *mut ibv_qp) -> c_int {
    // SAFETY: the caller passes a queue pair.
    let pair = unsafe { Qp::of(qp) };
    if let Err(error) = pair.context.adapter.destroy_qp(pair.qpn) {
        return Errno::from(error).0;
    }
    pair.context.objects.qps.remove(pair.qpn);
    pair.events.wait();
    // SAFETY: no event refers to it any more, and the program destroys it.
    unsafe { Qp::take_back(qp) };
    0
}

/// `ibv_attach_mcast(3)`.
///
/// # Safety
///
/// `qp` is a queue pair and `group` is valid.
pub(in crate::abi) unsafe extern "C" fn attach_mcast(
    qp: *mut ibv_qp,
    group: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: the caller passes a queue pair and a GID.
    let (pair, group) = unsafe { (Qp::of(qp), gid(&*group)) };
    status(pair.context.adapter.attach_mcast(pair.qpn, group).map_err(Errno::from))
}

/// `ibv_detach_mcast(3)`.
///
/// # Safety
///
/// As for [`attach_mcast`].
pub(in crate::abi) unsafe extern "C" fn detach_mcast(
    qp: *mut ibv_qp,
    group: *const ibv_gid,
    _lid: u16,
) -> c_int {
    // SAFETY: the caller passes a queue pair and a GID.
    let (pair, group) = unsafe { (Qp::of(qp), gid(&*group)) };
    status(pair.context.adapter.detach_mcast(pair.qpn, group).map_err(Errno::from))
}
