//! Socket options of Linux that rustix does not name.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::sockopt;

use super::{BufferSizes, Family};

/// `IPV6_MULTICAST_ALL` of linux/in6.h, which the libc crate lacks.
const IPV6_MULTICAST_ALL: i32 = 29;

/// Sets all that this module relies upon, for both families of a dual socket. Returns whether received packets are put
/// together (`UDP_GRO`), which old kernels and some container sandboxes cannot.
pub(super) fn configure(fd: impl AsFd, family: Family) -> io::Result<bool> {
    configure_v4(&fd)?;
    match family {
        // Tells the destination of IPv4 packets too, as a mapped address.
        Family::Dual => configure_v6(&fd)?,
        Family::V4 => set(&fd, libc::IPPROTO_IP, libc::IP_PKTINFO, 1)?,
    }
    // A sandbox without the drop counter merely reports no drops.
    let _ = set(&fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1);
    Ok(set(&fd, libc::SOL_UDP, libc::UDP_GRO, 1).is_ok())
}

/// What has to be known of IPv4 packets, also of those that a dual socket carries.
fn configure_v4(fd: impl AsFd) -> io::Result<()> {
    // What a send says nothing of.
    set(&fd, libc::IPPROTO_IP, libc::IP_TOS, 0)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_RECVTOS, 1)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_RECVTTL, 1)?;
    // PROBE, not DO: "don't fragment" is set either way, but a forged ICMP message cannot shrink what we may send.
    set(&fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_PROBE)?;
    set(&fd, libc::IPPROTO_IP, libc::IP_MULTICAST_ALL, 0)
}

fn configure_v6(fd: impl AsFd) -> io::Result<()> {
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, 0)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, 1)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVTCLASS, 1)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, 1)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO, 1)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, 1)?;
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_PROBE)?;
    // RoCE v2 carries a checksum of its own and adapters leave UDP's out; IPv6 drops such datagrams unless told not to.
    set(&fd, libc::SOL_UDP, libc::UDP_NO_CHECK6_RX, 1)?;
    // The source of an IPv6 packet may fragment it unless told not to.
    set(&fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, 1)?;
    match set(&fd, libc::IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0) {
        // Kernels before 4.20 deliver what others have joined; the receiver sees it by the destination address.
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => Ok(()),
        result => result,
    }
}

/// Whether the kernel segments what this socket sends.
pub(super) fn offers_segmentation(fd: impl AsFd) -> bool {
    set(fd, libc::SOL_UDP, libc::UDP_SEGMENT, 0).is_ok()
}

/// Asks for `wanted`, beyond the system's limit if privileged, else up to it.
pub(super) fn resize_buffers(fd: impl AsFd, wanted: BufferSizes) -> io::Result<()> {
    if sockopt::set_socket_recv_buffer_size_force(&fd, wanted.receive).is_err() {
        sockopt::set_socket_recv_buffer_size(&fd, wanted.receive)?;
    }
    if sockopt::set_socket_send_buffer_size_force(&fd, wanted.send).is_err() {
        sockopt::set_socket_send_buffer_size(&fd, wanted.send)?;
    }
    Ok(())
}

fn set(fd: impl AsFd, level: i32, name: i32, value: i32) -> io::Result<()> {
    set_value(fd, level, name, &value)
}

/// `setsockopt` with any plain C value.
pub(crate) fn set_value<T>(fd: impl AsFd, level: i32, name: i32, value: &T) -> io::Result<()> {
    let fd = fd.as_fd().as_raw_fd();
    // SAFETY: the kernel reads `size_of::<T>()` bytes at `value`, which is borrowed for the call.
    let result = unsafe {
        libc::setsockopt(fd, level, name, std::ptr::from_ref(value).cast(), size_of::<T>() as libc::socklen_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
