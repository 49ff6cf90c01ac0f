//! The responder of an unreliable connection (IBTA 9.8.2).

use wire::{Headers, Psn};

use super::inbound::{Inbound, Refusal};
use crate::memory::{Memory, Payload};
use crate::qp::Environment;
use crate::qp::connection::Connection;
use crate::receive::ReceiveQueue;
use crate::verbs::Status;

/// The receiving half of an unreliable connection. A message of which a packet is missing, or that
/// cannot be taken, is dropped in silence, and the receive that it used takes the next one.
#[derive(Debug, Default)]
pub(crate) struct UnreliableResponder {
    /// The PSN that comes next, if the message goes on.
    expected: Psn,
    inbound: Inbound,
}

impl UnreliableResponder {
    /// A responder whose first packet has this PSN.
    pub fn new(expected: Psn) -> Self {
        Self { expected, ..Self::default() }
    }

    /// The PSN that comes next.
    pub fn expected_psn(&self) -> Psn {
        self.expected
    }

    /// Takes a packet. False if a receive was at fault, which ends the connection.
    pub fn handle_request<M: Memory>(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
        env: &mut Environment<'_, M>,
        headers: &Headers,
        payload: Payload<'_>,
    ) -> bool {
        let begins = headers.bth.opcode.starts_message();
        if begins || headers.bth.psn != self.expected {
            self.inbound.give_up();
        }
        self.expected = headers.bth.psn.next();
        if !begins && self.inbound.is_idle() {
            // The rest of a message that was dropped.
            return true;
        }
        match self.inbound.accept(connection, receives, env, headers, payload) {
            Ok(_) => true,
            Err(Refusal::Receive { status: status @ Status::LocalProtectionError, .. }) => {
                self.inbound.abandon(connection, env, status);
                false
            }
            Err(refusal) => {
                match refusal {
                    Refusal::NotReady | Refusal::Receive { .. } => env.counters.dropped_no_receive += 1,
                    Refusal::InvalidRequest | Refusal::Access => env.counters.dropped_malformed += 1,
                }
                self.inbound.give_up();
                true
            }
        }
    }

    /// Completes the receive in use as flushed.
    pub fn flush<M: Memory>(&mut self, connection: Connection<'_>, env: &mut Environment<'_, M>) {
        self.inbound.abandon(connection, env, Status::WorkRequestFlushed);
    }
}
