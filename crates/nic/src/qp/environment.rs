//! The rest of the adapter, as a queue pair sees it while it works.

use alloc::collections::VecDeque;

use super::connection::Connection;
use super::scatter::total_length;
use super::send_queue::Request;
use crate::cq::CqTable;
use crate::keys::KeyTable;
use crate::nic::{Config, Counters};
use crate::port::Port;
use crate::receive::{Receive, ReceiveQueue};
use crate::srq::SrqTable;
use crate::time::Instant;
use crate::verbs::{AsyncEvent, Completion, Cq, Event, Pd, Status};

/// What a queue pair's machines work with beside their own state.
#[derive(Debug)]
pub(crate) struct Environment<'a, M> {
    /// The time.
    pub now: Instant,
    /// The memory.
    pub memory: &'a mut M,
    /// Which keys give access to which part of it.
    pub keys: &'a mut KeyTable,
    /// Where requests complete.
    pub cqs: &'a mut CqTable,
    /// Where receives may be taken from.
    pub srqs: &'a mut SrqTable,
    /// What the owner shall know.
    pub events: &'a mut VecDeque<Event>,
    /// What happened how often.
    pub counters: &'a mut Counters,
    /// The port.
    pub port: &'a Port,
    /// What the adapter was made with.
    pub config: &'a Config,
    /// Whether a completion was lost because its queue is full or dead.
    pub has_lost_completion: bool,
}

impl<M> Environment<'_, M> {
    /// Puts a completion on a queue; `solicited` if the sender asked for an event.
    pub fn complete(&mut self, cq: Cq, mut completion: Completion, solicited: bool) {
        completion.timestamp = self.now.as_picos() / 1_000;
        self.has_lost_completion |= !self.cqs.push(cq, completion, solicited, self.events);
    }

    /// Completes a send request, in silence if it succeeded and was not to be signaled.
    pub fn complete_send(&mut self, connection: Connection<'_>, request: &Request, status: Status) {
        if status == Status::Success && !request.flags.signaled {
            return;
        }
        let mut completion = connection.completion(request.wr_id, status, request.completion_opcode());
        completion.byte_length = request.length;
        self.complete(connection.attributes.init.send_cq, completion, false);
    }

    /// Takes the next receive of a queue pair, from its own queue or the shared one.
    pub fn take_receive(
        &mut self,
        connection: Connection<'_>,
        receives: &mut ReceiveQueue,
    ) -> Option<Receive> {
        match connection.attributes.init.srq {
            Some(srq) => self.srqs.take(srq, self.events),
            None => receives.take(),
        }
    }

    /// The protection domain of a queue pair's receives: a shared queue has its own (IBTA 10.2.9.1).
    pub fn receive_pd(&self, connection: Connection<'_>) -> Pd {
        let shared = connection.attributes.init.srq.and_then(|srq| self.srqs.pd(srq));
        shared.unwrap_or(connection.pd())
    }

    /// Whether there is a next receive and it takes `length` bytes.
    pub fn has_room(&self, connection: Connection<'_>, receives: &ReceiveQueue, length: usize) -> bool {
        let next = match connection.attributes.init.srq {
            Some(srq) => self.srqs.front(srq),
            None => receives.front(),
        };
        next.is_some_and(|receive| total_length(&receive.sges) >= length as u64)
    }

    /// Tells the owner.
    pub fn raise(&mut self, event: AsyncEvent) {
        self.events.push_back(Event::Async(event));
    }
}
