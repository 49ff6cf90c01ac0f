//! The queue of events: a calendar of short buckets of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Event;

/// Number of buckets: a power of two.
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;
/// After so many pops the width of the buckets is reconsidered.
const ADAPT_EVERY: u32 = 1 << 16;
/// Once buckets were so narrow that many events lay behind them, they are not made as narrow again before
/// the width was reconsidered so often.
const PATIENCE: u32 = 256;

/// Events in the order of their time, then kind, then place.
///
/// Time is cut into buckets of equal, adaptive width. An event is appended, unsorted, to the bucket it
/// falls into; a bucket is sorted when its turn comes, by which time it lies in the first-level cache.
/// What is due after the last bucket waits in a heap, and moves to the buckets when its time is near:
/// retransmission timers, not packets.
///
/// The width adapts to the events that come: wide enough that few events go through the heap, narrow
/// enough that a bucket is sorted in no time. It does not influence the order.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// The events of the open bucket and whatever was pushed before its end, last one first.
    open: Vec<Event>,
    /// The number of the open bucket, counted from time zero.
    turn: u64,
    /// A bucket is `1 << shift` picoseconds wide.
    shift: u32,
    /// Bucket `turn % BUCKETS` and those after it, up to the one before it.
    buckets: Box<[Vec<Event>]>,
    /// Which buckets have events, a bit each.
    occupied: [u64; WORDS],
    /// Number of events in `buckets`.
    bucketed: usize,
    /// What is due later than any bucket.
    far: BinaryHeap<Reverse<Event>>,
    load: Load,
    is_fresh: bool,
    /// How often the load will be looked at before the buckets may become narrower.
    patience: u32,
}

/// What tells whether the width of the buckets fits, counted since it was last looked at.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    popped: u32,
    opened: u32,
    far: u32,
}

impl Default for Calendar {
    fn default() -> Self {
        Self::new()
    }
}

impl Calendar {
    const FIRST_SHIFT: u32 = 11;
    const MIN_SHIFT: u32 = 6;
    const MAX_SHIFT: u32 = 40;

    /// An empty queue.
    pub fn new() -> Self {
        Self {
            open: Vec::new(),
            turn: 0,
            shift: Self::FIRST_SHIFT,
            buckets: vec![Vec::new(); BUCKETS].into(),
            occupied: [0; WORDS],
            bucketed: 0,
            far: BinaryHeap::new(),
            load: Load::default(),
            is_fresh: false,
            patience: 0,
        }
    }

    /// Number of events.
    pub fn len(&self) -> usize {
        self.open.len() + self.bucketed + self.far.len()
    }

    /// Whether nothing is due, ever.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event, which is not due before the last one popped.
    pub fn push(&mut self, event: Event) {
        let bucket = event.picos() >> self.shift;
        if bucket <= self.turn {
            self.push_open(event);
        } else if bucket - self.turn < BUCKETS as u64 {
            self.push_bucket(bucket, event);
        } else {
            self.load.far += 1;
            self.far.push(Reverse(event));
        }
    }

    /// The next event, if it is due no later than `limit` picoseconds.
    pub fn pop_until(&mut self, limit: u64) -> Option<Event> {
        if self.open.is_empty() {
            self.open_next();
        }
        if self.open.last()?.picos() > limit {
            return None;
        }
        self.load.popped += 1;
        self.open.pop()
    }

    /// The next event.
    pub fn pop(&mut self) -> Option<Event> {
        self.pop_until(u64::MAX)
    }

    /// Whether a bucket has been opened since this was last asked.
    pub fn has_opened(&mut self) -> bool {
        std::mem::take(&mut self.is_fresh)
    }

    /// The events of the open bucket, last one first. They are all due soon: what they need can be fetched
    /// together.
    pub fn soon(&self) -> &[Event] {
        &self.open
    }

    fn push_open(&mut self, event: Event) {
        let at = self.open.partition_point(|other| *other > event);
        self.open.insert(at, event);
    }

    fn push_bucket(&mut self, bucket: u64, event: Event) {
        let index = bucket as usize % BUCKETS;
        self.buckets[index].push(event);
        self.occupied[index / 64] |= 1 << (index % 64);
        self.bucketed += 1;
    }

    /// Opens the next bucket that has events, if there are any.
    #[cold]
    #[inline(never)]
    fn open_next(&mut self) {
        if self.load.popped >= ADAPT_EVERY {
            self.adapt();
            if !self.open.is_empty() {
                return;
            }
        }
        let next_far = self.far.peek().map(|Reverse(event)| event.picos() >> self.shift);
        let Some(next) = self.next_occupied().or(next_far) else { return };
        self.turn = next;
        let index = next as usize % BUCKETS;
        self.bucketed -= self.buckets[index].len();
        self.occupied[index / 64] &= !(1 << (index % 64));
        std::mem::swap(&mut self.open, &mut self.buckets[index]);
        self.near();
        self.open.sort_unstable_by_key(|event| Reverse(event.key()));
        self.load.opened += 1;
        self.is_fresh = true;
    }

    /// The number of the next bucket that has events.
    fn next_occupied(&self) -> Option<u64> {
        if self.bucketed == 0 {
            return None;
        }
        let start = (self.turn + 1) as usize % BUCKETS;
        let first = self.occupied[start / 64] & (u64::MAX << (start % 64));
        let mut word = start / 64;
        let mut bits = first;
        while bits == 0 {
            word = (word + 1) % WORDS;
            bits = self.occupied[word];
        }
        let index = word * 64 + bits.trailing_zeros() as usize;
        let distance = (index + BUCKETS - start) % BUCKETS;
        Some(self.turn + 1 + distance as u64)
    }

    /// Moves what has come near from the heap to the buckets.
    fn near(&mut self) {
        while let Some(Reverse(event)) = self.far.peek().copied() {
            let bucket = event.picos() >> self.shift;
            if bucket - self.turn >= BUCKETS as u64 {
                return;
            }
            self.far.pop();
            if bucket == self.turn {
                self.open.push(event);
            } else {
                self.push_bucket(bucket, event);
            }
        }
    }

    /// Makes the buckets wider if many events lie behind them or most are nearly empty, narrower if they
    /// are crowded.
    fn adapt(&mut self) {
        let Load { popped, opened, far } = std::mem::take(&mut self.load);
        let per_bucket = popped / opened.max(1);
        self.patience = self.patience.saturating_sub(1);
        let shift = if far > popped / 16 {
            // They were too narrow: not again soon.
            self.patience = PATIENCE;
            self.shift + 1
        } else if per_bucket <= 1 {
            self.shift + 1
        } else if per_bucket >= 12 && self.patience == 0 {
            self.shift - 1
        } else {
            return;
        };
        self.resize(shift.clamp(Self::MIN_SHIFT, Self::MAX_SHIFT));
    }

    /// Sorts all events into buckets of another width. The open bucket is empty, and may not be afterwards.
    fn resize(&mut self, shift: u32) {
        let now = self.turn << self.shift;
        self.shift = shift;
        self.turn = now >> shift;
        let mut events: Vec<Event> = self.buckets.iter_mut().flat_map(std::mem::take).collect();
        events.extend(std::mem::take(&mut self.far).into_iter().map(|Reverse(event)| event));
        self.occupied = [0; WORDS];
        self.bucketed = 0;
        for event in events {
            self.push(event);
        }
        self.load = Load::default();
    }
}

#[cfg(test)]
mod tests;
