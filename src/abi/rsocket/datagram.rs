//! A datagram socket.
//!
//! It is a UDP socket with a queue pair beside it. A datagram for somebody new goes over UDP, with the number of our queue
//! pair; the answer brings that of the peer's, and from then on datagrams go from queue pair to queue pair.

use std::{
    collections::{HashMap, VecDeque},
    ffi::c_int,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    ops::Deref,
    sync::Arc,
};

use host::{
    Access, AddressHandle, CompletionQueue, MemoryRegion, QpCapabilities, QpType, Qpn, QueuePair, Work,
};

use super::{
    packet::{Knock, Sender},
    shared::{Progress, Shared, Waiting},
    state::domain,
    udp,
};
use crate::abi::{errno::Errno, types::cm::RDMA_UDP_QKEY};

/// The longest datagram with what stands before it: what genuine peers have room for.
const SLOT: usize = 2048;

/// The network header that stands before what a datagram queue pair receives.
const NETWORK_HEADER: usize = 40;

/// Datagrams that can be under way, and receives that are posted.
const SLOTS: usize = 384;

/// Datagrams that wait to be read; those that come then are lost.
const MOST_UNREAD: usize = 1024;

/// Peers that are remembered; who is forgotten is asked again.
const MOST_PEERS: usize = 4096;

/// UDP datagrams taken at once.
const BATCH: usize = 64;

/// What marks the completion of a receive.
const RECEIVE: u64 = 1 << 63;

/// A datagram socket. Its number is that of the UDP socket.
#[derive(Debug)]
pub(super) struct DatagramSocket(Shared<Datagrams, Arc<UdpSocket>>);

impl Deref for DatagramSocket {
    type Target = Shared<Datagrams, Arc<UdpSocket>>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

/// What the lock of a datagram socket protects.
#[derive(Debug)]
pub(super) struct Datagrams {
    udp: Arc<UdpSocket>,
    pub waiting: Waiting,
    /// Where datagrams go that name no destination.
    pub peer: Option<SocketAddr>,
    carrier: Option<Carrier>,
    peers: HashMap<SocketAddr, Peer>,
    received: VecDeque<(SocketAddr, Vec<u8>)>,
}

/// The queue pair, and its memory.
#[derive(Debug)]
struct Carrier {
    queue: CompletionQueue,
    queue_pair: QueuePair,
    send_memory: MemoryRegion,
    /// Slots of the send memory that are free.
    free: Vec<usize>,
    receive_memory: MemoryRegion,
}

/// Somebody who is sent datagrams.
#[derive(Clone, Debug)]
struct Peer {
    /// Our address, as he is to know it.
    ours: SocketAddr,
    /// His queue pair, when it is known.
    queue_pair: Option<(AddressHandle, Qpn)>,
}

impl DatagramSocket {
    /// A socket that is bound to nothing.
    pub fn new(family: c_int) -> Result<Arc<Self>, Errno> {
        let udp = Arc::new(udp::unbound(family)?);
        let state = Datagrams {
            udp: udp.clone(),
            waiting: Waiting::default(),
            peer: None,
            carrier: None,
            peers: HashMap::new(),
            received: VecDeque::new(),
        };
        Ok(Arc::new(Self(Shared::new(udp, state))))
    }

    /// Gives it an address and a port.
    pub fn bind(&self, address: SocketAddr) -> Result<(), Errno> {
        let mut state = self.lock();
        udp::bind(&state.udp, address)?;
        state.carrier().map(drop)
    }

    /// Sends to this destination what names none, and takes from it alone.
    pub fn connect(&self, address: SocketAddr) -> Result<(), Errno> {
        let mut state = self.lock();
        state.carrier()?;
        state.peer = Some(address);
        Ok(())
    }

    /// Sends a datagram, in pieces.
    pub fn send(&self, data: &[&[u8]], to: Option<SocketAddr>, dont_wait: bool) -> Result<usize, Errno> {
        let data = data.concat();
        if data.len() + Knock::MAX_LEN > SLOT {
            return Err(Errno(libc::EMSGSIZE));
        }
        self.until(dont_wait, |state| {
            let Some(to) = to.or(state.peer) else { return Some(Err(Errno(libc::EDESTADDRREQ))) };
            state.send(to, &data).transpose()
        })
    }

    /// Takes a datagram into several pieces of memory, or looks at it; what does not fit is lost. Tells who sent it.
    pub fn receive(
        &self,
        into: &mut [&mut [u8]],
        peeks: bool,
        dont_wait: bool,
    ) -> Result<(usize, SocketAddr), Errno> {
        self.until(dont_wait, |state| {
            let (from, data) = state.received.front()?;
            let (from, mut rest) = (*from, &data[..]);
            for piece in &mut *into {
                let (now, later) = rest.split_at(rest.len().min(piece.len()));
                piece[..now.len()].copy_from_slice(now);
                rest = later;
            }
            let count = data.len() - rest.len();
            if !peeks {
                state.received.pop_front();
            }
            Some(Ok((count, from)))
        })
    }
}

impl Datagrams {
    /// Whether there is something to read.
    pub fn is_readable(&self) -> bool {
        !self.received.is_empty()
    }

    /// Whether a datagram can be sent now.
    pub fn is_writable(&self) -> bool {
        self.carrier.as_ref().is_none_or(|carrier| !carrier.free.is_empty())
    }

    /// Our address.
    pub fn local(&self) -> Result<SocketAddr, Errno> {
        Ok(self.udp.local_addr()?)
    }

    /// The queue pair, made when it is first needed.
    fn carrier(&mut self) -> Result<&mut Carrier, Errno> {
        let local = self.local()?;
        if local.port() == 0 {
            let any = match local {
                SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
                SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
            };
            udp::bind(&self.udp, any)?;
        }
        match &mut self.carrier {
            Some(carrier) => Ok(carrier),
            none => Ok(none.insert(Carrier::new()?)),
        }
    }

    /// Sends a datagram, unless there is no room for it now.
    fn send(&mut self, to: SocketAddr, data: &[u8]) -> Result<Option<usize>, Errno> {
        let peer = self.peer(to)?;
        let carrier = self.carrier()?;
        let Some((handle, qpn)) = &peer.queue_pair else {
            let knock = Knock { has_data: true, qpn: carrier.number(), ip: peer.ours.ip() };
            return self.knock(to, knock, data).map(|()| Some(data.len()));
        };
        let Some(slot) = carrier.free.pop() else { return Ok(None) };
        let sent = carrier.post(slot, peer.ours, data, (handle, *qpn));
        if sent.is_err() {
            carrier.free.push(slot);
        }
        sent.map(|()| Some(data.len()))
    }

    /// Sends over UDP. What the system cannot take now is lost, as datagrams may be.
    fn knock(&self, to: SocketAddr, knock: Knock, data: &[u8]) -> Result<(), Errno> {
        let (bytes, length) = knock.emit();
        let packet = [&bytes[..length], data].concat();
        match self.udp.send_to(&packet, to) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// What is known of somebody.
    fn peer(&mut self, address: SocketAddr) -> Result<Peer, Errno> {
        if let Some(peer) = self.peers.get(&address) {
            return Ok(peer.clone());
        }
        self.carrier()?;
        let local = self.local()?;
        let bound = Some(local.ip()).filter(|ip| !ip.is_unspecified());
        let route = domain()?.1.resolve_route(address.ip(), scope(address), bound)?;
        let peer = Peer { ours: SocketAddr::new(route.source, local.port()), queue_pair: None };
        if self.peers.len() >= MOST_PEERS {
            self.peers.clear();
        }
        self.peers.insert(address, peer.clone());
        Ok(peer)
    }

    /// Somebody has told of his queue pair.
    fn meet(&mut self, address: SocketAddr, qpn: Qpn) -> Result<Peer, Errno> {
        let mut peer = self.peer(address)?;
        if peer.queue_pair.as_ref().is_none_or(|(_, known)| *known != qpn) {
            let (pd, manager) = domain()?;
            let route = manager.resolve_route(address.ip(), scope(address), Some(peer.ours.ip()))?;
            let handle = pd.address_handle(route.path.address_vector())?;
            peer.queue_pair = Some((handle, qpn));
            self.peers.insert(address, peer.clone());
        }
        Ok(peer)
    }

    /// Takes what came over UDP.
    fn take_knocks(&mut self) {
        let mut buffer = [0; SLOT];
        for _ in 0..BATCH {
            let Ok((length, from)) = self.udp.recv_from(&mut buffer) else { return };
            let Some((knock, header)) = Knock::parse(&buffer[..length]) else { continue };
            // Who cannot be answered now asks again.
            let Ok(peer) = self.meet(from, Qpn::new(knock.qpn)) else { continue };
            if !knock.has_data {
                continue;
            }
            if let Ok(number) = self.carrier().map(|carrier| carrier.number()) {
                let answer = Knock { has_data: false, qpn: number, ip: peer.ours.ip() };
                let _ = self.knock(from, answer, &[]);
            }
            self.keep(from, buffer[header..length].to_vec());
        }
    }

    /// Keeps a datagram for the program, if it wants it.
    fn keep(&mut self, from: SocketAddr, data: Vec<u8>) {
        let is_wanted = self.peer.is_none_or(|peer| peer.ip() == from.ip() && peer.port() == from.port());
        if is_wanted && self.received.len() < MOST_UNREAD {
            self.received.push_back((from, data));
        }
    }

    fn take_completions(&mut self) -> Result<(), Errno> {
        while let Some(carrier) = &mut self.carrier
            && let Some(completion) = carrier.queue.poll()?
        {
            if completion.wr_id & RECEIVE == 0 {
                carrier.free.push(completion.wr_id as usize);
                continue;
            }
            let slot = (completion.wr_id & !RECEIVE) as usize;
            let length = completion.byte_length as usize;
            let datagram = completion.is_success().then(|| carrier.taken(slot, length)).flatten();
            carrier.receive(slot)?;
            if let Some((from, data)) = datagram {
                self.keep(from, data);
            }
        }
        Ok(())
    }
}

impl Progress for Datagrams {
    fn progress(&mut self) {
        self.take_knocks();
        // A queue pair for datagrams has no errors but in what is posted.
        let _ = self.take_completions();
    }

    fn queue(&self) -> Option<&CompletionQueue> {
        self.carrier.as_ref().map(|carrier| &carrier.queue)
    }

    fn waiting(&mut self) -> &mut Waiting {
        &mut self.waiting
    }
}

impl Carrier {
    fn new() -> Result<Self, Errno> {
        let pd = &domain()?.0;
        let queue = pd.context().completion_queue(2 * SLOTS as u32)?;
        let queue_pair = pd
            .queue_pair(QpType::Ud, &queue)
            .qkey(RDMA_UDP_QKEY)
            .capabilities(QpCapabilities {
                max_send_wr: SLOTS as u32,
                max_recv_wr: SLOTS as u32,
                max_send_sge: 1,
                max_recv_sge: 1,
                max_inline_data: 0,
            })
            .build()?;
        queue_pair.activate()?;
        let carrier = Self {
            queue,
            queue_pair,
            send_memory: pd.register(SLOTS * SLOT, Access::LOCAL)?,
            free: (0..SLOTS).collect(),
            receive_memory: pd.register(SLOTS * (NETWORK_HEADER + SLOT), Access::LOCAL)?,
        };
        (0..SLOTS).try_for_each(|slot| carrier.receive(slot))?;
        Ok(carrier)
    }

    fn number(&self) -> u32 {
        self.queue_pair.number().value()
    }

    /// Posts a receive into a slot.
    fn receive(&self, slot: usize) -> Result<(), Errno> {
        let (at, length) = (slot * (NETWORK_HEADER + SLOT), NETWORK_HEADER + SLOT);
        let memory = self.receive_memory.slice(at..at + length).map_err(|_| Errno::INVALID)?;
        Ok(self.queue_pair.receive(RECEIVE | slot as u64, &[memory])?)
    }

    /// What was received into a slot, and from whom.
    fn taken(&self, slot: usize, length: usize) -> Option<(SocketAddr, Vec<u8>)> {
        let at = slot * (NETWORK_HEADER + SLOT);
        let packet = self.receive_memory.to_vec(at + NETWORK_HEADER..at + length).ok()?;
        let (Sender(from), header) = Sender::parse(&packet)?;
        Some((from, packet[header..].to_vec()))
    }

    /// Sends what is put into a slot.
    fn post(
        &self,
        slot: usize,
        ours: SocketAddr,
        data: &[u8],
        (handle, qpn): (&AddressHandle, Qpn),
    ) -> Result<(), Errno> {
        let (sender, header) = Sender(ours).emit();
        let at = slot * SLOT;
        let written = self.send_memory.write(at, &sender[..header]);
        written
            .and_then(|()| self.send_memory.write(at + header, data))
            .map_err(|_| Errno(libc::EMSGSIZE))?;
        let memory = self.send_memory.slice(at..at + header + data.len()).map_err(|_| Errno::INVALID)?;
        let slices = [memory];
        let work = Work::send(&slices).to_group(handle, qpn, RDMA_UDP_QKEY).id(slot as u64);
        Ok(self.queue_pair.post(&work)?)
    }
}

/// The interface that a link-local address is meant on; 0 if that is not said.
fn scope(address: SocketAddr) -> u32 {
    match address {
        SocketAddr::V4(_) => 0,
        SocketAddr::V6(address) => address.scope_id(),
    }
}
