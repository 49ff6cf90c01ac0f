//! Words of the other end's memory that are changed once, and whose old values come back.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{Pair, Setup},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::Arm;

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("fetch_add", fetch_add),
    scenario("compare_swap", compare_swap),
    scenario("atomics_pipelined", pipelined),
    scenario("atomic_result_in_pieces", result_in_pieces),
    scenario("misaligned_atomic", misaligned),
];

fn fetch_add(arm: &mut dyn Arm) {
    /// Before, added, after.
    const SUMS: &[(u64, u64, u64)] = &[
        (0, 1, 1),
        (41, 1, 42),
        (5, 0, 5),
        (u64::MAX, 1, 0),
        (7, u64::MAX, 6),
        (0x0123_4567_89AB_CDEF, 0x1000_0000_0000_0001, 0x1123_4567_89AB_CDF0),
    ];
    let mut pair = Pair::new(arm, Setup::default());
    for &(before, add, after) in SUMS {
        let remote = pair.remote(0, TARGET);
        let operation = SendOperation::FetchAdd { remote, add };
        once(&mut pair, operation, CompletionOpcode::FetchAdd, before, after);
    }
    pair.close();
}

fn compare_swap(arm: &mut dyn Arm) {
    /// Before, compared with, swapped in, after.
    const SWAPS: &[(u64, u64, u64, u64)] = &[
        (1, 1, 2, 2),
        (1, 3, 2, 1),
        (0, 0, u64::MAX, u64::MAX),
        (u64::MAX, 0, 5, u64::MAX),
        (9, 9, 9, 9),
        (0x0102_0304_0506_0708, 0x0807_0605_0403_0201, 1, 0x0102_0304_0506_0708),
    ];
    let mut pair = Pair::new(arm, Setup::default());
    for &(before, compare, swap, after) in SWAPS {
        let remote = pair.remote(0, TARGET);
        let operation = SendOperation::CompareSwap { remote, compare, swap };
        once(&mut pair, operation, CompletionOpcode::CompareSwap, before, after);
    }
    pair.close();
}

/// One atomic on the word at [`TARGET`]: the old value comes back, the new one is there, its neighbours stay.
fn once(pair: &mut Pair<'_>, operation: SendOperation, opcode: CompletionOpcode, before: u64, after: u64) {
    const NEIGHBOUR: u64 = 0x5555_5555_5555_5555;
    for (offset, word) in [(TARGET - 8, NEIGHBOUR), (TARGET, before), (TARGET + 8, NEIGHBOUR)] {
        pair.store_word(1, offset, word);
    }
    pair.store_word(0, SOURCE, !before);
    let result = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, operation, &[result]);
    let done = pair.sent(0);
    assert_eq!((done.status, done.opcode), (Status::Success, opcode), "{operation:?}");
    assert_eq!(pair.load_word(0, SOURCE), before, "{operation:?}: what it found");
    let words = [TARGET - 8, TARGET, TARGET + 8].map(|offset| pair.load_word(1, offset));
    assert_eq!(words, [NEIGHBOUR, after, NEIGHBOUR], "{operation:?}: what it left");
}

/// More atomics than may be outstanding at once, from both ends on one word: each is done once.
fn pipelined(arm: &mut dyn Arm) {
    const COUNT: u64 = 40;
    let mut pair = Pair::new(arm, Setup::default());
    pair.add_connection();
    pair.store_word(1, TARGET, 0);
    for number in 0..COUNT {
        let (result, remote) = (pair.sge(0, SOURCE + 8 * number, 8), pair.remote(0, TARGET));
        pair.send(0, number, SendOperation::FetchAdd { remote, add: 3 }, &[result]);
    }
    let expected: Vec<_> = (0..COUNT).map(|id| (id, Status::Success)).collect();
    assert_eq!(pair.all_sent(0, COUNT as usize), expected);
    for number in 0..COUNT {
        assert_eq!(pair.load_word(0, SOURCE + 8 * number), 3 * number, "atomic {number}");
    }
    assert_eq!(pair.load_word(1, TARGET), 3 * COUNT);
    pair.close();
}

/// The old value is scattered over the request's elements like any other data.
fn result_in_pieces(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    pair.store_word(1, TARGET, 0x0807_0605_0403_0201);
    pair.store(0, SOURCE, &[0xEE; 32]);
    let (first, second) = (pair.sge(0, SOURCE, 3), pair.sge(0, SOURCE + 16, 5));
    let remote = pair.remote(0, TARGET);
    pair.send(0, 1, SendOperation::FetchAdd { remote, add: 0 }, &[first, second]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    let word = 0x0807_0605_0403_0201_u64.to_ne_bytes();
    assert_eq!(pair.load(0, SOURCE, 4), [word[0], word[1], word[2], 0xEE]);
    assert_eq!(pair.load(0, SOURCE + 16, 6), [word[3], word[4], word[5], word[6], word[7], 0xEE]);
    pair.close();
}

/// A word that is not aligned to its eight bytes is an invalid request (IBTA 9.4.5.2).
fn misaligned(arm: &mut dyn Arm) {
    for offset in [1, 4, 7] {
        let mut pair = Pair::new(arm, Setup::default());
        pair.store(1, TARGET, &[0xEE; 24]);
        let (result, remote) = (pair.sge(0, SOURCE, 8), pair.remote(0, TARGET + offset));
        pair.send(0, 1, SendOperation::FetchAdd { remote, add: 1 }, &[result]);
        assert_eq!(pair.all_sent(0, 1), [(1, Status::RemoteInvalidRequest)]);
        assert_eq!(pair.load(1, TARGET, 24), [0xEE; 24]);
        pair.close();
    }
}
