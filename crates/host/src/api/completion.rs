//! Completion queues, and waiting for completions.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use nic::verbs::{Completion, Cq, CqError, CreateError};

use super::context::{Context, pop_by};
use crate::adapter::{CompletionChannel, CqNotification};

/// How long [`CompletionQueue::wait`] polls before it sleeps: about what waking up costs.
const SPIN: Duration = Duration::from_micros(20);

/// A completion queue. Clones are the same one.
///
/// It has a descriptor that can be given to an event loop: it becomes readable with the first completion
/// after [`arm`](CompletionQueue::arm).
#[derive(Clone, Debug)]
pub struct CompletionQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    context: Context,
    cq: Cq,
    channel: Arc<CompletionChannel>,
    /// Whether the channel is one of several queues.
    is_shared: bool,
    /// Threads in [`CompletionQueue::wait`].
    sleepers: AtomicUsize,
}

/// Why waiting for a completion ended without one.
#[derive(Debug, thiserror::Error)]
pub enum WaitError {
    /// The queue is broken.
    #[error(transparent)]
    Queue(#[from] CqError),
    /// None came in time.
    #[error("no completion came in time")]
    TimedOut,
    /// The queue's events go to an [`EventChannel`]: wait there.
    #[error("the events of this completion queue go to a channel: wait on that")]
    OnChannel,
    /// The system refused.
    #[error("cannot wait for a completion: {0}")]
    System(#[from] io::Error),
}

impl CompletionQueue {
    pub(super) fn new(context: Context, capacity: u32) -> Result<Self, CreateError> {
        let channel = channel().map_err(|_| CreateError::TooMany)?;
        Self::on(context, capacity, channel, 0, false)
    }

    fn on(
        context: Context,
        capacity: u32,
        channel: Arc<CompletionChannel>,
        cookie: u64,
        is_shared: bool,
    ) -> Result<Self, CreateError> {
        let (cq, _) = context.adapter().create_cq(capacity, Some((Arc::clone(&channel), cookie)))?;
        Ok(Self { inner: Arc::new(Inner { context, cq, channel, is_shared, sleepers: AtomicUsize::new(0) }) })
    }

    /// The name by which events tell of it.
    pub fn handle(&self) -> Cq {
        self.inner.cq
    }

    /// Takes the oldest completion. If there is none, serves the wire once and looks again.
    pub fn poll(&self) -> Result<Option<Completion>, CqError> {
        let mut found = None;
        self.inner.context.adapter().poll_cq(self.inner.cq, 1, |completion| found = Some(*completion))?;
        Ok(found)
    }

    /// Appends at most `max` completions, oldest first, to a vector; returns how many.
    pub fn poll_into(&self, completions: &mut Vec<Completion>, max: usize) -> Result<usize, CqError> {
        let take = |completion: &Completion| completions.push(*completion);
        self.inner.context.adapter().poll_cq(self.inner.cq, max, take)
    }

    /// The next completion, for which it waits at most so long: polling at first, then asleep.
    pub fn wait(&self, timeout: Duration) -> Result<Completion, WaitError> {
        if self.inner.is_shared {
            return Err(WaitError::OnChannel);
        }
        let start = Instant::now();
        let deadline = start.checked_add(timeout);
        while start.elapsed() < SPIN.min(timeout) {
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
        }
        self.inner.sleepers.fetch_add(1, Ordering::SeqCst);
        let result = self.sleep_until(deadline);
        if self.inner.sleepers.fetch_sub(1, Ordering::SeqCst) > 1 && result.is_ok() {
            // One event may stand for the completions of several sleepers: the next one has to look.
            self.inner.channel.push(CqNotification { cq: self.inner.cq, cookie: 0 });
        }
        result
    }

    fn sleep_until(&self, deadline: Option<Instant>) -> Result<Completion, WaitError> {
        loop {
            self.arm(false)?;
            // What came before it was armed raises no event.
            if let Some(completion) = self.poll()? {
                return Ok(completion);
            }
            if pop_by(&self.inner.channel, deadline)?.is_none() {
                return Err(WaitError::TimedOut);
            }
        }
    }

    /// Asks for one event at the next completion, or at the next solicited or failed one.
    pub fn arm(&self, solicited_only: bool) -> Result<(), CqError> {
        self.inner.context.adapter().req_notify_cq(self.inner.cq, solicited_only)
    }

    /// Takes the events that came, so that the descriptor is not readable any more; true if there were any.
    pub fn take_events(&self) -> io::Result<bool> {
        let mut any = false;
        while pop_by(&self.inner.channel, Some(Instant::now()))?.is_some() {
            any = true;
        }
        Ok(any)
    }

    /// Changes its size; returns the real one. A refused change leaves it as it was.
    pub fn resize(&self, capacity: u32) -> Result<u32, CqError> {
        self.inner.context.adapter().resize_cq(self.inner.cq, capacity)
    }

    pub(super) fn context(&self) -> &Context {
        &self.inner.context
    }
}

impl AsFd for CompletionQueue {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.channel.as_fd()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its queue pairs held a clone, so it is unused.
        let _ = self.context.adapter().destroy_cq(self.cq);
    }
}

/// A completion channel: the events of several completion queues, under one descriptor. Clones are the same
/// one.
#[derive(Clone, Debug)]
pub struct EventChannel {
    context: Context,
    channel: Arc<CompletionChannel>,
}

impl EventChannel {
    pub(super) fn new(context: Context) -> io::Result<Self> {
        Ok(Self { context, channel: channel()? })
    }

    /// Makes a completion queue of at least `capacity` entries, whose events come here with a word of the
    /// caller's.
    pub fn completion_queue(&self, capacity: u32, cookie: u64) -> Result<CompletionQueue, CreateError> {
        CompletionQueue::on(self.context.clone(), capacity, Arc::clone(&self.channel), cookie, true)
    }

    /// The next event, for which it waits at most so long; nothing if none came.
    pub fn wait(&self, timeout: Duration) -> io::Result<Option<CqNotification>> {
        pop_by(&self.channel, Instant::now().checked_add(timeout))
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

/// A channel whose descriptor does not block, so that nobody sleeps in a read that another was faster with.
fn channel() -> io::Result<Arc<CompletionChannel>> {
    let channel = CompletionChannel::new()?;
    rustix::io::ioctl_fionbio(&channel, true)?;
    Ok(Arc::new(channel))
}
