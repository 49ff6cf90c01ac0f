//! What an answer means to the requester (IBTA 9.7.5, 9.7.7).

use wire::{Aeth, Extended, Headers, NakCode, Operation, Psn, Syndrome};

use super::transmit::read_chunk;
use super::{RNR_RETRY_FOR_EVER, Recovery, Requester};
use crate::congestion::CongestionControl;
use crate::memory::{Memory, Payload};
use crate::qp::Environment;
use crate::qp::connection::Connection;
use crate::qp::scatter;
use crate::qp::send_queue::{Request, Sequence};
use crate::qp::timer::{Timer, rnr_wait};
use crate::verbs::{SendOperation, Status};

impl Requester {
    /// Takes an answer. Those to nothing that is in flight are ignored.
    pub fn handle_response<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        let Some(sequence) = self.sequence_of(headers.bth.psn) else { return };
        match (headers.bth.opcode.operation, headers.extended) {
            (Operation::Ack, Extended::Aeth(aeth)) => self.on_acknowledge(connection, env, sequence, aeth),
            (Operation::AtomicAck, Extended::AtomicAck(_, result)) => {
                self.on_atomic(connection, env, sequence, result.original);
            }
            _ => self.on_read_response(connection, env, sequence, headers, payload),
        }
    }

    /// The packet in flight with this PSN.
    fn sequence_of(&self, psn: Psn) -> Option<Sequence> {
        let ahead = u32::try_from(psn.distance(self.psn(self.unanswered))).ok()?;
        Some(self.unanswered.after(ahead)).filter(|&sequence| sequence < self.top)
    }

    fn on_acknowledge<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
        aeth: Aeth,
    ) {
        match aeth.syndrome {
            Syndrome::Ack { .. } => {
                if !self.acknowledge(connection, env, sequence.after(1)) {
                    self.suspect_loss(connection, env, sequence);
                }
            }
            Syndrome::RnrNak { timer } => self.on_rnr(connection, env, sequence, timer),
            Syndrome::Nak(NakCode::PsnSequence) => {
                env.counters.packet_seq_err += 1;
                if self.answer_before(connection, env, sequence) && self.has_sent_since_retry() {
                    self.retry(connection, env);
                }
            }
            Syndrome::Nak(code) => self.on_refusal(connection, env, sequence, code),
            Syndrome::Reserved(_) => env.counters.dropped_malformed += 1,
        }
    }

    /// The responder refused the request that `sequence` is in, and answers no more. A READ it has
    /// answered in part ends too, whether or not all of the part arrived.
    fn on_refusal<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
        code: NakCode,
    ) {
        let status = match code {
            NakCode::InvalidRequest => Status::RemoteInvalidRequest,
            NakCode::RemoteAccess => Status::RemoteAccessError,
            NakCode::RemoteOperational => Status::RemoteOperationError,
            NakCode::PsnSequence | NakCode::InvalidRdRequest | NakCode::Reserved(_) => {
                env.counters.dropped_malformed += 1;
                return;
            }
        };
        let reached = self.acknowledge(connection, env, sequence);
        let is_in_front = self.queue.requests.front().is_some_and(|front| sequence < front.end());
        if is_in_front {
            self.fail(connection, env, status);
        } else if !reached {
            self.suspect_loss(connection, env, sequence);
        }
    }

    /// The responder has no receive for the request at `sequence` (IBTA 9.7.5.2.8).
    fn on_rnr<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
        timer: u8,
    ) {
        env.counters.rcvd_rnr_err += 1;
        if !self.answer_before(connection, env, sequence) || !self.has_sent_since_retry() {
            return;
        }
        if connection.attributes.rnr_retry != RNR_RETRY_FOR_EVER {
            if self.recovery.rnr_retries == 0 {
                env.counters.retry_rnr_exceeded += 1;
                return self.fail(connection, env, Status::RnrRetryExceeded);
            }
            self.recovery.rnr_retries -= 1;
        }
        // Whoever says that it is not ready is there: only silence in a row ends the connection.
        self.recovery = Recovery { rnr_retries: self.recovery.rnr_retries, ..Recovery::fresh(connection) };
        self.go_back();
        self.timers.set(Timer::RnrWait, env.now + rnr_wait(timer));
    }

    fn on_read_response<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        if !self.answer_before(connection, env, sequence) {
            return;
        }
        let Some(request) = self.queue.requests.front() else { return };
        if !matches!(request.operation, SendOperation::Read(_)) || self.unanswered < request.first {
            env.counters.dropped_malformed += 1;
            return;
        }
        let mtu = connection.mtu();
        let offset = sequence.since(request.first);
        let chunk = read_chunk(connection, env);
        let end = request.chunk_end(offset, chunk);
        let begins = offset.is_multiple_of(chunk);
        if !is_expected(request, mtu, offset, begins, end, headers, payload.len()) {
            return self.fail(connection, env, Status::BadResponse);
        }
        let at = offset * mtu;
        let placed = scatter::scatter(env.keys, env.memory, connection.pd(), request.elements(), at, payload);
        if let Err(error) = placed {
            return self.fail(connection, env, error.status());
        }
        let bytes = request.wire_bytes(mtu, offset, offset + 1);
        let chunk_end = request.first.after(end);
        self.finish_read(chunk_end, sequence.after(1));
        self.advance(connection, env, sequence.after(1), bytes);
    }

    fn on_atomic<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
        original: u64,
    ) {
        if !self.answer_before(connection, env, sequence) {
            return;
        }
        let Some(request) = self.queue.requests.front() else { return };
        let is_atomic =
            matches!(request.operation, SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. });
        if !is_atomic || self.unanswered < request.first {
            env.counters.dropped_malformed += 1;
            return;
        }
        // The word is returned as this machine stores it (IBTA 9.4.5).
        let word = original.to_ne_bytes();
        let placed = scatter::scatter(
            env.keys,
            env.memory,
            connection.pd(),
            request.elements(),
            0,
            Payload::Bytes(&word),
        );
        if let Err(error) = placed {
            return self.fail(connection, env, error.status());
        }
        let bytes = request.wire_bytes(connection.mtu(), 0, 1);
        self.finish_read(sequence.after(1), sequence.after(1));
        self.advance(connection, env, sequence.after(1), bytes);
    }

    /// Counts a READ request or atomic as answered if `reached` is its end. It does not count if it
    /// was to be sent again and the answer to its first sending came after all.
    fn finish_read(&mut self, end: Sequence, reached: Sequence) {
        if reached == end && self.next >= end {
            self.reads = self.reads.saturating_sub(1);
        }
    }

    /// An answer to `sequence` came: takes everything before as answered. False if the response of a
    /// READ or atomic among it is missing: it was lost, and an answer to what came later does not stand
    /// for it (IBTA 9.7.5.1), so it is asked for again.
    fn answer_before<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        sequence: Sequence,
    ) -> bool {
        let reached = self.acknowledge(connection, env, sequence);
        if !reached {
            self.suspect_loss(connection, env, sequence);
        }
        reached
    }

    /// Takes everything before `to` as answered, as far as an acknowledgement answers it. Whether that
    /// was all.
    fn acknowledge<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        to: Sequence,
    ) -> bool {
        let mtu = connection.mtu();
        let (mut reached, mut bytes) = (self.unanswered, 0_u32);
        for request in &self.queue.requests {
            if request.first >= to || request.wants_response() {
                break;
            }
            let end = request.end().min(to);
            let (from, until) = (reached.since(request.first), end.since(request.first));
            bytes = bytes.saturating_add(request.wire_bytes(mtu, from, until));
            reached = end;
        }
        if reached > self.unanswered {
            self.advance(connection, env, reached, bytes);
        }
        reached >= to
    }

    /// Moves `unanswered`, by `bytes`: progress, which renews our patience.
    fn advance<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        to: Sequence,
        bytes: u32,
    ) {
        self.unanswered = to;
        self.flight.bytes = self.flight.bytes.saturating_sub(bytes);
        if self.next < to {
            // An answer to the first sending came while it waited to be sent again.
            self.next = to;
            self.flight.bytes = 0;
        }
        self.recovery = Recovery::fresh(connection);
        let sample = self.flight.sample.take_if(|(end, _)| *end <= to);
        self.congestion.on_ack(env.now, bytes, sample.map(|(_, sent)| sent));
        self.settle(connection, env);
        self.restart_timer(connection, env.now);
    }

    /// An answer to `evidence` came and an earlier one did not: sends again what is missing, once. Later
    /// answers to what was sent before that say nothing new.
    fn suspect_loss<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        evidence: Sequence,
    ) {
        let is_old = self.recovery.last.is_some_and(|(from, top)| from == self.unanswered && evidence < top);
        if !is_old && self.has_sent_since_retry() {
            self.retry(connection, env);
        }
    }

    /// Whether an error can be about what was sent last, and does not come in a wait for a receive.
    fn has_sent_since_retry(&self) -> bool {
        self.next > self.unanswered && !self.timers.is_running(Timer::RnrWait)
    }
}

/// Whether a packet of a READ response is the one that belongs at packet `offset` of a READ, in a chunk
/// that ends at packet `end`. After a retry a response begins anew in the middle of a chunk (IBTA
/// 9.7.5.2), so a FIRST or ONLY is good anywhere.
fn is_expected(
    request: &Request,
    mtu: u32,
    offset: u32,
    is_chunk_start: bool,
    end: u32,
    headers: &Headers,
    length: usize,
) -> bool {
    use Operation as O;
    let (begins, ends) = match headers.bth.opcode.operation {
        O::ReadResponseFirst => (true, false),
        O::ReadResponseMiddle => (false, false),
        O::ReadResponseLast => (false, true),
        O::ReadResponseOnly => (true, true),
        _ => return false,
    };
    let is_ack = match headers.extended {
        Extended::Aeth(aeth) => matches!(aeth.syndrome, Syndrome::Ack { .. }),
        _ => true,
    };
    let start = offset * mtu;
    let expected = ((start + mtu).min(request.length) - start) as usize;
    is_ack && ends == (offset + 1 == end) && (begins || !is_chunk_start) && length == expected
}
