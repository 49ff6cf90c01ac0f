//! Completion queues, their channels and their events.

use std::{
    ffi::{c_int, c_uint, c_void},
    os::fd::AsRawFd,
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use host::CompletionChannel;
use nic::verbs::{self, Completion};

use super::context::ContextRef;
use crate::abi::{
    convert::wc,
    errno::{Errno, pointer, status, zero_or_minus_one},
    held::Held,
    layout::Zeroed,
    object::{Acknowledgements, Object, Visible},
    types::{
        completion::{ibv_comp_channel, ibv_cq, ibv_cq_ex, ibv_wc},
        context::ibv_context,
    },
};

/// Completion vectors: there are no interrupts to spread.
pub(super) const VECTORS: c_int = 1;

/// A completion channel.
#[repr(C)]
pub(crate) struct Channel {
    c: Visible<ibv_comp_channel>,
    context: ContextRef,
    channel: Arc<CompletionChannel>,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Channel {
    type C = ibv_comp_channel;
}

impl Channel {
    /// How many queues use it, where the program sees it.
    fn references(&self) -> &AtomicI32 {
        // SAFETY: the field lives as long as the object, and only we write to it.
        unsafe { AtomicI32::from_ptr(&raw mut (*self.c.get()).refcnt) }
    }
}

/// A completion queue.
#[repr(C)]
pub(crate) struct Cq {
    pub(super) c: Visible<ibv_cq_ex>,
    pub(super) context: ContextRef,
    pub(super) handle: verbs::Cq,
    /// The completion that an extended queue stands at, while it is polled.
    pub(super) current: Held<Option<Completion>>,
    completion_events: Acknowledgements,
    pub(super) async_events: Acknowledgements,
}

// SAFETY: it begins with what C sees: `ibv_cq_ex` begins like `ibv_cq`.
unsafe impl Object for Cq {
    type C = ibv_cq;
}

/// `ibv_create_comp_channel(3)`.
///
/// # Safety
///
/// `context` is an open device.
pub(in crate::abi) unsafe extern "C" fn create_comp_channel(
    context: *mut ibv_context,
) -> *mut ibv_comp_channel {
    // SAFETY: the caller passes an open device.
    let device = unsafe { ContextRef::of(context) };
    let channel = CompletionChannel::new().map(|channel| {
        let c = Visible::new(ibv_comp_channel { context, fd: channel.as_raw_fd(), refcnt: 0 });
        Channel { c, context: device, channel: Arc::new(channel) }.hand_out()
    });
    pointer(channel.map_err(Errno::from))
}

/// `ibv_destroy_comp_channel(3)`.
///
/// # Safety
///
/// `channel` is a completion channel.
pub(in crate::abi) unsafe extern "C" fn destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    // SAFETY: the caller passes a channel.
    if unsafe { Channel::of(channel) }.references().load(Ordering::Relaxed) > 0 {
        return libc::EBUSY;
    }
    // SAFETY: no queue uses it.
    unsafe { Channel::take_back(channel) };
    0
}

/// What a completion queue is made with.
pub(super) struct CqInit {
    pub entries: u32,
    pub context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub vector: c_int,
}

/// `ibv_create_cq(3)`.
///
/// # Safety
///
/// `context` is an open device; `channel` is a channel of it, or null.
pub(in crate::abi) unsafe extern "C" fn create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    // SAFETY: the caller's promises are passed on.
    let create = |entries| unsafe {
        create(
            ContextRef::of(context),
            &CqInit { entries, context: cq_context, channel, vector },
            ibv_cq_ex::zeroed(),
        )
    };
    pointer(u32::try_from(entries).map_err(|_| Errno::INVALID).and_then(create))
}

/// Makes a completion queue, whose extended functions are those of `functions`.
///
/// # Safety
///
/// `init.channel` is a channel of the device, or null.
pub(super) unsafe fn create(
    device: ContextRef,
    init: &CqInit,
    functions: ibv_cq_ex,
) -> Result<*mut ibv_cq, Errno> {
    if !(0..VECTORS).contains(&init.vector) {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller promises that the channel is alive unless it is null.
    let channel = unsafe { init.channel.as_ref().map(|_| Channel::of(init.channel)) };
    if channel.is_some_and(|channel| channel.context != device) {
        return Err(Errno::INVALID);
    }
    let (handle, size) =
        device.adapter.create_cq(init.entries, channel.map(|channel| (channel.channel.clone(), 0)))?;
    let c = ibv_cq_ex {
        context: device.c(),
        channel: init.channel,
        cq_context: init.context,
        handle: handle.0,
        cqe: size.cast_signed(),
        ..functions
    };
    if let Some(channel) = channel {
        channel.references().fetch_add(1, Ordering::Relaxed);
    }
    let cq = Cq {
        c: Visible::new(c),
        context: device,
        handle,
        current: Held::new(None),
        completion_events: Acknowledgements::default(),
        async_events: Acknowledgements::default(),
    }
    .hand_out();
    // SAFETY: it was just made.
    device.objects.cqs.add(handle, unsafe { Cq::of(cq) });
    Ok(cq)
}

/// `ibv_resize_cq(3)`.
///
/// # Safety
///
/// `cq` is a completion queue.
pub(super) unsafe extern "C" fn resize_cq(cq: *mut ibv_cq, entries: c_int) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Cq::of(cq) };
    let resize = |entries| Ok(queue.context.adapter.resize_cq(queue.handle, entries)?);
    let result = u32::try_from(entries).map_err(|_| Errno::INVALID).and_then(resize);
    // SAFETY: the field is ours to write during a call of the program's that changes it.
    status(result.map(|size| unsafe { (*cq).cqe = size.cast_signed() }))
}

/// `ibv_destroy_cq(3)`: waits until every event of the queue was acknowledged.
///
/// # Safety
///
/// `cq` is a completion queue.
pub(in crate::abi) unsafe extern "C" fn destroy_cq(cq: *mut ibv_cq) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Cq::of(cq) };
    if let Err(error) = queue.context.adapter.destroy_cq(queue.handle) {
        return Errno::from(error).0;
    }
    queue.context.objects.cqs.remove(queue.handle);
    queue.completion_events.wait();
    queue.async_events.wait();
    // SAFETY: the program leaves the field alone, and cannot destroy the channel before its queues.
    if let Some(channel) = unsafe { (*cq).channel.as_mut().map(|channel| Channel::of(channel)) } {
        channel.references().fetch_sub(1, Ordering::Relaxed);
    }
    // SAFETY: no event refers to it any more, and the program destroys it.
    unsafe { Cq::take_back(cq) };
    0
}

/// `ibv_get_cq_event(3)`.
///
/// # Safety
///
/// `channel` is a completion channel; the other pointers are valid.
pub(super) unsafe extern "C" fn get_cq_event(
    channel: *mut ibv_comp_channel,
    cq: *mut *mut ibv_cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a channel.
    let channel = unsafe { Channel::of(channel) };
    let get = || -> Result<*mut ibv_cq, Errno> {
        loop {
            let handle = channel.channel.pop()?.cq;
            let told = channel.context.objects.cqs.look(handle, |queue| {
                queue.completion_events.expect_one();
                queue.c()
            });
            if let Some(queue) = told {
                return Ok(queue);
            }
        }
    };
    // SAFETY: the caller passes valid pointers; the queue lives until the event is acknowledged.
    zero_or_minus_one(get().map(|queue| unsafe {
        *cq = queue;
        *cq_context = (*queue).cq_context;
    }))
}

/// `ibv_ack_cq_events(3)`.
///
/// # Safety
///
/// `cq` is a completion queue.
pub(super) unsafe extern "C" fn ack_cq_events(cq: *mut ibv_cq, count: c_uint) {
    // SAFETY: the caller passes a queue.
    unsafe { Cq::of(cq) }.completion_events.acknowledge(count.into());
}

/// `ibv_req_notify_cq(3)`.
///
/// # Safety
///
/// `cq` is a completion queue.
pub(super) unsafe extern "C" fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Cq::of(cq) };
    status(queue.context.adapter.req_notify_cq(queue.handle, solicited_only != 0).map_err(Errno::from))
}

/// `ibv_poll_cq(3)`.
///
/// # Safety
///
/// `cq` is a completion queue and `entries` has room for `count`.
pub(super) unsafe extern "C" fn poll_cq(cq: *mut ibv_cq, count: c_int, entries: *mut ibv_wc) -> c_int {
    // SAFETY: the caller passes a queue.
    let queue = unsafe { Cq::of(cq) };
    let room = usize::try_from(count).unwrap_or(0);
    let mut next = entries;
    let polled = queue.context.adapter.poll_cq(queue.handle, room, |completion| {
        // SAFETY: the adapter hands over at most as many as there is room for.
        unsafe {
            next.write(wc(completion));
            next = next.add(1);
        }
    });
    polled.map_or(-1, |polled| polled as c_int)
}
