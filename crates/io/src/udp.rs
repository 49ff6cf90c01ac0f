//! UDP datagrams, many at a system call, with what the IP header said about them.
//!
//! [`UdpSocket::send`] takes a [`Transmit`]: up to [`MAX_SEGMENTS`] packets to one destination, of equal sizes but the
//! last, as a list of memory pieces that the kernel gathers. It leaves as one datagram which the kernel or the adapter
//! cuts up (generic segmentation offload). [`UdpSocket::receive`] fills a [`ReceiveBatch`], each entry of which may in
//! turn be a run of packets that the kernel put together (generic receive offload).
//!
//! ```
//! use io::udp::{Piece, ReceiveBatch, Transmit, UdpSocket};
//!
//! let (sender, receiver) = (UdpSocket::bind(0)?, UdpSocket::bind(0)?);
//! let (header, payload) = ([1; 12], [2; 88]);
//! let packet = [Piece::new(&header), Piece::new(&payload)];
//! let run = [packet, packet, packet].concat();
//! sender.send(&Transmit {
//!     destination: ([127, 0, 0, 1], receiver.port()).into(),
//!     source: None,
//!     traffic_class: 0,
//!     hop_limit: None,
//!     segment_size: std::num::NonZeroU16::new(100),
//!     pieces: &run,
//! })?;
//! let mut batch = ReceiveBatch::new(8);
//! let mut packets = 0;
//! while receiver.receive(&mut batch)? > 0 {
//!     packets += batch.datagrams().flat_map(|datagram| datagram.segments()).count();
//! }
//! assert_eq!(packets, 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The IPv4 identification
//!
//! Checksums of upper protocols may cover fields of the IPv4 header (the ICRC of RoCE v2 does, IBTA annex A17), so what
//! the kernel writes there must be known beforehand. For a socket of this module it is:
//!
//! - flags and fragment offset: "don't fragment" alone (0x4000);
//! - identification: **the index of the packet in its [`Transmit`]**, so 0 for one that is sent alone.
//!
//! Linux gives an unfragmentable datagram of an *unconnected* socket identification 0, and counts up from there as it
//! segments. It would be arbitrary if the socket were connected or the path MTU discovery other than `DO` or `PROBE`,
//! which is why neither happens here. A receiver is not told the identification at all.
//!
//! # Why not quinn-udp
//!
//! It solves the same problem for QUIC, whose packets lie in one buffer. Here the payload lies in the registered memory
//! of the program and headers elsewhere, so a transmit is a list of pieces; and the whole traffic class, the hop limit,
//! the flow label and the drop counter of the socket are wanted besides.

mod address;
mod bind;
mod control;
mod options;
mod receive;
mod transmit;

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::net::sockopt;

pub use bind::{BindError, UdpOptions};
pub use receive::{Datagram, ReceiveBatch, Segments};
pub use transmit::{MAX_SEGMENTS, MAX_TRANSMIT_BYTES, Piece, SendError, Source, Transmit};

pub(crate) use bind::failed;
pub(crate) use options::set_value;
use transmit::WithoutOffload;

/// Which address families a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// An IPv6 socket which carries IPv4 too.
    Dual,
    /// An IPv4 socket, made only where the machine has no IPv6.
    V4,
}

/// Kernel buffer sizes in bytes as the kernel accounts them, its own overhead included (about half of it).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferSizes {
    /// What may wait to be received.
    pub receive: usize,
    /// What may wait to be sent.
    pub send: usize,
}

impl BufferSizes {
    /// Asks for the least the kernel gives: room for a few small datagrams.
    pub const SMALLEST: Self = Self { receive: 0, send: 0 };
}

/// What went wrong on a socket since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UdpCounters {
    /// Datagrams the kernel dropped because nobody received them in time.
    pub receive_drops: u64,
    /// Datagrams larger than a receive buffer, or without the metadata asked for; discarded.
    pub receive_discards: u64,
    /// Errors that ICMP reported for earlier sends; the operation at hand was repeated.
    pub icmp_errors: u64,
    /// Sends the kernel refused for want of segmentation offload.
    pub offload_refusals: u64,
}

#[derive(Debug, Default)]
struct Counters {
    receive_drops: AtomicU64,
    receive_discards: AtomicU64,
    icmp_errors: AtomicU64,
    offload_refusals: AtomicU64,
}

/// A non-blocking, unconnected UDP socket bound to one port on every address of the machine.
///
/// Any number of threads may send and receive on it at once.
#[derive(Debug)]
pub struct UdpSocket {
    fd: OwnedFd,
    family: Family,
    port: u16,
    receive_offload: bool,
    without_offload: WithoutOffload,
    counters: Counters,
}

impl UdpSocket {
    /// Binds `port` on all addresses with the default options; port 0 lets the kernel choose one.
    pub fn bind(port: u16) -> Result<Self, BindError> {
        UdpOptions::default().bind(port)
    }

    /// Adopts a bound UDP socket that another process made, with the default options.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Self> {
        UdpOptions::default().adopt(fd)
    }

    /// The port bound.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The families this socket carries.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The buffer sizes in force.
    pub fn buffer_sizes(&self) -> io::Result<BufferSizes> {
        Ok(BufferSizes {
            receive: sockopt::socket_recv_buffer_size(&self.fd)?,
            send: sockopt::socket_send_buffer_size(&self.fd)?,
        })
    }

    /// Whether the kernel puts received packets together, which makes [`Datagram::segments`] yield more than one.
    pub fn receive_offload(&self) -> bool {
        self.receive_offload
    }

    /// Receives datagrams of `group` that arrive on the interface of index `interface`.
    ///
    /// Without this the socket receives no multicast at all, whatever other sockets of the machine have joined.
    pub fn join(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                sockopt::set_ip_add_membership_with_ifindex(&self.fd, &group, &any_v4(), interface)?
            }
            IpAddr::V6(group) => sockopt::set_ipv6_add_membership(&self.fd, &group, interface)?,
        }
        Ok(())
    }

    /// Undoes [`UdpSocket::join`].
    pub fn leave(&self, group: IpAddr, interface: u32) -> io::Result<()> {
        match group {
            IpAddr::V4(group) => {
                sockopt::set_ip_drop_membership_with_ifindex(&self.fd, &group, &any_v4(), interface)?
            }
            IpAddr::V6(group) => sockopt::set_ipv6_drop_membership(&self.fd, &group, interface)?,
        }
        Ok(())
    }

    /// What went wrong so far.
    pub fn counters(&self) -> UdpCounters {
        let counters = &self.counters;
        UdpCounters {
            receive_drops: counters.receive_drops.load(Ordering::Relaxed),
            receive_discards: counters.receive_discards.load(Ordering::Relaxed),
            icmp_errors: counters.icmp_errors.load(Ordering::Relaxed),
            offload_refusals: counters.offload_refusals.load(Ordering::Relaxed),
        }
    }

    /// Counts an error that belongs to an earlier datagram. Returns whether `errno` is one, so that the caller tries again.
    ///
    /// An unconnected socket that asked for no error queue should see none; a kernel that differs must not stop traffic.
    fn swallow_icmp_error(&self, errno: i32) -> bool {
        let belongs_to_earlier = matches!(errno, libc::ECONNREFUSED | libc::ECONNRESET | libc::EPROTO);
        if belongs_to_earlier {
            self.counters.icmp_errors.fetch_add(1, Ordering::Relaxed);
        }
        belongs_to_earlier
    }
}

fn any_v4() -> std::net::Ipv4Addr {
    std::net::Ipv4Addr::UNSPECIFIED
}

impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl From<UdpSocket> for OwnedFd {
    fn from(socket: UdpSocket) -> Self {
        socket.fd
    }
}
