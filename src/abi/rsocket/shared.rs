//! A socket as threads share it, and waiting for it.

use std::{
    os::fd::{AsFd, AsRawFd, RawFd},
    sync::{Condvar, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ::io::poll::{Interest, Poller};
use host::CompletionQueue;

use crate::abi::errno::Errno;

/// How long to poll before sleeping: about as long as falling asleep and waking up takes.
const SPIN: Duration = Duration::from_micros(20);

/// What a socket has come to, under its lock.
pub(super) trait Progress {
    /// Takes what has happened.
    fn progress(&mut self);

    /// Where completions come, if there are any.
    fn queue(&self) -> Option<&CompletionQueue>;

    /// How it is waited for.
    fn waiting(&mut self) -> &mut Waiting;
}

/// How a socket is waited for.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// Calls do not wait.
    pub is_nonblocking: bool,
    /// A thread sleeps on the descriptors for all.
    is_watched: bool,
    /// The completion queue will raise an event.
    is_armed: bool,
}

/// A socket, by a descriptor of its own that is readable when something happens which is no completion.
#[derive(Debug)]
pub(super) struct Shared<S, D> {
    descriptor: D,
    state: Mutex<S>,
    /// Whoever slept has looked at what happened.
    turned: Condvar,
}

impl<S: Progress, D: AsFd> Shared<S, D> {
    pub fn new(descriptor: D, state: S) -> Self {
        Self { descriptor, state: Mutex::new(state), turned: Condvar::new() }
    }

    /// Its number.
    pub fn number(&self) -> RawFd {
        self.descriptor.as_fd().as_raw_fd()
    }

    /// What the number is of.
    pub fn descriptor(&self) -> &D {
        &self.descriptor
    }

    /// Locks it, and takes what has happened.
    pub fn look(&self) -> MutexGuard<'_, S> {
        let mut state = self.lock();
        state.progress();
        state
    }

    /// Locks it.
    pub fn lock(&self) -> MutexGuard<'_, S> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries something until it leads to a result, waiting in between unless the socket or the call shall not.
    pub fn until<R>(
        &self,
        dont_wait: bool,
        mut attempt: impl FnMut(&mut S) -> Option<Result<R, Errno>>,
    ) -> Result<R, Errno> {
        let mut state = self.look();
        let spin = Instant::now() + SPIN;
        loop {
            if let Some(result) = attempt(&mut state) {
                return result;
            }
            if dont_wait || state.waiting().is_nonblocking {
                return Err(Errno(libc::EAGAIN));
            }
            if state.waiting().is_armed || Instant::now() >= spin {
                state = self.sleep(state)?;
            }
            state.progress();
        }
    }

    /// Sleeps until something may have happened. The first time it only sees to it that this will be noticed.
    pub fn sleep<'a>(&'a self, mut state: MutexGuard<'a, S>) -> Result<MutexGuard<'a, S>, Errno> {
        if arm(&mut *state)? {
            return Ok(state);
        }
        if state.waiting().is_watched {
            return Ok(self.turned.wait(state).unwrap_or_else(PoisonError::into_inner));
        }
        state.waiting().is_watched = true;
        let queue = state.queue().cloned();
        drop(state);
        let mut poller = Poller::new();
        poller.add(self.descriptor.as_fd(), Interest::Readable);
        if let Some(queue) = &queue {
            poller.add(queue.as_fd(), Interest::Readable);
        }
        let slept = poller.wait(None);
        let mut state = self.lock();
        state.waiting().is_watched = false;
        self.turned.notify_all();
        slept?;
        disarm(&mut *state);
        Ok(state)
    }

    /// Prepares for a poll(2) of the descriptors by whoever waits for several sockets; returns the one beside the
    /// socket's own.
    pub fn watch(&self) -> Result<Option<CompletionQueue>, Errno> {
        let mut state = self.lock();
        arm(&mut *state)?;
        state.progress();
        Ok(state.queue().cloned())
    }

    /// That poll(2) is over.
    pub fn watched(&self) {
        let mut state = self.lock();
        // Whoever sleeps on the descriptors needs what raised them.
        if !state.waiting().is_watched {
            disarm(&mut *state);
        }
    }
}

/// Sees to it that completions raise an event; false if they do already.
fn arm(state: &mut impl Progress) -> Result<bool, Errno> {
    if state.waiting().is_armed {
        return Ok(false);
    }
    let Some(queue) = state.queue() else { return Ok(false) };
    queue.arm(false)?;
    state.waiting().is_armed = true;
    Ok(true)
}

/// Takes the event, if there is one.
fn disarm(state: &mut impl Progress) {
    if state.queue().is_some_and(|queue| queue.take_events().unwrap_or(true)) {
        state.waiting().is_armed = false;
    }
}
