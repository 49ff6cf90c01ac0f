//! Discrete events in integer picoseconds.
//!
//! An event is sixteen bytes: when, what and where, and with which packet. Events are carried out in
//! the order of (time, kind, place). That order is a property of the event and not of the queue's
//! history: no two events of one kind are due at one place at the same instant (a port receives one
//! packet at a time, and arms one timer of a kind), so a simulation cut into parts that run on several
//! threads carries them out in the very same order. A sequence number would not do that.
//!
//! # Which queue
//!
//! Measured by `cargo bench -p softverbs-fabric --bench event_queue`: nanoseconds per event, for one push
//! and one pop while so many events are pending (fastest of twelve samples of 100,000), on one core of an
//! AMD EPYC (1 MiB of L2), in the mix `timers`: a network of 100 Gb/s links of 1 us (half of the events
//! 84 ns ahead, half 1084 ns), one in 128 a timer of 500 us.
//!
//! | pending | 64 | 2,000 | 20,000 | 200,000 |
//! |---|---|---|---|---|
//! | binary heap (the standard library's) | 34 | 48 | 123 | 405 |
//! | heap of four children a node | 31 | 95 | 184 | 551 |
//! | radix heap | 32 | 39 | 44 | 86 |
//! | calendar | 14 | 13 | 14 | 60 |
//!
//! So the [`Calendar`] it is; the others are kept with the benchmark. It touches each event twice (an
//! append, a sort of a handful in the cache), and its cost hardly depends on the number of events.

mod calendar;
mod event;

pub use calendar::Calendar;
pub use event::{Event, Kind};
