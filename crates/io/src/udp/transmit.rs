//! Sending.

use std::io;
use std::marker::PhantomData;
use std::net::{IpAddr, SocketAddr};
use std::num::{NonZeroU8, NonZeroU16};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::address::RawAddress;
use super::control::SendControl;
use super::{Family, UdpSocket};

/// Most packets in a [`Transmit`] (Linux before 6.9 segments no further).
pub const MAX_SEGMENTS: usize = 64;

/// Most payload bytes in a [`Transmit`]: what an IPv4 datagram holds beside its two headers.
pub const MAX_TRANSMIT_BYTES: usize = 65_535 - 20 - 8;

/// Most pieces the kernel takes in one call (`UIO_MAXIOV`); longer lists are copied together first.
const MAX_PIECES: usize = 1024;

/// Most transmits handed over in one system call.
const BATCH: usize = 32;

/// Memory to be sent: a pointer and a length, exactly the kernel's `iovec`.
///
/// It is no slice, because registered memory may be written by anyone while the kernel reads it.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct Piece<'a> {
    raw: libc::iovec,
    memory: PhantomData<&'a [u8]>,
}

// SAFETY: a piece is only ever read, by the kernel; for slices that is what `&[u8]` allows, and whoever calls
// `from_raw_parts` promises it.
unsafe impl Send for Piece<'_> {}
// SAFETY: as above.
unsafe impl Sync for Piece<'_> {}

impl<'a> Piece<'a> {
    /// The bytes of `slice`.
    pub fn new(slice: &'a [u8]) -> Self {
        Self::raw(slice.as_ptr(), slice.len())
    }

    /// `length` bytes at `start`.
    ///
    /// # Safety
    ///
    /// The memory stays mapped and readable for `'a`, on whatever thread. Others may write to it meanwhile; what is then
    /// sent is some mixture of old and new bytes.
    pub unsafe fn from_raw_parts(start: *const u8, length: usize) -> Self {
        Self::raw(start, length)
    }

    /// Where it starts.
    pub fn as_ptr(&self) -> *const u8 {
        self.raw.iov_base.cast()
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.raw.iov_len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn raw(start: *const u8, length: usize) -> Self {
        Self { raw: libc::iovec { iov_base: start.cast_mut().cast(), iov_len: length }, memory: PhantomData }
    }
}

impl std::fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Piece").field(&self.len()).finish()
    }
}

/// Where packets are to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// An address of this machine, of the destination's family.
    pub address: IpAddr,
    /// The interface to leave by; 0 leaves that to the routing table. Needed for multicast and link-local addresses.
    pub interface: u32,
}

/// Packets for one destination, sent as one datagram that the kernel cuts up.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The receiver. The flow info of an IPv6 address becomes the flow label; 0 leaves it to the kernel.
    pub destination: SocketAddr,
    /// The sender; `None` lets the routing table choose.
    pub source: Option<Source>,
    /// DSCP and ECN, as in the IP header.
    pub traffic_class: u8,
    /// Hop limit or time to live; `None` is the system's default.
    pub hop_limit: Option<NonZeroU8>,
    /// Payload bytes of every packet but the last, which may be shorter. `None`: all is one packet.
    pub segment_size: Option<NonZeroU16>,
    /// The payloads, one after another; where pieces meet has nothing to do with where packets do.
    pub pieces: &'a [Piece<'a>],
}

impl Transmit<'_> {
    /// Payload bytes of all packets.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Piece::len).sum()
    }

    /// Whether there is no payload; it is a packet nevertheless.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The segment size to tell the kernel, if this is more than one packet.
    fn segmentation(&self) -> Option<u16> {
        self.segment_size.map(NonZeroU16::get).filter(|&size| self.len() > usize::from(size))
    }
}

/// Why nothing was sent.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The send buffer is full; the socket becomes writable when there is room.
    #[error("send buffer full")]
    WouldBlock,
    /// The kernel or the interface's queue is out of buffers; polling will not tell when that ends, so wait a little.
    #[error("no buffer space")]
    NoBuffers,
    /// This path has no segmentation offload. [`UdpSocket::segmentation`] says so from now on: send packet by packet,
    /// and mind that the identification of each is then 0.
    #[error("no segmentation offload on this path")]
    SegmentationUnsupported,
    /// A packet exceeds the MTU of the interface, or the transmit the limits of this module.
    #[error("packet larger than the interface takes")]
    TooLarge,
    /// No way to the destination at present, or a firewall forbids it, or the source address is not ours.
    #[error("unreachable: {0}")]
    Unreachable(io::Error),
    /// Anything else.
    #[error("send failed: {0}")]
    Other(io::Error),
}

/// A transmit in the kernel's terms; the pointers handed over point in here.
struct Message {
    address: RawAddress,
    address_length: u32,
    control: SendControl,
}

impl Message {
    fn new(transmit: &Transmit<'_>, segmentation: Option<u16>, family: Family) -> Option<Self> {
        let (address, address_length) = RawAddress::encode(transmit.destination, family)?;
        let mut control = SendControl::new();
        if transmit.destination.is_ipv4() {
            push_ipv4(&mut control, transmit);
        } else {
            push_ipv6(&mut control, transmit);
        }
        if let Some(size) = segmentation {
            control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &size.to_ne_bytes());
        }
        Some(Self { address, address_length, control })
    }

    /// The header to pass to the kernel. It points into `self` and at `pieces`, and must not outlive either.
    fn header(&self, pieces: &[Piece<'_>]) -> libc::msghdr {
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = std::ptr::from_ref(&self.address).cast_mut().cast();
        header.msg_namelen = self.address_length;
        header.msg_iov = pieces.as_ptr().cast_mut().cast();
        header.msg_iovlen = pieces.len() as _;
        header.msg_control = self.control.as_ptr().cast_mut().cast();
        header.msg_controllen = self.control.len() as _;
        header
    }
}

// A traffic class of 0 is what the socket has, and each message costs time.

fn push_ipv4(control: &mut SendControl, transmit: &Transmit<'_>) {
    if let Some(Source { address: IpAddr::V4(address), interface }) = transmit.source {
        let mut information = [0; 12];
        information[..4].copy_from_slice(&interface.to_ne_bytes());
        information[4..8].copy_from_slice(&address.octets());
        control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &information);
    }
    if transmit.traffic_class != 0 {
        control.push_int(libc::IPPROTO_IP, libc::IP_TOS, transmit.traffic_class.into());
    }
    if let Some(limit) = transmit.hop_limit {
        control.push_int(libc::IPPROTO_IP, libc::IP_TTL, limit.get().into());
    }
}

fn push_ipv6(control: &mut SendControl, transmit: &Transmit<'_>) {
    if let Some(Source { address: IpAddr::V6(address), interface }) = transmit.source {
        let mut information = [0; 20];
        information[..16].copy_from_slice(&address.octets());
        information[16..].copy_from_slice(&interface.to_ne_bytes());
        control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &information);
    }
    if transmit.traffic_class != 0 {
        control.push_int(libc::IPPROTO_IPV6, libc::IPV6_TCLASS, transmit.traffic_class.into());
    }
    if let Some(limit) = transmit.hop_limit {
        control.push_int(libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT, limit.get().into());
    }
}

impl UdpSocket {
    /// Whether a [`Transmit`] to `destination` may hold more than one packet.
    pub fn segmentation(&self, destination: IpAddr) -> bool {
        !self.without_offload.contains(destination)
    }

    /// Sends all of `transmit`, or nothing.
    pub fn send(&self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        if transmit.pieces.len() > MAX_PIECES {
            return self.send_gathered(transmit);
        }
        let (message, segmentation) = self.prepare(transmit)?;
        let header = message.header(transmit.pieces);
        loop {
            // SAFETY: `header` points at `message` and at the pieces, both borrowed for the call; the kernel only reads.
            let sent =
                unsafe { libc::sendmsg(self.as_raw_fd(), &header, libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) };
            if sent >= 0 {
                return Ok(());
            }
            self.judge_failure(transmit.destination.ip(), segmentation.is_some())?;
        }
    }

    /// Sends `transmits` in order. Returns how many were sent, which is at least one unless there are none; the error is
    /// why the first was not.
    pub fn send_batch(&self, transmits: &[Transmit<'_>]) -> Result<usize, SendError> {
        let mut sent = 0;
        for chunk in transmits.chunks(BATCH) {
            match self.send_chunk(chunk) {
                Ok(count) if count == chunk.len() => sent += count,
                Ok(count) => return Ok(sent + count),
                Err(error) if sent == 0 => return Err(error),
                Err(_) => return Ok(sent),
            }
        }
        Ok(sent)
    }

    /// One `sendmmsg` of up to [`BATCH`] transmits; returns how many were sent.
    fn send_chunk(&self, transmits: &[Transmit<'_>]) -> Result<usize, SendError> {
        let mut messages = SmallVec::<[_; BATCH]>::new();
        for transmit in transmits.iter().take_while(|transmit| transmit.pieces.len() <= MAX_PIECES) {
            match self.prepare(transmit) {
                Ok(message) => messages.push(message),
                Err(_) => break,
            }
        }
        if messages.len() <= 1 {
            // Alone, or in need of special care, or faulty.
            return match transmits.first() {
                Some(first) => self.send(first).map(|()| 1),
                None => Ok(0),
            };
        }
        let mut headers: SmallVec<[_; BATCH]> = messages
            .iter()
            .zip(transmits)
            .map(|((message, _), transmit)| libc::mmsghdr {
                msg_hdr: message.header(transmit.pieces),
                msg_len: 0,
            })
            .collect();
        let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
        // SAFETY: every header points at a message and at pieces that are borrowed for the call; beside reading those,
        // the kernel writes the sent lengths into `headers`.
        let sent = unsafe {
            libc::sendmmsg(self.as_raw_fd(), headers.as_mut_ptr(), headers.len() as u32, flags as _)
        };
        match usize::try_from(sent) {
            Ok(sent) => Ok(sent),
            Err(_) => {
                self.judge_failure(transmits[0].destination.ip(), messages[0].1.is_some())?;
                self.send(&transmits[0]).map(|()| 1)
            }
        }
    }

    /// Sends a transmit of more pieces than the kernel takes, by copying them together.
    fn send_gathered(&self, transmit: &Transmit<'_>) -> Result<(), SendError> {
        let length = transmit.len();
        if length > MAX_TRANSMIT_BYTES {
            return Err(SendError::TooLarge);
        }
        let mut bytes = Vec::<u8>::with_capacity(length);
        for piece in transmit.pieces {
            // SAFETY: whoever made the piece promised that its memory is readable; the capacity is the sum of all lengths.
            unsafe {
                std::ptr::copy(piece.raw.iov_base.cast(), bytes.as_mut_ptr().add(bytes.len()), piece.len());
                bytes.set_len(bytes.len() + piece.len());
            }
        }
        self.send(&Transmit { pieces: &[Piece::new(&bytes)], ..*transmit })
    }

    /// Puts `transmit` in the kernel's terms, and says with what segment size, if it is more than one packet.
    fn prepare(&self, transmit: &Transmit<'_>) -> Result<(Message, Option<u16>), SendError> {
        let segmentation = transmit.segmentation();
        if let Some(size) = segmentation {
            if !self.segmentation(transmit.destination.ip()) {
                return Err(SendError::SegmentationUnsupported);
            }
            if transmit.len() > (usize::from(size) * MAX_SEGMENTS).min(MAX_TRANSMIT_BYTES) {
                return Err(SendError::TooLarge);
            }
        }
        match Message::new(transmit, segmentation, self.family) {
            Some(message) => Ok((message, segmentation)),
            None => Err(SendError::Unreachable(io::Error::from_raw_os_error(libc::EAFNOSUPPORT))),
        }
    }

    /// Decides on the error of the last system call: `Ok` means to try again.
    fn judge_failure(&self, destination: IpAddr, segmented: bool) -> Result<(), SendError> {
        let error = io::Error::last_os_error();
        let errno = error.raw_os_error().unwrap_or(0);
        match errno {
            libc::EINTR => Ok(()),
            _ if self.swallow_icmp_error(errno) => Ok(()),
            libc::EAGAIN => Err(SendError::WouldBlock),
            libc::ENOBUFS | libc::ENOMEM => Err(SendError::NoBuffers),
            // EIO is how the kernel says that the device does not segment (no checksum offload, or IPsec on the path).
            // EINVAL may say so too, or may complain of something else, which the packets sent one by one will tell.
            libc::EIO | libc::EINVAL if segmented => {
                self.counters.offload_refusals.fetch_add(1, Ordering::Relaxed);
                self.without_offload.insert(destination);
                Err(SendError::SegmentationUnsupported)
            }
            libc::EINVAL | libc::EMSGSIZE => {
                self.without_offload.remove(destination);
                Err(if errno == libc::EMSGSIZE { SendError::TooLarge } else { SendError::Unreachable(error) })
            }
            libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::ENETDOWN
            | libc::EHOSTDOWN
            | libc::EADDRNOTAVAIL
            | libc::EACCES
            | libc::EPERM
            | libc::ENODEV
            | libc::ENXIO => Err(SendError::Unreachable(error)),
            _ => Err(SendError::Other(error)),
        }
    }
}

/// The destinations that segmentation offload does not reach.
///
/// Offload depends on the device at the end of the route and fails on few, so one flag answers almost every question.
#[derive(Debug)]
pub(super) struct WithoutOffload {
    /// No destination has offload.
    all: AtomicBool,
    /// Some destination has none.
    any: AtomicBool,
    destinations: Mutex<Vec<IpAddr>>,
}

impl WithoutOffload {
    /// Beyond so many, offload is given up altogether.
    const CAPACITY: usize = 256;

    pub(super) fn new(all: bool) -> Self {
        Self { all: all.into(), any: all.into(), destinations: Mutex::default() }
    }

    fn contains(&self, destination: IpAddr) -> bool {
        self.any.load(Ordering::Relaxed)
            && (self.all.load(Ordering::Relaxed) || self.lock().contains(&destination))
    }

    fn insert(&self, destination: IpAddr) {
        let mut destinations = self.lock();
        if destinations.len() == Self::CAPACITY {
            self.all.store(true, Ordering::Relaxed);
        } else if !destinations.contains(&destination) {
            destinations.push(destination);
        }
        self.any.store(true, Ordering::Relaxed);
    }

    fn remove(&self, destination: IpAddr) {
        if self.any.load(Ordering::Relaxed) {
            self.lock().retain(|&other| other != destination);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<IpAddr>> {
        // The list is whole between any two statements, so a panic elsewhere does not spoil it.
        self.destinations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transmit<'a>(pieces: &'a [Piece<'a>], segment_size: u16) -> Transmit<'a> {
        Transmit {
            destination: "127.0.0.1:1".parse().unwrap(),
            source: None,
            traffic_class: 0,
            hop_limit: None,
            segment_size: NonZeroU16::new(segment_size),
            pieces,
        }
    }

    #[test]
    fn one_packet_is_not_segmented() {
        let pieces = [Piece::new(&[0; 60]), Piece::new(&[0; 40])];
        assert_eq!(transmit(&pieces, 100).segmentation(), None);
        assert_eq!(transmit(&pieces, 0).segmentation(), None);
        assert_eq!(transmit(&pieces, 99).segmentation(), Some(99));
    }

    #[test]
    fn destinations_without_offload_are_remembered_up_to_a_bound() {
        let list = WithoutOffload::new(false);
        let address = |n: u32| IpAddr::V4(n.into());
        assert!(!list.contains(address(0)));
        list.insert(address(0));
        assert!(list.contains(address(0)) && !list.contains(address(1)));
        list.remove(address(0));
        assert!(!list.contains(address(0)));
        (0..=WithoutOffload::CAPACITY as u32).for_each(|n| list.insert(address(n)));
        assert!(list.contains(address(9999)));
    }
}
