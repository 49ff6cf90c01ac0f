//! What waits for what, and which completions come.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{DEPTH, Pair, Setup, content, request},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Refusal};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("unsignalled_runs", unsignalled_runs),
    scenario("fence", fence),
    scenario("mixed_order", mixed_order),
    scenario("full_send_queue", full_send_queue),
    scenario("both_directions", both_directions),
];

const SIGNALLED: SendFlags = SendFlags { signaled: true, solicited: false, fence: false };

/// One completion stands for all requests before it, and gives their places back.
fn unsignalled_runs(arm: &mut dyn Arm) {
    /// Every so many requests one is signalled.
    const RUN: u64 = 16;
    let mut pair = Pair::new(arm, Setup { signal_all: false, ..Setup::default() });
    // Several times what the queue holds.
    for run in 0..12 {
        let numbers = run * RUN..(run + 1) * RUN;
        for number in numbers.clone() {
            let slot = number % RUN * 256;
            pair.store(0, SOURCE + slot, &content(number, 200));
            let (sge, remote) = (pair.sge(0, SOURCE + slot, 200), pair.remote(0, TARGET + slot));
            let flags = if number % RUN == RUN - 1 { SIGNALLED } else { SendFlags::default() };
            let write = request(number, SendOperation::Write(remote), std::slice::from_ref(&sge));
            pair.post(0, &SendRequest { flags, ..write }).expect("room in the queue");
        }
        let done = pair.sent(0);
        assert_eq!((done.wr_id, done.status), (numbers.end - 1, Status::Success));
        for number in numbers {
            let slot = number % RUN * 256;
            assert_eq!(pair.load(1, TARGET + slot, 200), content(number, 200), "request {number}");
        }
    }
    pair.settle();
    pair.assert_nothing_more();
    pair.close();
}

/// A fenced request sends what an earlier READ brought, and an earlier atomic found.
fn fence(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    for number in 0..20 {
        let bytes = content(number, 3000);
        pair.store(1, TARGET, &bytes);
        pair.store_word(1, TARGET + 8192, 7000 + number);
        pair.store(0, SOURCE, &[0; 3008]);
        let scatter = pair.sge(1, TARGET + 16_384, 4000);
        pair.recv(1, 1, &[scatter]);
        let (body, word) = (pair.sge(0, SOURCE, 3000), pair.sge(0, SOURCE + 3000, 8));
        let (from, counter) = (pair.remote(0, TARGET), pair.remote(0, TARGET + 8192));
        pair.send(0, 1, SendOperation::Read(from), &[body]);
        pair.send(0, 2, SendOperation::FetchAdd { remote: counter, add: 1 }, &[word]);
        let flags = SendFlags { fence: true, ..SendFlags::default() };
        let back = [body, word];
        pair.post(0, &SendRequest { flags, ..request(3, SendOperation::Send, &back) }).expect("a request");
        let expected = [1, 2, 3].map(|id| (id, Status::Success));
        assert_eq!(pair.all_sent(0, 3), expected);
        assert_eq!(pair.received(1).byte_length, 3008);
        assert_eq!(pair.load(1, TARGET + 16_384, 3000), bytes, "what the READ brought");
        assert_eq!(pair.load_word(1, TARGET + 16_384 + 3000), 7000 + number, "what the atomic found");
    }
    pair.close();
}

/// Requests of all kinds complete in the order in which they were posted, and receives in the order of sending.
fn mixed_order(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let mut next_receive = 0;
    for round in 0..8 {
        let mut sends = Vec::new();
        for place in 0..24 {
            let number = round * 24 + place;
            let slot = place * 1536;
            let sge = pair.sge(0, SOURCE + slot, (number * 97 % 1500) as u32);
            let word = pair.sge(0, SOURCE + slot, 8);
            let remote = pair.remote(0, TARGET + slot);
            let immediate = number as u32;
            let takes_receive = matches!(number % 7, 0..=2);
            if takes_receive {
                let scatter = pair.sge(1, TARGET + 65_536 + slot, 1536);
                pair.recv(1, number, &[scatter]);
                sends.push(number);
            }
            let (operation, sge) = match number % 7 {
                0 => (SendOperation::Send, sge),
                1 => (SendOperation::SendWithImmediate(immediate), sge),
                2 => (SendOperation::WriteWithImmediate(remote, immediate), sge),
                3 => (SendOperation::Write(remote), sge),
                4 => (SendOperation::Read(remote), sge),
                5 => (SendOperation::FetchAdd { remote, add: 1 }, word),
                _ => (SendOperation::CompareSwap { remote, compare: 0, swap: 1 }, word),
            };
            pair.send(0, number, operation, &[sge]);
        }
        let expected: Vec<_> = (round * 24..(round + 1) * 24).map(|id| (id, Status::Success)).collect();
        assert_eq!(pair.all_sent(0, 24), expected);
        let expected: Vec<_> = sends.iter().map(|&id| (id, Status::Success)).collect();
        assert_eq!(pair.all_received(1, sends.len()), expected);
        next_receive += sends.len();
    }
    assert!(next_receive > 0);
    pair.assert_nothing_more();
    pair.close();
}

/// A queue takes no more than it was made for until a completion was polled.
fn full_send_queue(arm: &mut dyn Arm) {
    let mut pair = Pair::unconnected(arm, Setup::default());
    for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
        let change = pair.change_to(0, state);
        pair.modify(0, &change).expect("a step towards RTS");
    }
    // Nobody answers, as the other end is in RESET.
    let sge = pair.sge(0, SOURCE, 8);
    let mut posted = 0;
    let refusal = loop {
        match pair.post(0, &request(posted, SendOperation::Send, &[sge])) {
            Ok(()) => posted += 1,
            Err(refusal) => break refusal,
        }
        assert!(posted < 10_000, "the queue never fills");
    };
    assert!(posted >= u64::from(DEPTH), "it takes at least what it was made for, not {posted}");
    assert_eq!(refusal, Refusal::NoRoom);
    pair.set_state(0, QpState::Error);
    let flushed: Vec<_> = (0..posted).map(|id| (id, Status::WorkRequestFlushed)).collect();
    assert_eq!(pair.all_sent(0, posted as usize), flushed);
    pair.close();
}

/// Both ends request at once, and each request and answer finds its way.
fn both_directions(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    for number in 0..10 {
        for index in 0..2 {
            pair.store(index, SOURCE, &content(number * 2 + index as u64, 5000));
            pair.store(index, TARGET + 16_384, &content(1000 + number * 2 + index as u64, 5000));
            let scatter = pair.sge(index, TARGET + 32_768, 5000);
            pair.recv(index, number, &[scatter]);
        }
        for index in 0..2 {
            let (sge, into) = (pair.sge(index, SOURCE, 5000), pair.sge(index, SOURCE + 8192, 5000));
            let (to, from) = (pair.remote(index, TARGET), pair.remote(index, TARGET + 16_384));
            pair.send(index, 1, SendOperation::Write(to), &[sge]);
            pair.send(index, 2, SendOperation::Read(from), &[into]);
            pair.send(index, 3, SendOperation::Send, &[sge]);
        }
        for index in 0..2 {
            assert_eq!(pair.all_sent(index, 3), [1, 2, 3].map(|id| (id, Status::Success)));
            assert_eq!(pair.all_received(index, 1), [(number, Status::Success)]);
        }
        for index in 0..2 {
            let (own, other) = (index as u64, 1 - index as u64);
            assert_eq!(pair.load(index, TARGET, 5000), content(number * 2 + other, 5000), "written");
            assert_eq!(pair.load(index, TARGET + 32_768, 5000), content(number * 2 + other, 5000), "sent");
            let read = content(1000 + number * 2 + other, 5000);
            assert_eq!(pair.load(index, SOURCE + 8192, 5000), read, "read by end {own}");
        }
    }
    pair.close();
}
