//! Receives that are late, shared, or too few.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{DEPTH, Pair, Setup, content},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Refusal};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("late_receive", late),
    scenario("late_receive_between_others", late_between_others),
    scenario("rnr_retry_exceeded", rnr_retry_exceeded),
    scenario("full_receive_queue", full_queue),
    scenario("shared_receives", shared),
    scenario("shared_receive_late", shared_late),
    scenario("shared_receive_limit", shared_limit),
];

const SHARED: SrqAttributes = SrqAttributes { max_wr: 32, max_sge: 2, limit: 0 };

/// A message that finds no receive waits for one, however long it is and whatever it takes the receive for.
fn late(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    for (number, length) in (1..).zip([0, 100, 1024, 5000]) {
        for with_write in [false, true] {
            pair.store(0, SOURCE, &content(number, length));
            pair.store(1, TARGET, &vec![0xEE; length]);
            let (sge, remote) = (pair.sge(0, SOURCE, length as u32), pair.remote(0, TARGET));
            let operation = match with_write {
                true => SendOperation::WriteWithImmediate(remote, 5),
                false => SendOperation::Send,
            };
            pair.send(0, number, operation, &[sge]);
            pair.settle();
            pair.assert_nothing_more();
            let scatter = pair.sge(1, TARGET, length as u32);
            pair.recv(1, number, &[scatter]);
            assert_eq!(pair.all_sent(0, 1), [(number, Status::Success)]);
            let received = pair.received(1);
            assert_eq!((received.status, received.byte_length as usize), (Status::Success, length));
            assert_eq!(pair.load(1, TARGET, length), content(number, length));
        }
    }
    pair.close();
}

/// What is before the message that waits is done meanwhile; what is behind it comes after it, each once.
fn late_between_others(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    pair.store_word(1, TARGET + 8192, 0);
    let (sge, word) = (pair.sge(0, SOURCE, 700), pair.sge(0, SOURCE + 8192, 8));
    let (remote, counter) = (pair.remote(0, TARGET), pair.remote(0, TARGET + 8192));
    let add = SendOperation::FetchAdd { remote: counter, add: 1 };
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, add, &[word]);
    pair.send(0, 3, SendOperation::Send, &[sge]);
    pair.send(0, 4, add, &[word]);
    pair.send(0, 5, SendOperation::Send, &[sge]);
    assert_eq!(pair.all_sent(0, 2), [1, 2].map(|id| (id, Status::Success)));
    pair.settle();
    pair.assert_nothing_more();
    assert_eq!(pair.load_word(1, TARGET + 8192), 1, "the atomic behind the message waits");
    for id in [10, 11] {
        let scatter = pair.sge(1, TARGET + 4096, 700);
        pair.recv(1, id, &[scatter]);
        assert_eq!(pair.all_received(1, 1), [(id, Status::Success)]);
    }
    assert_eq!(pair.all_sent(0, 3), [3, 4, 5].map(|id| (id, Status::Success)));
    assert_eq!(pair.load_word(1, TARGET + 8192), 2);
    pair.assert_nothing_more();
    pair.close();
}

/// After the last retry the requester gives up; the responder has done nothing wrong and goes on.
fn rnr_retry_exceeded(arm: &mut dyn Arm) {
    for rnr_retry in [0, 1, 3] {
        let mut pair = Pair::new(arm, Setup { rnr_retry, ..Setup::default() });
        let sge = pair.sge(0, SOURCE, 8);
        pair.send(0, 1, SendOperation::Send, &[sge]);
        pair.send(0, 2, SendOperation::Send, &[sge]);
        let expected = [(1, Status::RnrRetryExceeded), (2, Status::WorkRequestFlushed)];
        assert_eq!(pair.all_sent(0, 2), expected, "{rnr_retry} retries");
        assert_eq!([pair.state(0), pair.state(1)], [QpState::Error, QpState::Rts], "{rnr_retry} retries");
        pair.assert_nothing_more();
        pair.close();
    }
}

fn full_queue(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let (sge, qpn) = (pair.sge(1, TARGET, 8), pair.ends[1].qpn);
    let mut posted = 0;
    let refusal = loop {
        match pair.side(1).post_recv(qpn, &RecvRequest { wr_id: posted, scatter: &[sge] }) {
            Ok(()) => posted += 1,
            Err(refusal) => break refusal,
        }
        assert!(posted < 10_000, "the queue never fills");
    };
    assert!(posted >= u64::from(DEPTH), "it takes at least what it was made for, not {posted}");
    assert_eq!(refusal, Refusal::NoRoom);
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    assert_eq!(pair.all_received(1, 1), [(0, Status::Success)]);
    let again = RecvRequest { wr_id: posted, scatter: &[] };
    assert_eq!(pair.side(1).post_recv(qpn, &again), Ok(()), "there is room again");
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    pair.close();
}

/// Receives go to the messages of all connections in the order in which they were posted.
fn shared(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup { srq: Some(SHARED), ..Setup::default() });
    let first = pair.ends.map(|end| end.qpn);
    pair.add_connection();
    let second = pair.ends.map(|end| end.qpn);
    for number in 0..20 {
        let (sender, receiver) = if number % 3 == 0 { (first[0], first[1]) } else { (second[0], second[1]) };
        pair.store(0, SOURCE, &content(number, 100));
        let scatter = [pair.sge(1, TARGET, 30), pair.sge(1, TARGET + 4096, 70)];
        pair.recv(1, number, &scatter);
        pair.ends[0].qpn = sender;
        let sge = pair.sge(0, SOURCE, 100);
        pair.send(0, number, SendOperation::Send, &[sge]);
        let received = pair.received(1);
        assert_eq!((received.wr_id, received.status), (number, Status::Success));
        assert_eq!((received.qpn, received.byte_length), (receiver, 100));
        assert_eq!(pair.all_sent(0, 1), [(number, Status::Success)]);
        let found = [pair.load(1, TARGET, 30), pair.load(1, TARGET + 4096, 70)].concat();
        assert_eq!(found, content(number, 100));
    }
    pair.close();
}

/// A message waits for a receive on the shared queue as on any other.
fn shared_late(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup { srq: Some(SHARED), ..Setup::default() });
    let sge = pair.sge(0, SOURCE, 100);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    pair.settle();
    pair.assert_nothing_more();
    let scatter = pair.sge(1, TARGET, 100);
    pair.recv(1, 2, &[scatter]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.all_received(1, 1), [(2, Status::Success)]);
    pair.close();
}

/// The limit event comes once, when fewer receives are left than the limit, and again when it was armed again.
fn shared_limit(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup { srq: Some(SHARED), ..Setup::default() });
    let srq = pair.ends[1].srq.expect("a shared receive queue");
    for id in 0..8 {
        let scatter = pair.sge(1, TARGET, 8);
        pair.recv(1, id, &[scatter]);
    }
    let mut left = 8;
    for limit in [5, 2] {
        let arm_limit = SrqChange { limit: Some(limit), ..SrqChange::default() };
        pair.side(1).modify_srq(srq, arm_limit).expect("a limit below the size");
        assert_eq!(pair.side(1).query_srq(srq).expect("its attributes").limit, limit);
        while left >= limit {
            assert_eq!(pair.event_now(1), None, "{left} left, the limit is {limit}");
            take_one(&mut pair);
            left -= 1;
        }
        assert_eq!(pair.event(1), AsyncEvent::SrqLimitReached(srq));
        take_one(&mut pair);
        left -= 1;
        assert_eq!(pair.event_now(1), None, "once only");
        assert_eq!(pair.side(1).query_srq(srq).expect("its attributes").limit, 0, "it is spent");
    }
    pair.close();
}

fn take_one(pair: &mut Pair<'_>) {
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.received(1).status, Status::Success);
}
