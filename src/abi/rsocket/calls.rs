//! The calls of `rsocket.h` that make, connect and end streams.

use std::{ffi::c_int, net::SocketAddr};

use libc::{sockaddr, socklen_t};

use super::{
    datagram::DatagramSocket,
    outcome::number,
    socket::Socket,
    table::{self, Entry},
};
use crate::abi::{
    convert::Flags,
    errno::{Errno, zero_or_minus_one},
    rdmacm::{address_length, read_address, storage},
};

/// `rsocket`: streams and datagrams of IPv4 and IPv6.
pub(in crate::abi) extern "C" fn socket(family: c_int, kind: c_int, protocol: c_int) -> c_int {
    let make = || -> Result<c_int, Errno> {
        if !matches!(family, libc::AF_INET | libc::AF_INET6) {
            return Err(Errno(libc::ENOTSUP));
        }
        let flags = kind & (libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        let socket = match (kind & !flags, protocol) {
            (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Entry::Stream(Socket::new(family)?),
            (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Entry::Datagram(DatagramSocket::new(family)?),
            _ => return Err(Errno(libc::ENOTSUP)),
        };
        socket.set_nonblocking(flags.has(libc::SOCK_NONBLOCK));
        Ok(table::insert(socket))
    };
    number(make()) as c_int
}

/// `rbind`.
///
/// # Safety
///
/// `address` has `length` bytes.
pub(in crate::abi) unsafe extern "C" fn bind(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let address = unsafe { checked_address(address, length) };
    zero_or_minus_one(table::find(fd).and_then(|socket| socket.bind(address?)))
}

/// An address of a program's.
///
/// # Safety
///
/// `address` has `length` bytes, or is null.
pub(super) unsafe fn checked_address(
    address: *const sockaddr,
    length: socklen_t,
) -> Result<SocketAddr, Errno> {
    if address.is_null() || (length as usize) < size_of::<libc::sa_family_t>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller passes an address that has a family.
    let family = i32::from(unsafe { (&raw const (*address).sa_family).read_unaligned() });
    let needed = if family == libc::AF_INET6 {
        size_of::<libc::sockaddr_in6>()
    } else {
        size_of::<libc::sockaddr_in>()
    };
    if (length as usize) < needed {
        return Err(Errno::INVALID);
    }
    // SAFETY: it is long enough for its family.
    unsafe { read_address(address) }
}

/// `rlisten`.
pub(in crate::abi) extern "C" fn listen(fd: c_int, backlog: c_int) -> c_int {
    let backlog = u32::try_from(backlog).unwrap_or(0);
    zero_or_minus_one(table::stream(fd).and_then(|socket| socket.listen(backlog)))
}

/// `raccept`.
///
/// # Safety
///
/// `address` has `*length` bytes, or is null.
pub(in crate::abi) unsafe extern "C" fn accept(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let accepted = table::stream(fd).and_then(|socket| socket.accept()).map(|socket| {
        let peer = socket.lock().peer;
        // SAFETY: the caller's promise is passed on.
        unsafe { tell_address(peer, address, length) };
        table::insert(Entry::Stream(socket))
    });
    number(accepted) as c_int
}

/// Tells as much of an address as fits.
///
/// # Safety
///
/// `to` has `*length` bytes, or is null.
pub(super) unsafe fn tell_address(address: Option<SocketAddr>, to: *mut sockaddr, length: *mut socklen_t) {
    let Some(address) = address else { return };
    if to.is_null() || length.is_null() {
        return;
    }
    let (storage, whole) = (storage(address), address_length(address));
    // SAFETY: the caller has room for so many bytes, of which no more are copied than the address has.
    unsafe {
        let fits = (*length).min(whole) as usize;
        to.cast::<u8>().copy_from_nonoverlapping((&raw const storage).cast(), fits);
        *length = whole;
    }
}

/// `rconnect`.
///
/// # Safety
///
/// `address` has `length` bytes.
pub(in crate::abi) unsafe extern "C" fn connect(
    fd: c_int,
    address: *const sockaddr,
    length: socklen_t,
) -> c_int {
    // SAFETY: the caller's promise is passed on.
    let address = unsafe { checked_address(address, length) };
    zero_or_minus_one(table::find(fd).and_then(|socket| socket.connect(address?)))
}

/// `rshutdown`.
pub(in crate::abi) extern "C" fn shutdown(fd: c_int, how: c_int) -> c_int {
    let (reading, writing) = match how {
        libc::SHUT_RD => (true, false),
        libc::SHUT_WR => (false, true),
        libc::SHUT_RDWR => (true, true),
        _ => return zero_or_minus_one(Err(Errno::INVALID)),
    };
    zero_or_minus_one(table::stream(fd).and_then(|socket| socket.shutdown(reading, writing)))
}

/// `rclose`: waits until the peer has what was sent.
pub(in crate::abi) extern "C" fn close(fd: c_int) -> c_int {
    let close = || -> Result<(), Errno> {
        let Entry::Stream(socket) = table::remove(fd)? else { return Ok(()) };
        match socket.shutdown(true, true) {
            // What is not connected needs no end.
            Ok(()) | Err(Errno(libc::ENOTCONN)) => Ok(()),
            Err(error) => Err(error),
        }
    };
    zero_or_minus_one(close())
}

/// `rgetpeername`.
///
/// # Safety
///
/// `address` has `*length` bytes.
pub(in crate::abi) unsafe extern "C" fn getpeername(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let peer = table::find(fd).and_then(|socket| socket.peer().ok_or(Errno(libc::ENOTCONN)));
    // SAFETY: the caller's promise is passed on.
    zero_or_minus_one(peer.map(|peer| unsafe { tell_address(Some(peer), address, length) }))
}

/// `rgetsockname`.
///
/// # Safety
///
/// `address` has `*length` bytes.
pub(in crate::abi) unsafe extern "C" fn getsockname(
    fd: c_int,
    address: *mut sockaddr,
    length: *mut socklen_t,
) -> c_int {
    let local = table::find(fd).and_then(|socket| socket.local());
    // SAFETY: the caller's promise is passed on.
    zero_or_minus_one(local.map(|local| unsafe { tell_address(Some(local), address, length) }))
}
