//! Unreliable connections: whole messages or nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::verbs::*;
use support::*;
use wire::{Immediate, Psn};

const TARGET: u64 = 512 * 1024;

fn uc() -> Setup {
    Setup { qp_type: QpType::Uc, ..Setup::default() }
}

/// Drops packet `n`, from 0, of what side 0 sends.
fn drop_packet(pair: &mut Pair, n: u32) {
    let mut seen = 0;
    pair.link.drop = Some(Box::new(move |_, _| {
        seen += 1;
        seen == n + 1
    }));
}

#[test]
fn messages_arrive_and_are_complete_when_they_were_sent() {
    for mtu in [Mtu::Mtu256, Mtu::Mtu1024, Mtu::Mtu4096] {
        for size in [0, 1, 3, mtu.bytes(), mtu.bytes() + 1, 40_000] {
            let mut pair = Pair::new(Setup { mtu, ..uc() });
            let bytes: Vec<u8> = (0..size).map(|at| (at % 253) as u8).collect();
            pair.bytes(0, 0, size as usize).copy_from_slice(&bytes);
            let (source, target) = (pair.sge(0, 0, size), pair.sge(1, TARGET, size));
            let remote = pair.remote(0, TARGET + 100_000);
            pair.recv(1, 20, &[target]);
            pair.recv(1, 21, &[]);
            pair.send(0, 1, SendOperation::SendWithImmediate(5), &[source]);
            pair.send(0, 2, SendOperation::WriteWithImmediate(remote, 6), &[source]);
            pair.send(0, 3, SendOperation::Write(remote), &[source]);
            pair.transmit();
            assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success), (3, Status::Success)]);
            pair.drive();
            let received: Vec<_> = core::iter::from_fn(|| pair.poll_recv(1)).collect();
            let told: Vec<_> = received.iter().map(|c| (c.wr_id, c.opcode, c.immediate)).collect();
            let expected = [
                (20, CompletionOpcode::Recv, Immediate::Data(5)),
                (21, CompletionOpcode::RecvWriteWithImmediate, Immediate::Data(6)),
            ];
            assert_eq!(told, expected);
            assert!(received.iter().all(|completion| completion.byte_length == size));
            assert_eq!(*pair.bytes(1, TARGET, size as usize), bytes);
            assert_eq!(*pair.bytes(1, TARGET + 100_000, size as usize), bytes);
            assert_eq!(pair.link.sent[1], 0, "nothing is acknowledged");
        }
    }
}

#[test]
fn a_message_that_lost_a_packet_is_dropped_and_its_receive_takes_the_next() {
    for lost in 0..3 {
        let mut pair = Pair::new(uc());
        drop_packet(&mut pair, lost);
        let (message, target) = (pair.sge(0, 0, 3000), pair.sge(1, TARGET, 3000));
        pair.recv(1, 20, &[target]);
        pair.send(0, 1, SendOperation::Send, &[message]);
        pair.send(0, 2, SendOperation::SendWithImmediate(2), &[message]);
        pair.drive();
        let completion = pair.poll_recv(1).unwrap();
        assert_eq!((completion.wr_id, completion.immediate), (20, Immediate::Data(2)), "lost {lost}");
        assert_eq!((completion.byte_length, pair.poll_recv(1)), (3000, None));
    }
}

#[test]
fn what_finds_no_receive_or_too_short_a_one_or_no_right_is_dropped() {
    let mut pair = Pair::new(uc());
    let (message, short) = (pair.sge(0, 0, 3000), pair.sge(1, TARGET, 2999));
    pair.send(0, 1, SendOperation::Send, &[message]);
    pair.drive();
    assert_eq!(pair.sides[1].nic.counters().dropped_no_receive, 1);
    pair.recv(1, 20, &[short]);
    pair.send(0, 2, SendOperation::Send, &[message]);
    pair.drive();
    assert_eq!(pair.sides[1].nic.counters().dropped_no_receive, 2);
    let wrong = Remote { rkey: 1, ..pair.remote(0, TARGET) };
    pair.send(0, 3, SendOperation::Write(wrong), &[message]);
    pair.drive();
    assert_eq!(pair.sides[1].nic.counters().dropped_malformed, 1);
    assert_eq!((pair.received(1), pair.state(1)), (vec![], QpState::Rts));
    // The receive is still there.
    pair.send(0, 4, SendOperation::Send, &[pair.sge(0, 0, 8)]);
    pair.drive();
    assert_eq!(pair.received(1), [(20, Status::Success)]);
}

#[test]
fn psns_wrap() {
    let mut pair = Pair::new(Setup { psns: [Psn::new(0xFF_FFFE), Psn::ZERO], ..uc() });
    let (message, target) = (pair.sge(0, 0, 5000), pair.sge(1, TARGET, 5000));
    pair.recv(1, 20, &[target]);
    pair.send(0, 1, SendOperation::Send, &[message]);
    pair.drive();
    assert_eq!(pair.received(1), [(20, Status::Success)]);
    assert_eq!((pair.attributes(0).sq_psn, pair.attributes(1).rq_psn), (Psn::new(3), Psn::new(3)));
}

#[test]
fn a_failed_send_stops_the_send_queue_alone_and_it_can_go_on() {
    let mut pair = Pair::new(uc());
    let good = pair.sge(0, 0, 8);
    let bad = Sge { lkey: good.lkey ^ 1, ..good };
    pair.recv(0, 20, &[pair.sge(0, TARGET, 8)]);
    pair.recv(1, 30, &[pair.sge(1, TARGET, 8)]);
    pair.send(0, 1, SendOperation::Send, &[bad]);
    pair.send(0, 2, SendOperation::Send, &[good]);
    pair.drive();
    assert_eq!(pair.state(0), QpState::Sqe);
    pair.send(0, 3, SendOperation::Send, &[good]);
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(pair.sent(0), [(1, Status::LocalProtectionError), (2, flushed), (3, flushed)]);
    // It still receives.
    pair.send(1, 4, SendOperation::Send, &[pair.sge(1, 0, 8)]);
    pair.drive();
    assert_eq!(pair.received(0), [(20, Status::Success)]);
    pair.set_state(0, QpState::Rts);
    pair.send(0, 5, SendOperation::Send, &[good]);
    pair.drive();
    assert_eq!((pair.sent(0), pair.received(1)), (vec![(5, Status::Success)], vec![(30, Status::Success)]));
}

#[test]
fn a_receive_that_is_not_writable_ends_the_connection() {
    let mut pair = Pair::new(uc());
    let target = pair.sge(1, TARGET, 8);
    pair.recv(1, 20, &[Sge { lkey: target.lkey ^ 1, ..target }]);
    pair.recv(1, 21, &[target]);
    pair.send(0, 1, SendOperation::Send, &[pair.sge(0, 0, 8)]);
    pair.drive();
    let expected = [(20, Status::LocalProtectionError), (21, Status::WorkRequestFlushed)];
    assert_eq!((pair.received(1), pair.state(1)), (expected.to_vec(), QpState::Error));
}
