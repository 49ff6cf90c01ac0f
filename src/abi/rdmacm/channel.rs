//! Event channels: queues of news behind file descriptors.

use std::{collections::VecDeque, ffi::c_int, io, os::fd::AsRawFd, sync::Arc};

use ::io::event::EventCounter;
use parking_lot::Mutex;

use super::{id::Id, news::News};
use crate::abi::{
    errno::{Errno, pointer, zero_or_minus_one},
    object::{Object, Visible},
    types::cm::{rdma_cm_id, rdma_event_channel},
};

/// News of any number of ids, in the order in which it came.
///
/// The descriptor counts what is in the queue: it is readable as long as there is something, and reading it waits unless
/// the program made it non-blocking.
#[derive(Debug)]
pub(super) struct EventQueue {
    counter: EventCounter,
    queue: Mutex<VecDeque<News>>,
}

impl EventQueue {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { counter: EventCounter::new()?, queue: Mutex::default() })
    }

    /// Adds what happened.
    pub fn push(&self, news: News) {
        self.queue.lock().push_back(news);
        self.count();
    }

    /// Takes the oldest, waiting for it. From then on its id cannot go before the program has acknowledged it.
    pub fn take(&self) -> io::Result<News> {
        loop {
            self.counter.take()?;
            let mut queue = self.queue.lock();
            // A count may be left over whose news was withdrawn while this thread was past the read.
            if let Some(news) = queue.pop_front() {
                // SAFETY: an id is not freed before its news was withdrawn, for which the queue is locked.
                unsafe { news.owner.get() }.told.expect_one();
                return Ok(news);
            }
        }
    }

    /// Takes back what nobody wants any more.
    pub fn withdraw(&self, is_unwanted: impl Fn(&News) -> bool) -> Vec<News> {
        let mut queue = self.queue.lock();
        let (withdrawn, kept): (Vec<_>, Vec<_>) = queue.drain(..).partition(is_unwanted);
        *queue = kept.into();
        for _ in &withdrawn {
            // Fails only after a foolish close of the program's.
            let _ = self.counter.try_take();
        }
        withdrawn
    }

    fn count(&self) {
        // Fails only if it would overflow, after 2^64 entries, or after a foolish close of the program's.
        let _ = self.counter.add();
    }
}

/// An event channel.
#[repr(C)]
pub(super) struct EventChannel {
    c: Visible<rdma_event_channel>,
    pub queue: Arc<EventQueue>,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for EventChannel {
    type C = rdma_event_channel;
}

impl EventChannel {
    /// Makes one.
    pub fn create() -> Result<*mut rdma_event_channel, Errno> {
        let queue = EventQueue::new()?;
        let c = Visible::new(rdma_event_channel { fd: queue.counter.as_raw_fd() });
        Ok(Self { c, queue: Arc::new(queue) }.hand_out())
    }
}

/// `rdma_create_event_channel(3)`.
pub(super) extern "C" fn create_event_channel() -> *mut rdma_event_channel {
    pointer(EventChannel::create())
}

/// `rdma_destroy_event_channel(3)`.
///
/// # Safety
///
/// `channel` is a channel, which no id uses any more.
pub(super) unsafe extern "C" fn destroy_event_channel(channel: *mut rdma_event_channel) {
    // SAFETY: the caller passes a channel that it is done with.
    unsafe { EventChannel::take_back(channel) };
}

/// `rdma_migrate_id(3)`: news of the id goes to another channel, also what is there and was not taken. Without a channel
/// the id waits for its news itself.
///
/// # Safety
///
/// `id` is an id and `channel` a channel, or null.
pub(super) unsafe extern "C" fn migrate_id(id: *mut rdma_cm_id, channel: *mut rdma_event_channel) -> c_int {
    // SAFETY: the caller passes an id and a channel, or null.
    zero_or_minus_one(unsafe { Id::of(id).migrate(channel) })
}
