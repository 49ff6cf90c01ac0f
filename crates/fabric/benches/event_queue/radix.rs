//! A radix heap: events never come before the last one popped, so they are kept by the highest bit in
//! which their time differs from it.

use std::cmp::Reverse;

use fabric::engine::Event;

use crate::Queue;

/// Ahuja, Mehlhorn, Orlin and Tarjan 1990, with buckets of one bit.
pub struct RadixHeap {
    last: u64,
    /// Bucket 0 has the events of time `last`, last one first.
    buckets: [Vec<Event>; 65],
    occupied: u128,
}

impl Default for RadixHeap {
    fn default() -> Self {
        Self { last: 0, buckets: [const { Vec::new() }; 65], occupied: 0 }
    }
}

impl RadixHeap {
    fn bucket(&self, event: Event) -> usize {
        64 - (event.picos() ^ self.last).leading_zeros() as usize
    }

    fn refill(&mut self) -> Option<()> {
        if self.occupied == 0 {
            return None;
        }
        let bucket = self.occupied.trailing_zeros() as usize;
        let mut events = std::mem::take(&mut self.buckets[bucket]);
        self.occupied &= !(1 << bucket);
        self.last = events.iter().map(|event| event.picos()).min()?;
        for event in events.drain(..) {
            let to = self.bucket(event);
            self.buckets[to].push(event);
            self.occupied |= 1 << to;
        }
        self.buckets[bucket] = events;
        self.buckets[0].sort_unstable_by_key(|event| Reverse(event.key()));
        Some(())
    }
}

impl Queue for RadixHeap {
    fn push(&mut self, event: Event) {
        let bucket = self.bucket(event);
        if bucket == 0 {
            let at = self.buckets[0].partition_point(|other| *other > event);
            self.buckets[0].insert(at, event);
        } else {
            self.buckets[bucket].push(event);
        }
        self.occupied |= 1 << bucket;
    }

    fn pop(&mut self) -> Option<Event> {
        if self.buckets[0].is_empty() {
            self.occupied &= !1;
            self.refill()?;
        }
        self.buckets[0].pop()
    }
}
