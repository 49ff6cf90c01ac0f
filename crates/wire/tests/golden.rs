//! Captures of the Linux kernel's rxe: every packet parses, its ICRC verifies,
//! and it is emitted again byte for byte.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::collections::BTreeMap;

use pcap_file::pcap::PcapReader;
use wire::{
    Body, Extended, Frame, Gid, Grh, MadHeader, ManagementClass, Network, Opcode, Packet, ParseError, Qpn,
    ROCE_V2_PORT, Vlan,
};

const VERBS: &[u8] = include_bytes!("golden/rxe-verbs.pcap");
const CONNECTIONS: &[u8] = include_bytes!("golden/rxe-cm.pcap");

fn frames(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(capture).unwrap();
    let mut frames = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.unwrap();
        assert_eq!(packet.data.len(), packet.orig_len as usize, "cut short by the capture");
        frames.push(packet.data.into_owned());
    }
    frames
}

fn emitted(frame: &Frame<'_>) -> Vec<u8> {
    let mut out = vec![0xEE; frame.len()];
    assert_eq!(frame.emit(&mut out), out.len());
    out
}

/// Checks every frame and counts the opcodes.
fn check(frames: &[Vec<u8>]) -> BTreeMap<u8, usize> {
    let mut opcodes = BTreeMap::new();
    for (number, bytes) in frames.iter().enumerate() {
        let frame = Frame::parse(bytes).unwrap();
        let packet = frame.packet().unwrap_or_else(|| panic!("frame {number} is no RoCE: {frame:?}"));
        assert_eq!(frame.udp.unwrap().destination_port, ROCE_V2_PORT);
        assert_eq!(frame.verify_icrc(bytes), Some(true), "frame {number}: {packet:?}");
        assert_eq!(&emitted(&frame), bytes, "frame {number}: {packet:?}");
        check_seal(&frame, bytes);
        *opcodes.entry(packet.headers.bth.opcode.byte()).or_default() += 1;
    }
    opcodes
}

/// What is computed from addresses and payload is what the kernel computed.
fn check_seal(frame: &Frame<'_>, bytes: &[u8]) {
    let captured = frame.packet().unwrap();
    let mut frame = *frame;
    frame.body = Body::Roce(Packet::new(captured.headers, captured.payload));
    frame.network = match frame.network {
        Network::Ipv4(ip) => Network::Ipv4(wire::Ipv4 { total_len: 0, checksum: 0, ..ip }),
        Network::Ipv6(ip) => Network::Ipv6(wire::Ipv6 { payload_len: 0, ..ip }),
        other => panic!("rxe speaks no {other:?}"),
    };
    frame.udp = frame.udp.map(|udp| wire::Udp { len: 0, ..udp });
    frame.seal();
    if matches!(frame.network, Network::Ipv6(_)) {
        // rxe leaves the checksum out.
        frame.udp = frame.udp.map(|udp| wire::Udp { checksum: 0, ..udp });
    }
    assert_eq!(emitted(&frame), bytes);
}

#[test]
fn verbs_traffic_is_understood_to_the_byte() {
    let opcodes = check(&frames(VERBS));
    let expected = [
        (0x00, 22), // RC SEND FIRST
        (0x01, 766),
        (0x02, 22),
        (0x04, 18),
        (0x06, 6), // RC WRITE FIRST
        (0x07, 42),
        (0x08, 6),
        (0x0A, 13),
        (0x0C, 6), // RC READ REQUEST
        (0x0D, 6),
        (0x0E, 42),
        (0x0F, 6),
        (0x11, 59), // RC ACK
        (0x12, 12),
        (0x13, 6), // RC COMPARE SWAP
        (0x14, 6),
        (0x20, 10), // UC SEND FIRST
        (0x21, 10),
        (0x22, 10),
        (0x26, 6), // UC WRITE FIRST
        (0x27, 6),
        (0x28, 6),
        (0x64, 16), // UD SEND ONLY
    ];
    assert_eq!(opcodes, BTreeMap::from(expected));
}

#[test]
fn connection_traffic_is_understood_to_the_byte() {
    let frames = frames(CONNECTIONS);
    let opcodes = check(&frames);
    let expected = [
        (0x04, 1977), // RC SEND ONLY
        (0x0A, 8),
        (0x0C, 8),
        (0x10, 8),
        (0x11, 1985),
        (0x64, 54), // UD SEND ONLY
        (0x65, 12),
    ];
    assert_eq!(opcodes, BTreeMap::from(expected));
    let is_v6 = |bytes: &&Vec<u8>| matches!(Frame::parse(bytes).unwrap().network, Network::Ipv6(_));
    assert_eq!(frames.iter().filter(is_v6).count(), 53);
}

#[test]
fn management_datagrams_are_emitted_again() {
    let mut attributes = BTreeMap::new();
    for bytes in frames(CONNECTIONS) {
        let frame = Frame::parse(&bytes).unwrap();
        let packet = frame.packet().unwrap();
        if packet.headers.bth.dest_qp != Qpn::GSI {
            continue;
        }
        let Extended::Deth(deth) = packet.headers.extended else { panic!("{packet:?}") };
        assert_eq!((deth.qkey, deth.source_qp), (0x8001_0000, Qpn::GSI));
        assert_eq!(packet.payload.len(), MadHeader::DATAGRAM_LEN);

        let header = MadHeader::parse(packet.payload).unwrap();
        assert_eq!(header.class, ManagementClass::COMMUNICATION);
        let mut out = [0xEE; MadHeader::LEN];
        assert_eq!(header.emit(&mut out), MadHeader::LEN);
        assert_eq!(out, packet.payload[..MadHeader::LEN]);
        *attributes.entry(header.attribute_id).or_insert(0) += 1;
    }
    let expected = [
        (0x10, 17), // connect request
        (0x12, 11), // reject
        (0x13, 6),  // connect reply
        (0x14, 6),  // ready to use
        (0x15, 6),  // disconnect request
        (0x16, 4),  // disconnect reply
        (0x17, 2),  // service ID resolution request
        (0x18, 2),  // and response
    ];
    assert_eq!(attributes, BTreeMap::from(expected));
}

#[test]
fn frames_cut_short_anywhere_are_malformed_and_nothing_worse() {
    let mut of_each_opcode = BTreeMap::new();
    for bytes in frames(VERBS).into_iter().chain(frames(CONNECTIONS)) {
        let opcode = Frame::parse(&bytes).unwrap().packet().unwrap().headers.bth.opcode.byte();
        of_each_opcode.entry(opcode).or_insert(bytes);
    }
    assert_eq!(of_each_opcode.len(), 25);
    for bytes in of_each_opcode.values() {
        for len in 0..bytes.len() {
            let cut = &bytes[..len];
            let Ok(frame) = Frame::parse(cut) else {
                assert!(len < wire::Ethernet::LEN);
                continue;
            };
            assert!(matches!(frame.body, Body::Malformed { .. }), "cut to {len}: {frame:?}");
            assert_eq!(frame.verify_icrc(cut), None);
            assert_eq!(emitted(&frame), cut);
        }
    }
}

#[test]
fn unknown_opcodes_are_malformed_whatever_follows() {
    let frames = frames(VERBS);
    let bth = 14 + 20 + 8;
    let mut unknown = 0;
    for opcode in 0..=u8::MAX {
        let mut bytes = frames[0].clone();
        bytes[bth] = opcode;
        let frame = Frame::parse(&bytes).unwrap();
        if Opcode::from(opcode).is_known() {
            assert_eq!(frame.packet().unwrap().headers.bth.opcode.byte(), opcode);
        } else {
            let error = ParseError::UnknownOpcode(opcode);
            assert_eq!(frame.body, Body::Malformed { error, bytes: &bytes[bth..] });
            unknown += 1;
        }
        assert_eq!(frame.verify_icrc(&bytes).is_some(), Opcode::from(opcode).is_known());
    }
    assert_eq!(unknown, 256 - 23 - 12 - 2 - 1 - 23);
}

#[test]
fn any_flipped_bit_of_the_transport_breaks_the_icrc() {
    let frames = frames(VERBS);
    let bytes = frames.iter().find(|bytes| bytes.len() < 100).unwrap();
    let bth = 14 + 20 + 8;
    for bit in bth * 8..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let frame = Frame::parse(&flipped).unwrap();
        let masked = bit / 8 == bth + 4;
        // A flipped opcode or pad count may leave no packet to speak of.
        assert!(frame.verify_icrc(&flipped).is_none_or(|right| right == masked), "bit {bit}");
    }
}

#[test]
fn the_same_packets_travel_in_vlans_and_as_roce_v1() {
    let frames = frames(VERBS);
    for bytes in &frames {
        let mut frame = Frame::parse(bytes).unwrap();
        let opcode = frame.packet().unwrap().headers.bth.opcode;
        frame.vlans =
            [Some(Vlan { id: 7, ..Vlan::default() }), Some(Vlan { priority: 3, ..Vlan::default() })];
        check_travel(frame, opcode);

        let Network::Ipv4(ip) = frame.network else { panic!("{frame:?}") };
        frame.vlans[1] = None;
        frame.udp = None;
        frame.network = Network::Grh(Grh {
            source: Gid::from(ip.source),
            destination: Gid::from(ip.destination),
            ..Grh::default()
        });
        frame.trailer = &[0; 2];
        check_travel(frame, opcode);
    }
}

fn check_travel(mut frame: Frame<'_>, opcode: Opcode) {
    frame.seal();
    let bytes = emitted(&frame);
    let arrived = Frame::parse(&bytes).unwrap();
    assert_eq!(arrived, frame);
    assert_eq!(arrived.verify_icrc(&bytes), Some(true));
    assert_eq!(arrived.packet().unwrap().headers.bth.opcode, opcode);
}
