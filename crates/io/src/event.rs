//! Events between threads and processes, as file descriptors.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

/// Wakes a thread that sleeps in [`crate::poll::Poller::wait`]. Waking it twice before it looks is waking it once.
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// A wakeup that is not raised.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises it: the file descriptor is readable until [`Wakeup::clear`].
    pub fn wake(&self) {
        // The one failure there is says that the count is full, and then it is raised already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes it back, and says whether it was raised.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.0, &mut [0; 8]).is_ok()
    }
}

/// A count of events, one of which each reader takes.
///
/// The file descriptor is what a program polls, and may make non-blocking, as it would that of a device. It blocks at first.
#[derive(Debug)]
pub struct EventCounter(OwnedFd);

impl EventCounter {
    /// A counter at zero.
    pub fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::SEMAPHORE)?))
    }

    /// Adds one event, never waiting.
    pub fn add(&self) -> io::Result<()> {
        // A counter that is full (2^64 - 2) is beyond what can be counted to, so this write does not block.
        rustix::io::write(&self.0, &1u64.to_ne_bytes())?;
        Ok(())
    }

    /// Takes one event. Waits for one, unless the file descriptor was made non-blocking; then the error is `WouldBlock`.
    /// A signal that arrives meanwhile makes it `Interrupted`, as the program may be waiting for just that.
    pub fn take(&self) -> io::Result<()> {
        rustix::io::read(&self.0, &mut [0; 8])?;
        Ok(())
    }

    /// Takes one event if there is one, and says whether; never waits.
    pub fn try_take(&self) -> io::Result<bool> {
        let mut poller = crate::poll::Poller::new();
        poller.add(self.0.as_fd(), crate::poll::Interest::Readable);
        if poller.wait(Some(0))? == 0 {
            return Ok(false);
        }
        match rustix::io::read(&self.0, &mut [0; 8]) {
            Ok(_) => Ok(true),
            Err(Errno::AGAIN) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for EventCounter {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for EventCounter {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn readable(fd: impl AsFd) -> bool {
        let mut poller = crate::poll::Poller::new();
        poller.add(fd.as_fd(), crate::poll::Interest::Readable);
        poller.wait(Some(0)).unwrap() == 1
    }

    #[test]
    fn wakeups_merge() {
        let wakeup = Wakeup::new().unwrap();
        assert!(!wakeup.clear());
        wakeup.wake();
        wakeup.wake();
        assert!(readable(&wakeup));
        assert!(wakeup.clear() && !wakeup.clear() && !readable(&wakeup));
    }

    #[test]
    fn events_are_taken_one_by_one() {
        let counter = EventCounter::new().unwrap();
        counter.add().unwrap();
        counter.add().unwrap();
        assert!(readable(&counter));
        counter.take().unwrap();
        assert!(counter.try_take().unwrap());
        assert!(!counter.try_take().unwrap() && !readable(&counter));
    }

    #[test]
    fn taking_blocks_until_the_program_asks_otherwise() {
        let counter = EventCounter::new().unwrap();
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| counter.take());
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!taker.is_finished());
            counter.add().unwrap();
            taker.join().unwrap().unwrap();
        });
        rustix::io::ioctl_fionbio(&counter, true).unwrap();
        assert_eq!(counter.take().unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }
}
