//! Shared receive queues (IBTA 10.2.9, 11.2.3).

use alloc::collections::VecDeque;

use crate::receive::{Receive, ReceiveQueue};
use crate::table::Table;
use crate::verbs::{
    AsyncEvent, CreateError, DestroyError, Event, Limits, ModifySrqError, Pd, PostError, RecvRequest, Srq,
    SrqAttributes, SrqChange,
};

/// All shared receive queues of an adapter.
#[derive(Debug)]
pub(crate) struct SrqTable {
    table: Table<SharedReceiveQueue>,
    max_wr: u32,
    max_sge: u32,
}

#[derive(Debug)]
struct SharedReceiveQueue {
    pd: Pd,
    queue: ReceiveQueue,
    /// Raises the limit event when fewer receives are left; zero when disarmed.
    limit: u32,
}

impl SrqTable {
    /// Queues within the adapter's limits.
    pub fn new(limits: &Limits) -> Self {
        Self {
            table: Table::with_limit(limits.max_srq),
            max_wr: limits.max_srq_wr,
            max_sge: limits.max_srq_sge,
        }
    }

    /// Makes a queue of a protection domain that exists. The limit starts disarmed, whatever was asked
    /// (IBTA 11.2.3.1).
    pub fn create(&mut self, pd: Pd, attributes: SrqAttributes) -> Result<(Srq, SrqAttributes), CreateError> {
        let SrqAttributes { max_wr, max_sge, limit: _ } = attributes;
        if max_wr == 0 || max_wr > self.max_wr || max_sge > self.max_sge {
            return Err(CreateError::InvalidSize);
        }
        let queue = SharedReceiveQueue { pd, queue: ReceiveQueue::new(max_wr, max_sge), limit: 0 };
        let granted = queue.attributes();
        let number = self.table.insert(queue).map_err(|_| CreateError::TooMany)?;
        Ok((Srq(number), granted))
    }

    /// Changes a queue, or changes nothing at all; returns its attributes.
    pub fn modify(&mut self, srq: Srq, change: SrqChange) -> Result<SrqAttributes, ModifySrqError> {
        let largest = self.max_wr;
        let shared = self.table.get_mut(srq.0).ok_or(ModifySrqError::UnknownHandle)?;
        let max_wr = change.max_wr.unwrap_or(shared.queue.max_wr());
        let limit = change.limit.unwrap_or(shared.limit);
        if max_wr == 0 || max_wr > largest || (max_wr as usize) < shared.queue.len() {
            return Err(ModifySrqError::InvalidSize);
        }
        if limit > max_wr {
            return Err(ModifySrqError::InvalidLimit);
        }
        shared.queue.resize(max_wr);
        shared.limit = limit;
        Ok(shared.attributes())
    }

    /// A queue's attributes.
    pub fn query(&self, srq: Srq) -> Option<SrqAttributes> {
        self.table.get(srq.0).map(SharedReceiveQueue::attributes)
    }

    /// A queue's protection domain.
    pub fn pd(&self, srq: Srq) -> Option<Pd> {
        self.table.get(srq.0).map(|shared| shared.pd)
    }

    /// Unmakes a queue that no queue pair uses; returns its protection domain.
    pub fn destroy(&mut self, srq: Srq) -> Result<Pd, DestroyError> {
        self.table.remove(srq.0).map(|shared| shared.pd)
    }

    /// Counts one more queue pair that takes receives from here.
    pub fn retain(&mut self, srq: Srq) {
        self.table.retain(srq.0);
    }

    /// Counts one less.
    pub fn release(&mut self, srq: Srq) {
        self.table.release(srq.0);
    }

    /// Posts a receive.
    pub fn post(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.table.get_mut(srq.0).ok_or(PostError::UnknownHandle)?.queue.post(request)
    }

    /// The oldest receive.
    pub fn front(&self, srq: Srq) -> Option<&Receive> {
        self.table.get(srq.0)?.queue.front()
    }

    /// Takes the oldest receive. If fewer than the limit are left then, raises the limit event and
    /// disarms it (IBTA 10.2.9.3).
    pub fn take(&mut self, srq: Srq, events: &mut VecDeque<Event>) -> Option<Receive> {
        let shared = self.table.get_mut(srq.0)?;
        let receive = shared.queue.take()?;
        if shared.queue.len() < shared.limit as usize {
            shared.limit = 0;
            events.push_back(Event::Async(AsyncEvent::SrqLimitReached(srq)));
        }
        Some(receive)
    }
}

impl SharedReceiveQueue {
    fn attributes(&self) -> SrqAttributes {
        SrqAttributes { max_wr: self.queue.max_wr(), max_sge: self.queue.max_sge(), limit: self.limit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verbs::Sge;

    const PD: Pd = Pd(1);

    fn table() -> SrqTable {
        SrqTable::new(&Limits { max_srq: 2, max_srq_wr: 8, max_srq_sge: 2, ..Limits::default() })
    }

    fn with(max_wr: u32, posted: u64) -> (SrqTable, Srq) {
        let mut srqs = table();
        let (srq, _) = srqs.create(PD, SrqAttributes { max_wr, max_sge: 1, limit: 0 }).unwrap();
        for wr_id in 0..posted {
            srqs.post(srq, &RecvRequest { wr_id, scatter: &[] }).unwrap();
        }
        (srqs, srq)
    }

    #[test]
    fn what_is_granted_is_told() {
        let mut srqs = table();
        let asked = SrqAttributes { max_wr: 8, max_sge: 2, limit: 5 };
        let granted = SrqAttributes { limit: 0, ..asked };
        let (srq, got) = srqs.create(PD, asked).unwrap();
        assert_eq!((got, srqs.query(srq)), (granted, Some(granted)));
        for refused in [
            SrqAttributes { max_wr: 0, ..asked },
            SrqAttributes { max_wr: 9, ..asked },
            SrqAttributes { max_sge: 3, ..asked },
        ] {
            assert_eq!(srqs.create(PD, refused), Err(CreateError::InvalidSize));
        }
    }

    #[test]
    fn the_limit_event_comes_once() {
        let (mut srqs, srq) = with(4, 4);
        let mut events = VecDeque::new();
        srqs.modify(srq, SrqChange { limit: Some(3), ..SrqChange::default() }).unwrap();
        assert_eq!(srqs.take(srq, &mut events).map(|receive| receive.wr_id), Some(0));
        assert!(events.is_empty(), "three are left, which is not below three");
        srqs.take(srq, &mut events);
        assert_eq!(events, [Event::Async(AsyncEvent::SrqLimitReached(srq))]);
        assert_eq!(srqs.query(srq).map(|attributes| attributes.limit), Some(0));
        srqs.take(srq, &mut events);
        srqs.take(srq, &mut events);
        assert_eq!((srqs.take(srq, &mut events), events.len()), (None, 1));
    }

    #[test]
    fn a_refused_change_keeps_the_queue() {
        let (mut srqs, srq) = with(4, 3);
        let before = srqs.query(srq);
        let mut refuse = |max_wr, limit, error| {
            assert_eq!(srqs.modify(srq, SrqChange { max_wr, limit }), Err(error));
        };
        refuse(Some(2), None, ModifySrqError::InvalidSize);
        refuse(Some(0), None, ModifySrqError::InvalidSize);
        refuse(Some(9), Some(1), ModifySrqError::InvalidSize);
        refuse(None, Some(5), ModifySrqError::InvalidLimit);
        refuse(Some(3), Some(4), ModifySrqError::InvalidLimit);
        assert_eq!(srqs.query(srq), before);

        let changed = srqs.modify(srq, SrqChange { max_wr: Some(3), limit: Some(2) });
        assert_eq!(changed, Ok(SrqAttributes { max_wr: 3, max_sge: 1, limit: 2 }));
        let request = RecvRequest { wr_id: 3, scatter: &[] };
        assert_eq!(srqs.post(srq, &request), Err(PostError::QueueFull));
        assert_eq!(srqs.take(srq, &mut VecDeque::new()).map(|receive| receive.wr_id), Some(0));
    }

    #[test]
    fn posts_are_checked() {
        let (mut srqs, srq) = with(1, 0);
        let two = RecvRequest { wr_id: 0, scatter: &[Sge::default(); 2] };
        assert_eq!(srqs.post(srq, &two), Err(PostError::TooManySges));
        assert_eq!(srqs.post(Srq(u32::MAX), &two), Err(PostError::UnknownHandle));
    }

    #[test]
    fn a_used_queue_stays() {
        let (mut srqs, srq) = with(1, 0);
        srqs.retain(srq);
        assert_eq!(srqs.destroy(srq), Err(DestroyError::Busy));
        srqs.release(srq);
        assert_eq!(srqs.destroy(srq), Ok(PD));
        assert_eq!(srqs.query(srq), None);
    }
}
