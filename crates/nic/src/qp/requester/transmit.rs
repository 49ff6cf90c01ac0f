//! What the requester sends next.

use wire::{AtomicEth, Extended, Headers, Immediate, Operation, Reth};

use super::{Requester, is_draining, is_reliable};
use crate::congestion::CongestionControl;
use crate::memory::Memory;
use crate::packet::{Message, Run, Transmit};
use crate::qp::connection::Connection;
use crate::qp::scatter::{self, ScatterError};
use crate::qp::send_queue::{Progress, Request, Sequence};
use crate::qp::timer::Timer;
use crate::qp::{Environment, PACKET_OVERHEAD, single};
use crate::verbs::{Remote, SendOperation, Status};

/// The most PSNs in flight. Half of the 2^24 must be free so that old and new can be told apart (IBTA
/// 9.7.1); a quarter leaves no doubt.
const MOST_PACKETS: u32 = 1 << 22;

/// A run of packets that was built and is about to leave.
struct Sending {
    /// PSNs that it takes.
    packets: u32,
    /// Bytes that it puts in flight, in either direction.
    bytes: u32,
    /// Bytes of them that leave now.
    leaving: u32,
    /// Whether it asks for an answer.
    asks: bool,
}

impl Sending {
    /// A READ request or atomic, of which the answer is the larger part.
    fn request(packets: u32, bytes: u32) -> Self {
        Self { packets, bytes, leaving: PACKET_OVERHEAD, asks: true }
    }
}

impl Requester {
    /// The next run of at most `max_packets` packets.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        max_packets: u32,
    ) -> Option<Transmit> {
        while let Some(request) = self.queue.requests.get(self.cursor) {
            if request.progress == Progress::Done {
                self.cursor += 1;
                continue;
            }
            if !self.may_send(connection, request) {
                return None;
            }
            if request.is_local() {
                self.execute(connection, env);
                continue;
            }
            if self.is_paced(env) {
                return None;
            }
            return match self.build(connection, env, max_packets) {
                Ok((transmit, sending)) => {
                    self.record(connection, env, &sending);
                    Some(transmit)
                }
                Err(Hold::Wait) => None,
                Err(Hold::Refuse(status)) => {
                    self.refuse(connection, env, status);
                    None
                }
            };
        }
        None
    }

    /// Whether order allows the request that is next to go on.
    fn may_send(&self, connection: Connection<'_>, request: &Request) -> bool {
        if self.is_broken || self.timers.is_running(Timer::RnrWait) {
            return false;
        }
        match request.progress {
            Progress::Started => return true,
            Progress::Refused(_) => return false,
            Progress::Waiting | Progress::Done => {}
        }
        if is_draining(connection) {
            return false;
        }
        match request.operation {
            // It waits for all that was posted before (IBTA 10.8.3.3).
            SendOperation::LocalInvalidate(_) => self.cursor == 0,
            _ => !request.flags.fence || self.reads == 0,
        }
    }

    /// Whether congestion control makes us wait; if so, a timer says how long.
    pub fn is_paced<M>(&mut self, env: &Environment<'_, M>) -> bool {
        match self.congestion.next_send() {
            Some(time) if time > env.now => {
                self.timers.set(Timer::Pacing, time);
                true
            }
            _ => false,
        }
    }

    /// Does the request that is next, which needs no packets.
    fn execute<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        let Some(request) = self.queue.requests.get_mut(self.cursor) else { return };
        let (pd, qpn) = (connection.pd(), connection.qpn);
        request.progress = match request.operation {
            SendOperation::LocalInvalidate(key) => match env.keys.invalidate(pd, qpn, key) {
                Ok(()) => Progress::Done,
                Err(_) => Progress::Refused(Status::LocalQpOperationError),
            },
            SendOperation::BindWindow { window, rkey, ref binding } => {
                match env.keys.bind(pd, qpn, window, rkey, binding) {
                    Ok(()) => Progress::Done,
                    Err(_) => Progress::Refused(Status::MemoryWindowBindError),
                }
            }
            _ => return,
        };
        if request.progress == Progress::Done {
            self.cursor += 1;
        }
        self.settle(connection, env);
    }

    /// Marks the request that is next as one that cannot be sent. It completes once what was posted
    /// before it is complete.
    fn refuse<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        status: Status,
    ) {
        if let Some(request) = self.queue.requests.get_mut(self.cursor) {
            request.progress = Progress::Refused(status);
        }
        self.settle(connection, env);
    }

    fn build<M: Memory>(
        &self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        max_packets: u32,
    ) -> Result<(Transmit, Sending), Hold> {
        let request = self.queue.requests.get(self.cursor).ok_or(Hold::Wait)?;
        match request.operation {
            SendOperation::Read(remote) => self.build_read(connection, env, request, remote),
            SendOperation::CompareSwap { remote, compare, swap } => {
                let operands =
                    AtomicEth { va: remote.address, rkey: remote.rkey, swap_or_add: swap, compare };
                self.build_atomic(connection, env, request, Operation::CompareSwap, operands)
            }
            SendOperation::FetchAdd { remote, add } => {
                let operands =
                    AtomicEth { va: remote.address, rkey: remote.rkey, swap_or_add: add, compare: 0 };
                self.build_atomic(connection, env, request, Operation::FetchAdd, operands)
            }
            _ => self.build_message(connection, env, request, max_packets),
        }
    }

    /// A run of a SEND or RDMA WRITE.
    fn build_message<M: Memory>(
        &self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        request: &Request,
        max_packets: u32,
    ) -> Result<(Transmit, Sending), Hold> {
        let mtu = connection.mtu();
        let offset = self.next.since(request.first);
        let remaining = request.packets - offset;
        let packets = if is_reliable(connection) {
            self.admit(remaining.min(max_packets), mtu)
        } else {
            remaining.min(max_packets)
        };
        if packets == 0 {
            return Err(Hold::Wait);
        }
        let ends = packets == remaining;
        if offset == 0 && !ends {
            // Nothing of a message is sent if a part of it cannot be.
            scatter::check(env.keys, connection.pd(), request.elements(), false)?;
        }
        let range = offset * mtu..((offset + packets) * mtu).min(request.length);
        let bytes = request.wire_bytes(mtu, offset, offset + packets);
        let asks = is_reliable(connection) && (ends || self.should_ask(bytes, mtu));
        let (message, first) = self.message_headers(connection, request);
        let transmit = Transmit {
            route: *connection.route,
            source_qp: connection.qpn,
            payload: request.payload(env.keys, connection.pd(), range.clone())?,
            payload_length: range.end - range.start,
            first,
            run: Run { message, packets, mtu, begins: offset == 0, ends, ack_request: asks },
        };
        Ok((transmit, Sending { packets, bytes, leaving: bytes, asks }))
    }

    fn message_headers(&self, connection: Connection<'_>, request: &Request) -> (Message, Headers) {
        let reth = |remote: Remote| {
            Extended::Reth(Reth { va: remote.address, rkey: remote.rkey, length: request.length })
        };
        let (message, extended, immediate) = match request.operation {
            SendOperation::SendWithImmediate(data) => (Message::Send, Extended::None, Immediate::Data(data)),
            SendOperation::SendWithInvalidate(key) => {
                (Message::Send, Extended::None, Immediate::Invalidate(key))
            }
            SendOperation::Write(remote) => (Message::Write, reth(remote), Immediate::None),
            SendOperation::WriteWithImmediate(remote, data) => {
                (Message::Write, reth(remote), Immediate::Data(data))
            }
            _ => (Message::Send, Extended::None, Immediate::None),
        };
        // The run fills in the operation of each packet.
        let mut headers = connection.headers(Operation::SendOnly, self.psn(self.next));
        let wakes = message == Message::Send || immediate != Immediate::None;
        headers.bth.solicited = wakes && request.flags.solicited;
        (message, Headers { extended, immediate, ..headers })
    }

    /// A READ request for what is missing of a chunk.
    fn build_read<M: Memory>(
        &self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        request: &Request,
        remote: Remote,
    ) -> Result<(Transmit, Sending), Hold> {
        let mtu = connection.mtu();
        let offset = self.next.since(request.first);
        if offset == 0 {
            scatter::check(env.keys, connection.pd(), request.elements(), true)?;
        }
        let end = request.chunk_end(offset, read_chunk(connection, env));
        let bytes = request.wire_bytes(mtu, offset, end);
        self.admit_read(connection, end - offset, bytes)?;
        let start = offset * mtu;
        let reth = Reth {
            va: remote.address.wrapping_add(u64::from(start)),
            rkey: remote.rkey,
            length: (end * mtu).min(request.length) - start,
        };
        let headers = Headers {
            extended: Extended::Reth(reth),
            ..connection.headers(Operation::ReadRequest, self.psn(self.next))
        };
        Ok((single(connection, headers), Sending::request(end - offset, bytes)))
    }

    fn build_atomic<M: Memory>(
        &self,
        connection: Connection<'_>,
        env: &Environment<'_, M>,
        request: &Request,
        operation: Operation,
        operands: AtomicEth,
    ) -> Result<(Transmit, Sending), Hold> {
        if request.length < 8 {
            return Err(Hold::Refuse(Status::LocalLengthError));
        }
        scatter::check(env.keys, connection.pd(), request.elements(), true)?;
        let bytes = request.wire_bytes(connection.mtu(), 0, 1);
        self.admit_read(connection, 1, bytes)?;
        let headers = Headers {
            extended: Extended::Atomic(operands),
            ..connection.headers(operation, self.psn(self.next))
        };
        Ok((single(connection, headers), Sending::request(1, bytes)))
    }

    /// How many of `wanted` packets the window admits. Not a few at a time, unless that is all there is
    /// to send: long runs are cheap.
    fn admit(&self, wanted: u32, mtu: u32) -> u32 {
        let packet = mtu + PACKET_OVERHEAD;
        let window = self.congestion.window();
        let room = window.saturating_sub(self.flight.bytes) / packet;
        let room = room.min(MOST_PACKETS.saturating_sub(self.next.since(self.unanswered)));
        if !self.awaits_answer() {
            // The window may have shrunk, and nothing in flight will open it.
            return wanted.min(room.max(1));
        }
        let burst = (window / 4 / packet).max(1);
        if room < wanted.min(burst) { 0 } else { room.min(wanted) }
    }

    /// Whether a READ request or atomic may be sent whose answer takes `packets` PSNs and `bytes`.
    fn admit_read(&self, connection: Connection<'_>, packets: u32, bytes: u32) -> Result<(), Hold> {
        let most = u32::from(connection.attributes.max_rd_atomic);
        if most == 0 {
            // It would wait for ever.
            return Err(Hold::Refuse(Status::LocalQpOperationError));
        }
        let fits = self.flight.bytes.saturating_add(bytes) <= self.congestion.window()
            && self.next.since(self.unanswered) + packets <= MOST_PACKETS;
        if self.reads < most && (fits || !self.awaits_answer()) { Ok(()) } else { Err(Hold::Wait) }
    }

    /// Whether a run of `bytes` in the middle of a message shall ask for an acknowledgement: often
    /// enough that the window moves on before it is used up.
    fn should_ask(&self, bytes: u32, mtu: u32) -> bool {
        let window = self.congestion.window();
        let in_flight = self.flight.bytes.saturating_add(bytes);
        self.flight.unrequested.saturating_add(bytes) >= window / 4
            || in_flight.saturating_add(mtu + PACKET_OVERHEAD) > window
    }

    /// Moves on behind what was sent.
    fn record<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sending: &Sending,
    ) {
        let is_new = self.next >= self.top;
        if !is_new {
            env.counters.retransmitted += u64::from(sending.packets.min(self.top.since(self.next)));
        }
        self.next = self.next.after(sending.packets);
        self.top = self.top.max(self.next);
        self.congestion.on_send(env.now, sending.leaving);
        let Some(request) = self.queue.requests.get_mut(self.cursor) else { return };
        request.progress = Progress::Started;
        let wants_response = request.wants_response();
        if self.next == request.end() {
            self.cursor += 1;
        }
        if !is_reliable(connection) {
            self.unanswered = self.next;
            return self.settle(connection, env);
        }
        self.reads += u32::from(wants_response);
        self.flight.record(sending, self.next);
        if sending.asks {
            if is_new && self.flight.sample.is_none() {
                self.flight.sample = Some((self.next, env.now));
            }
            self.start_timer(connection, env.now);
        }
        if core::mem::take(&mut self.recovery.insists) {
            self.go_back();
        }
    }
}

/// Why nothing is sent.
enum Hold {
    /// It must wait.
    Wait,
    /// It will never be.
    Refuse(Status),
}

impl From<ScatterError> for Hold {
    fn from(error: ScatterError) -> Self {
        Self::Refuse(error.status())
    }
}

impl super::Flight {
    fn record(&mut self, sending: &Sending, next: Sequence) {
        self.bytes = self.bytes.saturating_add(sending.bytes);
        if sending.asks {
            self.requested = next;
            self.unrequested = 0;
        } else {
            self.unrequested = self.unrequested.saturating_add(sending.bytes);
        }
    }
}

impl Request {
    /// Bytes on the wire of its packets `from` to `to`; of a READ, of its response's.
    pub(super) fn wire_bytes(&self, mtu: u32, from: u32, to: u32) -> u32 {
        let payload = (to * mtu).min(self.length) - (from * mtu).min(self.length);
        payload + (to - from) * PACKET_OVERHEAD
    }

    /// The end of the chunk of a READ that packet `offset` is in.
    pub(super) fn chunk_end(&self, offset: u32, chunk: u32) -> u32 {
        ((offset / chunk + 1) * chunk).min(self.packets)
    }
}

/// A READ is asked for in chunks of so many packets, as if it were several, because nothing else bounds
/// what a responder sends at once: half of the largest window each, so that two keep the wire busy.
pub(super) fn read_chunk<M>(connection: Connection<'_>, env: &Environment<'_, M>) -> u32 {
    let packet = connection.mtu() + PACKET_OVERHEAD;
    (env.config.window / 2 / packet).clamp(1, MOST_PACKETS / 2)
}
