//! Traps that requesters of real stacks fell into.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use std::cell::Cell;
use std::rc::Rc;

use nic::verbs::*;
use nic::{Duration, Instant};
use support::*;
use wire::{Headers, Operation, Psn};

const TARGET: u64 = 512 * 1024;

/// Drops the first packet of an operation that a side sends.
fn drop_first(pair: &mut Pair, from: usize, operation: Operation) {
    drop_nth(pair, from, operation, 0);
}

/// Drops packet `n`, from 0, of those of an operation that a side sends.
fn drop_nth(pair: &mut Pair, from: usize, operation: Operation, n: u32) {
    let mut seen = 0;
    pair.link.drop = Some(Box::new(move |sender, headers| {
        if sender != from || headers.bth.opcode.operation != operation {
            return false;
        }
        seen += 1;
        seen == n + 1
    }));
}

fn trace(pair: &mut Pair) -> Vec<String> {
    pair.link.trace.take().unwrap()
}

fn position(trace: &[String], what: &str) -> usize {
    let at = trace.iter().position(|line| line.contains(what));
    at.unwrap_or_else(|| panic!("no {what} in {trace:#?}"))
}

#[test]
fn trap_04_a_lost_answer_to_an_atomic_is_recovered_and_nothing_is_added_twice() {
    let mut pair = Pair::default();
    drop_first(&mut pair, 1, Operation::AtomicAck);
    let (remote, result) = (pair.remote(0, 64), pair.sge(0, 0, 8));
    pair.bytes(1, 64, 8).copy_from_slice(&40_u64.to_ne_bytes());
    pair.send(0, 1, SendOperation::FetchAdd { remote, add: 2 }, &[result]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(*pair.bytes(0, 0, 8), 40_u64.to_ne_bytes());
    assert_eq!(*pair.bytes(1, 64, 8), 42_u64.to_ne_bytes());
    assert_eq!(pair.sides[1].nic.counters().duplicate_request, 1);
}

#[test]
fn trap_05_a_coalesced_acknowledgement_does_not_skip_a_read() {
    let mut pair = Pair::default();
    pair.link.trace = Some(Vec::new());
    drop_first(&mut pair, 1, Operation::ReadResponseOnly);
    pair.bytes(1, TARGET, 4).copy_from_slice(b"read");
    let (remote, read, write) = (pair.remote(0, TARGET), pair.sge(0, 0, 4), pair.sge(0, 8, 4));
    let elsewhere = pair.remote(0, TARGET + 8);
    pair.send(0, 1, SendOperation::Read(remote), &[read]);
    pair.send(0, 2, SendOperation::Write(elsewhere), &[write]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
    assert_eq!(*pair.bytes(0, 0, 4), *b"read");
    // The acknowledgement of the write told that the response was lost; no timeout had to.
    assert_eq!(pair.sides[0].nic.counters().ack_timeout, 0);
}

#[test]
fn trap_05_a_retried_read_resumes_where_it_broke_off() {
    // The second of four responses is lost: the answer to the rest begins with FIRST.
    let (requests, restart) = resumed_read(Operation::ReadResponseMiddle);
    assert_eq!(requests, ["at 0x100080000 length 3500", "at 0x100080400 length 2476"]);
    assert_eq!(restart, "ReadResponseFirst");
    // The last is lost: the rest is one packet, hence ONLY.
    let (requests, restart) = resumed_read(Operation::ReadResponseLast);
    assert_eq!(requests, ["at 0x100080000 length 3500", "at 0x100080c00 length 428"]);
    assert_eq!(restart, "ReadResponseOnly");
}

/// The READ requests, and the opcode of the last response of which the first of an operation was lost.
fn resumed_read(lost: Operation) -> (Vec<String>, String) {
    let mut pair = Pair::default();
    pair.link.trace = Some(Vec::new());
    drop_first(&mut pair, 1, lost);
    let bytes: Vec<u8> = (0..3500).map(|at| (at % 251) as u8).collect();
    pair.bytes(1, TARGET, 3500).copy_from_slice(&bytes);
    let (remote, read) = (pair.remote(0, TARGET), pair.sge(0, 0, 3500));
    pair.send(0, 1, SendOperation::Read(remote), &[read]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(*pair.bytes(0, 0, 3500), bytes);
    let trace = trace(&mut pair);
    let after = |line: &String| line.split_once("ReadRequest ").map(|(_, rest)| rest.to_owned());
    let requests = trace.iter().filter_map(after).collect();
    let again = trace.iter().rposition(|line| line.contains("ReadRequest")).unwrap();
    let restart = trace[again + 1].split(' ').nth(2).unwrap().to_owned();
    (requests, restart)
}

#[test]
fn trap_06_a_zero_length_read_or_write_needs_no_key() {
    let mut pair = Pair::default();
    let nowhere = Remote { address: 1, rkey: 0xDEAD_BEEF };
    pair.send(0, 1, SendOperation::Write(nowhere), &[]);
    pair.send(0, 2, SendOperation::Read(nowhere), &[]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn trap_06_a_nak_in_the_middle_of_a_read_response_ends_the_read() {
    let mut pair = Pair::new(Setup { run: 2, ..Setup::default() });
    let (remote, read) = (pair.remote(0, TARGET), pair.sge(0, 0, 8192));
    pair.send(0, 1, SendOperation::Read(remote), &[read]);
    pair.send(0, 2, SendOperation::Send, &[]);
    // The responder's memory goes away after half of the response.
    pair.transmit();
    while let Some(packet) = pair.link.receive(Instant::from_nanos(1_000)) {
        pair.now = Instant::from_nanos(1_000);
        deliver(&mut pair.sides[1].nic, pair.now, &packet.arrival, &packet.bytes);
    }
    let Side { nic, mr, .. } = &mut pair.sides[1];
    for _ in 0..2 {
        let transmit = nic.poll_transmit(pair.now, 2).unwrap();
        pair.link.send(pair.now, 1, &transmit, nic.memory());
    }
    nic.dereg_mr(*mr).unwrap();
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccessError), (2, Status::WorkRequestFlushed)]);
    assert_eq!((pair.state(0), pair.state(1)), (QpState::Error, QpState::Error));
    assert_eq!(pair.events(1), [AsyncEvent::QpAccessError(pair.sides[1].qpn)]);
}

#[test]
fn trap_07_rnr_retries_are_counted_and_7_is_for_ever() {
    let mut pair = Pair::new(Setup { rnr_retry: 2, ..Setup::default() });
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::RnrRetryExceeded)]);
    assert_eq!(pair.sides[0].nic.counters().rcvd_rnr_err, 3);

    let mut pair = Pair::new(Setup { rnr_retry: 7, ..Setup::default() });
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.drive_for(Duration::from_millis(5));
    assert!(pair.sides[0].nic.counters().rcvd_rnr_err > 100);
    pair.recv(1, 2, &[]);
    pair.drive();
    assert_eq!((pair.sent(0), pair.received(1)), (vec![(1, Status::Success)], vec![(2, Status::Success)]));
}

#[test]
fn trap_07_a_peer_that_is_not_ready_is_alive() {
    // Every other request is lost: between two timeouts the peer says that it has no receive.
    let mut pair = Pair::new(Setup { retry_count: 1, rnr_retry: 7, ..Setup::default() });
    let mut count = 0;
    pair.link.drop = Some(Box::new(move |from, _| {
        count += usize::from(from == 0);
        from == 0 && count % 2 == 1
    }));
    pair.send(0, 1, SendOperation::Send, &[pair.sge(0, 0, 8)]);
    pair.drive_for(Duration::from_millis(100));
    assert!(pair.sides[0].nic.counters().ack_timeout > 10);
    pair.recv(1, 2, &[pair.sge(1, 0, 8)]);
    pair.drive();
    assert_eq!((pair.sent(0), pair.received(1)), (vec![(1, Status::Success)], vec![(2, Status::Success)]));
}

#[test]
fn trap_07_a_retransmit_timer_does_not_shorten_an_rnr_wait() {
    // 16 us until the retransmit timer, 20.48 ms until the end of an RNR wait.
    let mut pair = Pair::new(Setup { timeout: 1, min_rnr_timer: 22, ..Setup::default() });
    pair.recv(1, 10, &[]);
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.send(0, 2, SendOperation::Send, &[]);
    pair.drive_for(Duration::from_micros(20_400));
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    let before = pair.link.sent[0];
    assert_eq!((before, pair.sides[0].nic.counters().ack_timeout), (2, 0), "it waits");
    pair.recv(1, 11, &[]);
    pair.drive_for(Duration::from_micros(100));
    assert_eq!(pair.sent(0), [(2, Status::Success)]);
    assert_eq!(pair.link.sent[0], before + 1);
}

#[test]
fn trap_09_psns_wrap() {
    let psns = [Psn::new(0xFF_FFFB), Psn::new(0x7F_FFFB)];
    let mut pair = Pair::new(Setup { psns, ..Setup::default() });
    for (side, psn) in psns.into_iter().enumerate() {
        for number in 0..8 {
            let (sge, remote) = (pair.sge(side, 0, 3000), pair.remote(side, TARGET));
            pair.send(side, 2 * number, SendOperation::Write(remote), &[sge]);
            pair.send(side, 2 * number + 1, SendOperation::Read(remote), &[sge]);
            pair.drive();
        }
        assert_eq!(pair.sent(side), (0..16).map(|id| (id, Status::Success)).collect::<Vec<_>>());
        assert_eq!(pair.attributes(side).sq_psn, psn + 48);
        assert_eq!(pair.attributes(1 - side).rq_psn, psn + 48);
    }
}

#[test]
fn trap_10_a_fence_waits_for_reads_and_atomics() {
    let mut pair = Pair::default();
    pair.link.trace = Some(Vec::new());
    drop_first(&mut pair, 1, Operation::ReadResponseOnly);
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::FetchAdd { remote, add: 1 }, &[sge]);
    pair.send(0, 2, SendOperation::Read(remote), &[sge]);
    let flags = SendFlags { fence: true, ..SendFlags::default() };
    let sges = [sge];
    let fenced = SendRequest { flags, ..request(3, SendOperation::Write(remote), &sges) };
    pair.post_send(0, &fenced).unwrap();
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success), (3, Status::Success)]);
    // What is written is what was read, since the write was sent after the response had come.
    assert_eq!(*pair.bytes(1, TARGET, 8), 1_u64.to_ne_bytes());
    let trace = trace(&mut pair);
    let last_response = trace.iter().rposition(|line| line.contains("ReadResponse")).unwrap();
    assert!(position(&trace, "WriteOnly") > last_response, "{trace:#?}");
}

#[test]
fn trap_10_a_local_invalidate_waits_for_everything() {
    let mut pair = Pair::default();
    let (mw, rkey) = pair.bind_window(0, 0, 4096);
    pair.link.trace = Some(Vec::new());
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, SendOperation::LocalInvalidate(rkey), &[]);
    pair.send(0, 3, SendOperation::Write(remote), &[sge]);
    pair.transmit();
    assert_eq!(pair.sent(0), [], "the write before it is not acknowledged");
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success), (3, Status::Success)]);
    let trace = trace(&mut pair);
    let (ack, last) = (position(&trace, "Ack"), trace.iter().rposition(|line| line.contains("WriteOnly")));
    assert!(last.unwrap() > ack, "{trace:#?}");
    pair.sides[0].nic.dealloc_mw(mw).unwrap();
}

#[test]
fn trap_11_an_error_flushes_both_queues_with_one_completion_each() {
    let mut pair = Pair::new(Setup { signal_all: false, ..Setup::default() });
    pair.recv(0, 20, &[]);
    pair.recv(0, 21, &[]);
    let bad = Remote { address: BASE, rkey: 0xDEAD_BEEF };
    let sge = pair.sge(0, 0, 3000);
    pair.send(0, 1, SendOperation::Write(bad), &[sge]);
    pair.send(0, 2, SendOperation::Send, &[sge]);
    pair.send(0, 3, SendOperation::LocalInvalidate(1), &[]);
    pair.drive();
    let flushed = Status::WorkRequestFlushed;
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccessError), (2, flushed), (3, flushed)]);
    assert_eq!(pair.received(0), [(20, flushed), (21, flushed)]);
    assert_eq!(pair.state(0), QpState::Error);
    // What is posted later is flushed too.
    pair.send(0, 4, SendOperation::Send, &[sge]);
    pair.recv(0, 22, &[]);
    assert_eq!((pair.sent(0), pair.received(0)), (vec![(4, flushed)], vec![(22, flushed)]));
    pair.drive();
    assert_eq!((pair.sent(0), pair.received(0)), (vec![], vec![]));
}

#[test]
fn trap_12_a_bad_local_key_fails_the_request_and_sends_nothing_of_it() {
    let mut pair = Pair::default();
    let (good, remote) = (pair.sge(0, 0, 4096), pair.remote(0, TARGET));
    let bad = Sge { lkey: good.lkey ^ 0xFF, ..good };
    pair.recv(1, 20, &[]);
    pair.send(0, 1, SendOperation::Write(remote), &[good]);
    pair.send(0, 2, SendOperation::Send, &[good, bad]);
    pair.send(0, 3, SendOperation::Send, &[good]);
    pair.drive();
    let expected = [(1, Status::Success), (2, Status::LocalProtectionError), (3, Status::WorkRequestFlushed)];
    assert_eq!(pair.sent(0), expected);
    assert_eq!(pair.received(1), []);
    assert_eq!(pair.link.sent[0], 4, "the packets of the first write");
}

#[test]
fn trap_12_where_a_read_goes_is_checked_before_it_is_sent() {
    for operation in 0..2 {
        let mut pair = Pair::default();
        let remote = pair.remote(0, TARGET);
        let read_only = Access { local_write: false, remote_write: false, remote_atomic: false, ..ALL };
        let Side { nic, pd, .. } = &mut pair.sides[0];
        let lkey = nic.reg_mr(*pd, BASE, 4096, BASE, read_only).unwrap().lkey;
        let operation = match operation {
            0 => SendOperation::Read(remote),
            _ => SendOperation::FetchAdd { remote, add: 1 },
        };
        pair.send(0, 1, operation, &[Sge { address: BASE, length: 8, lkey }]);
        pair.drive();
        assert_eq!(pair.sent(0), [(1, Status::LocalProtectionError)]);
        assert_eq!(pair.link.sent[0], 0);
    }
}

#[test]
fn trap_12_what_the_transport_does_not_do_is_refused() {
    let mut pair = Pair::new(Setup { qp_type: QpType::Uc, ..Setup::default() });
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    let operations = [
        SendOperation::Read(remote),
        SendOperation::FetchAdd { remote, add: 1 },
        SendOperation::CompareSwap { remote, compare: 0, swap: 1 },
        SendOperation::SendWithInvalidate(0),
    ];
    for operation in operations {
        let refused = pair.post_send(0, &request(1, operation, &[sge]));
        assert_eq!(refused, Err(PostError::InvalidOperation));
    }
}

#[test]
fn trap_14_no_reads_at_all_is_legal_and_a_read_then_fails_at_once() {
    let mut pair = Pair::new(Setup { rd_atomic: 0, ..Setup::default() });
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, SendOperation::Read(remote), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::LocalQpOperationError)]);
}

#[test]
fn trap_14_a_message_is_at_most_2_to_31_bytes() {
    let mut pair = Pair::default();
    let key = pair.sides[0].key;
    let whole = Sge { address: BASE, length: 1 << 31, lkey: key };
    let byte = Sge { length: 1, ..whole };
    let refused = pair.post_send(0, &request(1, SendOperation::Send, &[whole, byte]));
    assert_eq!(refused, Err(PostError::MessageTooLong));
    // It is taken, and fails because so much is not registered.
    pair.send(0, 1, SendOperation::Send, &[whole]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::LocalProtectionError)]);
}

#[test]
fn trap_18_inline_data_is_copied_when_it_is_posted() {
    let mut pair = Pair::default();
    let target = pair.sge(1, TARGET, 256);
    pair.recv(1, 20, &[target]);
    {
        let (mut head, tail) = (*b"in", *b"line");
        let data = SendData::Inline(&[&head, &tail]);
        pair.post_send(0, &SendRequest { data, ..request(1, SendOperation::Send, &[]) }).unwrap();
        head.fill(0);
        assert_eq!(head, [0; 2]);
    }
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(*pair.bytes(1, TARGET, 6), *b"inline");
}

#[test]
fn trap_18_only_what_is_sent_can_be_inline_and_only_so_much() {
    let mut pair = Pair::default();
    let remote = pair.remote(0, TARGET);
    let mut post = |operation, part: &[u8]| {
        let request = SendRequest { data: SendData::Inline(&[part]), ..request(1, operation, &[]) };
        pair.post_send(0, &request)
    };
    let (read, write) = (SendOperation::Read(remote), SendOperation::Write(remote));
    assert_eq!(post(read, &[0; 8]), Err(PostError::InvalidOperation));
    assert_eq!(post(write, &[0; 257]), Err(PostError::InlineTooLong));
    assert_eq!(post(write, &[0; 256]), Ok(()));
}

#[test]
fn trap_19_every_packet_has_migreq_set() {
    let mut pair = Pair::default();
    let seen = Rc::new(Cell::new(0));
    let count = Rc::clone(&seen);
    pair.link.drop = Some(Box::new(move |_, headers: &Headers| {
        assert!(headers.bth.migrated, "{headers:?}");
        count.set(count.get() + 1);
        false
    }));
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 3000));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, SendOperation::Read(remote), &[sge]);
    pair.send(0, 3, SendOperation::FetchAdd { remote, add: 1 }, &[pair.sge(0, 0, 8)]);
    pair.drive();
    assert_eq!(seen.get(), 3 + 1 + 3 + 1 + 1, "writes, their answer implied by the READ's; atomic");
}

#[test]
fn a_peer_that_is_gone_is_given_up_after_the_retries() {
    let mut pair = Pair::new(Setup { retry_count: 3, timeout: 10, ..Setup::default() });
    pair.link.drop = Some(Box::new(|_, _| true));
    let sge = pair.sge(0, 0, 8);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    pair.send(0, 2, SendOperation::Send, &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::RetryExceeded), (2, Status::WorkRequestFlushed)]);
    let counters = pair.sides[0].nic.counters();
    assert_eq!((counters.ack_timeout, counters.retry_exceeded), (4, 1));
    // Four times 2T, T = 4.096 us << 10.
    assert_eq!(pair.now, Instant::from_nanos(4 * 2 * (4096 << 10)));
}

#[test]
fn without_a_timeout_it_waits_for_ever() {
    let mut pair = Pair::new(Setup { timeout: 0, ..Setup::default() });
    pair.link.drop = Some(Box::new(|_, _| true));
    pair.send(0, 1, SendOperation::Send, &[]);
    pair.drive();
    assert_eq!((pair.sent(0), pair.state(0)), (vec![], QpState::Rts));
}
