//! News that a program can sleep on: completion channels and the queue of asynchronous events.
//!
//! Both are a queue in memory beside an event counter, a file descriptor that counts the queue's
//! entries. The descriptor is what a program gives to poll(2) or epoll(7); reading it takes one count,
//! and honours O_NONBLOCK, so a blocking get sleeps in the kernel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ::io::event::EventCounter;

/// A queue that can be slept on.
#[derive(Debug)]
pub struct Channel<T> {
    counter: EventCounter,
    queue: Mutex<VecDeque<T>>,
}

impl<T> Channel<T> {
    /// An empty one.
    pub fn new() -> io::Result<Self> {
        Ok(Self { counter: EventCounter::new()?, queue: Mutex::new(VecDeque::new()) })
    }

    /// Makes the descriptor non-blocking, so that [`Channel::pop`] never waits.
    pub fn set_nonblocking(&self) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(self, true)?)
    }

    /// Adds an entry and wakes whoever waits.
    pub fn push(&self, entry: T) {
        self.lock().push_back(entry);
        // Fails only if it would overflow, after 2^64 entries, or after a foolish close of the program's.
        let _ = self.counter.add();
    }

    /// Takes the oldest entry. Waits for one, unless the descriptor was made non-blocking: then the
    /// error is [`io::ErrorKind::WouldBlock`].
    pub fn pop(&self) -> io::Result<T> {
        loop {
            self.counter.take()?;
            // A count without an entry is left over when a destroyed object's entries were withdrawn
            // while somebody was already past the read.
            if let Some(entry) = self.lock().pop_front() {
                return Ok(entry);
            }
        }
    }

    /// Withdraws the entries that tell of an object that is no more.
    pub fn withdraw(&self, of_the_object: impl Fn(&T) -> bool) {
        let mut queue = self.lock();
        let before = queue.len();
        queue.retain(|entry| !of_the_object(entry));
        for _ in queue.len()..before {
            let _ = self.counter.try_take();
        }
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> AsFd for Channel<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.counter.as_fd()
    }
}

impl<T> AsRawFd for Channel<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.counter.as_fd().as_raw_fd()
    }
}
