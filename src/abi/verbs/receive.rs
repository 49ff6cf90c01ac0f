//! Shared receive queues.

use std::ffi::c_int;

use nic::verbs::{self, SrqAttributes, SrqChange};

use super::{context::ContextRef, memory::Pd};
use crate::abi::{
    convert::Flags,
    errno::{Errno, pointer, status},
    layout::Zeroed,
    object::{Acknowledgements, Object, Visible},
    types::{
        constants::*,
        context::ibv_context,
        memory::ibv_pd,
        receive::{ibv_srq, ibv_srq_attr, ibv_srq_init_attr, ibv_srq_init_attr_ex},
    },
};

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    c: Visible<ibv_srq>,
    pub(super) context: ContextRef,
    pub(super) handle: verbs::Srq,
    pub(super) events: Acknowledgements,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Srq {
    type C = ibv_srq;
}

/// `ibv_create_srq(3)`.
///
/// # Safety
///
/// `pd` is a protection domain and `attr` is valid.
pub(super) unsafe extern "C" fn create_srq(pd: *mut ibv_pd, attr: *mut ibv_srq_init_attr) -> *mut ibv_srq {
    // SAFETY: the caller passes a protection domain and attributes.
    let (domain, init) = unsafe { (Pd::of(pd), &mut *attr) };
    let device = domain.context;
    let mut create = || -> Result<*mut ibv_srq, Errno> {
        let (handle, real) = device.adapter.create_srq(domain.handle, srq_attributes(&init.attr))?;
        (init.attr.max_wr, init.attr.max_sge) = (real.max_wr, real.max_sge);
        let c = ibv_srq {
            context: device.c(),
            srq_context: init.srq_context,
            pd,
            handle: handle.0,
            ..ibv_srq::zeroed()
        };
        let srq = Srq { c: Visible::new(c), context: device, handle, events: Acknowledgements::default() }
            .hand_out();
        // SAFETY: it was just made.
        device.objects.srqs.add(handle, unsafe { Srq::of(srq) });
        Ok(srq)
    };
    pointer(create())
}

/// `ibv_create_srq_ex(3)`: what `verbs.h` does not turn into [`create_srq`] is of another kind, or names one too many.
///
/// # Safety
///
/// `attr` is valid and the objects it names are alive.
pub(in crate::abi) unsafe extern "C" fn create_srq_ex(
    _context: *mut ibv_context,
    attr: *mut ibv_srq_init_attr_ex,
) -> *mut ibv_srq {
    // SAFETY: the caller passes valid attributes.
    let extension = unsafe { &*attr };
    let (mask, basic) = (extension.comp_mask, extension.srq_type == IBV_SRQT_BASIC);
    let refused = if mask.has(IBV_SRQ_INIT_ATTR_TYPE) && !basic {
        Some(Errno::UNSUPPORTED)
    } else if !mask.has(IBV_SRQ_INIT_ATTR_PD) || extension.pd.is_null() {
        Some(Errno::INVALID)
    } else {
        mask.only(IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD, Errno::UNSUPPORTED).err()
    };
    match refused {
        Some(error) => pointer(Err(error)),
        // SAFETY: the extended attributes begin like the plain ones.
        None => unsafe { create_srq(extension.pd, attr.cast()) },
    }
}

/// `ibv_modify_srq(3)`.
///
/// # Safety
///
/// `srq` is a shared receive queue and `attr` is valid.
pub(super) unsafe extern "C" fn modify_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr, mask: c_int) -> c_int {
    // SAFETY: the caller passes a queue and attributes.
    let (queue, attr) = unsafe { (Srq::of(srq), &mut *attr) };
    let mut modify = || -> Result<(), Errno> {
        mask.only(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT, Errno::INVALID)?;
        let change = SrqChange {
            max_wr: mask.has(IBV_SRQ_MAX_WR).then_some(attr.max_wr),
            limit: mask.has(IBV_SRQ_LIMIT).then_some(attr.srq_limit),
        };
        let real = queue.context.adapter.modify_srq(queue.handle, change)?;
        if change.max_wr.is_some() {
            attr.max_wr = real.max_wr;
        }
        Ok(())
    };
    status(modify())
}

/// `ibv_query_srq(3)`.
///
/// # Safety
///
/// `srq` is a shared receive queue and `attr` is valid.
pub(super) unsafe extern "C" fn query_srq(srq: *mut ibv_srq, attr: *mut ibv_srq_attr) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Srq::of(srq) };
    let Some(real) = queue.context.adapter.query_srq(queue.handle) else { return libc::EINVAL };
    // SAFETY: the caller passes a valid place.
    unsafe { *attr = ibv_srq_attr { max_wr: real.max_wr, max_sge: real.max_sge, srq_limit: real.limit } };
    0
}

/// `ibv_destroy_srq(3)`: waits until every event of the queue was acknowledged.
///
/// # Safety
///
/// `srq` is a shared receive queue.
pub(in crate::abi) unsafe extern "C" fn destroy_srq(srq: *mut ibv_srq) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Srq::of(srq) };
    if let Err(error) = queue.context.adapter.destroy_srq(queue.handle) {
        return Errno::from(error).0;
    }
    queue.context.objects.srqs.remove(queue.handle);
    queue.events.wait();
    // SAFETY: no event refers to it any more, and the program destroys it.
    unsafe { Srq::take_back(srq) };
    0
}

fn srq_attributes(attr: &ibv_srq_attr) -> SrqAttributes {
    SrqAttributes { max_wr: attr.max_wr, max_sge: attr.max_sge, limit: attr.srq_limit }
}
