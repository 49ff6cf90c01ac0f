//! Packets that no peer should send: nothing panics, nothing outside the region is touched (the memory
//! of these tests checks), and every request ends in one completion.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use nic::Payload;
use nic::verbs::*;
use support::link::Random;
use support::*;
use wire::{
    Aeth, AtomicAckEth, AtomicEth, Bth, Deth, Extended, ExtendedKind, Headers, Immediate, ImmediateKind,
    Opcode, Psn, Qpn, Reth, Syndrome,
};

/// A well-formed packet for a side with arbitrary contents, most of them near the truth.
fn arbitrary(pair: &Pair, to: usize, random: &mut Random) -> (Headers, usize) {
    let side = &pair.sides[to];
    let opcode = loop {
        let opcode = Opcode::from_byte(random.next() as u8);
        if opcode.is_known() && (random.happens(100) || opcode.service == service(&pair.setup)) {
            break opcode;
        }
    };
    let QpAttributes { rq_psn, sq_psn, .. } = pair.attributes(to);
    let near = if opcode.is_response() { sq_psn } else { rq_psn };
    let psn = match random.below(8) {
        0 => Psn::new(random.next() as u32),
        1..4 => near,
        _ => near + 12 - random.below(24) as u32,
    };
    let bth = Bth {
        opcode,
        dest_qp: if random.happens(50) { Qpn::new(random.next() as u32) } else { side.qpn },
        psn,
        ack_request: random.happens(500),
        solicited: random.happens(500),
        ..Bth::default()
    };
    let layout = opcode.layout().unwrap();
    let headers = Headers {
        bth,
        extended: extended(layout.extended, side, random),
        immediate: match layout.immediate {
            ImmediateKind::None => Immediate::None,
            ImmediateKind::Data => Immediate::Data(random.next() as u32),
            ImmediateKind::Invalidate => Immediate::Invalidate(key(side, random)),
        },
        xrceth: layout.xrceth.then(Default::default),
    };
    let mtu = pair.setup.mtu.bytes() as usize;
    let length = match random.below(4) {
        0 => 0,
        1 => mtu,
        _ => random.below(2 * mtu as u64) as usize,
    };
    (headers, if opcode.carries_payload() || random.happens(20) { length } else { 0 })
}

fn service(setup: &Setup) -> wire::Service {
    match setup.qp_type {
        QpType::Rc => wire::Service::Rc,
        QpType::Uc => wire::Service::Uc,
        QpType::Ud => wire::Service::Ud,
    }
}

fn key(side: &Side, random: &mut Random) -> u32 {
    if random.happens(100) { random.next() as u32 } else { side.key }
}

fn extended(kind: ExtendedKind, side: &Side, random: &mut Random) -> Extended {
    let va = match random.below(8) {
        0 => random.next(),
        1 => u64::MAX - random.below(16),
        2 => BASE + MEMORY - random.below(4096),
        _ => BASE + (random.below(MEMORY) & !7),
    };
    let rkey = key(side, random);
    let length = match random.below(8) {
        0 => random.next() as u32,
        1 => 0,
        _ => random.below(4096) as u32,
    };
    let syndrome = match random.below(8) {
        0 => Syndrome::from_byte(random.next() as u8),
        1 => Syndrome::RnrNak { timer: 1 },
        2 => Syndrome::Nak(wire::NakCode::PsnSequence),
        _ => Syndrome::default(),
    };
    let aeth = Aeth { syndrome, msn: random.next() as u32 & 0xFF_FFFF };
    match kind {
        ExtendedKind::None | ExtendedKind::Notification => Extended::None,
        ExtendedKind::Reth => Extended::Reth(Reth { va, rkey, length }),
        ExtendedKind::Atomic => {
            Extended::Atomic(AtomicEth { va, rkey, swap_or_add: random.next(), compare: random.next() })
        }
        ExtendedKind::Aeth => Extended::Aeth(aeth),
        ExtendedKind::AtomicAck => Extended::AtomicAck(aeth, AtomicAckEth { original: random.next() }),
        ExtendedKind::Deth => Extended::Deth(Deth { qkey: QKEY, source_qp: side.qpn }),
    }
}

/// Posts something, if the queue pair takes it; returns whether it was a send, and taken.
fn post(pair: &mut Pair, side: usize, wr_id: u64, random: &mut Random) -> Option<bool> {
    let sge = pair.sge(side, random.below(MEMORY / 2), random.below(5000) as u32);
    if random.happens(500) {
        let Side { nic, qpn, .. } = &mut pair.sides[side];
        return nic.post_recv(pair.now, *qpn, &RecvRequest { wr_id, scatter: &[sge] }).ok().map(|()| false);
    }
    let remote = pair.remote(side, random.below(MEMORY / 2) & !7);
    let word = Sge { length: 8, ..sge };
    let (operation, sge) = match random.below(8) {
        0 => (SendOperation::Send, sge),
        1 => (SendOperation::SendWithImmediate(1), sge),
        2 => (SendOperation::Write(remote), sge),
        3 => (SendOperation::WriteWithImmediate(remote, 2), sge),
        4 => (SendOperation::Read(remote), sge),
        5 => (SendOperation::FetchAdd { remote, add: 1 }, word),
        6 => (SendOperation::CompareSwap { remote, compare: 0, swap: 1 }, word),
        _ => (SendOperation::LocalInvalidate(random.next() as u32), sge),
    };
    pair.post_send(side, &request(wr_id, operation, &[sge])).ok().map(|()| true)
}

/// Mixes real traffic with packets made up, until the connection has had enough; then flushes.
fn attack(qp_type: QpType, seed: u64) {
    let mut random = Random(seed);
    let faults = Faults { loss: 20, duplicate: 20, reorder: 20, late_receive: 0 };
    let mut pair = Pair::new(Setup { qp_type, mtu: Mtu::Mtu256, faults, seed, ..Setup::default() });
    let (mut sends, mut receives) = ([0_u64; 2], [0_u64; 2]);
    for wr_id in 0..200 {
        let side = random.below(2) as usize;
        match post(&mut pair, side, wr_id, &mut random) {
            Some(true) => sends[side] += 1,
            Some(false) => receives[side] += 1,
            None => {}
        }
        if random.happens(500) {
            let to = random.below(2) as usize;
            let (headers, length) = arbitrary(&pair, to, &mut random);
            let arrival = pair.link.arrival(pair.sides[1 - to].gid, pair.sides[to].gid);
            let payload = vec![0xAA; length];
            pair.sides[to].nic.handle_packet(pair.now, &arrival, &headers, Payload::Bytes(&payload));
        }
        for _ in 0..random.below(4) {
            pair.step();
        }
    }
    for side in 0..2 {
        pair.set_state(side, QpState::Error);
        assert_eq!(pair.sent(side).len() as u64, sends[side], "seed {seed}");
        assert_eq!(pair.received(side).len() as u64, receives[side], "seed {seed}");
    }
    pair.drive();
}

#[test]
fn reliable_connections_survive() {
    (0..2_000).for_each(|seed| attack(QpType::Rc, seed));
}

#[test]
fn unreliable_connections_survive() {
    (0..500).for_each(|seed| attack(QpType::Uc, seed));
}

#[test]
fn datagram_queues_survive() {
    (0..500).for_each(|seed| attack(QpType::Ud, seed));
}
