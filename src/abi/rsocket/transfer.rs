//! The calls of `rsocket.h` that move data.

use std::{
    ffi::{c_int, c_void},
    net::SocketAddr,
    slice,
};

use libc::{iovec, msghdr, sockaddr, socklen_t, ssize_t};

use super::{
    calls::{checked_address, tell_address},
    link::Link,
    outcome::{count, number},
    socket::Socket,
    state::{Inner, Phase},
    table::{self, Entry},
};
use crate::abi::{
    convert::{Flags, bytes},
    errno::Errno,
};

/// The most elements of one vector, as the system has it (`IOV_MAX`).
const MOST_ELEMENTS: usize = 1024;

// ---- reading

/// Reads into several pieces of memory, as far as there is something. Tells who sent it, too.
fn receive(fd: c_int, into: &mut [&mut [u8]], flags: c_int) -> Result<(usize, Option<SocketAddr>), Errno> {
    match table::find(fd)? {
        Entry::Stream(socket) => Ok((receive_stream(&socket, into, flags)?, socket.lock().peer)),
        Entry::Datagram(socket) => {
            let (peeks, dont_wait) = (flags.has(libc::MSG_PEEK), flags.has(libc::MSG_DONTWAIT));
            socket.receive(into, peeks, dont_wait).map(|(count, from)| (count, Some(from)))
        }
    }
}

/// Reads of a stream.
fn receive_stream(socket: &Socket, into: &mut [&mut [u8]], flags: c_int) -> Result<usize, Errno> {
    let wanted: usize = into.iter().map(|piece| piece.len()).sum();
    let (peeks, waits_for_all) = (flags.has(libc::MSG_PEEK), flags.has(libc::MSG_WAITALL));
    let mut done = 0;
    let received = socket.until(flags.has(libc::MSG_DONTWAIT), |inner| {
        let reads = inner.reads;
        let link = match inner.link() {
            Some(link) => link,
            None => return Some(Err(not_connected(inner))),
        };
        match receive_into(link, into, done, peeks) {
            Ok(count) => done += count,
            Err(error) => return Some(Err(error)),
        }
        let is_over = !reads || !link.peer_sends();
        let error = link.error;
        let is_enough = done > 0 && (peeks || !waits_for_all) || done == wanted;
        if is_enough || is_over && done > 0 {
            return Some(Ok(()));
        }
        match error {
            Some(error) => Some(Err(error)),
            None => is_over.then_some(Ok(())),
        }
    });
    match received {
        Err(error) if done == 0 => Err(error),
        _ => Ok(done),
    }
}

/// Reads what there is behind the first `skip` bytes of the pieces.
fn receive_into(link: &mut Link, into: &mut [&mut [u8]], skip: usize, peeks: bool) -> Result<usize, Errno> {
    let (mut skip, mut done) = (skip, 0);
    if peeks && into.len() > 1 {
        // Peeking does not go on where it was: only the first piece is looked into.
        return into.first_mut().map_or(Ok(0), |first| link.receive(first, true));
    }
    for piece in into {
        let skipped = skip.min(piece.len());
        skip -= skipped;
        done += link.receive(&mut piece[skipped..], peeks)?;
    }
    Ok(done)
}

/// Why there is nothing to read or write.
fn not_connected(inner: &mut Inner) -> Errno {
    match inner.phase {
        Phase::Connecting { .. } => Errno(libc::EAGAIN),
        _ => inner.error.take().unwrap_or(Errno(libc::ENOTCONN)),
    }
}

/// `rrecv`.
///
/// # Safety
///
/// `buffer` has room for `length` bytes.
pub(in crate::abi) unsafe extern "C" fn recv(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller has room for that many bytes.
    let buffer = unsafe { room(buffer, length) };
    count(receive(fd, &mut [buffer], flags).map(|(count, _)| count))
}

/// Room for bytes; an address without room behind it may be anything.
///
/// # Safety
///
/// There is room for `length` bytes, which nobody else uses.
unsafe fn room<'a>(buffer: *mut c_void, length: usize) -> &'a mut [u8] {
    if length == 0 {
        return &mut [];
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { slice::from_raw_parts_mut(buffer.cast(), length) }
}

/// `rrecvfrom`: tells who sent what was read.
///
/// # Safety
///
/// `buffer` has room for `length` bytes; `address` has `*address_length` bytes, or is null.
pub(in crate::abi) unsafe extern "C" fn recvfrom(
    fd: c_int,
    buffer: *mut c_void,
    length: usize,
    flags: c_int,
    address: *mut sockaddr,
    address_length: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the caller has room for that many bytes.
    let buffer = unsafe { room(buffer, length) };
    let received = receive(fd, &mut [buffer], flags);
    count(received.map(|(count, from)| {
        // SAFETY: the caller's promise is passed on.
        unsafe { tell_address(from, address, address_length) };
        count
    }))
}

/// `rrecvmsg`.
///
/// # Safety
///
/// `message` and what it names is valid.
pub(in crate::abi) unsafe extern "C" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes a message.
    let message = unsafe { &mut *message };
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        return number(Err::<i64, _>(Errno(libc::ENOTSUP)));
    }
    // SAFETY: the caller's promise is passed on.
    let rooms = unsafe { rooms(message.msg_iov, message.msg_iovlen) };
    let received = rooms.and_then(|mut rooms| receive(fd, &mut rooms, flags));
    count(received.map(|(count, from)| {
        // SAFETY: the caller has room for a name of the length that it says.
        unsafe { tell_address(from, message.msg_name.cast(), &mut message.msg_namelen) };
        count
    }))
}

/// `rread`.
///
/// # Safety
///
/// As for [`recv`].
pub(in crate::abi) unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, length: usize) -> ssize_t {
    // SAFETY: the caller's promise is passed on.
    unsafe { recv(fd, buffer, length, 0) }
}

/// `rreadv`.
///
/// # Safety
///
/// `vector` has `elements` elements, each with room for as many bytes as it says.
pub(in crate::abi) unsafe extern "C" fn readv(fd: c_int, vector: *const iovec, elements: c_int) -> ssize_t {
    let elements = usize::try_from(elements).map_err(|_| Errno::INVALID);
    // SAFETY: the caller's promise is passed on.
    let rooms = elements.and_then(|elements| unsafe { rooms(vector, elements) });
    count(rooms.and_then(|mut rooms| receive(fd, &mut rooms, 0)).map(|(count, _)| count))
}

/// The elements of a vector.
///
/// # Safety
///
/// As for [`readv`].
unsafe fn rooms<'a>(vector: *const iovec, elements: usize) -> Result<Vec<&'a mut [u8]>, Errno> {
    // SAFETY: the caller's promise is passed on.
    let vector = unsafe { vector_slice(vector, elements)? };
    // SAFETY: as above.
    Ok(vector.iter().map(|element| unsafe { room(element.iov_base, element.iov_len) }).collect())
}

/// # Safety
///
/// `vector` has `elements` elements, if there are not too many.
unsafe fn vector_slice<'a>(vector: *const iovec, elements: usize) -> Result<&'a [iovec], Errno> {
    match elements {
        0 => Ok(&[]),
        // SAFETY: the caller's promise is passed on.
        1..=MOST_ELEMENTS => Ok(unsafe { slice::from_raw_parts(vector, elements) }),
        _ => Err(Errno::INVALID),
    }
}

// ---- writing

/// Sends several pieces; a datagram goes to `to` if it is given.
fn send(fd: c_int, data: &[&[u8]], flags: c_int, to: Option<SocketAddr>) -> Result<usize, Errno> {
    match table::find(fd)? {
        Entry::Stream(_) if to.is_some() => Err(Errno(libc::EISCONN)),
        Entry::Stream(socket) => send_stream(&socket, data, flags),
        Entry::Datagram(socket) => socket.send(data, to, flags.has(libc::MSG_DONTWAIT)),
    }
}

/// Sends all of several pieces, or what there is room for if it shall not wait.
fn send_stream(socket: &Socket, data: &[&[u8]], flags: c_int) -> Result<usize, Errno> {
    let mut sent = 0;
    let mut pieces = data.iter().copied().filter(|piece| !piece.is_empty());
    let mut rest: &[u8] = pieces.next().unwrap_or_default();
    let done = socket.until(flags.has(libc::MSG_DONTWAIT), |inner| {
        if let Err(error) = can_write(inner) {
            return Some(Err(error));
        }
        while !rest.is_empty() {
            if let Err(error) = tell_mappings(inner) {
                return Some(Err(error));
            }
            let link = inner.sending_link()?;
            match link.send(rest) {
                Ok(0) => return None,
                Ok(count) => {
                    sent += count;
                    rest = &rest[count..];
                }
                Err(error) => return Some(Err(error)),
            }
            if rest.is_empty() {
                rest = pieces.next().unwrap_or_default();
            }
        }
        Some(Ok(()))
    });
    match done {
        Err(error) if sent == 0 => Err(error),
        _ => Ok(sent),
    }
}

/// Why nothing can be sent, now or ever.
pub(super) fn can_write(inner: &mut Inner) -> Result<(), Errno> {
    let writes = inner.writes;
    let error = match inner.link() {
        Some(link) => link.error.or((!link.peer_reads() || !writes).then_some(Errno(libc::ECONNRESET))),
        None => Some(not_connected(inner)),
    };
    error.map_or(Ok(()), Err)
}

/// Tells the peer of new mappings, which are to be there before the data that follows.
pub(super) fn tell_mappings(inner: &mut Inner) -> Result<bool, Errno> {
    let mut mappings = std::mem::take(&mut inner.mappings);
    let told = inner.sending_link().map_or(Ok(false), |link| mappings.tell(link));
    inner.mappings = mappings;
    told
}

/// `rsend`.
///
/// # Safety
///
/// `buffer` has `length` bytes.
pub(in crate::abi) unsafe extern "C" fn send_to_peer(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller passes that many bytes.
    let data = unsafe { bytes(buffer.cast(), length) };
    count(send(fd, &[data], flags, None))
}

/// `rsendto`: a stream has one destination, which is not said again.
///
/// # Safety
///
/// `buffer` has `length` bytes; `address` has `address_length` bytes, or is null.
pub(in crate::abi) unsafe extern "C" fn sendto(
    fd: c_int,
    buffer: *const c_void,
    length: usize,
    flags: c_int,
    address: *const sockaddr,
    address_length: socklen_t,
) -> ssize_t {
    // SAFETY: the caller passes that many bytes, and an address or null.
    let (data, to) = unsafe { (bytes(buffer.cast::<u8>(), length), destination(address, address_length)) };
    count(to.and_then(|to| send(fd, &[data], flags, to)))
}

/// Where a datagram goes, if that is said.
///
/// # Safety
///
/// `address` has `length` bytes, or is null.
unsafe fn destination(address: *const sockaddr, length: socklen_t) -> Result<Option<SocketAddr>, Errno> {
    if address.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise is passed on.
    unsafe { checked_address(address, length) }.map(Some)
}

/// `rsendmsg`.
///
/// # Safety
///
/// `message` and what it names is valid.
pub(in crate::abi) unsafe extern "C" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller passes a message.
    let message = unsafe { &*message };
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        return number(Err::<i64, _>(Errno(libc::ENOTSUP)));
    }
    // SAFETY: the caller's promise is passed on.
    let (pieces, to) = unsafe {
        let name = message.msg_name.cast_const().cast();
        (pieces(message.msg_iov, message.msg_iovlen), destination(name, message.msg_namelen))
    };
    count(pieces.and_then(|pieces| send(fd, &pieces, flags, to?)))
}

/// `rwrite`.
///
/// # Safety
///
/// As for [`send_to_peer`].
pub(in crate::abi) unsafe extern "C" fn write(fd: c_int, buffer: *const c_void, length: usize) -> ssize_t {
    // SAFETY: the caller's promise is passed on.
    unsafe { send_to_peer(fd, buffer, length, 0) }
}

/// `rwritev`.
///
/// # Safety
///
/// `vector` has `elements` elements, each of as many bytes as it says.
pub(in crate::abi) unsafe extern "C" fn writev(fd: c_int, vector: *const iovec, elements: c_int) -> ssize_t {
    let elements = usize::try_from(elements).map_err(|_| Errno::INVALID);
    // SAFETY: the caller's promise is passed on.
    let pieces = elements.and_then(|elements| unsafe { pieces(vector, elements) });
    count(pieces.and_then(|pieces| send(fd, &pieces, 0, None)))
}

/// The elements of a vector.
///
/// # Safety
///
/// As for [`writev`].
unsafe fn pieces<'a>(vector: *const iovec, elements: usize) -> Result<Vec<&'a [u8]>, Errno> {
    // SAFETY: the caller's promise is passed on.
    let vector = unsafe { vector_slice(vector, elements)? };
    // SAFETY: as above.
    Ok(vector.iter().map(|element| unsafe { bytes(element.iov_base.cast(), element.iov_len) }).collect())
}
