//! What a requester makes of answers that are late, wrong or for nobody.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::verbs::*;
use support::*;
use wire::{Aeth, AtomicAckEth, Bth, Extended, Headers, NakCode, Opcode, Operation, Psn, Service, Syndrome};

const TARGET: u64 = 512 * 1024;

/// A pair whose side 0 has a request in flight that nobody answers.
fn waiting(operation: fn(Remote) -> SendOperation, length: u32) -> Pair {
    let mut pair = Pair::default();
    pair.link.drop = Some(Box::new(|_, _| true));
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, length));
    pair.send(0, 1, operation(remote), &[sge]);
    pair.transmit();
    pair
}

/// An answer to side 0 made by hand, to its packet `ahead` after the first.
fn answer(pair: &Pair, operation: Operation, ahead: u32, syndrome: Syndrome) -> Headers {
    let bth = Bth {
        opcode: Opcode::new(Service::Rc, operation),
        dest_qp: pair.sides[0].qpn,
        psn: pair.setup.psns[0] + ahead,
        ..Bth::default()
    };
    let aeth = Aeth { syndrome, msn: 0 };
    let extended = match operation {
        Operation::ReadResponseMiddle => Extended::None,
        Operation::AtomicAck => Extended::AtomicAck(aeth, AtomicAckEth { original: 7 }),
        _ => Extended::Aeth(aeth),
    };
    Headers { bth, extended, ..Headers::default() }
}

#[test]
fn acknowledgements_of_what_was_not_sent_or_is_long_done_are_ignored() {
    let mut pair = waiting(SendOperation::Write, 3000);
    for ahead in [3, 4, 1000, 0x7F_FFFF, 0x80_0000, 0xFF_FFFF] {
        let ack = answer(&pair, Operation::Ack, ahead, Syndrome::default());
        pair.inject(0, &ack, &[]);
    }
    assert_eq!(pair.sent(0), []);
    let ack = answer(&pair, Operation::Ack, 2, Syndrome::default());
    pair.inject(0, &ack, &[]);
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    pair.inject(0, &ack, &[]);
    assert_eq!((pair.sent(0), pair.state(0)), (vec![], QpState::Rts));
}

#[test]
fn an_acknowledgement_of_a_part_is_progress_and_no_more() {
    let mut pair = waiting(SendOperation::Write, 3000);
    let ack = answer(&pair, Operation::Ack, 1, Syndrome::default());
    pair.inject(0, &ack, &[]);
    assert_eq!(pair.sent(0), []);
    // What is sent again after a timeout is the rest.
    pair.link.trace = Some(Vec::new());
    pair.step();
    pair.transmit();
    let trace = pair.link.trace.take().unwrap();
    assert_eq!(trace, ["-> 0x001002 WriteLast payload 952 ack? LOST"]);
}

#[test]
fn each_refusal_has_its_status() {
    for (code, status) in [
        (NakCode::InvalidRequest, Status::RemoteInvalidRequest),
        (NakCode::RemoteAccess, Status::RemoteAccessError),
        (NakCode::RemoteOperational, Status::RemoteOperationError),
    ] {
        let mut pair = waiting(SendOperation::Write, 3000);
        let nak = answer(&pair, Operation::Ack, 1, Syndrome::Nak(code));
        pair.inject(0, &nak, &[]);
        assert_eq!((pair.sent(0), pair.state(0)), (vec![(1, status)], QpState::Error));
    }
}

#[test]
fn syndromes_that_are_not_assigned_are_dropped() {
    let mut pair = waiting(SendOperation::Write, 8);
    for byte in [0x40, 0x65, 0x7F, 0x80, 0xFF] {
        let nak = answer(&pair, Operation::Ack, 0, Syndrome::from_byte(byte));
        pair.inject(0, &nak, &[]);
    }
    assert_eq!(pair.sides[0].nic.counters().dropped_malformed, 5);
    assert_eq!((pair.sent(0), pair.state(0)), (vec![], QpState::Rts));
}

#[test]
fn the_stream_of_a_read_response_is_checked() {
    // A READ of 3000 bytes: the packets that may come first, and those that may not.
    let nak = Syndrome::Nak(NakCode::RemoteAccess);
    let cases = [
        (Operation::ReadResponseFirst, 1024, Syndrome::default(), true),
        (Operation::ReadResponseFirst, 1020, Syndrome::default(), false),
        (Operation::ReadResponseFirst, 0, Syndrome::default(), false),
        (Operation::ReadResponseFirst, 1024, nak, false),
        (Operation::ReadResponseMiddle, 1024, Syndrome::default(), false),
        (Operation::ReadResponseLast, 1024, Syndrome::default(), false),
        (Operation::ReadResponseOnly, 1024, Syndrome::default(), false),
        (Operation::ReadResponseOnly, 952, Syndrome::default(), false),
    ];
    for (operation, length, syndrome, is_good) in cases {
        let mut pair = waiting(SendOperation::Read, 3000);
        let response = answer(&pair, operation, 0, syndrome);
        pair.inject(0, &response, &vec![9; length]);
        let expected = if is_good { vec![] } else { vec![(1, Status::BadResponse)] };
        assert_eq!(pair.sent(0), expected, "{operation:?} of {length}");
        assert_eq!(pair.bytes(0, 0, 1)[0] == 9, is_good);
    }
}

#[test]
fn answers_of_the_wrong_kind_complete_nothing() {
    let mut pair = waiting(SendOperation::Write, 8);
    let read = answer(&pair, Operation::ReadResponseOnly, 0, Syndrome::default());
    let atomic = answer(&pair, Operation::AtomicAck, 0, Syndrome::default());
    pair.inject(0, &read, &[0; 8]);
    pair.inject(0, &atomic, &[]);
    assert_eq!(pair.sides[0].nic.counters().dropped_malformed, 2);
    assert_eq!((pair.sent(0), pair.state(0)), (vec![], QpState::Rts));
    // An acknowledgement does not stand for the response of a READ: it is asked for again.
    let mut pair = waiting(SendOperation::Read, 8);
    let ack = answer(&pair, Operation::Ack, 0, Syndrome::default());
    pair.inject(0, &ack, &[]);
    pair.transmit();
    assert_eq!((pair.sent(0), pair.sides[0].nic.counters().retransmitted), (vec![], 1));
}

#[test]
fn a_read_that_its_elements_do_not_take_fails_without_a_trace_outside() {
    let mut pair = waiting(SendOperation::Read, 3000);
    let Side { nic, mr, .. } = &mut pair.sides[0];
    nic.dereg_mr(*mr).unwrap();
    let response = answer(&pair, Operation::ReadResponseFirst, 0, Syndrome::default());
    pair.inject(0, &response, &[9; 1024]);
    assert_eq!(pair.sent(0), [(1, Status::LocalProtectionError)]);
    assert_eq!(*pair.bytes(0, 0, 8), [0; 8]);
}

#[test]
fn a_write_whose_key_is_taken_back_in_the_middle_is_refused() {
    let mut pair = Pair::new(Setup { run: 1, ..Setup::default() });
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 3000));
    pair.bytes(0, 0, 3000).fill(7);
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.transmit();
    let packet = pair.link.receive(nic::Instant::from_nanos(1_000)).unwrap();
    deliver(&mut pair.sides[1].nic, pair.now, &packet.arrival, &packet.bytes);
    let Side { nic, mr, .. } = &mut pair.sides[1];
    nic.dereg_mr(*mr).unwrap();
    pair.drive();
    assert_eq!(pair.sent(0), [(1, Status::RemoteAccessError)]);
    assert_eq!(pair.bytes(1, TARGET, 3000).iter().filter(|&&byte| byte == 7).count(), 1024);
}

#[test]
fn an_acknowledgement_may_come_for_the_first_sending_after_all() {
    // The answers are held back until everything was sent again.
    let mut pair = Pair::new(Setup { psns: [Psn::new(5), Psn::ZERO], ..Setup::default() });
    pair.link.drop = Some(Box::new(|from, _| from == 1));
    let (remote, sge) = (pair.remote(0, TARGET), pair.sge(0, 0, 3000));
    pair.send(0, 1, SendOperation::Write(remote), &[sge]);
    pair.send(0, 2, SendOperation::Write(remote), &[sge]);
    pair.drive_for(nic::Duration::from_micros(3_000));
    assert!(pair.sides[0].nic.counters().ack_timeout > 0);
    let ack = answer(&pair, Operation::Ack, 3, Syndrome::default());
    pair.inject(0, &ack, &[]);
    assert_eq!(pair.sent(0), [(1, Status::Success)]);
    pair.link.drop = None;
    pair.drive();
    assert_eq!(pair.sent(0), [(2, Status::Success)]);
}
