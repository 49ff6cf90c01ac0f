//! What an event costs in the calendar queue of the crate, and in the queues it was chosen over.
//!
//! `hold` keeps a number of events pending: every event popped pushes one that is due later, in the mix
//! of a network of 100 Gb/s links of 1 us (a port falls free in 84 ns, a packet arrives in 1084 ns).
//! `timers` adds a hundredth of far timers; `spread` draws the delay evenly, up to 2 us.

mod heap;
mod radix;

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use fabric::Random;
use fabric::engine::{Calendar, Event, Kind};
use nic::{Duration, Instant};

use heap::{BinaryHeap, QuaternaryHeap};
use radix::RadixHeap;

fn main() {
    let pairs = 20_000;
    agree::<BinaryHeap>(pairs);
    agree::<QuaternaryHeap>(pairs);
    agree::<RadixHeap>(pairs);
    divan::main();
}

/// A queue of events.
trait Queue: Default {
    fn push(&mut self, event: Event);
    fn pop(&mut self) -> Option<Event>;
}

impl Queue for Calendar {
    fn push(&mut self, event: Event) {
        Calendar::push(self, event);
    }

    fn pop(&mut self) -> Option<Event> {
        Calendar::pop(self)
    }
}

/// How far ahead events are due.
#[derive(Clone, Copy)]
enum Mix {
    Links,
    Timers,
    Spread,
}

impl Mix {
    fn delay(self, random: &mut Random) -> Duration {
        let choice = random.next();
        Duration::from_picos(match self {
            Self::Timers if choice.is_multiple_of(128) => 500_000_000,
            Self::Spread => choice % 2_000_000,
            _ if choice.is_multiple_of(2) => 83_840,
            _ => 1_083_840,
        })
    }
}

const MIXES: [Mix; 3] = [Mix::Links, Mix::Timers, Mix::Spread];

fn fill<Q: Queue>(pending: u32, mix: Mix, random: &mut Random) -> Q {
    let mut queue = Q::default();
    for place in 0..pending {
        let phase = Duration::from_picos(random.below(83_840));
        queue.push(Event::new(Instant::ZERO + phase + mix.delay(random), Kind::Arrival, place, place));
    }
    queue
}

fn hold<Q: Queue>(queue: &mut Q, mix: Mix, random: &mut Random) -> u64 {
    let Some(event) = queue.pop() else { return 0 };
    queue.push(Event::new(event.time() + mix.delay(random), event.kind(), event.place(), event.argument()));
    event.picos()
}

fn agree<Q: Queue>(pairs: usize) {
    for mix in MIXES {
        let (mut random, mut other) = (Random::new(1), Random::new(1));
        let mut queue: Q = fill(500, mix, &mut random);
        let mut calendar: Calendar = fill(500, mix, &mut other);
        for _ in 0..pairs {
            assert_eq!(hold(&mut queue, mix, &mut random), hold(&mut calendar, mix, &mut other));
        }
    }
}

/// Pairs of a push and a pop per iteration.
const PAIRS: usize = 100_000;

fn bench<Q: Queue>(bencher: Bencher<'_, '_>, pending: u32, mix: Mix) {
    let mut random = Random::new(7);
    let mut queue: Q = fill(pending, mix, &mut random);
    bencher.counter(ItemsCount::new(PAIRS)).bench_local(|| {
        for _ in 0..PAIRS {
            black_box(hold(&mut queue, mix, &mut random));
        }
    });
}

const PENDING: [u32; 4] = [64, 2_000, 20_000, 200_000];

macro_rules! mixes {
    ($($name:ident: $mix:expr;)*) => { $(
        #[divan::bench(args = PENDING, types = [Calendar, BinaryHeap, QuaternaryHeap, RadixHeap],
            sample_count = 12, sample_size = 1)]
        fn $name<Q: Queue>(bencher: Bencher<'_, '_>, pending: u32) {
            bench::<Q>(bencher, pending, $mix);
        }
    )* };
}

mixes! {
    links: Mix::Links;
    timers: Mix::Timers;
    spread: Mix::Spread;
}
