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

#[cfg(test)]
mod tests {
    use wire::Immediate;

    use super::*;
    use crate::verbs::CompletionOpcode;

    const QPN: Qpn = Qpn::new(8);

    const RECEIVED: Completion = Completion {
        wr_id: 0,
        status: Status::Success,
        vendor_error: 0,
        opcode: CompletionOpcode::Recv,
        byte_length: 0,
        immediate: Immediate::None,
        qpn: QPN,
        source_qp: Qpn::new(0),
        has_grh: false,
        service_level: 0,
        timestamp: 0,
    };

    struct Fixture {
        cqs: CqTable,
        cq: Cq,
        events: VecDeque<Event>,
    }

    impl Fixture {
        fn new(capacity: u32) -> Self {
            let mut cqs = CqTable::new(4, 16);
            let (cq, _) = cqs.create(capacity).unwrap();
            Self { cqs, cq, events: VecDeque::new() }
        }

        fn push(&mut self, completion: Completion, solicited: bool) -> bool {
            self.cqs.push(self.cq, completion, solicited, &mut self.events)
        }

        fn poll(&mut self) -> Result<Option<u64>, CqError> {
            self.cqs.poll(self.cq).map(|polled| polled.map(|completion| completion.wr_id))
        }
    }

    #[test]
    fn completions_come_in_order() {
        let mut f = Fixture::new(2);
        assert!(f.push(Completion { wr_id: 1, ..RECEIVED }, false));
        assert!(f.push(Completion { wr_id: 2, ..RECEIVED }, false));
        assert_eq!((f.poll(), f.poll(), f.poll()), (Ok(Some(1)), Ok(Some(2)), Ok(None)));
    }

    #[test]
    fn an_overrun_is_told_once_and_kills_the_queue() {
        let mut f = Fixture::new(1);
        f.cqs.arm(f.cq, false).unwrap();
        assert!(f.push(Completion { wr_id: 1, ..RECEIVED }, false));
        f.events.clear();
        assert!(!f.push(Completion { wr_id: 2, ..RECEIVED }, false));
        assert!(!f.push(Completion { wr_id: 3, ..RECEIVED }, false));
        assert_eq!(f.events, [Event::Async(AsyncEvent::CqError(f.cq))]);
        assert_eq!(f.poll(), Ok(Some(1)));
        assert_eq!(f.poll(), Err(CqError::Overrun));
        assert!(!f.push(Completion { wr_id: 4, ..RECEIVED }, false));
        assert_eq!(f.poll(), Err(CqError::Overrun));
        assert_eq!(f.cqs.arm(f.cq, false), Err(CqError::Overrun));
        assert_eq!(f.cqs.destroy(f.cq), Ok(()));
    }

    /// Which completions raise an event when a queue is armed so.
    fn events_of(arm: &[bool], completion: Completion, solicited: bool) -> usize {
        let mut f = Fixture::new(4);
        for &solicited_only in arm {
            f.cqs.arm(f.cq, solicited_only).unwrap();
        }
        f.push(completion, solicited);
        f.push(completion, solicited);
        f.events.len()
    }

    #[test]
    fn an_armed_queue_raises_one_event() {
        let failed = Completion { status: Status::WorkRequestFlushed, ..RECEIVED };
        let (next, solicited) = (false, true);
        assert_eq!(events_of(&[], RECEIVED, true), 0);
        assert_eq!(events_of(&[next], RECEIVED, false), 1);
        assert_eq!(events_of(&[solicited], RECEIVED, false), 0);
        assert_eq!(events_of(&[solicited], RECEIVED, true), 1);
        assert_eq!(events_of(&[solicited], failed, false), 1);
        assert_eq!(events_of(&[next, solicited], RECEIVED, false), 1);
        assert_eq!(events_of(&[solicited, next], RECEIVED, false), 1);
    }

    #[test]
    fn what_was_there_before_arming_raises_no_event() {
        let mut f = Fixture::new(4);
        f.push(RECEIVED, true);
        f.cqs.arm(f.cq, false).unwrap();
        assert!(f.events.is_empty());
        f.push(RECEIVED, false);
        assert_eq!(f.events, [Event::Completion(f.cq)]);
    }

    #[test]
    fn a_refused_resize_keeps_the_queue() {
        let mut f = Fixture::new(2);
        f.push(Completion { wr_id: 1, ..RECEIVED }, false);
        f.push(Completion { wr_id: 2, ..RECEIVED }, false);
        for refused in [0, 1, 17] {
            assert_eq!(f.cqs.resize(f.cq, refused), Err(CqError::InvalidSize));
        }
        assert_eq!(f.cqs.resize(f.cq, 3), Ok(3));
        assert!(f.push(Completion { wr_id: 3, ..RECEIVED }, false));
        assert!(!f.push(Completion { wr_id: 4, ..RECEIVED }, false));
        assert_eq!((f.poll(), f.poll(), f.poll()), (Ok(Some(1)), Ok(Some(2)), Ok(Some(3))));
    }

    #[test]
    fn sizes_and_uses_are_checked() {
        let mut f = Fixture::new(2);
        assert_eq!(f.cqs.create(0), Err(CreateError::InvalidSize));
        assert_eq!(f.cqs.create(17), Err(CreateError::InvalidSize));
        f.cqs.retain(f.cq);
        assert_eq!(f.cqs.destroy(f.cq), Err(DestroyError::Busy));
        f.cqs.release(f.cq);
        assert_eq!(f.cqs.destroy(f.cq), Ok(()));
        assert_eq!(f.cqs.destroy(f.cq), Err(DestroyError::UnknownHandle));
        assert_eq!(f.poll(), Err(CqError::UnknownHandle));
    }

    #[test]
    fn a_queue_pair_s_completions_can_be_removed() {
        let mut f = Fixture::new(4);
        f.push(Completion { wr_id: 1, ..RECEIVED }, false);
        f.push(Completion { wr_id: 2, qpn: Qpn::new(9), ..RECEIVED }, false);
        f.push(Completion { wr_id: 3, ..RECEIVED }, false);
        f.cqs.purge(f.cq, QPN);
        assert_eq!((f.poll(), f.poll()), (Ok(Some(2)), Ok(None)));
    }
}
