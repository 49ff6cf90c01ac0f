//! What was posted, and the completions that must come of it: each once, in order.

use std::collections::VecDeque;

use nic::verbs::{Completion, Status};

use super::operation::Side;

/// What a send must have done when it succeeds.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Nothing that can be seen at this end, or nothing that is known.
    Unknown,
    /// These bytes are in the peer's memory.
    Written { address: u64, bytes: Vec<u8> },
    /// These bytes are in our memory.
    Fetched { address: u64, bytes: Vec<u8> },
    /// The window of the queue pair on this side changed.
    Window { of: Side, to: Window },
}

/// The memory window of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// It gives access to nothing.
    Unbound,
    /// A request is about to bind or unbind it.
    Changing,
    /// It gives access to a slot.
    Bound { key: u32, slot: usize },
}

/// A posted send.
#[derive(Clone, Debug)]
pub struct Send {
    pub wr_id: u64,
    pub signaled: bool,
    pub effect: Effect,
    /// Slots that are free again when it succeeded.
    pub slots: Vec<(Side, usize)>,
    /// Whether it goes through the peer's window, which nothing else must use meanwhile.
    pub through_window: bool,
}

impl Send {
    /// A signaled one.
    pub fn new(wr_id: u64, effect: Effect) -> Self {
        Self { wr_id, signaled: true, effect, slots: Vec::new(), through_window: false }
    }
}

/// A posted receive.
#[derive(Clone, Debug)]
pub struct Receive {
    pub wr_id: u64,
    /// Where its message goes, if it was posted to hold one.
    pub slot: Option<usize>,
}

/// The queues of a queue pair as they must be.
#[derive(Debug, Default)]
pub struct Ledger {
    pub sends: VecDeque<Send>,
    pub receives: VecDeque<Receive>,
    /// A send failed: all that follow are flushed.
    pub send_failed: bool,
}

impl Ledger {
    /// Takes a completion of the send queue; returns the sends that it says succeeded.
    pub fn complete_send(&mut self, completion: &Completion) -> Vec<Send> {
        let mut done = Vec::new();
        loop {
            let Some(send) = self.sends.pop_front() else {
                panic!("nothing was posted for {completion:?}, or it is complete already");
            };
            if send.wr_id == completion.wr_id {
                self.check_status(&send, completion);
                if completion.status == Status::Success {
                    done.push(send);
                }
                return done;
            }
            assert!(!send.signaled, "{send:?} is passed over by {completion:?}");
            assert!(!self.send_failed, "{send:?} comes after a failure and is not flushed");
            done.push(send);
        }
    }

    fn check_status(&mut self, send: &Send, completion: &Completion) {
        match completion.status {
            Status::Success => {
                assert!(send.signaled, "nobody asked for {completion:?}");
                assert!(!self.send_failed, "{completion:?} succeeds after a failure");
            }
            Status::WorkRequestFlushed => self.send_failed = true,
            _ => {
                assert!(!self.send_failed, "{completion:?} fails after a failure");
                self.send_failed = true;
            }
        }
    }

    /// Takes a completion of the receive queue; returns the receive.
    pub fn complete_receive(&mut self, completion: &Completion) -> Receive {
        let receive = self.receives.pop_front();
        assert_eq!(
            receive.as_ref().map(|receive| receive.wr_id),
            Some(completion.wr_id),
            "out of order, or not posted: {completion:?}"
        );
        receive.expect("it was compared")
    }

    /// Forgets everything: the queue pair was reset or destroyed.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
