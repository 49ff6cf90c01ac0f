//! The requester: the half of a connected queue pair that sends requests and takes their answers.
//!
//! Requests are sent in order, in runs of packets, as far as the window allows, and complete in order as
//! they are answered. Three marks divide the packets of the connection: what is before `unanswered` is
//! done; what is before `next` was sent since the last time something was lost; what is before `top` was
//! sent ever. Loss moves `next` back to `unanswered` (go-back-N, IBTA 9.7.6).
//!
//! | file | idea |
//! |---|---|
//! | `transmit` | what is sent next |
//! | `response` | what an answer means |

mod response;
mod transmit;

use wire::{Psn, Service};

use super::Environment;
use super::connection::Connection;
use super::send_queue::{Progress, SendQueue, Sequence};
use super::timer::{Timer, Timers, ack_timeout};
use crate::congestion::{CongestionControl, Controller};
use crate::memory::Memory;
use crate::time::Instant;
use crate::verbs::{PostError, QpState, SendOperation, SendRequest, Status};

/// The sending half of a reliable or unreliable connection.
#[derive(Debug)]
pub(crate) struct Requester {
    queue: SendQueue,
    /// The PSN of the first packet.
    base: Psn,
    unanswered: Sequence,
    next: Sequence,
    top: Sequence,
    /// The request that `next` is in, by its position in the queue.
    cursor: usize,
    /// READ requests and atomics before `next` that are unanswered.
    reads: u32,
    flight: Flight,
    recovery: Recovery,
    /// Its deadlines.
    pub timers: Timers,
    /// When and how much it may send.
    pub congestion: Controller,
    is_broken: bool,
}

/// What was sent and is not answered.
#[derive(Debug, Default)]
struct Flight {
    /// Bytes between `unanswered` and `next`.
    bytes: u32,
    /// Everything before it will be answered, if it arrives.
    requested: Sequence,
    /// Bytes sent since.
    unrequested: u32,
    /// When the packet before this sequence left, to time its answer.
    sample: Option<(Sequence, Instant)>,
}

/// How patient we still are.
#[derive(Debug, Default)]
struct Recovery {
    retries: u8,
    rnr_retries: u8,
    /// `unanswered` and `top` when something was last sent again: answers to packets before that `top`
    /// may be answers to the first sending and prove no new loss.
    last: Option<(Sequence, Sequence)>,
    /// What is sent next is sent twice.
    insists: bool,
}

/// After so many timeouts in a row without any progress, what is sent again is sent twice each time: with
/// one packet in ten lost, a request and its answer would otherwise be lost eight times over, which ends
/// the connection, once in half a million requests.
const PATIENT_TIMEOUTS: u8 = 3;

/// This RNR retry count stands for no limit (IBTA 9.7.5.2.8).
const RNR_RETRY_FOR_EVER: u8 = 7;

impl Requester {
    /// A requester with nothing to send, which may have `window` bytes in flight.
    pub fn new(window: u32) -> Self {
        Self {
            queue: SendQueue::default(),
            base: Psn::ZERO,
            unanswered: Sequence::default(),
            next: Sequence::default(),
            top: Sequence::default(),
            cursor: 0,
            reads: 0,
            flight: Flight::default(),
            recovery: Recovery::default(),
            timers: Timers::default(),
            congestion: Controller::new(window),
            is_broken: false,
        }
    }

    /// Begins to send with the PSN of the attributes; called on entering RTS.
    pub fn start(&mut self, connection: Connection<'_>) {
        self.base = connection.attributes.sq_psn;
        self.recovery = Recovery::fresh(connection);
    }

    /// Whether a request failed, which ends the connection. The failed request is complete.
    pub fn is_broken(&self) -> bool {
        self.is_broken
    }

    /// How many requests wait or are unanswered.
    pub fn posted(&self) -> usize {
        self.queue.requests.len()
    }

    /// The PSN of the next new packet.
    pub fn next_psn(&self) -> Psn {
        self.psn(self.top)
    }

    /// Whether there may be something to send: a request is next, and does not wait for a timer.
    pub fn wants_transmit(&self) -> bool {
        self.cursor < self.queue.requests.len() && !self.timers.is_running(Timer::RnrWait)
    }

    /// Whether nothing that was begun is unfinished, so that a draining queue is drained.
    pub fn is_drained(&self) -> bool {
        self.queue.requests.front().is_none_or(|request| request.progress == Progress::Waiting)
    }

    /// Adds a request. Inline data is copied; elements are checked when they are sent, as keys may
    /// change until then.
    pub fn post(&mut self, connection: Connection<'_>, request: &SendRequest<'_>) -> Result<(), PostError> {
        let length = self.queue.check(connection, request)?;
        let packets = match request.operation {
            SendOperation::LocalInvalidate(_) | SendOperation::BindWindow { .. } => 0,
            SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. } => 1,
            _ => connection.packets(length),
        };
        self.queue.push(connection, request, length, packets);
        Ok(())
    }

    /// Acts on a timer that expired.
    pub fn handle_timeout<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        timer: Timer,
    ) {
        if timer == Timer::Retransmit && self.awaits_answer() {
            env.counters.ack_timeout += 1;
            self.retry(connection, env);
            let tried = connection.attributes.retry_count.saturating_sub(self.recovery.retries);
            self.recovery.insists = tried > PATIENT_TIMEOUTS;
        }
    }

    /// Completes all requests as flushed. It can start again then.
    pub fn flush<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        self.timers.clear();
        self.is_broken = false;
        while !self.queue.requests.is_empty() {
            self.complete_front(connection, env, Status::WorkRequestFlushed);
        }
        // What was sent and is answered now is answered in vain.
        self.unanswered = self.queue.end;
        self.next = self.queue.end;
        self.top = self.queue.end;
        self.reads = 0;
        self.flight = Flight { requested: self.queue.end, ..Flight::default() };
    }

    /// Sends everything from `unanswered` on again, unless that was tried too often.
    fn retry<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        if self.recovery.retries == 0 {
            env.counters.retry_exceeded += 1;
            return self.fail(connection, env, Status::RetryExceeded);
        }
        self.recovery.retries -= 1;
        self.congestion.on_loss(env.now);
        self.go_back();
    }

    /// Moves `next` back to `unanswered`. What was done locally since stays done.
    fn go_back(&mut self) {
        self.next = self.unanswered;
        self.cursor = 0;
        self.reads = 0;
        self.flight = Flight { requested: self.unanswered, ..Flight::default() };
        self.recovery.last = Some((self.unanswered, self.top));
        self.timers.stop(Timer::Retransmit);
    }

    /// Completes the oldest request with an error, which breaks the connection.
    fn fail<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>, status: Status) {
        self.is_broken = true;
        self.complete_front(connection, env, status);
    }

    /// Completes the oldest requests as long as they are done, or cannot be.
    fn settle<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        while let Some(front) = self.queue.requests.front() {
            let is_answered = front.packets > 0 && front.end() <= self.unanswered;
            match front.progress {
                // It may be answered after sending it once more was refused.
                Progress::Refused(status) if !is_answered => return self.fail(connection, env, status),
                _ if !is_answered && front.progress != Progress::Done => return,
                _ => self.complete_front(connection, env, Status::Success),
            }
        }
    }

    fn complete_front<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        status: Status,
    ) {
        let Some(request) = self.queue.pop() else { return };
        self.cursor = self.cursor.saturating_sub(1);
        env.complete_send(connection, &request, status);
        self.queue.recycle(request);
    }

    /// Restarts the retransmit timer if an answer is due, or stops it.
    fn restart_timer(&mut self, connection: Connection<'_>, now: Instant) {
        self.timers.stop(Timer::Retransmit);
        self.start_timer(connection, now);
    }

    /// Starts the retransmit timer if an answer is due and it does not run.
    fn start_timer(&mut self, connection: Connection<'_>, now: Instant) {
        if !self.awaits_answer() || self.timers.is_running(Timer::Retransmit) {
            return;
        }
        if let Some(timeout) = ack_timeout(connection.attributes.timeout) {
            self.timers.set(Timer::Retransmit, now + timeout);
        }
    }

    /// Whether something in flight asks for an answer.
    fn awaits_answer(&self) -> bool {
        self.flight.requested > self.unanswered
    }

    fn psn(&self, sequence: Sequence) -> Psn {
        // Truncation keeps the low 24 bits, which are all that a PSN has.
        self.base + sequence.0 as u32
    }
}

impl Recovery {
    fn fresh(connection: Connection<'_>) -> Self {
        let attributes = connection.attributes;
        Self {
            retries: attributes.retry_count,
            rnr_retries: attributes.rnr_retry,
            last: None,
            insists: false,
        }
    }
}

fn is_reliable(connection: Connection<'_>) -> bool {
    connection.service() == Service::Rc
}

fn is_draining(connection: Connection<'_>) -> bool {
    connection.attributes.state == QpState::Sqd
}
