//! Traps that responders of real stacks fell into.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::verbs::*;
use support::*;
use wire::{AtomicEth, Bth, Extended, Headers, Opcode, Operation, Psn, Reth, Service};

const TARGET: u64 = 512 * 1024;

/// A request to side 1 made by hand, as side 0 would send it, `ahead` PSNs after the next one.
fn packet(pair: &Pair, operation: Operation, ahead: u32) -> Headers {
    let bth = Bth {
        opcode: Opcode::new(Service::Rc, operation),
        dest_qp: pair.sides[1].qpn,
        psn: pair.attributes(1).rq_psn + ahead,
        ..Bth::default()
    };
    Headers { bth, ..Headers::default() }
}

fn with_reth(headers: Headers, va: u64, rkey: u32, length: u32) -> Headers {
    Headers { extended: Extended::Reth(Reth { va, rkey, length }), ..headers }
}

/// What side 1 sends next, as one line each.
fn answers(pair: &mut Pair) -> Vec<String> {
    pair.link.trace = Some(Vec::new());
    pair.transmit();
    pair.link.trace.take().unwrap()
}

#[test]
fn trap_02_unknown_opcodes_and_wrong_lengths_are_dropped() {
    let mut pair = Pair::default();
    let good = packet(&pair, Operation::SendOnly, 0);
    let bad = [
        Headers { bth: Bth { opcode: Opcode::from_byte(0x1F), ..good.bth }, ..good },
        Headers { bth: Bth { opcode: Opcode::from_byte(0xFF), ..good.bth }, ..good },
        Headers { bth: Bth { version: 1, ..good.bth }, ..good },
        Headers { bth: Bth { pad_count: 3, ..good.bth }, ..good },
        Headers { bth: Bth { opcode: Opcode::new(Service::Uc, Operation::SendOnly), ..good.bth }, ..good },
        Headers { bth: Bth { opcode: Opcode::new(Service::Rc, Operation::WriteOnly), ..good.bth }, ..good },
    ];
    for headers in bad {
        pair.inject(1, &headers, &[0; 2]);
    }
    assert_eq!(pair.sides[1].nic.counters().dropped_malformed, bad.len() as u64);
    pair.inject(1, &Headers { bth: Bth { pkey: 0x1234, ..good.bth }, ..good }, &[0; 4]);
    assert_eq!(pair.sides[1].nic.counters().dropped_pkey, 1);
    pair.inject(1, &Headers { bth: Bth { dest_qp: wire::Qpn::new(0x123), ..good.bth }, ..good }, &[0; 4]);
    assert_eq!(pair.sides[1].nic.counters().dropped_unknown_qp, 1);
    assert_eq!((answers(&mut pair), pair.state(1)), (vec![], QpState::Rts));
}

#[test]
fn trap_03_no_address_wraps() {
    for operation in [Operation::WriteOnly, Operation::ReadRequest] {
        let mut pair = Pair::default();
        let key = pair.sides[1].key;
        let headers = with_reth(packet(&pair, operation, 0), u64::MAX - 3, key, 8);
        let payload: &[u8] = if operation == Operation::WriteOnly { &[0; 8] } else { &[] };
        pair.inject(1, &headers, payload);
        assert_eq!(pair.events(1), [AsyncEvent::QpAccessError(pair.sides[1].qpn)]);
        assert!(answers(&mut pair)[0].contains("Nak(RemoteAccess)"));
    }
}

#[test]
fn trap_03_a_duplicate_read_stays_inside_the_read_it_repeats() {
    let mut pair = Pair::default();
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 4096));
    let again = packet(&pair, Operation::ReadRequest, 0);
    pair.send(0, 1, SendOperation::Read(remote), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    let (key, start) = (pair.sides[1].key, BASE + TARGET);
    let outside = [
        (u64::MAX - 3, key, 8),
        (start - 8, key, 16),
        (start + 1024, key, 3073),
        (start, key, u32::MAX),
        (start + 4097, key, 0),
        (start, key ^ 1, 4096),
    ];
    for (va, rkey, length) in outside {
        pair.inject(1, &with_reth(again, va, rkey, length), &[]);
        assert_eq!(answers(&mut pair), [] as [String; 0], "{va:#x} {length}");
    }
    pair.inject(1, &with_reth(again, start, key, 4096), &[]);
    assert_eq!(answers(&mut pair).len(), 4);
    assert_eq!(pair.sides[1].nic.counters().duplicate_request, 7);
}

#[test]
fn trap_04_a_duplicate_atomic_is_answered_from_its_saved_result() {
    let mut pair = Pair::default();
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
    let mut again = packet(&pair, Operation::FetchAdd, 0);
    let operands = AtomicEth { va: remote.address, rkey: remote.rkey, swap_or_add: 1, compare: 0 };
    again.extended = Extended::Atomic(operands);
    pair.send(0, 1, SendOperation::FetchAdd { remote, add: 1 }, &[sge]);
    pair.drive();
    pair.bytes(1, TARGET, 8).copy_from_slice(&77_u64.to_ne_bytes());
    pair.inject(1, &again, &[]);
    assert!(answers(&mut pair)[0].contains("AtomicAck Ack { credits: 31 } msn 1 original 0"));
    assert_eq!(*pair.bytes(1, TARGET, 8), 77_u64.to_ne_bytes());
    // One that is forgotten, because four were carried out since, is not answered at all.
    for id in 2..6 {
        pair.send(0, id, SendOperation::FetchAdd { remote, add: 1 }, &[sge]);
    }
    pair.drive();
    pair.inject(1, &again, &[]);
    assert_eq!(answers(&mut pair), [] as [String; 0]);
    assert_eq!(*pair.bytes(1, TARGET, 8), 81_u64.to_ne_bytes());
}

/// A request with a RETH for the region.
fn reth(pair: &Pair, operation: Operation, length: u32) -> Headers {
    with_reth(packet(pair, operation, 0), BASE + TARGET, pair.sides[1].key, length)
}

fn atomic(pair: &Pair, va: u64) -> Headers {
    let operands = AtomicEth { va, rkey: pair.sides[1].key, swap_or_add: 1, compare: 0 };
    Headers { extended: Extended::Atomic(operands), ..packet(pair, Operation::FetchAdd, 0) }
}

/// A bad request: its headers, the length of its payload, and whether its access is what is refused.
struct Refused(fn(&Pair) -> Headers, usize, bool);

#[rustfmt::skip]
const REFUSED: [Refused; 10] = [
    // The order of opcodes.
    Refused(|pair| packet(pair, Operation::SendMiddle, 0), 1024, false),
    Refused(|pair| packet(pair, Operation::WriteLast, 0), 1024, false),
    // Lengths: of packets, and of the message.
    Refused(|pair| packet(pair, Operation::SendFirst, 0), 1020, false),
    Refused(|pair| reth(pair, Operation::WriteOnly, 8), 4, false),
    Refused(|pair| reth(pair, Operation::WriteFirst, 1024), 1024, false),
    Refused(|pair| reth(pair, Operation::ReadRequest, u32::MAX), 0, false),
    // Alignment.
    Refused(|pair| atomic(pair, BASE + 4), 0, false),
    // Keys and bounds.
    Refused(|pair| reth(pair, Operation::ReadRequest, 1 << 30), 0, true),
    Refused(|pair| atomic(pair, BASE + MEMORY), 0, true),
    Refused(|pair| with_reth(packet(pair, Operation::WriteOnly, 0), BASE, 1, 4), 4, true),
];

#[test]
fn trap_08_a_refusal_that_uses_no_receive_is_answered_and_raises_an_event() {
    for (number, Refused(make, length, is_access)) in REFUSED.into_iter().enumerate() {
        let mut pair = Pair::default();
        pair.recv(1, 20, &[]);
        let headers = make(&pair);
        pair.inject(1, &headers, &vec![0; length]);
        let qpn = pair.sides[1].qpn;
        let (event, expected) = if is_access {
            (AsyncEvent::QpAccessError(qpn), "RemoteAccess")
        } else {
            (AsyncEvent::QpRequestError(qpn), "InvalidRequest")
        };
        assert_eq!((pair.state(1), pair.events(1)), (QpState::Error, vec![event]), "case {number}");
        assert_eq!(pair.received(1), [(20, Status::WorkRequestFlushed)], "case {number}");
        let answers = answers(&mut pair);
        assert_eq!(answers.len(), 1, "case {number}");
        assert!(answers[0].contains(&format!("Nak({expected}) msn 0")), "case {number}: {answers:?}");
    }
}

#[test]
fn trap_08_what_the_queue_pair_does_not_allow_is_an_invalid_request() {
    let local_only = Access { remote_write: false, remote_read: false, remote_atomic: false, ..ALL };
    for operation in 0..3 {
        let mut pair = Pair::new(Setup { access: local_only, ..Setup::default() });
        let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 8));
        let operation = match operation {
            0 => SendOperation::Write(remote),
            1 => SendOperation::Read(remote),
            _ => SendOperation::FetchAdd { remote, add: 1 },
        };
        pair.send(0, 1, operation, &[sge]);
        pair.drive();
        assert_eq!(pair.sent(0), [(1, Status::RemoteInvalidRequest)]);
        assert_eq!(pair.events(1), [AsyncEvent::QpRequestError(pair.sides[1].qpn)]);
    }
}

#[test]
fn a_receive_that_is_too_short_or_not_writable_fails_on_both_sides() {
    for (is_short, sender, receiver) in [
        (true, Status::RemoteInvalidRequest, Status::LocalLengthError),
        (false, Status::RemoteOperationError, Status::LocalProtectionError),
    ] {
        let mut pair = Pair::default();
        let (message, mut sge) = (pair.sge(0, 0, 3000), pair.sge(1, TARGET, 3000));
        if is_short {
            sge.length = 2999;
        } else {
            sge.lkey ^= 1;
        }
        pair.recv(1, 20, &[sge]);
        pair.recv(1, 21, &[]);
        pair.send(0, 1, SendOperation::Send, &[message]);
        pair.drive();
        assert_eq!(pair.sent(0), [(1, sender)]);
        assert_eq!(pair.received(1), [(20, receiver), (21, Status::WorkRequestFlushed)]);
        assert_eq!((pair.state(1), pair.events(1)), (QpState::Error, vec![]));
    }
}

#[test]
fn trap_09_nothing_moves_before_a_packet_is_done() {
    let mut pair = Pair::default();
    let before = pair.attributes(1).rq_psn;
    let send = Headers {
        bth: Bth { ack_request: true, ..packet(&pair, Operation::SendOnly, 0).bth },
        ..Headers::default()
    };
    pair.inject(1, &send, &[]);
    assert!(answers(&mut pair)[0].contains("RnrNak { timer: 1 } msn 0"));
    assert_eq!(pair.attributes(1).rq_psn, before);
    // What follows it is not missing anything but that receive: it is dropped in silence.
    pair.inject(1, &packet(&pair, Operation::SendOnly, 1), &[]);
    assert_eq!(answers(&mut pair), [] as [String; 0]);
    pair.recv(1, 20, &[]);
    pair.inject(1, &send, &[]);
    assert!(answers(&mut pair)[0].contains("Ack { credits: 31 } msn 1"));
    assert_eq!(pair.attributes(1).rq_psn, before + 1);
}

#[test]
fn a_gap_is_reported_once_until_it_is_filled() {
    let mut pair = Pair::default();
    let writes: Vec<Headers> = (0..4)
        .map(|ahead| {
            with_reth(packet(&pair, Operation::WriteOnly, ahead), BASE + TARGET, pair.sides[1].key, 0)
        })
        .collect();
    pair.inject(1, &writes[1], &[]);
    let first = answers(&mut pair);
    assert!(first[0].contains(&format!("{:#08x} Ack Nak(PsnSequence) msn 0", writes[0].bth.psn.value())));
    pair.inject(1, &writes[2], &[]);
    assert_eq!(answers(&mut pair), [] as [String; 0]);
    pair.inject(1, &writes[0], &[]);
    assert_eq!(answers(&mut pair), [] as [String; 0], "nobody asked");
    pair.inject(1, &writes[3], &[]);
    assert!(answers(&mut pair)[0].contains("Nak(PsnSequence) msn 1"));
    assert_eq!(pair.sides[1].nic.counters().out_of_sequence, 3);
}

#[test]
fn a_gap_that_is_filled_before_it_was_reported_is_not_reported() {
    let mut pair = Pair::default();
    let write = |ahead| {
        let key = pair.sides[1].key;
        with_reth(packet(&pair, Operation::WriteOnly, ahead), BASE + TARGET, key, 0)
    };
    let (first, second) = (write(0), write(1));
    pair.inject(1, &second, &[]);
    pair.inject(1, &first, &[]);
    pair.inject(1, &second, &[]);
    assert!(answers(&mut pair)[0].contains("Ack { credits: 31 } msn 2"));
}

#[test]
fn trap_13_receives_come_from_the_shared_queue_and_the_last_one_is_told() {
    let mut pair = Pair::new(Setup { srq: true, ..Setup::default() });
    let sge = pair.sge(1, TARGET, 8);
    pair.recv(1, 20, &[sge]);
    pair.recv(1, 21, &[sge]);
    let change = SrqChange { limit: Some(2), ..SrqChange::default() };
    let srq = pair.srqs[1].unwrap();
    pair.sides[1].nic.modify_srq(srq, change).unwrap();
    for id in 0..2 {
        pair.send(0, id, SendOperation::Send, &[pair.sge(0, 0, 8)]);
        pair.drive();
    }
    assert_eq!(pair.received(1), [(20, Status::Success), (21, Status::Success)]);
    assert_eq!(pair.events(1), [AsyncEvent::SrqLimitReached(srq)], "once");
    // An empty one is not ready, like a queue of the queue pair's own.
    pair.send(0, 2, SendOperation::Send, &[]);
    pair.drive_for(nic::Duration::from_micros(100));
    assert!(pair.sides[0].nic.counters().rcvd_rnr_err > 0);
    pair.recv(1, 22, &[]);
    pair.drive();
    assert_eq!(pair.received(1), [(22, Status::Success)]);
    pair.set_state(1, QpState::Error);
    assert_eq!(pair.events(1), [AsyncEvent::LastWqeReached(pair.sides[1].qpn)]);
}

#[test]
fn trap_14_reads_beyond_what_was_agreed_are_refused_and_not_lost() {
    let mut pair = Pair::new(Setup { rd_atomic: 2, ..Setup::default() });
    let key = pair.sides[1].key;
    for ahead in 0..3 {
        let read = with_reth(packet(&pair, Operation::ReadRequest, 0), BASE + TARGET, key, 8);
        assert_eq!(pair.state(1), QpState::Rts, "READ {ahead}");
        pair.inject(1, &read, &[]);
    }
    assert_eq!(pair.events(1), [AsyncEvent::QpRequestError(pair.sides[1].qpn)]);
    let answers = answers(&mut pair);
    assert_eq!(answers.len(), 3, "what was granted is answered");
    assert!(answers[2].contains("Nak(InvalidRequest) msn 2"));
}

#[test]
fn trap_15_a_window_opens_a_part_of_a_region_until_it_is_invalidated() {
    let mut pair = Pair::default();
    let (window, rkey) = pair.bind_window(1, TARGET, 4096);
    let Side { nic, mr, .. } = &mut pair.sides[1];
    assert_eq!(nic.dereg_mr(*mr), Err(DestroyError::Busy));
    pair.bytes(0, 0, 8).copy_from_slice(b"windowed");
    let (inside, sge) = (Remote { address: BASE + TARGET + 4088, rkey }, pair.sge(0, 0, 8));
    pair.send(0, 1, SendOperation::Write(inside), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    assert_eq!(*pair.bytes(1, TARGET + 4088, 8), *b"windowed");
    // The peer gives it back.
    pair.recv(1, 20, &[]);
    pair.send(0, 2, SendOperation::SendWithInvalidate(rkey), &[]);
    pair.drive();
    let completion = pair.poll_recv(1).unwrap();
    assert_eq!(
        (completion.status, completion.immediate),
        (Status::Success, wire::Immediate::Invalidate(rkey))
    );
    assert_eq!(pair.sent(0), [(2, Status::Success)]);
    pair.send(0, 3, SendOperation::Write(inside), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(3, Status::RemoteAccessError)]);
    let Side { nic, mr, .. } = &mut pair.sides[1];
    nic.dealloc_mw(window).unwrap();
    nic.dereg_mr(*mr).unwrap();
}

#[test]
fn trap_15_what_cannot_be_invalidated_or_bound_ends_the_connection() {
    // A region's key cannot be invalidated, by the peer or by ourselves.
    let mut pair = Pair::default();
    pair.recv(1, 20, &[]);
    let key = pair.sides[1].key;
    pair.send(0, 1, SendOperation::SendWithInvalidate(key), &[]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccessError)]);
    assert_eq!(pair.received(1), [(20, Status::RemoteInvalidRequest)]);

    let mut pair = Pair::default();
    let key = pair.sides[0].key;
    pair.send(0, 1, SendOperation::LocalInvalidate(key), &[]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::LocalQpOperationError)]);

    let mut pair = Pair::default();
    let Side { nic, pd, key: lkey, .. } = &mut pair.sides[0];
    let (window, rkey) = nic.alloc_mw(*pd, MwType::Type2).unwrap();
    let binding = Binding { lkey: *lkey, address: u64::MAX - 8, length: 16, access: ALL };
    pair.send(0, 1, SendOperation::BindWindow { window, rkey, binding }, &[]);
    pair.drive();
    assert_eq!((pair.sent(0), pair.state(0)), (vec![(1, Status::MemoryWindowBindError)], QpState::Error));
}

#[test]
fn trap_17_a_connection_survives_that_its_gid_goes_and_comes() {
    let mut pair = Pair::default();
    let (entry, remote, sge) = (pair.sides[0].nic.gid(0), pair.remote(0, TARGET), pair.sge(0, 0, 8));
    pair.sides[0].nic.set_gid(0, None);
    assert_eq!(pair.events(0), [AsyncEvent::GidChange]);
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.drive();
    pair.sides[0].nic.set_gid(0, entry);
    pair.send(0, 2, SendOperation::Write(remote), &[sge]);
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn packets_from_elsewhere_are_not_taken_for_the_peers() {
    let mut pair = Pair::default();
    let headers = packet(&pair, Operation::SendOnly, 0);
    let stranger = wire::Gid::from(core::net::Ipv4Addr::new(10, 9, 9, 9));
    let arrival = pair.link.arrival(stranger, pair.sides[1].gid);
    pair.sides[1].nic.handle_packet(pair.now, &arrival, &headers, nic::Payload::Bytes(&[]));
    assert_eq!(pair.sides[1].nic.counters().dropped_unknown_qp, 1);
    assert_eq!(pair.attributes(1).rq_psn, Psn::new(0x1000));
}
