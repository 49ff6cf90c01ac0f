//! Making UDP sockets and adopting those of others.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, sockopt};

use super::transmit::WithoutOffload;
use super::{BufferSizes, Counters, Family, UdpSocket, options};

/// How to make a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpOptions {
    /// Kernel buffers to ask for; the system may grant less, see [`UdpSocket::buffer_sizes`].
    pub buffers: BufferSizes,
    /// Whether to use segmentation offload where the kernel has it.
    pub segmentation: bool,
}

impl Default for UdpOptions {
    /// Offload on. A receive buffer for what a peer at 40 Gb/s sends in 10 ms, which is how long a busy machine may keep a
    /// receiver waiting, and which nothing limits on unreliable transports; users without privileges get what
    /// `net.core.rmem_max` allows. The send buffer holds some 60 whole runs of packets.
    fn default() -> Self {
        Self { buffers: BufferSizes { receive: 64 << 20, send: 4 << 20 }, segmentation: true }
    }
}

/// Why a port could not be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program, or the kernel itself (its rxe driver, for one), owns the port.
    #[error("UDP port {port} is in use by another program or by the kernel")]
    PortInUse {
        /// The port asked for.
        port: u16,
    },
    /// The port is reserved for privileged users.
    #[error("no permission to bind UDP port {port}")]
    PermissionDenied {
        /// The port asked for.
        port: u16,
    },
    /// Anything else.
    #[error("cannot {operation} a UDP socket: {source}")]
    System {
        /// What was being done.
        operation: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl UdpOptions {
    /// Binds `port` on all addresses, for this socket alone; port 0 lets the kernel choose one.
    pub fn bind(&self, port: u16) -> Result<UdpSocket, BindError> {
        self.bind_with(port, |_| Ok(()))
    }

    /// The same, with `prepare` called on the socket before it is bound.
    pub(crate) fn bind_with(
        &self,
        port: u16,
        prepare: impl Fn(&OwnedFd) -> io::Result<()>,
    ) -> Result<UdpSocket, BindError> {
        self.adopt(open_bound(port, prepare)?).map_err(failed("configure"))
    }

    /// Adopts a bound UDP socket that another process made, and sets on it all that this module relies upon.
    pub fn adopt(&self, fd: OwnedFd) -> io::Result<UdpSocket> {
        let family = family(&fd)?;
        let port = local_port(&fd)?;
        rustix::io::ioctl_fionbio(&fd, true)?;
        options::resize_buffers(&fd, self.buffers)?;
        let receive_offload = options::configure(&fd, family)?;
        let segmentation = self.segmentation && options::offers_segmentation(&fd);
        Ok(UdpSocket {
            fd,
            family,
            port,
            receive_offload,
            without_offload: WithoutOffload::new(!segmentation),
            counters: Counters::default(),
        })
    }
}

/// The family of a datagram socket; anything else is refused.
fn family(fd: impl AsFd) -> io::Result<Family> {
    let refused = |reason| Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    if sockopt::socket_type(&fd)? != SocketType::DGRAM {
        return refused("not a datagram socket");
    }
    match sockopt::socket_domain(&fd)? {
        AddressFamily::INET6 => Ok(Family::Dual),
        AddressFamily::INET => Ok(Family::V4),
        _ => refused("not an IP socket"),
    }
}

/// An IPv6 socket for both families, or an IPv4 socket where there is no IPv6.
fn open_bound(port: u16, prepare: impl Fn(&OwnedFd) -> io::Result<()>) -> Result<OwnedFd, BindError> {
    match open_dual(port, &prepare) {
        Err(BindError::System { source, .. }) if means_no_ipv6(&source) => {
            let fd = open(AddressFamily::INET)?;
            prepare(&fd).map_err(failed("prepare"))?;
            bind(&fd, (Ipv4Addr::UNSPECIFIED, port).into())?;
            Ok(fd)
        }
        result => result,
    }
}

fn open_dual(port: u16, prepare: impl Fn(&OwnedFd) -> io::Result<()>) -> Result<OwnedFd, BindError> {
    let fd = open(AddressFamily::INET6)?;
    sockopt::set_ipv6_v6only(&fd, false).map_err(io::Error::from).map_err(failed("enable IPv4 on"))?;
    prepare(&fd).map_err(failed("prepare"))?;
    bind(&fd, (Ipv6Addr::UNSPECIFIED, port).into())?;
    Ok(fd)
}

fn means_no_ipv6(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL | libc::EPROTONOSUPPORT))
}

fn open(family: AddressFamily) -> Result<OwnedFd, BindError> {
    net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
        .map_err(io::Error::from)
        .map_err(failed("open"))
}

fn bind(fd: impl AsFd, address: SocketAddr) -> Result<(), BindError> {
    let port = address.port();
    net::bind(fd, &address).map_err(|errno| match errno {
        Errno::ADDRINUSE => BindError::PortInUse { port },
        Errno::ACCESS | Errno::PERM => BindError::PermissionDenied { port },
        other => BindError::System { operation: "bind", source: other.into() },
    })
}

fn local_port(fd: impl AsFd) -> io::Result<u16> {
    let address = SocketAddr::try_from(net::getsockname(fd)?).map_err(io::Error::from)?;
    match address.port() {
        0 => Err(io::Error::new(io::ErrorKind::InvalidInput, "socket is not bound")),
        port => Ok(port),
    }
}

pub(crate) fn failed(operation: &'static str) -> impl Fn(io::Error) -> BindError {
    move |source| BindError::System { operation, source }
}
