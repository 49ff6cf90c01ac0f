//! Every operation, of every size, however it is cut.

use nic::verbs::*;
use wire::Psn;

use super::{
    Scenario,
    pair::{Pair, Setup},
    scenario,
    transfer::{Operation, Transfer},
};
use crate::arm::{Arm, Need};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("reliable_sizes", reliable_sizes),
    scenario("unreliable_sizes", unreliable_sizes).needing(&[Need::Lossless]),
    scenario("pieces", pieces),
    scenario("inline", inline),
    scenario("long_messages", long_messages),
    scenario("psn_wrap", psn_wrap),
];

const MTUS: [Mtu; 5] = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];

/// Sizes around the ends of packets.
fn sizes(mtu: Mtu) -> [u32; 9] {
    let mtu = mtu.bytes();
    [0, 1, 3, mtu - 1, mtu, mtu + 1, 2 * mtu, 2 * mtu + 1, 9 * mtu + 5]
}

fn reliable_sizes(arm: &mut dyn Arm) {
    every_size(arm, QpType::Rc, Operation::RELIABLE);
}

fn unreliable_sizes(arm: &mut dyn Arm) {
    every_size(arm, QpType::Uc, Operation::UNRELIABLE);
}

fn every_size(arm: &mut dyn Arm, qp_type: QpType, operations: &[Operation]) {
    for mtu in MTUS {
        let mut pair = Pair::new(arm, Setup { qp_type, mtu, ..Setup::default() });
        let transfers = operations.iter().flat_map(|&operation| sizes(mtu).map(|size| (operation, size)));
        for (number, (operation, size)) in (1..).zip(transfers) {
            whole(operation, number, size).run(&mut pair);
        }
        pair.close();
    }
}

/// A message in one piece.
fn whole(operation: Operation, number: u64, length: u32) -> Whole {
    Whole { operation, number, length }
}

struct Whole {
    operation: Operation,
    number: u64,
    length: u32,
}

impl Whole {
    fn run(&self, pair: &mut Pair<'_>) {
        let Self { operation, number, length } = *self;
        let pieces = [length];
        Transfer { operation, number, pieces: &pieces, receive_pieces: &pieces, inline: false }.run(pair);
    }
}

/// Pieces that are cut by packets, that cut packets, and that are empty; receives cut in another way, or longer.
fn pieces(arm: &mut dyn Arm) {
    const CUTS: &[(&[u32], &[u32])] = &[
        (&[], &[]),
        (&[], &[16]),
        (&[1], &[1, 5]),
        (&[1, 1, 1, 1], &[4]),
        (&[4], &[1, 1, 1, 1]),
        (&[255, 2, 255], &[300, 300]),
        (&[256, 256], &[512]),
        (&[0, 700, 0, 30], &[0, 1, 0, 800]),
        (&[13, 999, 1, 2048], &[1000, 1000, 1000, 61]),
        (&[5, 0, 0, 5], &[3, 3, 3, 3]),
    ];
    let mut pair = Pair::new(arm, Setup { mtu: Mtu::Mtu256, ..Setup::default() });
    let transfers =
        Operation::RELIABLE.iter().flat_map(|operation| CUTS.iter().map(move |cut| (operation, cut)));
    for (number, (&operation, &(pieces, receive_pieces))) in (1..).zip(transfers) {
        Transfer { operation, number, pieces, receive_pieces, inline: false }.run(&mut pair);
    }
    pair.close();
}

fn inline(arm: &mut dyn Arm) {
    const CUTS: &[&[u32]] = &[&[], &[0], &[1], &[256], &[100, 156], &[1, 2, 3, 4]];
    let writable = Operation::UNRELIABLE;
    let mut pair = Pair::new(arm, Setup { mtu: Mtu::Mtu256, ..Setup::default() });
    let transfers = writable.iter().flat_map(|operation| CUTS.iter().map(move |pieces| (operation, pieces)));
    for (number, (&operation, &pieces)) in (1..).zip(transfers) {
        Transfer { operation, number, pieces, receive_pieces: &[256], inline: true }.run(&mut pair);
    }
    pair.close();
}

/// More than fits into any window at once.
fn long_messages(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    for (number, &operation) in (1..).zip(Operation::RELIABLE) {
        whole(operation, number, 300_001).run(&mut pair);
    }
    pair.close();
}

/// The 24 bits of a PSN wrap between messages, within them, and within READ responses.
fn psn_wrap(arm: &mut dyn Arm) {
    for before_wrap in 1..12 {
        let psn = Psn::new(0x100_0000 - before_wrap);
        let mut pair = Pair::new(arm, Setup { mtu: Mtu::Mtu256, psns: [psn; 2], ..Setup::default() });
        for (number, &operation) in (1..).zip(Operation::RELIABLE) {
            whole(operation, number, 1000).run(&mut pair);
        }
        pair.close();
    }
}
