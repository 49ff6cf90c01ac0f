//! RoCE v2 on a UDP socket: the adapter's port.
//!
//! | module | idea |
//! |---|---|
//! | `encode` | runs of packets become segmented datagrams, gathered from where the payload lies |
//! | `decode` | UDP payloads become packets, if their ICRC is right |
//! | `identification` | finds the IPv4 identification that an ICRC covers and a socket does not tell |
//! | `envelope` | the IP and UDP headers around a packet |
//! | `fault`, `capture` | wrap the port: faults on purpose, and a pcap file |

mod capture;
mod decode;
mod encode;
mod envelope;
mod fault;
mod identification;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use std::num::{NonZeroU8, NonZeroU16};
use std::sync::Arc;

use io::udp::{ReceiveBatch, SendError, Source, UdpSocket};
use nic::verbs::{AddressVector, GidEntry, Mtu};
use nic::{Arrival, Instant, Payload, Route, Transmit};
use wire::{Gid, Headers, Icrc, Operation, ROCE_V2_PORT};

pub use capture::Capture;
pub use fault::{FaultPlan, FaultPlanError};

use crate::gids::Gids;
use crate::slot::{Lease, Slot};
use decode::{Decoder, Reject};
use encode::{Cursor, Group, Limits};
use envelope::Envelope;
use fault::Faults;

/// Datagrams taken off the socket at once.
const RECEIVE_BATCH: usize = 16;

/// IP, UDP, BTH with the largest extension, pad and ICRC: what a packet needs beside its payload.
pub(crate) const OVERHEAD: u32 = 40 + 8 + Headers::MAX_LEN as u32 + Icrc::LEN as u32;

/// What a link dropped or could not send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// UDP payloads that are no RoCE packet.
    pub malformed: u64,
    /// Packets with a wrong ICRC.
    pub icrc_errors: u64,
    /// Packets the kernel refused: no route, or larger than the interface takes.
    pub unsendable: u64,
    /// Datagrams the kernel dropped because they were not received in time.
    pub receive_drops: u64,
}

/// The adapter's port.
#[derive(Debug)]
pub(crate) struct Link {
    socket: Arc<UdpSocket>,
    /// Keeps the slot ours.
    slot: Option<Slot>,
    gids: Gids,
    batch: ReceiveBatch,
    decoder: Decoder,
    backlog: Option<Cursor>,
    group: Group,
    /// Acknowledgements, which are short and so may end any datagram to the same peer.
    answers: VecDeque<Transmit>,
    faults: Option<Faults>,
    capture: Option<Capture>,
    counters: LinkCounters,
}

/// Whether the link takes more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// All that was given to it has left.
    Done,
    /// The kernel takes nothing now; flush later.
    Later,
}

impl Link {
    pub(crate) fn new(slot: Slot, faults: Option<FaultPlan>, capture: Option<Capture>) -> Self {
        Self {
            socket: Arc::clone(slot.socket()),
            slot: Some(slot),
            gids: Gids::default(),
            batch: ReceiveBatch::new(RECEIVE_BATCH),
            decoder: Decoder::default(),
            backlog: None,
            group: Group::new(),
            answers: VecDeque::new(),
            faults: faults.map(Faults::new),
            capture,
            counters: LinkCounters::default(),
        }
    }

    /// Whether there is any address to be reached at.
    pub(crate) fn has_addresses(&self) -> bool {
        !self.gids.interfaces().is_empty()
    }

    /// The largest path MTU with which every peer can be reached.
    pub(crate) fn active_mtu(&self) -> Mtu {
        Mtu::fitting(self.gids.mtu().saturating_sub(OVERHEAD))
    }

    /// Reads the machine's addresses anew; returns the changed entries of the GID table.
    pub(crate) fn refresh_gids(&mut self) -> std::io::Result<Vec<(u8, Option<GidEntry>)>> {
        self.gids.refresh()
    }

    /// The addresses behind the port.
    pub(crate) fn gids(&self) -> &Gids {
        &self.gids
    }

    /// The connection to the service, unless the wire is another process's.
    pub(crate) fn lease(&self) -> Option<Arc<Lease>> {
        self.slot.as_ref()?.lease().cloned()
    }

    pub(crate) fn counters(&self) -> LinkCounters {
        LinkCounters { receive_drops: self.socket.counters().receive_drops, ..self.counters }
    }

    /// Leaves the wire to another process: nothing is sent or received from now on.
    pub(crate) fn cut(&mut self) {
        self.backlog = None;
        self.group.clear();
        self.answers.clear();
        self.slot = None;
    }

    /// The largest path MTU to the destination of `path`.
    pub(crate) fn path_mtu(&self, path: &AddressVector) -> Mtu {
        let interface = needs_interface(path.destination).then(|| self.gids.interface(path.source_gid_index));
        match io::interfaces::route_to(path.destination.ip(), interface) {
            Ok(route) => Mtu::fitting(route.mtu.saturating_sub(OVERHEAD)),
            Err(_) => Mtu::Mtu1024,
        }
    }

    /// Receives a multicast group's datagrams.
    pub(crate) fn join(&mut self, group: Gid) {
        for interface in self.gids.interfaces() {
            // An interface without multicast, or already a member: the others count.
            let _ = self.socket.join(group.ip(), interface);
        }
    }

    /// Ends that.
    pub(crate) fn leave(&mut self, group: Gid) {
        for interface in self.gids.interfaces() {
            let _ = self.socket.leave(group.ip(), interface);
        }
    }

    // ---- receiving

    /// Hands over the packets that have arrived, one batch of them, with the interface each came in by; returns how many datagrams it was.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        mut take: impl FnMut(&Arrival, u32, &Headers, Payload<'_>),
    ) -> usize {
        if self.slot.is_none() {
            return 0;
        }
        let datagrams = self.socket.receive(&mut self.batch).unwrap_or(0);
        let Self { batch, decoder, faults, capture, counters, gids, .. } = self;
        if let Some(capture) = capture {
            record_foreign(capture, decoder, gids, batch);
        }
        let mut deliver = |envelope: &Envelope, packet: &[u8]| match decoder.decode(envelope, packet) {
            Ok((headers, payload)) => take(&envelope.arrival(), envelope.interface, &headers, payload),
            Err(Reject::Malformed) => counters.malformed += 1,
            Err(Reject::Checksum) => counters.icrc_errors += 1,
        };
        if let Some(faults) = faults {
            faults.expire(now, &mut deliver);
        }
        for datagram in batch.datagrams() {
            let envelope = Envelope::of(&datagram);
            for packet in datagram.segments() {
                match faults {
                    None => deliver(&envelope, packet),
                    Some(faults) => faults.pass(now, &envelope, packet, &mut deliver),
                }
            }
        }
        datagrams
    }

    /// When [`Link::receive`] has something to hand over even if nothing arrives.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.faults.as_ref().and_then(Faults::deadline)
    }

    // ---- sending

    /// Takes a run to send. Only to be called after [`Sent::Done`]; a part may wait for [`Link::flush`].
    pub(crate) fn send(&mut self, run: Transmit) -> Sent {
        if is_answer(&run) {
            self.answers.push_back(run);
            return Sent::Done;
        }
        self.backlog = Some(Cursor::new(run));
        self.advance()
    }

    /// Sends all that waits. What cannot be sent now is copied: of a datagram or an unreliable
    /// connection's message the completion is out already, and the program may use its memory anew.
    pub(crate) fn flush(&mut self) -> Sent {
        let sent = self.send_all();
        if sent == Sent::Later {
            self.group.own();
            if let Some(cursor) = &mut self.backlog {
                cursor.own_payload();
            }
        }
        sent
    }

    fn send_all(&mut self) -> Sent {
        loop {
            if self.advance() == Sent::Later {
                return Sent::Later;
            }
            match self.answers.pop_front() {
                Some(answer) => self.backlog = Some(Cursor::new(answer)),
                None => return self.send_group(),
            }
        }
    }

    /// Moves the backlog into groups, and sends each that is full.
    fn advance(&mut self) -> Sent {
        while let Some(mut cursor) = self.backlog.take() {
            let route = *cursor.route();
            let envelope = outgoing(&route);
            let limits = self.limits(envelope.destination);
            if self.group.fill(&mut cursor, &envelope, &limits) {
                return Sent::Done;
            }
            self.backlog = Some(cursor);
            if self.send_group() == Sent::Later {
                return Sent::Later;
            }
        }
        Sent::Done
    }

    fn limits(&self, destination: IpAddr) -> Limits {
        let numbered = self.socket.segmentation(destination);
        Limits { packets: if numbered { io::udp::MAX_SEGMENTS } else { 1 }, numbered }
    }

    fn send_group(&mut self) -> Sent {
        let Some(route) = self.group.route().copied() else { return Sent::Done };
        if self.slot.is_none() {
            self.group.clear();
            return Sent::Done;
        }
        let interface = self.gids.interface(route.source_gid_index);
        let envelope = outgoing(&route);
        let result = self.socket.send(&io::udp::Transmit {
            destination: self.socket_address(route.destination, interface),
            source: Some(Source {
                address: envelope.source,
                interface: if needs_interface(route.destination) { interface } else { 0 },
            }),
            traffic_class: route.traffic_class,
            hop_limit: NonZeroU8::new(route.hop_limit),
            segment_size: NonZeroU16::new(self.group.packet_size() as u16),
            pieces: self.group.pieces(),
        });
        match result {
            Err(SendError::WouldBlock | SendError::NoBuffers) => return Sent::Later,
            Err(SendError::SegmentationUnsupported) => {
                // The ICRCs of the group count on numbered packets. Dropped, they are sent again by the
                // protocol, one by one from now on.
                self.counters.unsendable += self.group.packets() as u64;
            }
            Err(_) => self.counters.unsendable += self.group.packets() as u64,
            Ok(()) => self.record_group(&envelope),
        }
        self.group.clear();
        Sent::Done
    }

    fn record_group(&mut self, envelope: &Envelope) {
        let Some(capture) = &mut self.capture else { return };
        let bytes: Vec<u8> =
            self.group.pieces().iter().flat_map(crate::memory::piece_bytes).copied().collect();
        for (index, packet) in bytes.chunks(self.group.packet_size()).enumerate() {
            capture.record(envelope, index as u16, packet);
        }
    }

    fn socket_address(&self, destination: Gid, interface: u32) -> SocketAddr {
        match destination.ip() {
            IpAddr::V6(ip) if needs_interface(destination) => {
                SocketAddrV6::new(ip, ROCE_V2_PORT, 0, interface).into()
            }
            ip => SocketAddr::new(ip, ROCE_V2_PORT),
        }
    }
}

/// Whether a run is a bare acknowledgement. It may leave after requests that came to be later: the two
/// halves of a queue pair are independent of each other (IBTA 9.7.1).
fn is_answer(run: &Transmit) -> bool {
    run.payload_length == 0 && run.packets() == 1 && run.headers(0).bth.opcode.operation == Operation::Ack
}

/// Records what arrived from other machines; what programs of this one send they record themselves.
fn record_foreign(capture: &mut Capture, decoder: &mut Decoder, gids: &Gids, batch: &ReceiveBatch) {
    for datagram in batch.datagrams() {
        let envelope = Envelope::of(&datagram);
        if gids.is_ours(envelope.source) {
            continue;
        }
        for packet in datagram.segments() {
            let identification = decoder.identification(&envelope, packet).unwrap_or(0);
            capture.record(&envelope, identification, packet);
        }
    }
}

/// The headers of packets on a route. The source port is the socket's own: one for all connections.
fn outgoing(route: &Route) -> Envelope {
    Envelope {
        source: route.source.ip(),
        source_port: ROCE_V2_PORT,
        destination: route.destination.ip(),
        traffic_class: route.traffic_class,
        hop_limit: route.hop_limit,
        flow_label: 0,
        interface: 0,
    }
}

/// Whether the destination means something else on every interface.
fn needs_interface(destination: Gid) -> bool {
    destination.is_link_local() || destination.is_multicast()
}
