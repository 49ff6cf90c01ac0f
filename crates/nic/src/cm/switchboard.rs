//! One host's QP 1, shared by many programs: which of them a datagram is for, who has which port, and
//! what peers are told when a program goes without a word.
//!
//! Every program has a [`Cm`](super::Cm) of its own, whose numbers end in the program's suffix. The
//! process that owns QP 1 has a `Switchboard`: it hands what arrives to the program named, and answers
//! for those that are gone. Programs send their datagrams themselves.
//!
//! It sees only what arrives. From that it learns which connections come about, so that it can end those
//! of a program that was killed, as a kernel would: the peer need not wait for its retries to run out.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};

use wire::cm::{CmMad, CmMessage, CmRoute, Dreq, RejReason, ServiceId};
use wire::{Gid, Qpn};

use super::config::Backoff;
use super::connections::RequestKey;
use super::passive::addresses;
use super::ports::Ports;
use super::receive::Origin;
use super::recent::Recent;
use super::{Bind, BindError, CmTransmit, Listen, ListenAddress, Path, stateless};
use crate::packet::Arrival;
use crate::time::{Duration, Instant};

/// Requests and connections that are remembered of all programs together.
const LIMIT: usize = 1 << 16;

/// Answers that may wait to be sent.
const MOST_ANSWERS: usize = 1 << 10;

/// When a farewell is said again, and how often: nobody waits for its end.
const FAREWELL: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_millis(4_000), 5);

/// One host's QP 1.
///
/// The order of calls: after any call call [`Switchboard::poll_transmit`] until it returns `None`, and
/// come back no later than [`Switchboard::poll_timeout`] says.
#[derive(Debug)]
pub struct Switchboard {
    /// The bits of a number that name the program.
    mask: u32,
    programs: BTreeSet<u32>,
    listens: BTreeMap<Listen, u32>,
    ports: Ports,
    /// Who was handed a request: it gets the repetitions too, should it have stopped listening.
    requests: Recent<RequestKey, Request>,
    /// Connections that came about, by our number.
    connections: Recent<u32, Peer>,
    farewells: BTreeMap<u32, Farewell>,
    transmits: VecDeque<CmTransmit>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    program: u32,
    service: ServiceId,
    qpn: Qpn,
}

/// The other side of a connection.
#[derive(Clone, Copy, Debug)]
struct Peer {
    path: Path,
    /// Its number for the connection.
    number: u32,
    qpn: Qpn,
}

/// A DREQ in the name of a program that is gone.
#[derive(Debug)]
struct Farewell {
    peer: Peer,
    backoff: Backoff,
    deadline: Instant,
}

impl Switchboard {
    /// No program yet. Numbers name their program by this many low bits.
    ///
    /// # Panics
    /// If these are more than 16.
    pub fn new(suffix_bits: u8, seed: u64) -> Self {
        assert!(suffix_bits <= 16, "unfit suffix of numbers");
        Self {
            mask: (1 << suffix_bits) - 1,
            programs: BTreeSet::new(),
            listens: BTreeMap::new(),
            ports: Ports::new(seed),
            requests: Recent::new(LIMIT),
            connections: Recent::new(LIMIT),
            farewells: BTreeMap::new(),
            transmits: VecDeque::new(),
        }
    }

    // ---- programs

    /// A program has come; its numbers end in `program`.
    pub fn join(&mut self, program: u32) {
        self.programs.insert(program & self.mask);
    }

    /// A program has gone, in whatever way: its ports are free, and its connections are ended.
    pub fn leave(&mut self, now: Instant, program: u32) {
        self.programs.remove(&program);
        self.listens.retain(|_, owner| *owner != program);
        self.ports.release_all(program);
        let mask = self.mask;
        let orphans: alloc::vec::Vec<u32> =
            self.connections.iter().map(|(number, _)| *number).filter(|n| n & mask == program).collect();
        for number in orphans {
            if let Some(peer) = self.connections.remove(&number) {
                self.say_farewell(now, number, peer);
            }
        }
    }

    /// Gives a program a port; returns which.
    pub fn bind(&mut self, program: u32, bind: Bind) -> Result<u16, BindError> {
        self.ports.bind(program, bind)
    }

    /// Takes a port back; `bind` names it as it was asked for, with the port that was given.
    pub fn release(&mut self, program: u32, bind: Bind) {
        self.ports.release(program, bind);
    }

    /// A program listens.
    pub fn listen(&mut self, program: u32, listen: Listen) -> Result<(), BindError> {
        match self.listens.get(&listen) {
            Some(_) => Err(BindError::InUse),
            None => {
                self.listens.insert(listen, program);
                Ok(())
            }
        }
    }

    /// It does not any more.
    pub fn unlisten(&mut self, program: u32, listen: Listen) {
        if self.listens.get(&listen) == Some(&program) {
            self.listens.remove(&listen);
        }
    }

    // ---- datagrams

    /// Whom a datagram that came to QP 1 is for; nobody if it was answered here, or is not for anyone.
    pub fn route(&mut self, now: Instant, arrival: &Arrival, gid_index: u8, bytes: &[u8]) -> Option<u32> {
        let mad = CmMad::parse(bytes).ok()?;
        let origin = Origin { peer: arrival.source, local: arrival.destination, gid_index };
        match CmRoute::of(&mad) {
            CmRoute::ByService { .. } => self.route_request(origin, &mad),
            CmRoute::ById(number) => self.route_named(now, origin, &mad, number),
            CmRoute::ByPeer(number) => {
                let key = RequestKey { peer: origin.peer, number, datagram: false };
                let program = self.requests.get(&key)?.program;
                self.programs.contains(&program).then_some(program)
            }
            CmRoute::Nobody => None,
        }
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self) -> Option<CmTransmit> {
        self.transmits.pop_front()
    }

    /// When [`Switchboard::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.farewells.values().map(|farewell| farewell.deadline).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut again = VecDeque::new();
        self.farewells.retain(|&number, farewell| {
            if farewell.deadline > now {
                return true;
            }
            let goes_on = farewell.backoff.retry();
            farewell.deadline = farewell.backoff.deadline(now, 0);
            if goes_on {
                again.push_back((farewell.peer.path, dreq(number, &farewell.peer)));
            }
            goes_on
        });
        again.into_iter().for_each(|(path, mad)| self.answer(path, &mad));
    }

    fn route_request(&mut self, origin: Origin, mad: &CmMad) -> Option<u32> {
        let (key, service, qpn, addresses) = match &mad.message {
            CmMessage::Req(req) => {
                let key = RequestKey { peer: origin.peer, number: req.local_id, datagram: false };
                (key, req.service, req.qpn, addresses(req.service, &*req.private_data))
            }
            CmMessage::SidrReq(req) => {
                let key = RequestKey { peer: origin.peer, number: req.request_id, datagram: true };
                (key, req.service, Qpn::default(), addresses(req.service, &*req.private_data))
            }
            _ => return None,
        };
        let before = self.requests.get(&key).filter(|request| request.service == service);
        let program = before.map(|request| request.program).filter(|program| self.programs.contains(program));
        let program = program.or_else(|| {
            ListenAddress::matching(addresses)
                .find_map(|address| self.listens.get(&Listen { service, datagram: key.datagram, address }))
                .copied()
        });
        let Some(program) = program else {
            self.refuse(origin, mad);
            return None;
        };
        self.requests.insert(key, Request { program, service, qpn });
        Some(program)
    }

    fn route_named(&mut self, now: Instant, origin: Origin, mad: &CmMad, number: u32) -> Option<u32> {
        let is_farewell =
            self.farewells.get(&number).is_some_and(|it| it.peer.path.destination == origin.peer);
        if let (true, CmMessage::Drep(_)) = (is_farewell, &mad.message) {
            self.farewells.remove(&number);
            return None;
        }
        self.learn(origin, mad, number);
        let program = number & self.mask;
        if self.programs.contains(&program) {
            return Some(program);
        }
        self.answer_for_gone(now, origin, mad, number);
        None
    }

    /// Notes which connections come about, and which end.
    fn learn(&mut self, origin: Origin, mad: &CmMad, number: u32) {
        let known = self.connections.get(&number);
        match &mad.message {
            // Of an XRC connection the queue pair stands in the place of the context.
            CmMessage::Rep(rep) if known.is_none() => {
                let qpn = if rep.qpn == Qpn::default() { rep.ee_context } else { rep.qpn };
                self.connections.insert(number, Peer { path: origin.path(), number: rep.local_id, qpn });
            }
            CmMessage::Rtu(rtu) if known.is_none() => {
                let key = RequestKey { peer: origin.peer, number: rtu.local_id, datagram: false };
                if let Some(&Request { qpn, .. }) = self.requests.get(&key) {
                    self.connections.insert(number, Peer { path: origin.path(), number: rtu.local_id, qpn });
                }
            }
            CmMessage::Dreq(_) | CmMessage::Drep(_) | CmMessage::Rej(_)
                if known.is_some_and(|peer| peer.path.destination == origin.peer) =>
            {
                self.connections.remove(&number);
            }
            _ => {}
        }
    }

    /// What a program would say that is not there any more.
    fn answer_for_gone(&mut self, now: Instant, origin: Origin, mad: &CmMad, number: u32) {
        match &mad.message {
            CmMessage::Rep(rep) => {
                self.connections.remove(&number);
                self.answer(origin.path(), &stateless::unwanted(mad, rep));
            }
            CmMessage::Dreq(dreq) => self.answer(origin.path(), &stateless::confirmation(mad, dreq)),
            CmMessage::Rtu(_) => {
                if let Some(peer) = self.connections.remove(&number) {
                    self.say_farewell(now, number, peer);
                }
            }
            _ => {}
        }
    }

    fn refuse(&mut self, origin: Origin, mad: &CmMad) {
        let answer = match &mad.message {
            CmMessage::Req(req) => stateless::refusal(mad, req, RejReason::INVALID_SERVICE_ID, &[]),
            CmMessage::SidrReq(req) => stateless::no_service(mad, req),
            _ => return,
        };
        self.answer(origin.path(), &answer);
    }

    fn say_farewell(&mut self, now: Instant, number: u32, peer: Peer) {
        let mad = dreq(number, &peer);
        let farewell = Farewell { peer, backoff: FAREWELL, deadline: FAREWELL.deadline(now, 0) };
        self.farewells.insert(number, farewell);
        self.transmits.push_back(CmTransmit { route: peer.path.route(), mad: mad.emit() });
    }

    fn answer(&mut self, path: Path, mad: &CmMad) {
        let to_nobody = |gid: Gid| gid.is_unspecified() || gid.is_multicast();
        if self.transmits.len() < MOST_ANSWERS && !to_nobody(path.destination) && !to_nobody(path.source) {
            self.transmits.push_back(CmTransmit { route: path.route(), mad: mad.emit() });
        }
    }
}

/// A DREQ for a connection that we call `number`.
fn dreq(number: u32, peer: &Peer) -> CmMad {
    let dreq = Dreq { local_id: number, remote_id: peer.number, remote_qpn: peer.qpn, ..Dreq::default() };
    CmMad { transaction_id: number.into(), attribute_modifier: 0, message: CmMessage::Dreq(dreq) }
}
