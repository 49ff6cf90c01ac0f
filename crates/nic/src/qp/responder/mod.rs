//! The responder: the half of a reliable connection that carries out requests and answers them.
//!
//! Requests are carried out in the order of their PSNs, each once. Answers leave in that order too:
//! READ responses and atomic results one after the other ([`replies`]), and behind them one
//! acknowledgement that stands for everything before it.
//!
//! | file | idea |
//! |---|---|
//! | `inbound` | SENDs and RDMA WRITEs, placed packet by packet; unreliable connections share it |
//! | `replies` | READs and atomics: what is to be answered, and what may be asked for again |
//! | `unreliable` | the responder of an unreliable connection |

mod inbound;
mod replies;
mod unreliable;

use wire::{Aeth, Extended, Headers, Kind, NakCode, Operation, Psn, Syndrome};

pub(crate) use self::unreliable::UnreliableResponder;

use self::inbound::{Inbound, Refusal};
use self::replies::Replies;
use super::connection::Connection;
use super::{Environment, single};
use crate::memory::{Memory, Payload};
use crate::packet::Transmit;
use crate::receive::ReceiveQueue;
use crate::verbs::Status;

/// The receiving half of a reliable connection.
#[derive(Debug, Default)]
pub(crate) struct Responder {
    /// The PSN that comes next.
    expected: Psn,
    /// How many messages were carried out; 24 bits.
    msn: u32,
    /// A NAK asked for `expected` and it has not come: what is behind it is dropped in silence.
    is_waiting: bool,
    inbound: Inbound,
    replies: Replies,
    /// What to say behind the replies.
    answer: Option<Answer>,
    breach: Option<Breach>,
}

/// An acknowledgement of everything before `expected`, or an error about a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Acknowledge,
    Error { psn: Psn, syndrome: Syndrome },
}

/// Why the responder ended the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Breach {
    /// The peer asked for what cannot be done.
    InvalidRequest,
    /// The peer asked for what it has no right to.
    Access,
    /// A receive could not be used; its completion tells.
    Receive,
}

impl Responder {
    /// A responder whose first request has this PSN.
    pub fn new(expected: Psn) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The PSN that comes next.
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Why it ended the connection, if it just did.
    pub fn take_breach(&mut self) -> Option<Breach> {
        self.breach.take()
    }

    /// Takes a request.
    pub fn handle_request<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        let distance = headers.bth.psn.distance(self.expected);
        if distance > 0 {
            return self.on_gap(env);
        }
        if distance < 0 {
            return self.on_duplicate(env, headers);
        }
        match self.execute(connection, receives, env, headers, payload) {
            Ok(packets) => {
                self.expected += packets;
                self.is_waiting = false;
                // A reply stands for everything before it. An error that was about to be reported is
                // over, but may have replaced an acknowledgement.
                let has_reply = matches!(headers.extended, Extended::Atomic(_)) || is_read(headers);
                if has_reply {
                    self.answer = None;
                } else if headers.bth.ack_request || self.answer.is_some() {
                    self.answer = Some(Answer::Acknowledge);
                }
            }
            Err(refusal) => self.refuse(connection, env, refusal),
        }
    }

    /// The next run of at most `max_packets` packets of answers.
    pub fn poll_transmit<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        max_packets: u32,
    ) -> Option<Transmit> {
        match self.replies.poll_transmit(connection, env, max_packets) {
            Ok(Some(transmit)) => return Some(transmit),
            Ok(None) => {}
            Err(psn) => {
                // The memory went away while it was being read. The requester takes the NAK for an end
                // of the READ (IBTA 9.7.4.1).
                self.answer = Some(Answer::Error { psn, syndrome: Syndrome::Nak(NakCode::RemoteAccess) });
                self.breach = Some(Breach::Access);
            }
        }
        let answer = self.answer.take()?;
        let (psn, syndrome) = match answer {
            Answer::Acknowledge => (self.expected.previous(), Syndrome::default()),
            Answer::Error { psn, syndrome } => (psn, syndrome),
        };
        let aeth = Aeth { syndrome, msn: self.msn };
        let headers = Headers { extended: Extended::Aeth(aeth), ..connection.headers(Operation::Ack, psn) };
        Some(single(connection, headers))
    }

    /// Whether the next answer is a single packet, which should not wait behind data.
    pub fn is_urgent(&self) -> bool {
        self.replies.is_atomic_next() || (self.replies.is_empty() && self.answer.is_some())
    }

    /// Whether the next answer is a part of a READ response.
    pub fn is_read_next(&self) -> bool {
        !self.replies.is_empty() && !self.replies.is_atomic_next()
    }

    /// Whether there is anything to answer.
    pub fn wants_transmit(&self) -> bool {
        self.answer.is_some() || !self.replies.is_empty()
    }

    /// Completes a receive in use as flushed. What is to be said yet stays.
    pub fn flush<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        self.inbound.abandon(connection, env, Status::WorkRequestFlushed);
    }

    /// Forgets what is to be said.
    pub fn silence(&mut self) {
        self.replies.clear();
        self.answer = None;
    }

    /// A request is missing. That is said once, until it comes (IBTA 9.7.5).
    fn on_gap<M>(&mut self, env: &mut Environment<'_, M>) {
        env.counters.out_of_sequence += 1;
        if !self.is_waiting {
            self.is_waiting = true;
            let syndrome = Syndrome::Nak(NakCode::PsnSequence);
            self.answer = Some(Answer::Error { psn: self.expected, syndrome });
        }
    }

    /// A request comes again (IBTA 9.7.5): what was done is said again, a READ is carried out again
    /// and an atomic is not.
    fn on_duplicate<M>(&mut self, env: &mut Environment<'_, M>, headers: &Headers) {
        env.counters.duplicate_request += 1;
        let psn = headers.bth.psn;
        match headers.extended {
            Extended::Reth(reth) if is_read(headers) => {
                self.replies.replay_read(psn, reth);
            }
            Extended::Atomic(_) => self.replies.replay_atomic(psn),
            _ => {
                self.answer.get_or_insert(Answer::Acknowledge);
            }
        }
    }

    /// Carries a request's packet out; returns how many PSNs it took.
    fn execute<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        payload: Payload<'_>,
    ) -> Result<u32, Refusal> {
        let Some(layout) = headers.bth.opcode.layout() else { return Err(Refusal::InvalidRequest) };
        match layout.kind {
            Kind::Send | Kind::Write => {
                let ended = self.inbound.accept(connection, receives, env, headers, payload)?;
                self.count_messages(u32::from(ended));
                return Ok(1);
            }
            _ if !self.inbound.is_idle() || !payload.is_empty() => return Err(Refusal::InvalidRequest),
            _ => {}
        }
        // The MSN in a response counts the request that it answers.
        let msn = self.msn.wrapping_add(1) & 0x00FF_FFFF;
        let packets = match headers.extended {
            Extended::Reth(reth) => self.replies.read(connection, env, headers.bth.psn, reth, msn)?,
            Extended::Atomic(operands) => {
                let operation = headers.bth.opcode.operation;
                self.replies.atomic(connection, env, headers.bth.psn, operation, operands, msn)?;
                1
            }
            _ => return Err(Refusal::InvalidRequest),
        };
        self.count_messages(1);
        Ok(packets)
    }

    fn refuse<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        env: &mut Environment<'_, M>,
        refusal: Refusal,
    ) {
        let code = match refusal {
            Refusal::NotReady => {
                env.counters.send_rnr_err += 1;
                self.is_waiting = true;
                let syndrome = Syndrome::RnrNak { timer: connection.attributes.min_rnr_timer };
                self.answer = Some(Answer::Error { psn: self.expected, syndrome });
                return;
            }
            Refusal::InvalidRequest => {
                self.breach = Some(Breach::InvalidRequest);
                NakCode::InvalidRequest
            }
            Refusal::Access => {
                self.breach = Some(Breach::Access);
                NakCode::RemoteAccess
            }
            Refusal::Receive { status, code } => {
                self.inbound.abandon(connection, env, status);
                self.breach = Some(Breach::Receive);
                code
            }
        };
        self.answer = Some(Answer::Error { psn: self.expected, syndrome: Syndrome::Nak(code) });
    }

    fn count_messages(&mut self, messages: u32) {
        self.msn = self.msn.wrapping_add(messages) & 0x00FF_FFFF;
    }
}

fn is_read(headers: &Headers) -> bool {
    headers.bth.opcode.operation == Operation::ReadRequest
}
