//! Options of sockets, and their flags.

use std::{
    ffi::{c_int, c_long, c_void},
    mem::MaybeUninit,
};

use libc::socklen_t;

use super::{
    settings::Settings,
    state::{Inner, Phase},
    table::{self, Entry},
};
use crate::abi::{
    errno::{Errno, zero_or_minus_one},
    types::cm::*,
};

/// `rsetsockopt`.
///
/// # Safety
///
/// `value` has `length` bytes.
pub(in crate::abi) unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> c_int {
    let set = || -> Result<(), Errno> {
        let socket = match table::find(fd)? {
            Entry::Stream(socket) => socket,
            // SAFETY: the caller's promise is passed on.
            Entry::Datagram(_) => return unsafe { set_of_udp(fd, level, name, value, length) },
        };
        let mut inner = socket.lock();
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            // SAFETY: the caller passes that many bytes.
            let linger: libc::linger = unsafe { read(value, length)? };
            inner.options.linger = (linger.l_onoff != 0).then_some(linger.l_linger);
            return Ok(());
        }
        // SAFETY: the caller passes that many bytes.
        set_number(&mut inner, level, name, unsafe { read(value, length)? })
    };
    zero_or_minus_one(set())
}

/// Sets an option of a datagram socket, which are those of its UDP socket; those of RDMA have nothing to set there.
///
/// # Safety
///
/// `value` has `length` bytes.
unsafe fn set_of_udp(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    length: socklen_t,
) -> Result<(), Errno> {
    if level == SOL_RDMA {
        return Ok(());
    }
    // SAFETY: the caller's promise is passed on.
    if unsafe { libc::setsockopt(fd, level, name, value, length) } < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// An option of a datagram socket.
///
/// # Safety
///
/// `value` has room for `*length` bytes.
unsafe fn option_of_udp(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: the caller's promise is passed on.
    if unsafe { libc::getsockopt(fd, level, name, value, length) } < 0 { Err(Errno::last()) } else { Ok(()) }
}

/// # Safety
///
/// `value` has `length` bytes, of which any are a valid `T` if it is as long.
unsafe fn read<T>(value: *const c_void, length: socklen_t) -> Result<T, Errno> {
    if value.is_null() || (length as usize) < size_of::<T>() {
        return Err(Errno::INVALID);
    }
    // SAFETY: the caller passes that many bytes.
    Ok(unsafe { value.cast::<T>().read_unaligned() })
}

fn set_number(inner: &mut Inner, level: c_int, name: c_int, value: c_int) -> Result<(), Errno> {
    let is_on = value != 0;
    let options = &mut inner.options;
    match (level, name) {
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address = is_on,
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive = is_on,
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline = is_on,
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => unconnected(inner)?.receive_memory = positive(value)?,
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => unconnected(inner)?.send_memory = positive(value)?,
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay = is_on,
        // Nothing is probed: the adapter notices by itself when the peer is gone.
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE | libc::TCP_KEEPINTVL | libc::TCP_KEEPCNT) => {}
        // Messages are as long as they are.
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => {}
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.one_family = is_on,
        (SOL_RDMA, RDMA_SQSIZE) => unconnected(inner)?.send_queue = entries(value)?,
        (SOL_RDMA, RDMA_RQSIZE) => unconnected(inner)?.receive_queue = entries(value)?,
        (SOL_RDMA, RDMA_INLINE) => unconnected(inner)?.inline = positive(value)?.min(MOST_INLINE),
        (SOL_RDMA, RDMA_IOMAPSIZE) => unconnected(inner)?.mappings = positive(value)?.min(MOST_MAPPINGS),
        _ => return Err(Errno(libc::ENOTSUP)),
    }
    Ok(())
}

/// The most mappings of a peer: more would not fit in what it is told.
const MOST_MAPPINGS: u32 = 127 << 8;

/// The most bytes that are copied into a request.
const MOST_INLINE: u32 = 256;

/// The settings of a socket whose connection is still to be made.
fn unconnected(inner: &mut Inner) -> Result<&mut Settings, Errno> {
    match inner.phase {
        Phase::Connecting { .. } | Phase::Connected { .. } => Err(Errno::INVALID),
        _ => Ok(&mut inner.settings),
    }
}

fn positive(value: c_int) -> Result<u32, Errno> {
    u32::try_from(value).map_err(|_| Errno::INVALID)
}

fn entries(value: c_int) -> Result<u16, Errno> {
    /// The most that counts modulo 2^16 can tell apart.
    const MOST: u32 = 0x7fff;
    positive(value).map(|value| value.min(MOST) as u16)
}

/// `rgetsockopt`.
///
/// # Safety
///
/// `value` has room for `*length` bytes.
pub(in crate::abi) unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    length: *mut socklen_t,
) -> c_int {
    let get = || -> Result<(), Errno> {
        let socket = match table::find(fd)? {
            Entry::Stream(socket) => socket,
            // SAFETY: the caller's promise is passed on.
            Entry::Datagram(_) => return unsafe { option_of_udp(fd, level, name, value, length) },
        };
        let mut inner = socket.look();
        if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
            let linger = inner.options.linger;
            let linger = libc::linger { l_onoff: linger.is_some().into(), l_linger: linger.unwrap_or(0) };
            // SAFETY: the caller has room for that many bytes.
            return unsafe { write(linger, value, length) };
        }
        let number = number(&mut inner, level, name)?;
        // SAFETY: the caller has room for that many bytes.
        unsafe { write(number, value, length) }
    };
    zero_or_minus_one(get())
}

/// # Safety
///
/// `value` has room for `*length` bytes.
unsafe fn write<T>(what: T, value: *mut c_void, length: *mut socklen_t) -> Result<(), Errno> {
    // SAFETY: the caller passes a length, or null.
    let length = unsafe { length.as_mut() }.ok_or(Errno::INVALID)?;
    if value.is_null() || (*length as usize) < size_of::<T>() {
        return Err(Errno::INVALID);
    }
    *length = size_of::<T>() as socklen_t;
    // SAFETY: the caller has room for that many bytes.
    unsafe { value.cast::<MaybeUninit<T>>().write_unaligned(MaybeUninit::new(what)) };
    Ok(())
}

fn number(inner: &mut Inner, level: c_int, name: c_int) -> Result<c_int, Errno> {
    let (options, settings) = (inner.options, inner.settings);
    Ok(match (level, name) {
        (libc::SOL_SOCKET, libc::SO_ERROR) => inner.error.take().map_or(0, |error| error.0),
        (libc::SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (libc::SOL_SOCKET, libc::SO_REUSEADDR) => options.reuse_address.into(),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => options.keep_alive.into(),
        (libc::SOL_SOCKET, libc::SO_OOBINLINE) => options.out_of_band_inline.into(),
        (libc::SOL_SOCKET, libc::SO_RCVBUF) => settings.receive_memory.cast_signed(),
        (libc::SOL_SOCKET, libc::SO_SNDBUF) => settings.send_memory.cast_signed(),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => options.no_delay.into(),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG) => MAX_SEGMENT,
        (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => options.one_family.into(),
        (SOL_RDMA, RDMA_SQSIZE) => settings.send_queue.into(),
        (SOL_RDMA, RDMA_RQSIZE) => settings.receive_queue.into(),
        (SOL_RDMA, RDMA_INLINE) => settings.inline.cast_signed(),
        (SOL_RDMA, RDMA_IOMAPSIZE) => settings.mappings.cast_signed(),
        _ => return Err(Errno(libc::ENOTSUP)),
    })
}

/// What is told of the longest segment: a path MTU that every port has.
const MAX_SEGMENT: c_int = 1024;

/// `rfcntl`: whether calls wait, and what concerns the descriptor alone.
pub(in crate::abi) extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    let control = || -> Result<c_int, Errno> {
        let socket = table::find(fd)?;
        match command {
            libc::F_GETFL => Ok(libc::O_RDWR | if socket.is_nonblocking() { libc::O_NONBLOCK } else { 0 }),
            libc::F_SETFL => {
                socket.set_nonblocking(argument & c_long::from(libc::O_NONBLOCK) != 0);
                Ok(0)
            }
            libc::F_GETFD | libc::F_SETFD => {
                // SAFETY: the descriptor is the socket's, and the argument a number.
                let result = unsafe { libc::fcntl(fd, command, argument) };
                if result < 0 { Err(Errno::last()) } else { Ok(result) }
            }
            _ => Err(Errno(libc::ENOTSUP)),
        }
    };
    control().unwrap_or_else(|error| {
        error.set();
        -1
    })
}
