//! One queue pair: its attributes, its queues and its protocol machines.
//!
//! | file | idea |
//! |---|---|
//! | `state`, `modify` | which states and attributes there are, and what may follow what |
//! | `lifecycle` | how it comes to work, drains, and breaks |
//! | `transport` | which machines a kind of queue pair has |
//! | `requester` | sends requests and takes their answers (RC, UC) |
//! | `responder` | takes requests and answers them (RC, UC) |
//! | `datagram` | sends and takes datagrams (UD) |
//! | `notification` | says that a packet met congestion |
//! | `send_queue`, `scatter` | requests, and the memory that they name |
//! | `connection`, `environment` | what the machines are given: their parameters, and the rest of the adapter |
//! | `timer` | deadlines and time codes |

mod connection;
mod datagram;
mod environment;
mod lifecycle;
mod modify;
mod notification;
mod requester;
mod responder;
mod scatter;
mod send_queue;
mod state;
mod table;
mod timer;
mod transport;

pub(crate) use datagram::Destination;
pub(crate) use environment::Environment;
pub(crate) use modify::modified;
pub(crate) use table::QpTable;

use smallvec::SmallVec;
use wire::{Headers, Qpn};

use self::connection::Connection;
use self::notification::NotificationPoint;
use self::transport::Transport;
use crate::congestion::CongestionControl;
use crate::memory::{Memory, Payload};
use crate::nic::Config;
use crate::packet::{Arrival, PayloadSource, Route, Run, Transmit};
use crate::receive::ReceiveQueue;
use crate::time::Instant;
use crate::verbs::{AsyncEvent, PostError, QpAttributes, QpInit, QpState, QpType, RecvRequest, SendRequest};

/// Bytes of a packet that are not payload, about: Ethernet, IPv4, UDP, BTH, a RETH half the time, ICRC.
const PACKET_OVERHEAD: u32 = 66;

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    /// Its number.
    pub qpn: Qpn,
    /// What `modify_qp` set, checked; the protocol machines take their parameters from here. PSNs are
    /// those it was set to, not those it has come to.
    pub attributes: QpAttributes,
    /// Its own receive queue; empty and unused with a shared one.
    pub receives: ReceiveQueue,
    /// Its place among those that want to send or wait.
    pub scheduled: Scheduled,
    /// The way to the peer, from RTR on.
    route: Route,
    transport: Transport,
    notifications: NotificationPoint,
    /// Whether answers go before requests the next time.
    answers_first: bool,
    /// Whether a packet arrived since RTR.
    is_established: bool,
}

/// What the adapter's schedule knows of a queue pair.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scheduled {
    /// It is in the list of those that want to send.
    pub is_ready: bool,
    /// It is in the list of those that want to send a single packet soon.
    pub is_urgent: bool,
    /// When it will be woken.
    pub wakeup: Option<Instant>,
}

impl QueuePair {
    /// A queue pair in RESET, of objects that exist and sizes that were checked.
    pub fn new(qpn: Qpn, init: QpInit, config: &Config) -> Self {
        let sizes = init.capabilities;
        Self {
            qpn,
            attributes: QpAttributes::in_reset(init),
            receives: ReceiveQueue::new(sizes.max_recv_wr, sizes.max_recv_sge),
            scheduled: Scheduled::default(),
            route: Route::default(),
            transport: Transport::new(init.qp_type, config),
            notifications: NotificationPoint::default(),
            answers_first: false,
            is_established: false,
        }
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.attributes.state
    }

    /// Its attributes with the PSNs it has come to.
    pub fn query(&self) -> QpAttributes {
        let sq_psn = self.transport.next_psn();
        let rq_psn = self.transport.expected_psn().unwrap_or(self.attributes.rq_psn);
        QpAttributes { sq_psn, rq_psn, ..self.attributes }
    }

    /// How many more send requests its queue takes.
    pub fn send_room(&self) -> usize {
        let size = self.attributes.init.capabilities.max_send_wr as usize;
        size.saturating_sub(self.transport.posted())
    }

    /// Posts a send request; a datagram with its destination.
    pub fn post_send<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        request: &SendRequest<'_>,
        destination: Option<Destination>,
    ) -> Result<(), PostError> {
        if matches!(self.state(), QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(PostError::InvalidState);
        }
        let (connection, transport, _) = self.split();
        match transport {
            Transport::Reliable(requester, _) | Transport::Unreliable(requester, _) => {
                requester.post(connection, request)?;
            }
            Transport::Datagram(sender) => {
                let destination = destination.ok_or(PostError::InvalidDestination)?;
                sender.post(connection, request, destination, env.port.mtu().bytes())?;
            }
        }
        if matches!(self.state(), QpState::Error | QpState::Sqe) {
            self.flush_sends(env);
        }
        Ok(())
    }

    /// Posts a receive request.
    pub fn post_receive<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        request: &RecvRequest<'_>,
    ) -> Result<(), PostError> {
        if self.attributes.init.srq.is_some() {
            return Err(PostError::InvalidOperation);
        }
        if self.state() == QpState::Reset {
            return Err(PostError::InvalidState);
        }
        self.receives.post(request)?;
        if self.state() == QpState::Error {
            self.flush_receives(env);
        }
        Ok(())
    }

    /// Takes a packet for it. `payload` comes without the pad.
    pub fn handle_packet<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        arrival: &Arrival,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        if !self.takes(env, arrival, headers) {
            return;
        }
        env.counters.received_packets += 1;
        env.counters.received_bytes += payload.len() as u64;
        if self.attributes.init.qp_type != QpType::Ud {
            self.notifications.on_packet(env, arrival);
        }
        self.on_first_packet(env);
        let (connection, transport, receives) = self.split();
        match transport {
            Transport::Reliable(requester, responder) => {
                if headers.bth.opcode.is_response() {
                    requester.handle_response(connection, env, headers, payload);
                } else {
                    responder.handle_request(connection, receives, env, headers, payload);
                }
            }
            Transport::Unreliable(_, responder) => {
                if !responder.handle_request(connection, receives, env, headers, payload) {
                    self.enter_error(env);
                }
            }
            Transport::Datagram(_) => {
                if !datagram::receive(connection, receives, env, arrival, headers, payload) {
                    self.enter_error(env);
                }
            }
        }
        self.review(env);
    }

    /// Takes a congestion notification.
    pub fn handle_notification<M>(&mut self, env: &mut Environment<'_, M>, arrival: &Arrival) {
        if arrival.source != self.route.destination {
            env.counters.dropped_unknown_qp += 1;
            return;
        }
        if let Some(requester) = self.transport.requester_mut() {
            env.counters.rp_cnp_handled += 1;
            requester.congestion.on_cnp(env.now);
        }
    }

    /// The next run of at most `max_packets` packets.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        max_packets: u32,
    ) -> Option<Transmit> {
        if let Some(notification) = self.poll_notification(env) {
            return Some(notification);
        }
        let answers_first = self.answers_first || self.transport.has_urgent_answer();
        let transmit = if answers_first {
            self.poll_answers(env, max_packets).or_else(|| self.poll_requests(env, max_packets))
        } else {
            self.poll_requests(env, max_packets).or_else(|| self.poll_answers(env, max_packets))
        };
        self.answers_first = !self.answers_first;
        self.review(env);
        transmit
    }

    /// Whether it may have something to send.
    pub fn wants_transmit(&self) -> bool {
        self.notifications.is_due()
            || self.transport.has_answer()
            || (self.transport.has_request() && self.can_send())
    }

    /// Whether it has a single packet to send that should not wait behind data.
    pub fn is_urgent(&self) -> bool {
        self.notifications.is_due() || self.transport.has_urgent_answer()
    }

    /// When [`Self::handle_timeout`] is to be called.
    pub fn next_timeout(&self) -> Option<Instant> {
        self.transport.requester()?.timers.next()
    }

    /// Does what is due.
    pub fn handle_timeout<M: Memory>(&mut self, env: &mut Environment<'_, M>) {
        let (connection, transport, _) = self.split();
        if let Some(requester) = transport.requester_mut() {
            while let Some(timer) = requester.timers.expire(env.now) {
                requester.handle_timeout(connection, env, timer);
            }
        }
        self.review(env);
    }

    /// Whether it is in a state and of a kind to take such a packet from there.
    fn takes<M>(&self, env: &mut Environment<'_, M>, arrival: &Arrival, headers: &Headers) -> bool {
        let is_connected = self.attributes.init.qp_type != QpType::Ud;
        let is_ready = matches!(self.state(), QpState::Rtr | QpState::Rts | QpState::Sqd | QpState::Sqe);
        // IBTA 9.6.1: a connection takes packets on its own path only.
        let is_from_peer = !is_connected
            || (arrival.source == self.route.destination && arrival.destination == self.route.source);
        if !is_ready || !is_from_peer {
            env.counters.dropped_unknown_qp += 1;
            return false;
        }
        let opcode = headers.bth.opcode;
        if opcode.service != self.connection().service() || !opcode.is_known() {
            env.counters.dropped_malformed += 1;
            return false;
        }
        if !env.port.pkey(self.attributes.pkey_index).is_some_and(|own| pkeys_match(own, headers.bth.pkey)) {
            env.counters.dropped_pkey += 1;
            return false;
        }
        true
    }

    /// IBTA 11.6.3.3: the first packet in RTR is worth an event.
    fn on_first_packet<M>(&mut self, env: &mut Environment<'_, M>) {
        if !self.is_established && self.state() == QpState::Rtr {
            env.raise(AsyncEvent::CommunicationEstablished(self.qpn));
        }
        self.is_established = true;
    }

    fn poll_answers<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        max_packets: u32,
    ) -> Option<Transmit> {
        // What the responder has to say, it says also after it ended the connection.
        let (connection, Transport::Reliable(requester, responder), _) = self.split() else { return None };
        let is_data = responder.is_read_next();
        // READ responses are paced with the rest of the data.
        if is_data && requester.is_paced(env) {
            return None;
        }
        let answer = responder.poll_transmit(connection, env, max_packets)?;
        if is_data {
            let bytes = answer.payload_length + answer.run.packets * PACKET_OVERHEAD;
            requester.congestion.on_send(env.now, bytes);
        }
        Some(answer)
    }

    fn poll_notification<M>(&mut self, env: &mut Environment<'_, M>) -> Option<Transmit> {
        let connection = connection_of(&self.attributes, self.qpn, &self.route);
        self.notifications.poll_transmit(connection, env)
    }

    fn poll_requests<M: Memory>(
        &mut self,
        env: &mut Environment<'_, M>,
        max_packets: u32,
    ) -> Option<Transmit> {
        if !self.can_send() {
            return None;
        }
        let (connection, transport, _) = self.split();
        match transport {
            Transport::Reliable(requester, _) | Transport::Unreliable(requester, _) => {
                requester.poll_transmit(connection, env, max_packets)
            }
            Transport::Datagram(sender) => sender.poll_transmit(connection, env),
        }
    }

    fn can_send(&self) -> bool {
        matches!(self.state(), QpState::Rts | QpState::Sqd)
    }

    fn connection(&self) -> Connection<'_> {
        connection_of(&self.attributes, self.qpn, &self.route)
    }

    /// The machines beside their parameters and the receive queue.
    fn split(&mut self) -> (Connection<'_>, &mut Transport, &mut ReceiveQueue) {
        let connection = connection_of(&self.attributes, self.qpn, &self.route);
        (connection, &mut self.transport, &mut self.receives)
    }
}

fn connection_of<'a>(attributes: &'a QpAttributes, qpn: Qpn, route: &'a Route) -> Connection<'a> {
    Connection { qpn, attributes, route }
}

/// Whether two partition keys meet: the same partition, and one of them a full member (IBTA 10.9.3).
fn pkeys_match(own: u16, other: u16) -> bool {
    const FULL_MEMBER: u16 = 0x8000;
    (own ^ other) & !FULL_MEMBER == 0 && (own | other) & FULL_MEMBER != 0
}

/// A packet without payload.
fn single(connection: Connection<'_>, first: Headers) -> Transmit {
    Transmit {
        route: *connection.route,
        source_qp: connection.qpn,
        payload: PayloadSource::Memory(SmallVec::new()),
        payload_length: 0,
        first,
        run: Run::SINGLE,
    }
}
