//! Random operations of every kind in both directions at once, against a naive model: bytes arrive in the right places
//! and nowhere else, each completion comes once and in order, atomics happen once, receives see what was sent in the
//! order of sending.
//!
//! | module | idea |
//! |---|---|
//! | `layout` | what is where in an end's memory |
//! | `flow` | what an end has under way, and the model of its memory |
//! | `draw` | the next request of an end, and what it does to the model |
//! | `reap` | completions, compared with what the model expects |

mod draw;
mod flow;
mod layout;
mod reap;

use std::{array, fmt};

use nic::verbs::*;
use wire::Psn;

use self::{
    flow::{Flow, Kind},
    layout::{COUNTERS, SLOTS, TARGET, TARGET_LENGTH},
};
use super::{
    Scenario,
    pair::{Pair, Setup},
    scenario,
};
use crate::{
    arm::{Arm, Need},
    chance::Chance,
};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("traffic", |arm| usual(arm, false)),
    scenario("traffic_of_every_kind", |arm| usual(arm, true)).needing(&[Need::IdleFence]),
];

/// What traffic there is to be.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Where chance starts.
    pub seed: u64,
    /// Requests of each end.
    pub operations: u64,
    /// Whether windows are bound, used and invalidated.
    pub windows: bool,
    /// How often a receive is not posted when it could be.
    pub late_receives: f64,
    /// How often a request is fenced that need not be; if not said, none is, and none need be.
    pub fences: Option<f64>,
}

/// What was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    counts: [u64; Kind::ALL.len()],
    bytes: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} operations, {} bytes:", self.counts.iter().sum::<u64>(), self.bytes)?;
        for (kind, count) in Kind::ALL.iter().zip(self.counts) {
            write!(f, " {kind:?} {count}")?;
        }
        Ok(())
    }
}

/// A little of it, on every path MTU, with or without windows and fences.
fn usual(arm: &mut dyn Arm, every_kind: bool) {
    for (seed, mtu) in (1..).zip([Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096]) {
        let fences = every_kind.then_some(0.02);
        let plan = Plan { seed, operations: 150, windows: every_kind, late_receives: 0.05, fences };
        let tally = run(arm, mtu, &plan);
        assert_eq!(tally.counts.iter().sum::<u64>(), 300);
    }
}

/// Makes a connection and runs traffic on it; panics when something is not as the model has it.
pub fn run(arm: &mut dyn Arm, mtu: Mtu, plan: &Plan) -> Tally {
    let psns = array::from_fn(|index| Psn::new(0xFF_FF00 - 1000 * index as u32));
    let setup = Setup { mtu, psns, signal_all: false, rd_atomic: 8, ..Setup::default() };
    let mut pair = Pair::new(arm, setup);
    let mut traffic = Traffic::new(&mut pair, *plan);
    traffic.run();
    let tally = traffic.finish();
    pair.close();
    tally
}

/// Traffic under way.
struct Traffic<'p, 'a> {
    pair: &'p mut Pair<'a>,
    plan: Plan,
    chance: Chance,
    flows: [Flow; 2],
    tally: Tally,
}

/// After so many requests the wire comes to rest, and all memory is compared.
const REST: u64 = 2000;

impl<'p, 'a> Traffic<'p, 'a> {
    fn new(pair: &'p mut Pair<'a>, plan: Plan) -> Self {
        let flows = array::from_fn(|index| {
            let blank = vec![0; TARGET_LENGTH as usize];
            pair.store(index, TARGET, &blank);
            pair.store(index, COUNTERS, &[0; 8 * layout::COUNTER_COUNT as usize]);
            let pd = pair.ends[index].pd;
            let window =
                plan.windows.then(|| pair.side(index).alloc_mw(pd, MwType::Type2).expect("a window"));
            Flow::new(blank, window)
        });
        Self { pair, plan, chance: Chance::new(plan.seed), flows, tally: Tally::default() }
    }

    fn run(&mut self) {
        let mut until = 0;
        while until < self.plan.operations {
            until = (until + REST).min(self.plan.operations);
            self.run_until(until);
            self.compare_memory();
        }
    }

    /// Goes on until both ends have had so many requests done.
    fn run_until(&mut self, operations: u64) {
        self.pair.start_waiting();
        loop {
            let mut happened = false;
            for index in 0..2 {
                self.post_receives(index);
                while self.flows[index].posted < operations && self.flows[index].in_flight() < SLOTS {
                    self.post_next(index, operations);
                    happened = true;
                }
                happened |= self.reap(index);
            }
            let is_done = |flow: &Flow| flow.completed == operations && flow.expected.is_empty();
            if self.flows.iter().all(is_done) {
                return;
            }
            if happened {
                self.pair.start_waiting();
            }
            assert!(
                self.pair.step(),
                "stalled, of {operations} each: {:#?}",
                self.flows.each_ref().map(Flow::progress)
            );
        }
    }

    /// Compares what peers may write with what the model has there.
    fn compare_memory(&mut self) {
        for index in 0..2 {
            let found = self.pair.load(index, TARGET, TARGET_LENGTH as usize);
            let wrong =
                found.iter().zip(&self.flows[index].target).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "end {index}: another byte here than the model has");
            for (number, &expected) in (0..).zip(&self.flows[index].counters) {
                let found = self.pair.load_word(index, COUNTERS + 8 * number);
                assert_eq!(found, expected, "end {index}: counter {number}");
            }
        }
    }

    /// Nothing more comes, and everything is as it was but for the memory.
    fn finish(self) -> Tally {
        self.pair.settle();
        self.pair.assert_nothing_more();
        for (index, flow) in self.flows.iter().enumerate() {
            assert_eq!(self.pair.state(index), QpState::Rts, "end {index}");
            assert_eq!(self.pair.event_now(index), None, "end {index}");
            if let Some(window) = &flow.window {
                self.pair.side(index).dealloc_mw(window.mw).expect("a window");
            }
        }
        self.tally
    }
}
