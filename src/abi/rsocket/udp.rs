//! UDP sockets that are bound when the program says so, which the standard library has not.

use std::{
    ffi::c_int,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsRawFd, FromRawFd, OwnedFd},
};

use crate::abi::{
    errno::Errno,
    rdmacm::{address_length, storage},
};

/// A socket that is bound to nothing, and does not wait.
pub(super) fn unbound(family: c_int) -> Result<UdpSocket, Errno> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: has no preconditions.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: the descriptor was just made, for this.
    Ok(UdpSocket::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Gives a socket an address and a port.
pub(super) fn bind(udp: &UdpSocket, address: SocketAddr) -> Result<(), Errno> {
    let (storage, length) = (storage(address), address_length(address));
    // SAFETY: the address is as long as it says.
    let bound = unsafe { libc::bind(udp.as_raw_fd(), (&raw const storage).cast(), length) };
    if bound < 0 { Err(Errno::last()) } else { Ok(()) }
}
