//! Unreliable datagrams and multicast.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod support;

use core::net::{Ipv4Addr, Ipv6Addr};

use nic::packet::PayloadSource;
use nic::verbs::*;
use nic::{Arrival, Payload};
use support::*;
use wire::{Gid, Immediate, Qpn};

const TARGET: u64 = 512 * 1024;
const GRH: usize = 40;

fn ud() -> Pair {
    Pair::new(Setup { qp_type: QpType::Ud, ..Setup::default() })
}

/// Where side 0 sends to reach side 1.
fn destination(pair: &mut Pair) -> DatagramDestination {
    let (gid, qpn) = (pair.sides[1].gid, pair.sides[1].qpn);
    let Side { nic, pd, .. } = &mut pair.sides[0];
    let ah = nic.create_ah(*pd, path_to(gid)).unwrap();
    DatagramDestination { ah, qpn, qkey: QKEY }
}

fn send(
    pair: &mut Pair,
    wr_id: u64,
    destination: DatagramDestination,
    sges: &[Sge],
) -> Result<(), PostError> {
    let request = request(wr_id, SendOperation::SendWithImmediate(wr_id as u32), sges);
    pair.post_send(0, &SendRequest { destination: Some(destination), ..request })
}

#[test]
fn datagrams_arrive_behind_their_network_header() {
    let mut pair = ud();
    let destination = destination(&mut pair);
    for (number, length) in (1..).zip([0, 1, 2, 3, 1000, 4096]) {
        pair.bytes(0, 0, 4096).fill(number as u8);
        let target = pair.sge(1, TARGET, length + GRH as u32);
        pair.recv(1, 20, &[target]);
        let sge = pair.sge(0, 0, length);
        send(&mut pair, number, destination, &[sge]).unwrap();
        pair.drive();
        assert_eq!(pair.sent(0), [(number, Status::Success)]);
        let completion = pair.poll_recv(1).unwrap();
        assert_eq!((completion.status, completion.byte_length), (Status::Success, length + GRH as u32));
        assert_eq!((completion.source_qp, completion.has_grh), (pair.sides[0].qpn, true));
        assert_eq!(completion.immediate, Immediate::Data(number as u32));
        let bytes = pair.bytes(1, TARGET, GRH + length as usize);
        assert!(bytes[GRH..].iter().all(|&byte| byte == number as u8));
        // An IPv4 header in the last 20 of the 40 bytes; its length counts UDP, BTH, DETH, immediate,
        // payload, pad and ICRC.
        assert_eq!(bytes[..20], [0; 20]);
        let header = wire::Ipv4::parse(&bytes[20..GRH]).unwrap();
        assert_eq!(header.source, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!(header.destination, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!((header.ttl, header.protocol), (63, 17));
        assert_eq!(u32::from(header.total_len), 20 + 8 + 12 + 8 + 4 + length.next_multiple_of(4) + 4);
        assert_eq!(header.checksum, header.right_checksum());
    }
}

#[test]
fn the_network_header_of_ipv6_is_whole() {
    let mut pair = ud();
    let target = pair.sge(1, TARGET, 100);
    pair.recv(1, 20, &[target]);
    let destination = destination(&mut pair);
    send(&mut pair, 1, destination, &[]).unwrap();
    let transmit = pair.sides[0].nic.poll_transmit(pair.now, 1).unwrap();
    let source = Ipv6Addr::new(0xFD00, 0, 0, 0, 0, 0, 0, 1);
    let arrival = Arrival {
        source: Gid::from(source),
        destination: Gid::from(Ipv6Addr::LOCALHOST),
        traffic_class: 0x28,
        hop_limit: 9,
    };
    let nic = &mut pair.sides[1].nic;
    nic.handle_packet(pair.now, &arrival, &transmit.headers(0), Payload::Bytes(&[]));
    assert_eq!(pair.received(1), [(20, Status::Success)]);
    let header = wire::Ipv6::parse(pair.bytes(1, TARGET, GRH)).unwrap();
    assert_eq!((header.source, header.destination), (source, Ipv6Addr::LOCALHOST));
    assert_eq!((header.traffic_class.byte(), header.hop_limit), (0x28, 9));
    assert_eq!(header.payload_len, 8 + 12 + 8 + 4 + 4);
}

#[test]
fn the_queue_key_decides() {
    let mut pair = ud();
    let destination = destination(&mut pair);
    let target = pair.sge(1, TARGET, 100);
    pair.recv(1, 20, &[target]);
    send(&mut pair, 1, DatagramDestination { qkey: QKEY + 1, ..destination }, &[]).unwrap();
    pair.drive();
    assert_eq!((pair.received(1), pair.sides[1].nic.counters().dropped_qkey), (vec![], 1));
    // With the high bit set, the sender's own key is sent.
    send(&mut pair, 2, DatagramDestination { qkey: 0x8000_0000, ..destination }, &[]).unwrap();
    pair.drive();
    assert_eq!(pair.received(1), [(20, Status::Success)]);
}

#[test]
fn what_finds_no_receive_or_too_short_a_one_is_dropped() {
    let mut pair = ud();
    let destination = destination(&mut pair);
    let sge = pair.sge(0, 0, 61);
    send(&mut pair, 1, destination, &[sge]).unwrap();
    pair.drive();
    let short = pair.sge(1, TARGET, 100);
    pair.recv(1, 20, &[short]);
    send(&mut pair, 2, destination, &[sge]).unwrap();
    pair.drive();
    assert_eq!((pair.received(1), pair.sides[1].nic.counters().dropped_no_receive), (vec![], 2));
    let sge = pair.sge(0, 0, 60);
    send(&mut pair, 3, destination, &[sge]).unwrap();
    pair.drive();
    assert_eq!(pair.received(1), [(20, Status::Success)]);
    assert_eq!(pair.sent(0).len(), 3, "the sender knows nothing");
}

#[test]
fn trap_16_a_datagram_is_bounded_by_the_ports_mtu() {
    let mut pair = ud();
    let destination = destination(&mut pair);
    let sge = pair.sge(0, 0, 4097);
    assert_eq!(send(&mut pair, 1, destination, &[sge]), Err(PostError::MessageTooLong));
    pair.sides[0].nic.set_port(PortState::Active, Mtu::Mtu1024);
    let sge = pair.sge(0, 0, 1025);
    assert_eq!(send(&mut pair, 1, destination, &[sge]), Err(PostError::MessageTooLong));
}

#[test]
fn trap_16_multicast_reaches_every_member_by_an_address_that_is_in_no_gid_table() {
    let mut pair = ud();
    let group = Gid::from(Ipv4Addr::new(239, 1, 2, 3));
    let DatagramDestination { qkey, .. } = destination(&mut pair);
    let Side { nic, pd, .. } = &mut pair.sides[0];
    let ah = nic.create_ah(*pd, path_to(group)).unwrap();
    let to_group = DatagramDestination { ah, qpn: Qpn::MULTICAST, qkey };

    // A second queue pair of side 1 joins too, and a third that has another key.
    let first = pair.sides[1].qpn;
    let second = add_member(&mut pair, QKEY);
    let third = add_member(&mut pair, QKEY + 1);
    for qpn in [first, second, third] {
        pair.sides[1].nic.attach_mcast(qpn, group).unwrap();
        pair.sides[1].qpn = qpn;
        let target = pair.sge(1, TARGET, 100);
        pair.recv(1, u64::from(qpn.value()), &[target]);
    }
    send(&mut pair, 1, to_group, &[]).unwrap();
    pair.drive();
    let received = pair.received(1);
    let expected = [first, second].map(|qpn| (u64::from(qpn.value()), Status::Success));
    assert_eq!(received, expected);
    assert_eq!(pair.sides[1].nic.counters().dropped_qkey, 1);

    for qpn in [first, second, third] {
        pair.sides[1].nic.detach_mcast(qpn, group).unwrap();
    }
    send(&mut pair, 2, to_group, &[]).unwrap();
    pair.drive();
    assert_eq!(pair.sides[1].nic.counters().dropped_unknown_qp, 1);
}

/// Makes another queue pair of side 1 that is ready to receive.
fn add_member(pair: &mut Pair, qkey: u32) -> Qpn {
    let Side { nic, pd, send_cq, recv_cq, .. } = &mut pair.sides[1];
    let init = QpInit {
        pd: *pd,
        qp_type: QpType::Ud,
        send_cq: *send_cq,
        recv_cq: *recv_cq,
        srq: None,
        capabilities: pair.setup.capabilities,
        signal_all: true,
    };
    let (qpn, _) = nic.create_qp(&init).unwrap();
    let to = |state| QpChange { state: Some(state), ..QpChange::default() };
    let init = QpChange { pkey_index: Some(0), port: Some(1), qkey: Some(qkey), ..to(QpState::Init) };
    nic.modify_qp(pair.now, qpn, &init).unwrap();
    nic.modify_qp(pair.now, qpn, &to(QpState::Rtr)).unwrap();
    qpn
}

#[test]
fn a_destination_is_checked_when_it_is_posted_and_kept() {
    let mut pair = ud();
    let good = destination(&mut pair);
    let none = request(1, SendOperation::Send, &[]);
    assert_eq!(pair.post_send(0, &none), Err(PostError::InvalidDestination));
    let unknown = DatagramDestination { ah: Ah(4711), ..good };
    assert_eq!(send(&mut pair, 1, unknown, &[]), Err(PostError::InvalidDestination));
    let gid = pair.sides[1].gid;
    let nic = &mut pair.sides[0].nic;
    let other_pd = nic.alloc_pd().unwrap();
    let ah = nic.create_ah(other_pd, path_to(gid)).unwrap();
    let foreign = DatagramDestination { ah, ..good };
    assert_eq!(send(&mut pair, 1, foreign, &[]), Err(PostError::InvalidDestination));
    // The handle may go once the send is posted.
    pair.recv(1, 20, &[pair.sge(1, TARGET, 100)]);
    send(&mut pair, 1, good, &[]).unwrap();
    pair.sides[0].nic.destroy_ah(good.ah).unwrap();
    pair.drive();
    assert_eq!(pair.received(1), [(20, Status::Success)]);
}

#[test]
fn a_failed_send_stops_the_send_queue_alone() {
    let mut pair = ud();
    let destination = destination(&mut pair);
    let good = pair.sge(0, 0, 8);
    send(&mut pair, 1, destination, &[good]).unwrap();
    send(&mut pair, 2, destination, &[Sge { lkey: good.lkey ^ 1, ..good }]).unwrap();
    send(&mut pair, 3, destination, &[good]).unwrap();
    pair.drive();
    let expected = [(1, Status::Success), (2, Status::LocalProtectionError), (3, Status::WorkRequestFlushed)];
    assert_eq!((pair.sent(0), pair.state(0)), (expected.to_vec(), QpState::Sqe));
}

#[test]
fn inline_datagrams_carry_their_bytes() {
    let mut pair = ud();
    let destination = Some(destination(&mut pair));
    let data = SendData::Inline(&[b"in", b"line"]);
    let request = SendRequest { data, destination, ..request(1, SendOperation::Send, &[]) };
    pair.post_send(0, &request).unwrap();
    let transmit = pair.sides[0].nic.poll_transmit(pair.now, 1).unwrap();
    let PayloadSource::Inline { bytes, range } = transmit.payload else { panic!("inline") };
    assert_eq!(bytes[range.start as usize..range.end as usize], *b"inline");
}
