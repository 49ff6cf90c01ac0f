//! Receiving.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::Ordering;

use super::UdpSocket;
use super::address::RawAddress;
use super::control::ReceiveControl;
use crate::bytes::read;

/// Largest datagram, also when put together by the kernel.
const BUFFER: usize = 65_536;

/// A datagram received, which may be several packets of one sender put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram<'a> {
    /// The sender; the scope of a link-local address is the interface.
    pub source: SocketAddr,
    /// The address it was sent to, which may be a multicast group.
    pub destination: IpAddr,
    /// The interface it came in by.
    pub interface: u32,
    /// DSCP and ECN, as in the IP header. The kernel puts together only packets that agree in it.
    pub traffic_class: u8,
    /// Hop limit or time to live left.
    pub hop_limit: u8,
    /// The IPv6 flow label, 0 for IPv4.
    pub flow_label: u32,
    /// Payload bytes of every packet but the last, which may be shorter; never 0.
    pub segment_size: usize,
    /// The payloads, one after another.
    pub payload: &'a [u8],
}

impl<'a> Datagram<'a> {
    /// The payload of every packet. An empty datagram is one empty packet.
    pub fn segments(&self) -> Segments<'a> {
        Segments { rest: Some(self.payload), size: self.segment_size }
    }
}

/// Iterator over the packets of a [`Datagram`].
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    rest: Option<&'a [u8]>,
    size: usize,
}

impl<'a> Iterator for Segments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        let (segment, after) = rest.split_at(self.size.min(rest.len()));
        self.rest = Some(after).filter(|after| !after.is_empty());
        Some(segment)
    }
}

/// Buffers to receive into, used again and again.
///
/// A batch of `n` takes `n` times 64 KiB of address space; pages come into being when first received into.
pub struct ReceiveBatch {
    buffers: Box<[u8]>,
    entries: Box<[Entry]>,
    headers: Box<[libc::mmsghdr]>,
    /// How many entries the last receive filled.
    filled: usize,
    /// How many entries the next receive offers. It grows while they are all filled, so that a sparse stream costs the
    /// kernel no second look for a datagram that is not there.
    depth: usize,
    /// Whether the last receive filled all it was offered.
    full: bool,
}

/// What one receive fills, beside the payload.
struct Entry {
    address: RawAddress,
    control: ReceiveControl,
    slice: libc::iovec,
    /// What the above say, once received; `None` if the datagram is cut short or not described.
    description: Option<Description>,
}

/// A [`Datagram`] but for the payload.
#[derive(Clone, Copy)]
struct Description {
    source: SocketAddr,
    destination: IpAddr,
    interface: u32,
    about: About,
    length: usize,
}

// SAFETY: the raw pointers in `headers` and `entries` point only into the boxes that the batch itself owns, and are
// written anew before each use.
unsafe impl Send for ReceiveBatch {}
// SAFETY: as above; a shared batch is only read.
unsafe impl Sync for ReceiveBatch {}

impl std::fmt::Debug for ReceiveBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiveBatch")
            .field("capacity", &self.headers.len())
            .field("filled", &self.filled)
            .finish()
    }
}

impl ReceiveBatch {
    /// A batch of up to `capacity` datagrams, at least one.
    pub fn new(capacity: usize) -> Self {
        let capacity = capacity.max(1);
        let entry = || Entry {
            address: RawAddress::EMPTY,
            control: ReceiveControl::EMPTY,
            slice: libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 },
            description: None,
        };
        // SAFETY: all zeroes is a valid value of this plain C struct.
        let header: libc::mmsghdr = unsafe { std::mem::zeroed() };
        Self {
            buffers: vec![0; capacity * BUFFER].into(),
            entries: std::iter::repeat_with(entry).take(capacity).collect(),
            headers: vec![header; capacity].into(),
            filled: 0,
            depth: 1,
            full: false,
        }
    }

    /// The datagrams received last, in order of arrival.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        let received = self.entries.iter().zip(self.buffers.chunks_exact(BUFFER)).take(self.filled);
        received.filter_map(|(entry, buffer)| {
            let Description { source, destination, interface, about, length } = entry.description?;
            Some(Datagram {
                source,
                destination,
                interface,
                traffic_class: about.traffic_class,
                hop_limit: about.hop_limit,
                flow_label: about.flow_label,
                segment_size: about.segment_size.unwrap_or(length).max(1),
                payload: &buffer[..length],
            })
        })
    }

    /// Points the headers of the first `depth` entries at their buffers; the kernel overwrote the lengths.
    fn rewind(&mut self) {
        let entries = self.entries.iter_mut().zip(self.buffers.chunks_exact_mut(BUFFER));
        for (header, (entry, buffer)) in self.headers.iter_mut().zip(entries).take(self.depth) {
            entry.slice = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: BUFFER };
            let header = &mut header.msg_hdr;
            header.msg_name = std::ptr::from_mut(&mut entry.address).cast();
            header.msg_namelen = RawAddress::CAPACITY;
            header.msg_iov = &mut entry.slice;
            header.msg_iovlen = 1;
            header.msg_control = entry.control.as_mut_ptr().cast();
            header.msg_controllen = ReceiveControl::capacity() as _;
            header.msg_flags = 0;
        }
    }

    /// Has the kernel fill up to `depth` entries; returns how many it did, or something negative.
    fn fill(&mut self, fd: RawFd) -> isize {
        if let (1, [only, ..]) = (self.depth, &mut self.headers[..]) {
            // A sparse stream is one where latency matters, and this call is shorter.
            // SAFETY: the header points at buffers of the stated sizes that `self`, borrowed exclusively, owns.
            let length = unsafe { libc::recvmsg(fd, &mut only.msg_hdr, libc::MSG_DONTWAIT) };
            only.msg_len = length.max(0) as u32;
            return if length < 0 { -1 } else { 1 };
        }
        let (headers, no_timeout) = (self.headers.as_mut_ptr(), std::ptr::null_mut());
        // SAFETY: as above, for the first `depth` headers.
        let count =
            unsafe { libc::recvmmsg(fd, headers, self.depth as u32, libc::MSG_DONTWAIT as _, no_timeout) };
        count as isize
    }

    fn note_filled(&mut self, filled: usize) {
        self.filled = filled;
        let full = filled == self.depth;
        if !full {
            self.depth = filled.max(1);
        } else if self.full {
            self.depth = (self.depth * 2).min(self.headers.len());
        }
        self.full = full;
    }

    /// Reads what the kernel wrote about the first `filled` entries.
    fn describe(&mut self, filled: usize) {
        for (entry, header) in self.entries.iter_mut().zip(&self.headers).take(filled) {
            entry.description = entry.describe(header);
        }
    }
}

impl Entry {
    fn describe(&self, header: &libc::mmsghdr) -> Option<Description> {
        if header.msg_hdr.msg_flags & libc::MSG_TRUNC != 0 {
            return None;
        }
        let about = About::parse(&self.control, header.msg_hdr.msg_controllen);
        let (destination, interface) = about.destination?;
        let length = header.msg_len as usize;
        Some(Description { source: self.address.decode()?, destination, interface, about, length })
    }
}

/// What control messages tell of a datagram.
#[derive(Clone, Copy, Default)]
struct About {
    destination: Option<(IpAddr, u32)>,
    traffic_class: u8,
    hop_limit: u8,
    flow_label: u32,
    segment_size: Option<usize>,
    drops: Option<u32>,
}

impl About {
    fn parse(control: &ReceiveControl, length: usize) -> Self {
        let mut about = Self::default();
        for (level, kind, data) in control.messages(length) {
            about.note(level, kind, data);
        }
        about
    }

    fn note(&mut self, level: i32, kind: i32, data: &[u8]) {
        match (level, kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => self.destination = ipv4_destination(data),
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => self.destination = ipv6_destination(data),
            // One byte for IPv4, a C int for the others.
            (libc::IPPROTO_IP, libc::IP_TOS) => self.traffic_class = data.first().copied().unwrap_or(0),
            (libc::IPPROTO_IPV6, libc::IPV6_TCLASS) => self.traffic_class = int(data) as u8,
            (libc::IPPROTO_IP, libc::IP_TTL) | (libc::IPPROTO_IPV6, libc::IPV6_HOPLIMIT) => {
                self.hop_limit = int(data) as u8;
            }
            (libc::IPPROTO_IPV6, libc::IPV6_FLOWINFO) => {
                self.flow_label = u32::from_be_bytes(read(data, 0).unwrap_or_default()) & 0xF_FFFF;
            }
            (libc::SOL_UDP, libc::UDP_GRO) => {
                self.segment_size = usize::try_from(int(data)).ok().filter(|&n| n > 0)
            }
            (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => self.drops = read(data, 0).map(u32::from_ne_bytes),
            _ => {}
        }
    }
}

fn int(data: &[u8]) -> i32 {
    i32::from_ne_bytes(read(data, 0).unwrap_or_default())
}

/// From `in_pktinfo`: interface, local address, destination in the header. The last names a multicast group.
fn ipv4_destination(data: &[u8]) -> Option<(IpAddr, u32)> {
    let address = Ipv4Addr::from(read::<4>(data, 8)?);
    Some((address.into(), u32::from_ne_bytes(read(data, 0)?)))
}

/// From `in6_pktinfo`: destination, interface. IPv4 comes this way too on a dual socket, as a mapped address.
fn ipv6_destination(data: &[u8]) -> Option<(IpAddr, u32)> {
    let address = Ipv6Addr::from(read::<16>(data, 0)?);
    Some((address.to_canonical(), u32::from_ne_bytes(read(data, 16)?)))
}

impl UdpSocket {
    /// Receives what is there, up to the capacity of `batch`, and returns how many datagrams that is: 0 when nothing is.
    ///
    /// A batch starts small and grows while there is more than it takes, so call again until this returns 0.
    pub fn receive(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.filled = 0;
        loop {
            batch.rewind();
            let received = batch.fill(self.as_raw_fd());
            if let Ok(received) = usize::try_from(received) {
                batch.describe(received);
                batch.note_filled(received);
                self.count_losses(batch);
                return Ok(received);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error().unwrap_or(0) {
                libc::EAGAIN => {
                    batch.note_filled(0);
                    return Ok(0);
                }
                libc::EINTR => {}
                errno if self.swallow_icmp_error(errno) => {}
                _ => return Err(error),
            }
        }
    }

    fn count_losses(&self, batch: &ReceiveBatch) {
        for entry in &batch.entries[..batch.filled] {
            match &entry.description {
                None => {
                    self.counters.receive_discards.fetch_add(1, Ordering::Relaxed);
                }
                // The kernel's count is of 32 bits and from the start, so the larger is the later.
                Some(Description { about: About { drops: Some(drops), .. }, .. }) => {
                    self.counters.receive_drops.fetch_max((*drops).into(), Ordering::Relaxed);
                }
                Some(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(payload: &[u8], segment_size: usize) -> Datagram<'_> {
        Datagram {
            source: "[::1]:1".parse().unwrap(),
            destination: Ipv6Addr::LOCALHOST.into(),
            interface: 1,
            traffic_class: 0,
            hop_limit: 64,
            flow_label: 0,
            segment_size,
            payload,
        }
    }

    #[test]
    fn segments_are_equal_but_the_last() {
        let lengths =
            |n: usize, size| datagram(&vec![0; n], size).segments().map(<[u8]>::len).collect::<Vec<_>>();
        assert_eq!(lengths(250, 100), [100, 100, 50]);
        assert_eq!(lengths(200, 100), [100, 100]);
        assert_eq!(lengths(7, 7), [7]);
        assert_eq!(lengths(0, 1), [0]);
    }

    #[test]
    fn the_depth_follows_the_load() {
        let mut batch = ReceiveBatch::new(6);
        let depths = [1, 1, 2, 4, 6, 3, 0, 1, 0].map(|filled| {
            batch.note_filled(filled);
            batch.depth
        });
        assert_eq!(depths, [1, 2, 4, 6, 6, 3, 1, 1, 1]);
    }
}
