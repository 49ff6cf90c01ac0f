//! Waiting for several sockets, and for other descriptors beside them.

use std::{
    ffi::{c_int, c_short},
    os::fd::AsRawFd,
    slice,
    time::{Duration, Instant},
};

use host::CompletionQueue;
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, fd_set, nfds_t, pollfd, timeval};

use super::{
    datagram::Datagrams,
    state::{Inner, Phase},
    table::{self, Entry},
};
use crate::abi::errno::Errno;

/// `rpoll`.
///
/// # Safety
///
/// `fds` has `count` elements.
pub(in crate::abi) unsafe extern "C" fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int {
    let fds = match count {
        0 => &mut [],
        // SAFETY: the caller's promise is passed on.
        _ => unsafe { slice::from_raw_parts_mut(fds, count as usize) },
    };
    let timeout = u64::try_from(timeout).ok().map(Duration::from_millis);
    match wait(fds, timeout) {
        Ok(ready) => ready,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// Waits until a descriptor is ready; returns how many are.
fn wait(fds: &mut [pollfd], timeout: Option<Duration>) -> Result<c_int, Errno> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let sockets: Vec<Option<Entry>> = fds.iter().map(|fd| table::find(fd.fd).ok()).collect();
    loop {
        let ready = check(fds, &sockets)?;
        if ready > 0 || timeout == Some(Duration::ZERO) {
            return Ok(ready);
        }
        let watched = sockets.iter().flatten().map(|socket| socket.watch()).collect::<Result<Vec<_>, _>>()?;
        // What came before it was watched raises nothing.
        let ready = check(fds, &sockets)?;
        let slept = if ready > 0 { Ok(()) } else { sleep(fds, &sockets, &watched, deadline) };
        sockets.iter().flatten().for_each(|socket| socket.watched());
        slept?;
        if ready > 0 || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return check(fds, &sockets);
        }
    }
}

/// Sleeps until one of the descriptors behind sockets, or one that is no socket, is ready.
fn sleep(
    fds: &[pollfd],
    sockets: &[Option<Entry>],
    watched: &[Option<CompletionQueue>],
    deadline: Option<Instant>,
) -> Result<(), Errno> {
    let readable = |fd| pollfd { fd, events: POLLIN, revents: 0 };
    let mut real = Vec::with_capacity(fds.len() * 2);
    for (fd, socket) in fds.iter().zip(sockets) {
        real.push(socket.as_ref().map_or(*fd, |socket| readable(socket.number())));
    }
    real.extend(watched.iter().flatten().map(|queue| readable(queue.as_fd_number())));
    let milliseconds = deadline.map_or(-1, |deadline| {
        let left = deadline.saturating_duration_since(Instant::now());
        left.as_millis().saturating_add(1).min(c_int::MAX as u128) as c_int
    });
    system_poll(&mut real, milliseconds).map(drop)
}

fn system_poll(fds: &mut [pollfd], milliseconds: c_int) -> Result<c_int, Errno> {
    // SAFETY: the slice has as many elements as it says.
    let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as nfds_t, milliseconds) };
    if ready < 0 { Err(Errno::last()) } else { Ok(ready) }
}

/// Looks at every descriptor, without waiting.
fn check(fds: &mut [pollfd], sockets: &[Option<Entry>]) -> Result<c_int, Errno> {
    // A negative number is passed over by poll(2).
    let mut others: Vec<pollfd> = fds
        .iter()
        .zip(sockets)
        .map(|(fd, socket)| if socket.is_some() { pollfd { fd: -1, ..*fd } } else { *fd })
        .collect();
    if sockets.iter().any(Option::is_none) {
        system_poll(&mut others, 0)?;
    }
    let mut ready = 0;
    for ((fd, socket), other) in fds.iter_mut().zip(sockets).zip(&others) {
        fd.revents = socket.as_ref().map_or(other.revents, |socket| socket.readiness(fd.events));
        ready += c_int::from(fd.revents != 0);
    }
    Ok(ready)
}

/// What of `events` a stream is ready for, and what else there is to know.
pub(super) fn stream_readiness(inner: &mut Inner, events: c_short) -> c_short {
    let (reads, writes) = (inner.reads, inner.writes);
    let when = |condition: bool, event: c_short| if condition { event } else { 0 };
    match &mut inner.phase {
        Phase::Fresh | Phase::Bound | Phase::Connecting { .. } => 0,
        Phase::Listening { requests, .. } => when(!requests.is_empty(), POLLIN) & events,
        Phase::Failed => (POLLIN | POLLOUT) & events | POLLERR,
        Phase::Connected { link, is_established, .. } => {
            let is_over = !link.peer_sends() && !link.peer_reads();
            let readable = link.unread() > 0 || !link.peer_sends() || !reads;
            let writable = *is_established && writes && link.can_send();
            (when(readable, POLLIN) | when(writable, POLLOUT)) & events
                | when(link.error.is_some(), POLLERR)
                | when(is_over, POLLHUP)
        }
    }
}

/// The same of a datagram socket.
pub(super) fn datagram_readiness(state: &Datagrams, events: c_short) -> c_short {
    let when = |condition: bool, event: c_short| if condition { event } else { 0 };
    (when(state.is_readable(), POLLIN) | when(state.is_writable(), POLLOUT)) & events
}

/// The number of a queue's descriptor.
trait FdNumber {
    fn as_fd_number(&self) -> c_int;
}

impl FdNumber for CompletionQueue {
    fn as_fd_number(&self) -> c_int {
        std::os::fd::AsFd::as_fd(self).as_raw_fd()
    }
}

/// `rselect`.
///
/// # Safety
///
/// The sets are valid or null, and so is `timeout`.
pub(in crate::abi) unsafe extern "C" fn select(
    count: c_int,
    readable: *mut fd_set,
    writable: *mut fd_set,
    exceptional: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    // SAFETY: the caller passes valid sets, or null.
    let has = |set: *mut fd_set, fd| !set.is_null() && unsafe { libc::FD_ISSET(fd, set) };
    let mut fds: Vec<pollfd> = (0..count.clamp(0, libc::FD_SETSIZE as c_int))
        .map(|fd| pollfd {
            fd,
            events: if has(readable, fd) { POLLIN } else { 0 } | if has(writable, fd) { POLLOUT } else { 0 },
            revents: 0,
        })
        .filter(|fd| fd.events != 0 || has(exceptional, fd.fd))
        .collect();
    // SAFETY: the caller passes a time, or null.
    let timeout = unsafe { timeout.as_ref() }.map(|time| {
        let (seconds, micros) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec));
        Duration::from_secs(seconds.unwrap_or(0)) + Duration::from_micros(micros.unwrap_or(0))
    });
    if let Err(error) = wait(&mut fds, timeout) {
        error.set();
        return -1;
    }
    let mut ready = 0;
    for fd in &fds {
        // As select(2) has it: an end or an error can be read, and an error can be written.
        for (set, events) in
            [(readable, POLLIN | POLLHUP | POLLERR), (writable, POLLOUT | POLLERR), (exceptional, 0)]
        {
            if !has(set, fd.fd) {
                continue;
            }
            if fd.revents & events != 0 {
                ready += 1;
            } else {
                // SAFETY: the caller passes valid sets, of which this one has the descriptor.
                unsafe { libc::FD_CLR(fd.fd, set) };
            }
        }
    }
    ready
}
