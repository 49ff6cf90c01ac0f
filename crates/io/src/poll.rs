//! Sleeping until one of a few file descriptors is ready.

use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use smallvec::SmallVec;

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// There is something to read, or the other side has gone.
    Readable,
    /// There is room to write.
    Writable,
    /// Either.
    Both,
}

/// A few file descriptors to wait for. Making one costs no system call, so it is made anew for each wait.
#[derive(Debug, Default)]
pub struct Poller<'a> {
    fds: SmallVec<[PollFd<'a>; 8]>,
}

impl<'a> Poller<'a> {
    /// A poller of nothing, which can still time out.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a file descriptor; returns its index for [`Poller::is_ready`].
    pub fn add(&mut self, fd: BorrowedFd<'a>, interest: Interest) -> usize {
        let flags = match interest {
            Interest::Readable => PollFlags::IN,
            Interest::Writable => PollFlags::OUT,
            Interest::Both => PollFlags::IN | PollFlags::OUT,
        };
        self.fds.push(PollFd::from_borrowed_fd(fd, flags));
        self.fds.len() - 1
    }

    /// Sleeps until something is ready or `timeout_ns` nanoseconds have passed (`None`: for ever). Returns how many file
    /// descriptors are ready: 0 after the time has passed, or a signal has been handled.
    pub fn wait(&mut self, timeout_ns: Option<u64>) -> io::Result<usize> {
        const SECOND: u64 = 1_000_000_000;
        let timeout =
            timeout_ns.map(|ns| Timespec { tv_sec: (ns / SECOND) as i64, tv_nsec: (ns % SECOND) as _ });
        match poll(&mut self.fds, timeout.as_ref()) {
            Ok(ready) => Ok(ready),
            Err(Errno::INTR) => {
                self.fds.iter_mut().for_each(PollFd::clear_revents);
                Ok(0)
            }
            Err(errno) => Err(errno.into()),
        }
    }

    /// Whether the file descriptor of `index` was ready, or failed or hung up, which the next read or write will tell.
    pub fn is_ready(&self, index: usize) -> bool {
        self.fds.get(index).is_some_and(|fd| !fd.revents().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::now_ns;
    use crate::event::Wakeup;
    use std::os::fd::AsFd;

    #[test]
    fn it_tells_which_is_ready() {
        let (quiet, raised) = (Wakeup::new().unwrap(), Wakeup::new().unwrap());
        raised.wake();
        let mut poller = Poller::new();
        let quiet = poller.add(quiet.as_fd(), Interest::Readable);
        let raised = poller.add(raised.as_fd(), Interest::Readable);
        assert_eq!(poller.wait(None).unwrap(), 1);
        assert!(poller.is_ready(raised) && !poller.is_ready(quiet) && !poller.is_ready(2));
    }

    #[test]
    fn it_sleeps_for_less_than_a_millisecond_if_told_so() {
        let start = now_ns();
        assert_eq!(Poller::new().wait(Some(200_000)).unwrap(), 0);
        let slept = now_ns() - start;
        assert!((200_000..50_000_000).contains(&slept), "{slept} ns");
    }

    #[test]
    fn another_thread_ends_the_sleep() {
        let wakeup = Wakeup::new().unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| wakeup.wake());
            let mut poller = Poller::new();
            poller.add(wakeup.as_fd(), Interest::Readable);
            assert_eq!(poller.wait(Some(10_000_000_000)).unwrap(), 1);
        });
    }
}
