//! Two queue pairs made for each other, one on each side.

use std::collections::VecDeque;

use nic::verbs::{Completion, CompletionOpcode, Mw, QpState};
use wire::{Immediate, Qpn};

use super::ledger::{Ledger, Window};
use super::operation::{Side, Transport};

/// Two queue pairs made for each other.
pub struct Pair {
    pub transport: Transport,
    pub ends: [Endpoint; 2],
    /// Nothing was done to it that may make a request fail, except to its packets.
    pub is_honest: bool,
    /// A send may give up for want of receives.
    pub may_run_out_of_receives: bool,
    /// Whether every send completes.
    pub signal_all: bool,
}

/// One of the two.
pub struct Endpoint {
    pub qpn: Qpn,
    pub is_alive: bool,
    pub is_shared: bool,
    pub ledger: Ledger,
    /// Messages on their way here, or already here if the transport may deliver them again.
    pub expected: VecDeque<Message>,
    /// The word here that the peer's atomics work on, and its value when all of them are done.
    pub word: u64,
    pub word_value: u64,
    /// Where the peer's unreliable writes go.
    pub dump: u64,
    /// Whether it is in the multicast group.
    pub is_member: bool,
    pub mw: Mw,
    /// The key that the window was made with.
    pub mw_key: u32,
    pub window: Window,
    /// A request of the peer goes through the window.
    pub window_in_use: bool,
    /// It must tell when its send queue is drained.
    pub owes_drain_event: bool,
}

/// A message that consumes a receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub bytes: Vec<u8>,
    pub immediate: Immediate,
    pub is_write: bool,
}

impl Pair {
    pub fn end(&mut self, side: Side) -> &mut Endpoint {
        &mut self.ends[side.index()]
    }
}

impl Endpoint {
    /// Whether a send must be refused, flushed or done in this state.
    pub fn takes_sends(state: QpState) -> bool {
        matches!(state, QpState::Rts | QpState::Sqd | QpState::Sqe | QpState::Error)
    }

    /// Finds the message that a completion of the receive queue speaks of, of `length` bytes, which are
    /// `data` if the receive holds them. Reliable connections deliver all, once and in order.
    pub fn accept(&mut self, transport: Transport, completion: &Completion, length: usize, data: &[u8]) {
        let is_it = |message: &Message| message.is_told_by(completion, length, data);
        if transport == Transport::Rc {
            let next = self.expected.pop_front();
            assert!(next.as_ref().is_some_and(is_it), "{completion:?} with {data:02x?} is not {next:02x?}");
        } else {
            assert!(self.expected.iter().any(is_it), "nobody sent {completion:?} with {data:02x?}");
        }
    }
}

impl Message {
    fn is_told_by(&self, completion: &Completion, length: usize, data: &[u8]) -> bool {
        let (opcode, data_is_right) = if self.is_write {
            (CompletionOpcode::RecvWriteWithImmediate, true)
        } else {
            (CompletionOpcode::Recv, self.bytes == data)
        };
        completion.opcode == opcode
            && completion.immediate == self.immediate
            && self.bytes.len() == length
            && data_is_right
    }
}
