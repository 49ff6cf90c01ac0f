//! Connections that end, and what becomes of the requests that were on them.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{End, Pair, Setup},
    scenario,
    transfer::{Operation, SOURCE, TARGET, Transfer},
};
use crate::arm::{Arm, Need};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("flush_order", flush_order),
    scenario("flush_of_what_is_posted_later", flush_later),
    scenario("unsignalled_failure", unsignalled_failure).needing(&[Need::Lossless]),
    scenario("retry_exceeded", retry_exceeded),
    scenario("retry_exceeded_for_every_kind", retry_exceeded_for_every_kind),
    scenario("shared_receives_outlive_a_connection", shared_receives_stay),
    scenario("last_receive_reached", last_receive_reached).needing(&[Need::QueuePairEvents]),
    scenario("reset_and_again", reset_and_again),
];

/// Every request of both queues is flushed, in the order of posting, signalled or not.
fn flush_order(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup { signal_all: false, ..Setup::default() });
    // The other end answers no more.
    pair.set_state(1, QpState::Reset);
    let (sge, remote) = (pair.sge(0, SOURCE, 3000), pair.remote(0, TARGET));
    for id in 0..20 {
        let operation = match id % 3 {
            0 => SendOperation::Send,
            1 => SendOperation::Write(remote),
            _ => SendOperation::Read(remote),
        };
        pair.send(0, id, operation, &[sge]);
    }
    for id in 100..110 {
        pair.recv(0, id, &[sge]);
    }
    pair.set_state(0, QpState::Error);
    let flushed =
        |ids: std::ops::Range<u64>| ids.map(|id| (id, Status::WorkRequestFlushed)).collect::<Vec<_>>();
    assert_eq!(pair.all_sent(0, 20), flushed(0..20));
    assert_eq!(pair.all_received(0, 10), flushed(100..110));
    pair.assert_nothing_more();
    pair.close();
}

/// In ERROR requests are taken, and flushed at once.
fn flush_later(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    pair.set_state(0, QpState::Error);
    let (sge, ids) = (pair.sge(0, SOURCE, 8), 0..5);
    for id in ids.clone() {
        pair.send(0, id, SendOperation::Send, &[sge]);
        pair.recv(0, id, &[sge]);
    }
    pair.settle();
    let End { send_cq, recv_cq, .. } = pair.ends[0];
    for (id, cq) in ids.flat_map(|id| [(id, send_cq), (id, recv_cq)]) {
        let flushed = pair.poll(0, cq).map(|done| (done.wr_id, done.status));
        assert_eq!(flushed, Some((id, Status::WorkRequestFlushed)));
    }
    pair.assert_nothing_more();
    pair.close();
}

/// What fails completes though it was not signalled, and so does what it takes along; what was done before does not.
fn unsignalled_failure(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup { signal_all: false, ..Setup::default() });
    let (sge, remote) = (pair.sge(0, SOURCE, 8), pair.remote(0, TARGET));
    let nowhere = Remote { rkey: remote.rkey ^ 0x5A_5A00, ..remote };
    for id in 0..5 {
        pair.send(0, id, SendOperation::Write(remote), &[sge]);
    }
    pair.send(0, 5, SendOperation::Write(nowhere), &[sge]);
    pair.send(0, 6, SendOperation::Write(remote), &[sge]);
    let expected = [(5, Status::RemoteAccessError), (6, Status::WorkRequestFlushed)];
    assert_eq!(pair.all_sent(0, 2), expected);
    pair.settle();
    pair.assert_nothing_more();
    pair.close();
}

/// Patience of a few milliseconds, where `timeout` is the code of one.
fn impatient() -> Setup {
    Setup { timeout: Some(8), retry_count: 2, ..Setup::default() }
}

/// Nobody answers: the oldest request fails, the others are flushed, and nothing goes on.
fn retry_exceeded(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, impatient());
    pair.destroy_queue_pair(1);
    let sge = pair.sge(0, SOURCE, 8);
    pair.recv(0, 9, &[sge]);
    for id in 0..4 {
        pair.send(0, id, SendOperation::Send, &[sge]);
    }
    let mut expected = vec![(0, Status::RetryExceeded)];
    expected.extend((1..4).map(|id| (id, Status::WorkRequestFlushed)));
    assert_eq!(pair.all_sent(0, 4), expected);
    assert_eq!(pair.all_received(0, 1), [(9, Status::WorkRequestFlushed)]);
    assert_eq!(pair.state(0), QpState::Error);
    pair.assert_nothing_more();
    pair.close();
}

fn retry_exceeded_for_every_kind(arm: &mut dyn Arm) {
    for &operation in Operation::RELIABLE {
        let mut pair = Pair::new(arm, impatient());
        pair.set_state(1, QpState::Error);
        let (sge, remote) = (pair.sge(0, SOURCE, 5000), pair.remote(0, TARGET));
        pair.send(0, 1, operation.on(remote, 3), &[sge]);
        assert_eq!(pair.all_sent(0, 1), [(1, Status::RetryExceeded)], "{operation:?}");
        pair.close();
    }
}

/// A connection that ends leaves the shared receives to the others.
fn shared_receives_stay(arm: &mut dyn Arm) {
    let attributes = SrqAttributes { max_wr: 16, max_sge: 1, limit: 0 };
    let mut pair = Pair::new(arm, Setup { srq: Some(attributes), ..Setup::default() });
    let scatter = pair.sge(1, TARGET, 8);
    pair.recv(1, 7, &[scatter]);
    pair.set_state(1, QpState::Error);
    pair.settle();
    pair.assert_nothing_more();
    pair.add_connection();
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    assert_eq!(pair.all_received(1, 1), [(7, Status::Success)]);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    pair.close();
}

/// A queue pair that takes no more of the shared receives says so (IBTA 11.6.3.2).
fn last_receive_reached(arm: &mut dyn Arm) {
    let attributes = SrqAttributes { max_wr: 16, max_sge: 1, limit: 0 };
    let mut pair = Pair::new(arm, Setup { srq: Some(attributes), ..Setup::default() });
    let qpn = pair.ends[1].qpn;
    pair.set_state(1, QpState::Error);
    assert_eq!(pair.event(1), AsyncEvent::LastWqeReached(qpn));
    pair.settle();
    assert_eq!(pair.event_now(1), None, "once only");
    pair.close();
}

/// Queue pairs that failed work again once they went through RESET, whatever their PSNs were.
fn reset_and_again(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    for number in 1..4 {
        let pieces = [2500];
        let transfer = Transfer {
            operation: Operation::Send,
            number,
            pieces: &pieces,
            receive_pieces: &pieces,
            inline: false,
        };
        transfer.run(&mut pair);
        for index in 0..2 {
            pair.set_state(index, QpState::Error);
            pair.set_state(index, QpState::Reset);
        }
        pair.connect();
    }
    pair.close();
}
