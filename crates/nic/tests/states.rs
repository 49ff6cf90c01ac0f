//! What the state of a queue pair means for its traffic.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::Duration;
use nic::verbs::*;
use support::*;

const TARGET: u64 = 512 * 1024;

#[test]
fn requests_are_taken_in_the_right_states() {
    let mut pair = Pair::default();
    let Side { nic, qpn, .. } = &mut pair.sides[0];
    let reset = QpChange { state: Some(QpState::Reset), ..QpChange::default() };
    nic.modify_qp(pair.now, *qpn, &reset).unwrap();
    let send = request(1, SendOperation::Send, &[]);
    let recv = RecvRequest { wr_id: 2, scatter: &[] };
    assert_eq!(nic.post_send(pair.now, *qpn, &send), Err(PostError::InvalidState));
    assert_eq!(nic.post_recv(pair.now, *qpn, &recv), Err(PostError::InvalidState));
    pair.enter_init(0);
    pair.recv(0, 2, &[]);
    assert_eq!(pair.post_send(0, &send), Err(PostError::InvalidState));
    pair.enter_rtr(0);
    assert_eq!(pair.post_send(0, &send), Err(PostError::InvalidState));
    pair.enter_rts(0);
    assert_eq!(pair.post_send(0, &send), Ok(()));
}

#[test]
fn the_first_packet_in_rtr_raises_an_event_once() {
    let mut pair = Pair::default();
    pair.set_state(1, QpState::Reset);
    pair.enter_init(1);
    pair.enter_rtr(1);
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, SendOperation::Read(remote), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(pair.events(1), [AsyncEvent::CommunicationEstablished(pair.sides[1].qpn)]);
}

#[test]
fn draining_finishes_what_was_begun_and_holds_back_the_rest() {
    let mut pair = Pair::new(Setup { run: 1, ..Setup::default() });
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8 * 1024));
    for id in 1..4 {
        pair.send(0, id, SendOperation::Write(remote), &[sge]);
    }
    // The first request is in the middle.
    let Side { nic, .. } = &mut pair.sides[0];
    let transmit = nic.poll_transmit(pair.now, 1).unwrap();
    pair.link.send(pair.now, 0, &transmit, nic.memory());
    let drain = QpChange { sqd_notify: Some(true), state: Some(QpState::Sqd), ..QpChange::default() };
    pair.modify(0, &drain);
    assert!(pair.attributes(0).sq_draining);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(pair.events(0), [AsyncEvent::SqDrained(pair.sides[0].qpn)]);
    assert!(!pair.attributes(0).sq_draining);
    // More may be posted, and all of it goes on later.
    pair.send(0, 4, SendOperation::Write(remote), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), []);
    pair.set_state(0, QpState::Rts);
    pair.drive();
    assert_eq!(pair.sent(0), [(2, Status::Success), (3, Status::Success), (4, Status::Success)]);
}

#[test]
fn an_idle_queue_is_drained_at_once() {
    let mut pair = Pair::default();
    let drain = QpChange { sqd_notify: Some(true), state: Some(QpState::Sqd), ..QpChange::default() };
    pair.modify(0, &drain);
    assert_eq!(pair.events(0), [AsyncEvent::SqDrained(pair.sides[0].qpn)]);
}

#[test]
fn going_to_error_flushes_and_silences() {
    let mut pair = Pair::default();
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 3000));
    pair.recv(0, 20, &[]);
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.transmit();
    pair.set_state(0, QpState::Error);
    let flushed = Status::WorkRequestFlushed;
    assert_eq!((pair.sent(0), pair.received(0)), (vec![(1, flushed)], vec![(20, flushed)]));
    // The peer's acknowledgement finds nobody, and the peer's own requests are not answered.
    pair.recv(1, 30, &[]);
    pair.send(1, 2, SendOperation::Send, &[]);
    pair.drive();
    assert_eq!(pair.link.sent[0], 3);
    assert_eq!(pair.sent(1), [(2, Status::RetryExceeded)]);
    assert_eq!(pair.received(1), [(30, flushed)]);
}

#[test]
fn a_connection_can_be_made_anew_after_an_error() {
    let mut pair = Pair::default();
    let bad = Remote { address: 0, rkey: 1 };
    pair.send(0, 1, SendOperation::Write(bad), &[pair.sge(0, 0, 8)]);
    pair.drive();
    assert_eq!((pair.state(0), pair.state(1)), (QpState::Error, QpState::Error));
    for side in 0..2 {
        pair.set_state(side, QpState::Reset);
    }
    assert_eq!(pair.sent(0), [], "its completions left with it");
    pair.connect();
    let remote = pair.remote(0, TARGET);
    pair.send(0, 2, SendOperation::Write(remote), &[pair.sge(0, 0, 8)]);
    pair.drive();
    assert_eq!(pair.sent(0), [(2, Status::Success)]);
}

#[test]
fn a_stale_wakeup_does_not_disturb_a_new_connection() {
    let mut pair = Pair::default();
    pair.link.drop = Some(Box::new(|_, _| true));
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.transmit();
    assert!(pair.sides[0].nic.poll_timeout().is_some());
    pair.set_state(0, QpState::Reset);
    pair.drive_for(Duration::from_millis(100));
    assert_eq!(pair.sides[0].nic.counters().ack_timeout, 0);
    assert_eq!(pair.sides[0].nic.poll_timeout(), None);
}

#[test]
fn unsignaled_requests_complete_in_silence_unless_they_fail() {
    let mut pair = Pair::new(Setup { signal_all: false, ..Setup::default() });
    let (remote, sges) = (pair.remote(0, TARGET), [pair.sge(0, 0, 8)]);
    let write = SendOperation::Write(remote);
    pair.send(0, 1, write, &sges);
    let flags = SendFlags { signaled: true, ..SendFlags::default() };
    pair.post_send(0, &SendRequest { flags, ..request(2, write, &sges) }).unwrap();
    pair.send(0, 3, SendOperation::Write(Remote { rkey: 1, ..remote }), &sges);
    pair.drive();
    assert_eq!(pair.sent(0), [(2, Status::Success), (3, Status::RemoteAccessError)]);
}

#[test]
fn queues_are_as_long_as_they_were_made() {
    let mut pair = Pair::default();
    let sizes = pair.setup.capabilities;
    for id in 0..u64::from(sizes.max_send_wr) {
        pair.send(0, id, SendOperation::Send, &[]);
    }
    let one = request(1, SendOperation::Send, &[]);
    assert_eq!(pair.post_send(0, &one), Err(PostError::QueueFull));
    let many = [Sge::default(); 5];
    let wide = request(1, SendOperation::Send, &many);
    assert_eq!(pair.post_send(1, &wide), Err(PostError::TooManySges));
    assert_eq!(pair.sides[0].nic.post_send(pair.now, wire::Qpn::new(5), &one), Err(PostError::UnknownHandle));
}

#[test]
fn solicited_messages_wake_who_waits_for_them() {
    let mut pair = Pair::default();
    for id in 0..2 {
        pair.recv(1, id, &[]);
    }
    let Side { nic, recv_cq, .. } = &mut pair.sides[1];
    let cq = *recv_cq;
    nic.req_notify_cq(cq, true).unwrap();
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.drive();
    assert_eq!(pair.sides[1].nic.poll_event(), None);
    let flags = SendFlags { solicited: true, ..SendFlags::default() };
    pair.post_send(0, &SendRequest { flags, ..request(2, SendOperation::Send, &[]) }).unwrap();
    pair.drive();
    assert_eq!(pair.sides[1].nic.poll_event(), Some(Event::Completion(cq)));
}
