//! Receive queues: a queue pair's own, or shared (IBTA 10.2.9).

use alloc::collections::VecDeque;

use smallvec::SmallVec;

use crate::verbs::{PostError, RecvRequest, Sge};

/// A posted receive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Receive {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where to put what arrives.
    pub sges: SmallVec<[Sge; 2]>,
}

/// Receives in the order they were posted.
#[derive(Debug, Default)]
pub(crate) struct ReceiveQueue {
    entries: VecDeque<Receive>,
    max_wr: u32,
    max_sge: u32,
}

impl ReceiveQueue {
    /// A queue of at most `max_wr` receives of at most `max_sge` elements.
    pub fn new(max_wr: u32, max_sge: u32) -> Self {
        Self { entries: VecDeque::new(), max_wr, max_sge }
    }

    /// Adds a receive; what it names is copied.
    pub fn post(&mut self, request: &RecvRequest<'_>) -> Result<(), PostError> {
        if request.scatter.len() > self.max_sge as usize {
            return Err(PostError::TooManySges);
        }
        if self.entries.len() >= self.max_wr as usize {
            return Err(PostError::QueueFull);
        }
        self.entries.push_back(Receive { wr_id: request.wr_id, sges: SmallVec::from_slice(request.scatter) });
        Ok(())
    }

    /// Takes the oldest receive.
    pub fn take(&mut self) -> Option<Receive> {
        self.entries.pop_front()
    }

    /// The oldest receive.
    pub fn front(&self) -> Option<&Receive> {
        self.entries.front()
    }

    /// How many receives are posted.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Another size, which the receives held must fit in.
    pub fn resize(&mut self, max_wr: u32) {
        debug_assert!(self.entries.len() <= max_wr as usize);
        self.max_wr = max_wr;
        self.entries.shrink_to(max_wr as usize);
    }

    /// The most receives it takes.
    pub fn max_wr(&self) -> u32 {
        self.max_wr
    }

    /// The most elements of a receive.
    pub fn max_sge(&self) -> u32 {
        self.max_sge
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(wr_id: u64, scatter: &[Sge]) -> RecvRequest<'_> {
        RecvRequest { wr_id, scatter }
    }

    #[test]
    fn receives_are_taken_in_the_order_posted() {
        let mut queue = ReceiveQueue::new(2, 1);
        let sge = Sge { address: 16, length: 4, lkey: 7 };
        queue.post(&request(1, &[sge])).unwrap();
        queue.post(&request(2, &[])).unwrap();
        let first = queue.take().unwrap();
        assert_eq!((first.wr_id, first.sges.as_slice()), (1, [sge].as_slice()));
        assert_eq!(queue.take().unwrap().wr_id, 2);
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn the_sizes_hold() {
        let mut queue = ReceiveQueue::new(1, 1);
        assert_eq!(queue.post(&request(1, &[Sge::default(); 2])), Err(PostError::TooManySges));
        queue.post(&request(1, &[])).unwrap();
        assert_eq!(queue.post(&request(2, &[])), Err(PostError::QueueFull));
        queue.resize(2);
        assert_eq!(queue.post(&request(2, &[])), Ok(()));
    }
}
