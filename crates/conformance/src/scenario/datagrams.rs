//! Unreliable datagrams and multicast.

use std::net::{IpAddr, Ipv4Addr};

use nic::verbs::*;
use wire::{Gid, Immediate, Qpn};

use super::{
    Scenario,
    pair::{Pair, QKEY, Setup, content, request},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Need, Refusal};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("datagram_sizes", sizes).needing(&[Need::Lossless]),
    scenario("datagram_pieces", pieces).needing(&[Need::Lossless]),
    scenario("datagram_queue_key", queue_key).needing(&[Need::Lossless]),
    scenario("datagram_own_queue_key", own_queue_key).needing(&[Need::Lossless, Need::OwnQueueKey]),
    scenario("datagram_without_receive", without_receive).needing(&[Need::Lossless]),
    scenario("datagram_to_nobody", to_nobody),
    scenario("datagram_too_long", too_long),
    scenario("datagram_failure", failure).needing(&[Need::Lossless]),
    scenario("multicast", multicast).needing(&[Need::Lossless, Need::Multicast]),
];

const UD: Setup = Setup { qp_type: QpType::Ud, ..Setup::USUAL };

/// What precedes the payload in a receive.
const GRH: u32 = 40;

/// A fresh address handle from end 0 to end 1.
fn destination(pair: &mut Pair<'_>) -> DatagramDestination {
    let (path, pd, qpn) = (pair.path(0), pair.ends[0].pd, pair.ends[1].qpn);
    let ah = pair.side(0).create_ah(pd, path).expect("an address handle");
    DatagramDestination { ah, qpn, qkey: QKEY }
}

fn forget(pair: &mut Pair<'_>, destination: DatagramDestination) {
    pair.side(0).destroy_ah(destination.ah).expect("an address handle");
}

/// Sends a datagram with immediate data and waits until it has left.
fn send(pair: &mut Pair<'_>, wr_id: u64, destination: DatagramDestination, sges: &[Sge]) {
    let send = request(wr_id, SendOperation::SendWithImmediate(wr_id as u32), sges);
    pair.post(0, &SendRequest { destination: Some(destination), ..send }).expect("a request");
    assert_eq!(pair.all_sent(0, 1), [(wr_id, Status::Success)]);
}

fn recv(pair: &mut Pair<'_>, wr_id: u64, length: u32) {
    let scatter = pair.sge(1, TARGET, length);
    pair.recv(1, wr_id, &[scatter]);
}

/// Datagrams of every size arrive behind a network header, and say who sent them.
fn sizes(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    for (number, length) in (1..).zip([0, 1, 2, 3, 4, 255, 1000, 4095, 4096]) {
        pair.store(0, SOURCE, &content(number, length as usize));
        pair.store(1, TARGET, &vec![0xEE; (GRH + length + 8) as usize]);
        recv(&mut pair, 20, GRH + length);
        let sge = pair.sge(0, SOURCE, length);
        send(&mut pair, number, destination, &[sge]);
        let received = pair.received(1);
        assert_eq!((received.wr_id, received.status), (20, Status::Success));
        assert_eq!((received.byte_length, received.opcode), (GRH + length, CompletionOpcode::Recv));
        assert_eq!((received.qpn, received.source_qp), (pair.ends[1].qpn, pair.ends[0].qpn));
        assert_eq!((received.immediate, received.has_grh), (Immediate::Data(number as u32), true));
        let bytes = pair.load(1, TARGET, (GRH + length + 8) as usize);
        let (header, rest) = bytes.split_at(GRH as usize);
        assert_eq!(rest[..length as usize], content(number, length as usize), "{length} bytes");
        assert_eq!(rest[length as usize..], [0xEE; 8], "{length} bytes");
        assert_header(&mut pair, header);
    }
    forget(&mut pair, destination);
    pair.close();
}

/// The addresses of both ends, in an IPv4 header in the last 20 bytes (IBTA A17.4.5.1).
fn assert_header(pair: &mut Pair<'_>, header: &[u8]) {
    let [(_, from), (_, to)] = [0, 1].map(|index| pair.side(index).gid());
    let (IpAddr::V4(from), IpAddr::V4(to)) = (from.ip(), to.ip()) else { panic!("arms have IPv4") };
    let found = wire::Ipv4::parse(&header[20..]).expect("an IPv4 header");
    assert_eq!((found.source, found.destination), (from, to));
}

/// Header and payload are scattered as one.
fn pieces(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    pair.store(0, SOURCE, &content(1, 300));
    pair.store(1, TARGET, &[0xEE; 1024]);
    let scatter = [(0, 10), (64, 50), (256, 280)].map(|(at, length)| pair.sge(1, TARGET + at, length));
    pair.recv(1, 20, &scatter);
    let gather = [(0, 7), (7, 293)].map(|(at, length)| pair.sge(0, SOURCE + at, length));
    send(&mut pair, 1, destination, &gather);
    assert_eq!(pair.received(1).byte_length, GRH + 300);
    let found = [pair.load(1, TARGET + 64, 50).split_off(30), pair.load(1, TARGET + 256, 280)].concat();
    assert_eq!(found, content(1, 300));
    forget(&mut pair, destination);
    pair.close();
}

/// Only datagrams with the receiver's key arrive.
fn queue_key(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let good = destination(&mut pair);
    recv(&mut pair, 20, 100);
    send(&mut pair, 1, DatagramDestination { qkey: QKEY + 1, ..good }, &[]);
    pair.settle();
    pair.assert_nothing_more();
    send(&mut pair, 2, good, &[]);
    assert_eq!(pair.received(1).immediate, Immediate::Data(2));
    forget(&mut pair, good);
    pair.close();
}

/// With the high bit set, the sender's own key is sent (IBTA 10.2.4).
fn own_queue_key(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let own = DatagramDestination { qkey: 0x8000_0000, ..destination(&mut pair) };
    recv(&mut pair, 20, 100);
    send(&mut pair, 1, own, &[]);
    assert_eq!(pair.received(1).immediate, Immediate::Data(1));
    forget(&mut pair, own);
    pair.close();
}

/// What finds no receive is gone, and the sender knows nothing of it.
fn without_receive(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    let sge = pair.sge(0, SOURCE, 61);
    send(&mut pair, 1, destination, &[sge]);
    pair.settle();
    recv(&mut pair, 20, 200);
    pair.settle();
    pair.assert_nothing_more();
    send(&mut pair, 2, destination, &[sge]);
    assert_eq!(pair.received(1).immediate, Immediate::Data(2));
    forget(&mut pair, destination);
    pair.close();
}

fn to_nobody(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    pair.destroy_queue_pair(1);
    let sge = pair.sge(0, SOURCE, 8);
    send(&mut pair, 1, destination, &[sge]);
    pair.settle();
    assert_eq!(pair.state(0), QpState::Rts);
    pair.assert_nothing_more();
    forget(&mut pair, destination);
    pair.close();
}

/// A datagram is one packet, of what the port carries at most.
fn too_long(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    let sge = pair.sge(0, SOURCE, 4097);
    let send = request(1, SendOperation::Send, std::slice::from_ref(&sge));
    let posted = pair.post(0, &SendRequest { destination: Some(destination), ..send });
    assert_eq!(posted, Err(Refusal::Invalid));
    forget(&mut pair, destination);
    pair.close();
}

/// A send that fails stops the send queue alone; RTS starts it again, and receives go on.
fn failure(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let destination = destination(&mut pair);
    let good = pair.sge(0, SOURCE, 8);
    let bad = Sge { lkey: good.lkey ^ 0x5A_5A00, ..good };
    for (id, sge) in [(1, bad), (2, good)] {
        let send = request(id, SendOperation::Send, std::slice::from_ref(&sge));
        pair.post(0, &SendRequest { destination: Some(destination), ..send }).expect("a request");
    }
    let expected = [(1, Status::LocalProtectionError), (2, Status::WorkRequestFlushed)];
    assert_eq!(pair.all_sent(0, 2), expected);
    assert_eq!(pair.state(0), QpState::Sqe);
    pair.set_state(0, QpState::Rts);
    recv(&mut pair, 20, 100);
    send(&mut pair, 3, destination, &[good]);
    assert_eq!(pair.received(1).immediate, Immediate::Data(3));
    forget(&mut pair, destination);
    pair.close();
}

/// Every member with the right key gets a copy, and nobody else; who has left gets no more.
fn multicast(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, UD);
    let group = Gid::from(Ipv4Addr::new(239, 1, 2, 3));
    let (path, pd) = (pair.path_to(0, group), pair.ends[0].pd);
    let ah = pair.side(0).create_ah(pd, path).expect("an address handle");
    let to_group = DatagramDestination { ah, qpn: Qpn::MULTICAST, qkey: QKEY };
    let first = pair.ends[1].qpn;
    let second = member(&mut pair);
    let outsider = member(&mut pair);
    for qpn in [first, second] {
        pair.side(1).attach_mcast(qpn, group).expect("a member");
    }
    for (qpn, id) in [(first, 1), (second, 2), (outsider, 3), (first, 4), (second, 5)] {
        pair.ends[1].qpn = qpn;
        recv(&mut pair, id, 100);
    }
    send(&mut pair, 7, to_group, &[]);
    let mut received = [pair.received(1), pair.received(1)].map(|done| (done.wr_id, done.qpn));
    received.sort();
    assert_eq!(received, [(1, first), (2, second)]);
    pair.side(1).detach_mcast(first, group).expect("a member");
    send(&mut pair, 8, to_group, &[]);
    assert_eq!(pair.received(1).wr_id, 5);
    pair.settle();
    pair.assert_nothing_more();
    pair.side(1).detach_mcast(second, group).expect("a member");
    forget(&mut pair, to_group);
    pair.close();
}

/// Makes another queue pair of end 1 that receives.
fn member(pair: &mut Pair<'_>) -> Qpn {
    let qpn = pair.add_queue_pair(1);
    for state in [QpState::Init, QpState::Rtr] {
        let change = pair.change_to(1, state);
        pair.side(1).modify_qp(qpn, &change).expect("a step towards RTR");
    }
    qpn
}
