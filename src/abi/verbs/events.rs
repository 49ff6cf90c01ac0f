//! Asynchronous events.

use std::ffi::{c_int, c_uint};

use nic::verbs::AsyncEvent;

use super::{
    completion::Cq,
    context::{ContextRef, Objects},
    queue_pair::Qp,
    receive::Srq,
};
use crate::abi::{
    errno::{Errno, zero_or_minus_one},
    object::Object,
    types::{
        constants::*,
        context::{ibv_async_event, ibv_async_event_element, ibv_context},
    },
};

/// The only port.
const PORT: ibv_async_event_element = ibv_async_event_element { port_num: 1 };

/// `ibv_get_async_event(3)`: waits for an event, unless `async_fd` was made non-blocking.
///
/// # Safety
///
/// `context` is an open device and `event` is valid.
pub(super) unsafe extern "C" fn get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the caller passes an open device.
    let context = unsafe { ContextRef::of(context) };
    let get = || -> Result<ibv_async_event, Errno> {
        loop {
            // An event whose object was destroyed meanwhile is nobody's any more.
            if let Some(event) = tell(&context.objects, context.adapter.async_events().pop()?) {
                return Ok(event);
            }
        }
    };
    // SAFETY: the caller passes a valid place.
    zero_or_minus_one(get().map(|told| unsafe { *event = told }))
}

/// The event as the program is told of it, which it will have to acknowledge.
fn tell(objects: &Objects, event: AsyncEvent) -> Option<ibv_async_event> {
    let event_type = event_type(event);
    let element = match event {
        AsyncEvent::CqError(cq) => objects.cqs.look(cq, |cq| {
            cq.async_events.expect_one();
            ibv_async_event_element { cq: cq.c() }
        }),
        AsyncEvent::QpFatal(qpn)
        | AsyncEvent::QpRequestError(qpn)
        | AsyncEvent::QpAccessError(qpn)
        | AsyncEvent::CommunicationEstablished(qpn)
        | AsyncEvent::SqDrained(qpn)
        | AsyncEvent::LastWqeReached(qpn) => objects.qps.look(qpn, |qp| {
            qp.events.expect_one();
            ibv_async_event_element { qp: qp.c() }
        }),
        AsyncEvent::SrqError(srq) | AsyncEvent::SrqLimitReached(srq) => objects.srqs.look(srq, |srq| {
            srq.events.expect_one();
            ibv_async_event_element { srq: srq.c() }
        }),
        AsyncEvent::DeviceFatal | AsyncEvent::PortActive | AsyncEvent::PortError | AsyncEvent::GidChange => {
            Some(PORT)
        }
    };
    element.map(|element| ibv_async_event { element, event_type })
}

fn event_type(event: AsyncEvent) -> c_uint {
    match event {
        AsyncEvent::CqError(_) => IBV_EVENT_CQ_ERR,
        AsyncEvent::QpFatal(_) => IBV_EVENT_QP_FATAL,
        AsyncEvent::QpRequestError(_) => IBV_EVENT_QP_REQ_ERR,
        AsyncEvent::QpAccessError(_) => IBV_EVENT_QP_ACCESS_ERR,
        AsyncEvent::CommunicationEstablished(_) => IBV_EVENT_COMM_EST,
        AsyncEvent::SqDrained(_) => IBV_EVENT_SQ_DRAINED,
        AsyncEvent::LastWqeReached(_) => IBV_EVENT_QP_LAST_WQE_REACHED,
        AsyncEvent::SrqError(_) => IBV_EVENT_SRQ_ERR,
        AsyncEvent::SrqLimitReached(_) => IBV_EVENT_SRQ_LIMIT_REACHED,
        AsyncEvent::DeviceFatal => IBV_EVENT_DEVICE_FATAL,
        AsyncEvent::PortActive => IBV_EVENT_PORT_ACTIVE,
        AsyncEvent::PortError => IBV_EVENT_PORT_ERR,
        AsyncEvent::GidChange => IBV_EVENT_GID_CHANGE,
    }
}

/// `ibv_ack_async_event(3)`.
///
/// # Safety
///
/// `event` came from [`get_async_event`] and was not acknowledged.
pub(super) unsafe extern "C" fn ack_async_event(event: *mut ibv_async_event) {
    // SAFETY: the caller passes an event; its object lives until it is acknowledged, and its type tells the object's.
    unsafe {
        let element = (*event).element;
        match (*event).event_type {
            IBV_EVENT_CQ_ERR => Cq::of(element.cq).async_events.acknowledge(1),
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_PATH_MIG
            | IBV_EVENT_PATH_MIG_ERR
            | IBV_EVENT_QP_LAST_WQE_REACHED => Qp::of(element.qp).events.acknowledge(1),
            IBV_EVENT_SRQ_ERR | IBV_EVENT_SRQ_LIMIT_REACHED => Srq::of(element.srq).events.acknowledge(1),
            _ => {}
        }
    }
}
