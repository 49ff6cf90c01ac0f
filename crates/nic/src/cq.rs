//! Completion queues (IBTA 11.4.2, 10.8).

use alloc::collections::VecDeque;

use wire::Qpn;

use crate::table::Table;
use crate::verbs::{AsyncEvent, Completion, Cq, CqError, CreateError, DestroyError, Event, Status};

/// All completion queues of an adapter.
#[derive(Debug)]
pub(crate) struct CqTable {
    table: Table<CompletionQueue>,
    max_entries: u32,
}

#[derive(Debug)]
struct CompletionQueue {
    entries: VecDeque<Completion>,
    capacity: u32,
    notify: Notify,
    overrun: bool,
}

/// What the owner waits for. A wider request replaces a narrower one, never the reverse (IBTA 11.4.2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Notify {
    Nothing,
    Solicited,
    Next,
}

impl CqTable {
    /// At most `limit` queues of at most `max_entries`.
    pub fn new(limit: u32, max_entries: u32) -> Self {
        Self { table: Table::with_limit(limit), max_entries }
    }

    /// Makes a queue; returns it and its real size.
    pub fn create(&mut self, capacity: u32) -> Result<(Cq, u32), CreateError> {
        if capacity == 0 || capacity > self.max_entries {
            return Err(CreateError::InvalidSize);
        }
        // Entries are allocated as they are needed: programs ask for far more than they use.
        let queue =
            CompletionQueue { entries: VecDeque::new(), capacity, notify: Notify::Nothing, overrun: false };
        let number = self.table.insert(queue).map_err(|_| CreateError::TooMany)?;
        Ok((Cq(number), capacity))
    }

    /// Changes a queue's size; returns the real one. A refused change leaves the queue as it was.
    pub fn resize(&mut self, cq: Cq, capacity: u32) -> Result<u32, CqError> {
        let max_entries = self.max_entries;
        let queue = self.table.get_mut(cq.0).ok_or(CqError::UnknownHandle)?;
        let fits = capacity != 0 && capacity <= max_entries && queue.entries.len() <= capacity as usize;
        if !fits {
            return Err(CqError::InvalidSize);
        }
        queue.capacity = capacity;
        queue.entries.shrink_to(capacity as usize);
        Ok(capacity)
    }

    /// Unmakes a queue that no queue pair uses.
    pub fn destroy(&mut self, cq: Cq) -> Result<(), DestroyError> {
        self.table.remove(cq.0).map(drop)
    }

    /// Whether there is such a queue.
    pub fn contains(&self, cq: Cq) -> bool {
        self.table.contains(cq.0)
    }

    /// Counts one more queue that completes here.
    pub fn retain(&mut self, cq: Cq) {
        self.table.retain(cq.0);
    }

    /// Counts one less.
    pub fn release(&mut self, cq: Cq) {
        self.table.release(cq.0);
    }

    /// Takes the oldest completion. What came before an overrun can still be had.
    pub fn poll(&mut self, cq: Cq) -> Result<Option<Completion>, CqError> {
        let queue = self.table.get_mut(cq.0).ok_or(CqError::UnknownHandle)?;
        match queue.entries.pop_front() {
            None if queue.overrun => Err(CqError::Overrun),
            oldest => Ok(oldest),
        }
    }

    /// Asks for one event at the next completion, or the next solicited or failed one.
    pub fn arm(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        let queue = self.table.get_mut(cq.0).ok_or(CqError::UnknownHandle)?;
        if queue.overrun {
            return Err(CqError::Overrun);
        }
        queue.notify = queue.notify.max(if solicited_only { Notify::Solicited } else { Notify::Next });
        Ok(())
    }

    /// Adds a completion; `solicited` if the sender asked for an event. False if it was lost because the
    /// queue overran, now or before.
    pub fn push(
        &mut self,
        cq: Cq,
        completion: Completion,
        solicited: bool,
        events: &mut VecDeque<Event>,
    ) -> bool {
        let Some(queue) = self.table.get_mut(cq.0) else {
            debug_assert!(false, "queue pairs keep their completion queues alive");
            return false;
        };
        if queue.overrun {
            return false;
        }
        if queue.entries.len() >= queue.capacity as usize {
            queue.overrun = true;
            events.push_back(Event::Async(AsyncEvent::CqError(cq)));
            return false;
        }
        queue.entries.push_back(completion);
        let kind =
            if solicited || completion.status != Status::Success { Notify::Solicited } else { Notify::Next };
        if queue.notify >= kind {
            queue.notify = Notify::Nothing;
            events.push_back(Event::Completion(cq));
        }
        true
    }

    /// Removes the completions of a queue pair that was reset or destroyed.
    pub fn purge(&mut self, cq: Cq, qpn: Qpn) {
        if let Some(queue) = self.table.get_mut(cq.0) {
            queue.entries.retain(|completion| completion.qpn != qpn);
        }
    }
}
