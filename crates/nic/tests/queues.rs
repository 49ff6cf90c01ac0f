//! Completion queues that overrun, and shared receive queues of another protection domain.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::verbs::*;
use support::*;

#[test]
fn a_lost_receive_completion_ends_the_connection() {
    let mut pair = Pair::default();
    let (cq, qpn) = (pair.sides[1].recv_cq, pair.sides[1].qpn);
    assert_eq!(pair.sides[1].nic.resize_cq(cq, 1), Ok(1));
    for wr_id in 0..3 {
        pair.recv(1, wr_id, &[]);
        pair.send(0, wr_id, SendOperation::Send, &[]);
    }
    pair.drive();
    assert_eq!(pair.events(1), [AsyncEvent::CqError(cq), AsyncEvent::QpFatal(qpn)]);
    assert_eq!(pair.state(1), QpState::Error);
    let polled = pair.poll_recv(1).map(|completion| (completion.wr_id, completion.status));
    assert_eq!(polled, Some((0, Status::Success)));
    assert_eq!(pair.sides[1].nic.poll_cq(cq), Err(CqError::Overrun));
    // The peer is left without an answer.
    assert_eq!(pair.state(0), QpState::Error);
    let ends: Vec<Status> = pair.sent(0).into_iter().map(|(_, status)| status).collect();
    assert!(ends.contains(&Status::RetryExceeded), "{ends:?}");
}

#[test]
fn a_lost_send_completion_ends_the_connection() {
    let mut pair = Pair::default();
    let (cq, qpn) = (pair.sides[0].send_cq, pair.sides[0].qpn);
    assert_eq!(pair.sides[0].nic.resize_cq(cq, 2), Ok(2));
    let remote = pair.remote(0, 0);
    for wr_id in 0..4 {
        pair.send(0, wr_id, SendOperation::Write(remote), &[]);
    }
    pair.drive();
    assert_eq!(pair.events(0), [AsyncEvent::CqError(cq), AsyncEvent::QpFatal(qpn)]);
    assert_eq!(pair.state(0), QpState::Error);
    assert_eq!(pair.sides[0].nic.req_notify_cq(cq, false), Err(CqError::Overrun));
    let polled: Vec<u64> = (0..2).filter_map(|_| pair.poll_send(0)).map(|c| c.wr_id).collect();
    assert_eq!(polled, [0, 1]);
}

/// A queue pair of side 1 that takes its receives from a queue of another protection domain.
fn with_foreign_queue() -> (Pair, Pd) {
    let mut pair = Pair::new(Setup { srq: true, ..Setup::default() });
    let other = pair.sides[1].nic.alloc_pd().unwrap();
    let sizes = SrqAttributes { max_wr: 8, max_sge: 2, limit: 0 };
    let (srq, _) = pair.sides[1].nic.create_srq(other, sizes).unwrap();
    let init = QpInit { srq: Some(srq), ..pair.attributes(1).init };
    let (foreign, _) = pair.sides[1].nic.create_qp(&init).unwrap();
    let setup = pair.setup.clone();
    pair.srqs = [pair.sides[0].create_qp(&setup), Some(srq)];
    pair.sides[1].qpn = foreign;
    pair.connect();
    (pair, other)
}

#[test]
fn receives_of_a_shared_queue_are_of_its_protection_domain() {
    let (mut pair, other) = with_foreign_queue();
    let local = Access { local_write: true, ..Access::default() };
    let region = pair.sides[1].nic.reg_mr(other, BASE, MEMORY, BASE, local).unwrap();
    let sge = |lkey| Sge { address: BASE + 4096, length: 16, lkey };
    pair.recv(1, 1, &[sge(region.lkey)]);
    pair.bytes(0, 0, 16).copy_from_slice(b"sixteen letters!");
    let source = pair.sge(0, 0, 16);
    pair.send(0, 1, SendOperation::Send, &[source]);
    pair.drive();
    assert_eq!(pair.received(1), [(1, Status::Success)]);
    assert_eq!(pair.bytes(1, 4096, 16), b"sixteen letters!");

    // A key of the queue pair's own domain does not do.
    let own = pair.sides[1].key;
    pair.recv(1, 2, &[sge(own)]);
    pair.send(0, 2, SendOperation::Send, &[source]);
    pair.drive();
    assert_eq!(pair.received(1), [(2, Status::LocalProtectionError)]);
}
