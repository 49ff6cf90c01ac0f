//! Congestion notifications, and what they do.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::cell::RefCell;
use std::rc::Rc;

use nic::verbs::*;
use nic::{Config, Duration};
use support::*;
use wire::{Headers, Opcode};

const TARGET: u64 = 512 * 1024;

fn with_ecn() -> Pair {
    Pair::new(Setup { config: Config { ecn: true, ..Config::default() }, ..Setup::default() })
}

/// What is sent, by sender.
fn record(pair: &mut Pair) -> Rc<RefCell<Vec<(usize, Headers)>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let log = Rc::clone(&seen);
    pair.link.drop = Some(Box::new(move |from, headers| {
        log.borrow_mut().push((from, *headers));
        false
    }));
    seen
}

#[test]
fn a_marked_packet_is_answered_with_a_notification_at_most_every_50_us() {
    let mut pair = with_ecn();
    pair.link.mark = true;
    let seen = record(&mut pair);
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    for id in 0..10 {
        pair.send(0, id, SendOperation::Write(remote), &[sge]);
        pair.drive_for(Duration::from_micros(10));
    }
    let notifications: Vec<_> =
        seen.borrow().iter().copied().filter(|(_, h)| h.bth.opcode == Opcode::CNP).collect();
    let from_receiver = notifications.iter().filter(|(from, _)| *from == 1).count();
    assert_eq!(from_receiver, 2);
    let (_, first) = notifications[0];
    assert!(first.bth.becn && first.bth.dest_qp == pair.sides[0].qpn);
    let counters = pair.sides[1].nic.counters();
    assert_eq!((counters.np_cnp_sent, counters.np_ecn_marked_roce_packets), (2, 10));
    assert_eq!(pair.sides[0].nic.counters().rp_cnp_handled, 2);
}

#[test]
fn without_ecn_nothing_is_marked_or_answered() {
    let mut pair = Pair::default();
    pair.link.mark = true;
    let seen = record(&mut pair);
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.drive();
    assert!(seen.borrow().iter().all(|(_, headers)| headers.bth.opcode != Opcode::CNP));
}

#[test]
fn packets_are_ecn_capable_and_notifications_are_not() {
    let mut pair = with_ecn();
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    let write = pair.sides[0].nic.poll_transmit(pair.now, 1).unwrap();
    assert_eq!(write.route.traffic_class & 3, 2);
    let arrival =
        nic::Arrival { traffic_class: 3, ..pair.link.arrival(pair.sides[0].gid, pair.sides[1].gid) };
    let nic = &mut pair.sides[1].nic;
    nic.handle_packet(pair.now, &arrival, &write.headers(0), nic::Payload::Bytes(&[0; 8]));
    let answers: Vec<_> = core::iter::from_fn(|| nic.poll_transmit(pair.now, 1)).collect();
    let by_opcode = |opcode| answers.iter().find(|t| (t.headers(0).bth.opcode == Opcode::CNP) == opcode);
    assert_eq!(by_opcode(true).unwrap().route.traffic_class & 3, 0);
    assert_eq!(by_opcode(false).unwrap().route.traffic_class & 3, 2);
}

#[test]
fn what_is_in_flight_stays_within_the_window() {
    for (window, run) in [(16 << 10, 1), (64 << 10, 16), (256 << 10, 64)] {
        let config = Config { window, ..Config::default() };
        let mut pair = Pair::new(Setup { config, run, ..Setup::default() });
        let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 500_000));
        for operation in [SendOperation::Write(remote), SendOperation::Read(remote)] {
            pair.send(0, 1, operation, &[sge]);
            pair.transmit();
            // Nothing was acknowledged: this is all that a window is worth.
            let packets = pair.link.sent[0].max(pair.link.sent[1]);
            assert!(packets * 1024 <= u64::from(window), "{packets} of {window}");
            pair.drive();
            assert_eq!(pair.sent(0), [(1, Status::Success)]);
            assert_eq!(pair.sides[0].nic.counters().retransmitted, 0);
            pair.link.sent = [0; 2];
        }
    }
}

#[test]
fn connections_take_turns() {
    let mut pair = Pair::new(Setup { run: 4, ..Setup::default() });
    // A second connection between the same adapters.
    let first = [pair.sides[0].qpn, pair.sides[1].qpn];
    pair.add_connection();
    let second = [pair.sides[0].qpn, pair.sides[1].qpn];
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 64 * 1024));
    for qpns in [first, second] {
        [pair.sides[0].qpn, pair.sides[1].qpn] = qpns;
        pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    }
    let nic = &mut pair.sides[0].nic;
    let order: Vec<_> = (0..6).map(|_| nic.poll_transmit(pair.now, 4).unwrap().source_qp).collect();
    assert_eq!(order, [first[0], second[0], first[0], second[0], first[0], second[0]]);
}
