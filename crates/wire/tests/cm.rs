//! Communication management: what the kernel said, every value, and bytes that are none.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use pcap_file::pcap::PcapReader;
use proptest::prelude::*;
use wire::cm::*;
use wire::{Frame, Gid, Layer, ParseError, Psn, Qpn};

/// The datagrams on QP 1 of the kernel's rxe, in order: connects and disconnects over IPv4 and IPv6,
/// datagram services, and requests that nobody listened to.
fn captured() -> Vec<Vec<u8>> {
    let mut reader = PcapReader::new(&include_bytes!("golden/rxe-cm.pcap")[..]).unwrap();
    let mut mads = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.unwrap().data.into_owned();
        let packet = Frame::parse(&bytes).unwrap().packet().unwrap().to_owned();
        if packet.headers.bth.dest_qp == Qpn::GSI {
            mads.push(packet.payload.to_vec());
        }
    }
    mads
}

#[test]
fn what_the_kernel_sends_is_emitted_again_to_the_byte() {
    let captured = captured();
    assert_eq!(captured.len(), 54);
    for bytes in captured {
        let mad = CmMad::parse(&bytes).unwrap();
        assert!(!matches!(mad.message, CmMessage::Unknown { .. }));
        assert_eq!(mad.emit().as_slice(), bytes, "{mad:?}");
    }
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

#[test]
fn the_kernels_request_is_understood() {
    let mad = CmMad::parse(&captured()[0]).unwrap();
    assert_eq!(mad.transaction_id, 0x2_18B9_7600);
    let CmMessage::Req(req) = mad.message else { panic!("{mad:?}") };
    let addresses = IpCmHeader { source: CLIENT.into(), source_port: 0x9371, destination: SERVER.into() };
    let expected = Req {
        local_id: 0x0076_B918,
        service: ServiceId::of_port(PortSpace::TCP, 7174),
        ca_guid: 0x5054_00FF_FE77_0003,
        qpn: Qpn::new(0x11),
        responder_resources: 1,
        initiator_depth: 1,
        remote_response_timeout: 20,
        starting_psn: Psn::new(0x4A_4021),
        local_response_timeout: 20,
        retry_count: 7,
        pkey: 0xFFFF,
        path_mtu: 3,
        rnr_retry_count: 7,
        max_cm_retries: 15,
        primary: CmPath {
            local_lid: 0xFFFF,
            remote_lid: 0xFFFF,
            local_gid: Gid::from(CLIENT),
            remote_gid: Gid::from(SERVER),
            flow_label: 0x1_F6B5,
            hop_limit: 64,
            local_ack_timeout: 19,
            ..CmPath::default()
        },
        private_data: req.private_data,
        ..Req::default()
    };
    assert_eq!(req, expected);
    assert_eq!(IpCmHeader::parse(&*req.private_data), Some(addresses));
    assert!(req.private_data[IpCmHeader::LEN..].iter().all(|&byte| byte == 0));
    let route = CmRoute::of(&mad);
    let (service, peer_id, addresses) = (req.service, req.local_id, Some(addresses));
    assert_eq!(route, CmRoute::ByService { service, datagram: false, peer_id, addresses });
}

#[test]
fn the_kernels_answers_are_understood() {
    let captured = captured();
    let messages: Vec<_> = captured.iter().map(|bytes| CmMad::parse(bytes).unwrap().message).collect();
    let (client, server) = (0x0076_B918, 0x40F4_A1A1);
    let rep = Rep {
        local_id: server,
        remote_id: client,
        qpn: Qpn::new(0x11),
        starting_psn: Psn::new(0x65_43F9),
        responder_resources: 1,
        initiator_depth: 1,
        target_ack_delay: 15,
        rnr_retry_count: 7,
        ca_guid: 0x5054_00FF_FE77_0002,
        ..Rep::default()
    };
    assert_eq!(messages[1], CmMessage::Rep(rep));
    assert_eq!(messages[2], CmMessage::Rtu(Rtu { local_id: client, remote_id: server, ..Rtu::default() }));
    let dreq = Dreq { local_id: client, remote_id: server, remote_qpn: Qpn::new(0x11), ..Dreq::default() };
    assert_eq!(messages[3], CmMessage::Dreq(dreq));
    assert_eq!(messages[4], CmMessage::Drep(Drep { local_id: server, remote_id: client, ..Drep::default() }));

    let rejections: Vec<_> = messages
        .iter()
        .filter_map(|message| if let CmMessage::Rej(rej) = message { Some(rej) } else { None })
        .collect();
    assert_eq!(rejections.len(), 11);
    let expected = Rej { remote_id: 0x0776_B918, reason: RejReason::INVALID_SERVICE_ID, ..Rej::default() };
    assert_eq!(*rejections[0], expected);
}

#[test]
fn the_kernels_service_resolution_is_understood() {
    let mads: Vec<_> = captured().iter().map(|bytes| CmMad::parse(bytes).unwrap()).collect();
    let request = mads.iter().find(|mad| matches!(mad.message, CmMessage::SidrReq(_))).unwrap();
    let CmMessage::SidrReq(req) = request.message else { unreachable!() };
    let service = ServiceId::of_port(PortSpace::UDP, 7174);
    assert_eq!((req.request_id, req.pkey, req.service), (0x0476_B918, 0xFFFF, service));
    let addresses = IpCmHeader::parse(&*req.private_data).unwrap();
    assert_eq!(
        addresses,
        IpCmHeader { source: CLIENT.into(), source_port: 0xE845, destination: SERVER.into() }
    );

    let reply = mads.iter().find(|mad| matches!(mad.message, CmMessage::SidrRep(_))).unwrap();
    let expected = SidrRep {
        request_id: 0x0476_B918,
        status: SidrStatus::VALID,
        qpn: Qpn::new(0x15),
        service,
        qkey: 0x0123_4567,
        ..SidrRep::default()
    };
    assert_eq!(reply.message, CmMessage::SidrRep(expected));
    assert_eq!(reply.transaction_id, request.transaction_id);
    assert_eq!(CmRoute::of(reply), CmRoute::ById(0x0476_B918));
}

/// A datagram of this attribute with this data.
fn bytes(attribute_id: u16, data: &[u8; 232]) -> [u8; CmMad::LEN] {
    let message = CmMessage::Unknown { attribute_id, data: *data };
    CmMad { transaction_id: 1, attribute_modifier: 2, message }.emit()
}

/// Which bits are reserved: everything else is in a field.
#[test]
fn every_bit_that_means_something_is_kept() {
    let reserved: [(u16, &[(usize, u8)]); 9] = [
        (
            0x10,
            &[
                (4, 0xFF),
                (24, 0xFF),
                (25, 0xFF),
                (26, 0xFF),
                (27, 0xFF),
                (36, 0xFF),
                (37, 0xFF),
                (38, 0xFF),
                (40, 0xFF),
                (41, 0xFF),
                (42, 0xFF),
                (50, 8),
                (90, 0x0F),
                (91, 0xC0),
                (94, 7),
                (95, 7),
                (134, 0x0F),
                (135, 0xC0),
                (138, 7),
                (139, 7),
            ],
        ),
        (0x11, &[(8, 0x3F), (9, 7)]),
        (0x12, &[(8, 0x3F), (9, 1)]),
        (0x13, &[(27, 0x0F)]),
        (0x14, &[]),
        (0x15, &[(11, 0xFF)]),
        (0x16, &[]),
        (0x17, &[(6, 0xFF), (7, 0xFF)]),
        (0x18, &[(6, 0xFF), (7, 0xFF), (11, 0xFF)]),
    ];
    for (attribute_id, reserved) in reserved {
        let mut expected = [0xFF; 232];
        reserved.iter().for_each(|&(at, bits)| expected[at] ^= bits);
        let mad = CmMad::parse(&bytes(attribute_id, &[0xFF; 232])).unwrap();
        assert!(!matches!(mad.message, CmMessage::Unknown { .. }));
        assert_eq!(mad.emit()[24..], expected, "{attribute_id:#x}");
    }
}

#[test]
fn what_is_no_message_is_told() {
    let good = bytes(0x10, &[0; 232]);
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        CmMad::parse(&bytes).map(|_| ())
    };
    assert_eq!(with(0, 1), Ok(()));
    assert_eq!(with(0, 2), Err(ParseError::Version { layer: Layer::Mad, value: 2 }));
    assert_eq!(with(1, 4), Err(ParseError::ManagementClass(4)));
    assert_eq!(with(2, 1), Err(ParseError::Version { layer: Layer::Cm, value: 1 }));
    assert_eq!(with(3, 0x81), Err(ParseError::Method(0x81)));
    let too_long = [good.as_slice(), &[0]].concat();
    assert_eq!(CmMad::parse(&too_long), Err(ParseError::Length { layer: Layer::Mad, value: 257 }));
    for len in 0..good.len() {
        let error = CmMad::parse(&good[..len]).unwrap_err();
        assert!(matches!(error, ParseError::Truncated { layer: Layer::Mad, .. }), "{error}");
    }
}

#[test]
fn services_of_ports_are_told_from_others() {
    let service = ServiceId::of_port(PortSpace::TCP, 0x1C06);
    assert_eq!(service, ServiceId(0x0000_0000_0106_1C06));
    assert_eq!(service.port(), Some((PortSpace::TCP, 0x1C06)));
    for space in [PortSpace::UDP, PortSpace::IB, PortSpace::IPOIB] {
        assert_eq!(ServiceId::of_port(space, 9).port(), Some((space, 9)));
    }
    assert_eq!(ServiceId(0x1000_0000_0106_1C06).port(), None);
    assert_eq!(ServiceId(0x0000_0000_0206_1C06).port(), None);
    assert_eq!(format!("{} {}", service, ServiceId(1)), "tcp/7174 0x0000000000000001");
}

#[test]
fn addresses_of_unknown_versions_are_none() {
    let header = IpCmHeader {
        source: Ipv6Addr::LOCALHOST.into(),
        source_port: 7,
        destination: Ipv6Addr::UNSPECIFIED.into(),
    };
    let mut out = [0; IpCmHeader::LEN];
    header.emit(&mut out);
    assert_eq!(IpCmHeader::parse(&out), Some(header));
    assert_eq!(IpCmHeader::parse(&out[..35]), None);
    for (at, value) in [(0, 0x10), (1, 0x50), (1, 0)] {
        let mut out = out;
        out[at] = value;
        assert_eq!(IpCmHeader::parse(&out), None);
    }
}

#[test]
fn a_request_given_up_is_routed_by_its_sender() {
    let rej = Rej { local_id: 7, reason: RejReason::TIMEOUT, ..Rej::default() };
    let route =
        |rej| CmRoute::of(&CmMad { transaction_id: 0, attribute_modifier: 0, message: CmMessage::Rej(rej) });
    assert_eq!(route(rej), CmRoute::ByPeer(7));
    assert_eq!(route(Rej { remote_id: 9, ..rej }), CmRoute::ById(9));
    assert_eq!(route(Rej { reason: RejReason::CONSUMER, ..rej }), CmRoute::ById(0));
    assert_eq!(rej.reason.to_string(), "timeout");
    assert_eq!(RejReason(99).to_string(), "reason 99");
}

#[test]
fn private_data_is_filled_up_and_bounded() {
    let data = PrivateData::<4>::new(&[1, 2]).unwrap();
    assert_eq!(*data, [1, 2, 0, 0]);
    assert_eq!(format!("{data:?}"), "0102(2 of 4)");
    assert!(PrivateData::<4>::new(&[0; 4]).is_some());
    assert!(PrivateData::<4>::new(&[0; 5]).is_none());
}

proptest! {
    #[test]
    fn every_value_survives(attribute_id in 0x10u16..=0x1B, head: u64, modifier: u32, data: [[u8; 29]; 8]) {
        let mut bytes = bytes(attribute_id, data.as_flattened().try_into().unwrap());
        bytes[8..16].copy_from_slice(&head.to_be_bytes());
        bytes[20..24].copy_from_slice(&modifier.to_be_bytes());
        let mad = CmMad::parse(&bytes).unwrap();
        prop_assert_eq!(mad.transaction_id, head);
        prop_assert_eq!(mad.attribute_modifier, modifier);
        prop_assert_eq!(mad.message.attribute_id(), attribute_id);
        prop_assert_eq!(CmMad::parse(&mad.emit()).unwrap(), mad);
    }

    /// Numbers above their width are cut, and do not spill into their neighbours.
    #[test]
    fn wide_values_stay_in_their_fields(req_bits: u8, label: u32, vendor: u32) {
        let wide = Req {
            vendor_id: vendor,
            remote_response_timeout: req_bits,
            local_response_timeout: req_bits,
            retry_count: req_bits,
            path_mtu: req_bits,
            rnr_retry_count: req_bits,
            max_cm_retries: req_bits,
            transport: TransportService::Extended(req_bits & 6),
            primary: CmPath { flow_label: label, packet_rate: req_bits, service_level: req_bits, local_ack_timeout: req_bits, ..CmPath::default() },
            ..Req::default()
        };
        let narrow = Req {
            vendor_id: vendor & 0xFF_FFFF,
            remote_response_timeout: req_bits & 31,
            local_response_timeout: req_bits & 31,
            retry_count: req_bits & 7,
            path_mtu: req_bits & 15,
            rnr_retry_count: req_bits & 7,
            max_cm_retries: req_bits & 15,
            primary: CmPath { flow_label: label & 0xF_FFFF, packet_rate: req_bits & 63, service_level: req_bits & 15, local_ack_timeout: req_bits & 31, ..CmPath::default() },
            ..wide
        };
        let mad = CmMad { transaction_id: 0, attribute_modifier: 0, message: CmMessage::Req(wide) };
        prop_assert_eq!(CmMad::parse(&mad.emit()).unwrap().message, CmMessage::Req(narrow));
    }

    #[test]
    fn arbitrary_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(mad) = CmMad::parse(&bytes) {
            let _ = CmRoute::of(&mad);
        }
        let _ = IpCmHeader::parse(&bytes);
    }

    #[test]
    fn addresses_survive(source: u128, destination: u128, source_port: u16, v4: bool) {
        let ip = |bits: u128| if v4 { IpAddr::V4((bits as u32).into()) } else { IpAddr::V6(bits.into()) };
        let header = IpCmHeader { source: ip(source), source_port, destination: ip(destination) };
        let mut out = [0xEE; IpCmHeader::LEN + 1];
        prop_assert_eq!(header.emit(&mut out), IpCmHeader::LEN);
        prop_assert_eq!(out[IpCmHeader::LEN], 0xEE);
        prop_assert_eq!(IpCmHeader::parse(&out), Some(header));
    }
}
