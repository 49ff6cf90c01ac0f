//! Random operations in both directions, each checked to be done once, in order, on the right bytes.

use std::collections::VecDeque;

use nic::verbs::*;
use wire::Immediate;

use super::link::Random;
use super::{Pair, Setup};

/// Memory is divided into areas of slots; operation n of a side uses slot n modulo [`SLOTS`] of each.
const SLOTS: u64 = 16;
const SLOT: u64 = 8 * 1024;
/// Where this side's payload comes from, and READs and atomics go to.
const LOCAL: u64 = 0;
/// Where the peer's WRITEs go to and its READs come from.
const TARGET: u64 = SLOTS * SLOT;
/// Where receives go to.
const RECEIVE: u64 = 2 * SLOTS * SLOT;
/// The word that the peer's FETCH_ADDs count in.
const COUNTER: u64 = 3 * SLOTS * SLOT;
/// The word that the peer's CMP_SWAPs step through.
const LATCH: u64 = COUNTER + 8;

/// How many requests a side has outstanding.
const DEPTH: u64 = 12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    SendImmediate,
    Write,
    WriteImmediate,
    Read,
    FetchAdd,
    CompareSwap,
}

const KINDS: [Kind; 7] = [
    Kind::Send,
    Kind::SendImmediate,
    Kind::Write,
    Kind::WriteImmediate,
    Kind::Read,
    Kind::FetchAdd,
    Kind::CompareSwap,
];

#[derive(Clone, Copy, Debug)]
struct Operation {
    kind: Kind,
    length: u32,
    /// What an atomic is to find.
    expected: u64,
}

/// What a side has posted and waits for.
#[derive(Default)]
struct Progress {
    posted: u64,
    completed: u64,
    received: u64,
    receives_posted: u64,
    outstanding: VecDeque<(u64, Operation)>,
    /// Messages on their way to this side that use a receive.
    incoming: VecDeque<(u64, Operation)>,
    adds: u64,
    swaps: u64,
}

/// Runs `operations` on each side; returns the pair for its counters.
pub fn run(setup: Setup, operations: u64) -> Pair {
    let mut random = Random(setup.seed ^ 0x5DEE_CE66);
    let mut pair = Pair::new(setup);
    let mut progress = [Progress::default(), Progress::default()];
    while progress.iter().any(|side| side.completed < operations) {
        for side in 0..2 {
            post(&mut pair, &mut progress, side, operations, &mut random);
        }
        assert!(pair.step(), "stalled");
        for side in 0..2 {
            check_sent(&mut pair, &mut progress, side);
            check_received(&mut pair, &mut progress, side);
        }
    }
    for side in 0..2 {
        check_received(&mut pair, &mut progress, side);
        assert!(progress[side].incoming.is_empty(), "a message was not received");
        assert_eq!(pair.state(side), QpState::Rts);
        assert_eq!(pair.events(side), []);
    }
    pair
}

fn post(pair: &mut Pair, progress: &mut [Progress; 2], side: usize, operations: u64, random: &mut Random) {
    let own = &mut progress[side];
    while own.receives_posted < own.received + SLOTS && !random.happens(pair.setup.faults.late_receive) {
        let slot = own.receives_posted % SLOTS;
        let sges = split(pair, side, RECEIVE + slot * SLOT, SLOT as u32, random);
        pair.recv(side, own.receives_posted, &sges);
        own.receives_posted += 1;
    }
    while progress[side].posted < operations && progress[side].outstanding.len() < DEPTH as usize {
        let operation = choose(&mut progress[side], random);
        start(pair, progress, side, operation, random);
    }
}

fn choose(own: &mut Progress, random: &mut Random) -> Operation {
    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
    let length = match random.below(4) {
        0 => random.below(16),
        1 => random.below(1500),
        _ => random.below(SLOT),
    } as u32;
    let (length, expected) = match kind {
        Kind::FetchAdd => (8, own.adds),
        Kind::CompareSwap => (8, own.swaps),
        _ => (length, 0),
    };
    own.adds += u64::from(kind == Kind::FetchAdd);
    own.swaps += u64::from(kind == Kind::CompareSwap);
    Operation { kind, length, expected }
}

fn start(
    pair: &mut Pair,
    progress: &mut [Progress; 2],
    side: usize,
    operation: Operation,
    random: &mut Random,
) {
    let number = progress[side].posted;
    let slot = number % SLOTS * SLOT;
    let (length, remote) = (operation.length, pair.remote(side, TARGET + slot));
    let bytes = content(side, number, length);
    let (source, at) = match operation.kind {
        Kind::Read => (1 - side, TARGET + slot),
        _ => (side, LOCAL + slot),
    };
    pair.bytes(source, at, length as usize).copy_from_slice(&bytes);
    let immediate = number as u32;
    let request = match operation.kind {
        Kind::Send => SendOperation::Send,
        Kind::SendImmediate => SendOperation::SendWithImmediate(immediate),
        Kind::Write => SendOperation::Write(remote),
        Kind::WriteImmediate => SendOperation::WriteWithImmediate(remote, immediate),
        Kind::Read => SendOperation::Read(remote),
        Kind::FetchAdd => SendOperation::FetchAdd { remote: pair.remote(side, COUNTER), add: 1 },
        Kind::CompareSwap => SendOperation::CompareSwap {
            remote: pair.remote(side, LATCH),
            compare: operation.expected,
            swap: operation.expected + 1,
        },
    };
    let sges = split(pair, side, LOCAL + slot, length, random);
    pair.send(side, number, request, &sges);
    let own = &mut progress[side];
    own.posted += 1;
    own.outstanding.push_back((number, operation));
    if matches!(operation.kind, Kind::Send | Kind::SendImmediate | Kind::WriteImmediate) {
        progress[1 - side].incoming.push_back((number, operation));
    }
}

fn check_sent(pair: &mut Pair, progress: &mut [Progress; 2], side: usize) {
    while let Some(completion) = pair.poll_send(side) {
        let own = &mut progress[side];
        let (number, operation) = own.outstanding.pop_front().expect("a completion too many");
        own.completed += 1;
        assert_eq!((completion.wr_id, completion.status), (number, Status::Success), "{operation:?}");
        let slot = number % SLOTS * SLOT;
        let bytes = content(side, number, operation.length);
        match operation.kind {
            Kind::Read => assert_eq!(*pair.bytes(side, LOCAL + slot, bytes.len()), bytes),
            Kind::Write => assert_eq!(*pair.bytes(1 - side, TARGET + slot, bytes.len()), bytes),
            Kind::FetchAdd | Kind::CompareSwap => {
                assert_eq!(*pair.bytes(side, LOCAL + slot, 8), operation.expected.to_ne_bytes());
            }
            // The receiver checks.
            Kind::Send | Kind::SendImmediate | Kind::WriteImmediate => {}
        }
    }
}

fn check_received(pair: &mut Pair, progress: &mut [Progress; 2], side: usize) {
    while let Some(completion) = pair.poll_recv(side) {
        let own = &mut progress[side];
        let (number, operation) = own.incoming.pop_front().expect("a receive too many");
        assert_eq!((completion.wr_id, completion.status), (own.received, Status::Success));
        assert_eq!(completion.byte_length, operation.length);
        let immediate = match operation.kind {
            Kind::Send => Immediate::None,
            _ => Immediate::Data(number as u32),
        };
        assert_eq!(completion.immediate, immediate);
        let at = match operation.kind {
            Kind::WriteImmediate => TARGET + number % SLOTS * SLOT,
            _ => RECEIVE + own.received % SLOTS * SLOT,
        };
        own.received += 1;
        let bytes = content(1 - side, number, operation.length);
        assert_eq!(*pair.bytes(side, at, bytes.len()), bytes, "message {number}");
    }
}

/// The bytes of an operation.
fn content(side: usize, number: u64, length: u32) -> Vec<u8> {
    let start = number.wrapping_mul(0x9E37_79B9) as u32 ^ side as u32;
    (0..length).map(|at| (start.wrapping_add(at).wrapping_mul(0x85EB_CA6B) >> 24) as u8).collect()
}

/// A stretch of memory as one to three elements.
fn split(pair: &Pair, side: usize, at: u64, length: u32, random: &mut Random) -> Vec<Sge> {
    let first = random.below(u64::from(length) + 1) as u32;
    let second = random.below(u64::from(length - first) + 1) as u32;
    let rest = length - first - second;
    [(0, first), (first, second), (first + second, rest)]
        .into_iter()
        .map(|(offset, length)| pair.sge(side, at + u64::from(offset), length))
        .collect()
}
