//! Face to face with the Linux kernel, as captured: what it says is understood, and what we would have
//! said in its place is the same to the byte.

use nic::cm::*;
use nic::verbs::{Mtu, QpState};
use nic::{Arrival, Instant};
use pcap_file::pcap::PcapReader;
use wire::cm::*;
use wire::{Frame, Gid, Network, Psn, Qpn};

/// A datagram as it was captured.
#[derive(Clone, Copy, Debug)]
struct Captured {
    arrival: Arrival,
    mad: CmMad,
}

fn captured() -> Vec<Captured> {
    let bytes = include_bytes!("../../../wire/tests/golden/rxe-cm.pcap");
    let mut reader = PcapReader::new(&bytes[..]).unwrap();
    let mut datagrams = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let bytes = packet.unwrap().data.into_owned();
        let frame = Frame::parse(&bytes).unwrap();
        let packet = frame.packet().unwrap();
        if !is_cm_datagram(&packet.headers) {
            continue;
        }
        let (source, destination) = match frame.network {
            Network::Ipv4(ip) => (Gid::from(ip.source), Gid::from(ip.destination)),
            Network::Ipv6(ip) => (Gid::from(ip.source), Gid::from(ip.destination)),
            other => panic!("{other:?}"),
        };
        let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 64 };
        datagrams.push(Captured { arrival, mad: CmMad::parse(packet.payload).unwrap() });
    }
    assert_eq!(datagrams.len(), 54);
    datagrams
}

/// The captured exchange that a REQ or SIDR REQ begins.
fn exchange(begin: usize) -> Vec<Captured> {
    let captured = captured();
    let first = captured[begin];
    let name = |mad: &CmMad| match mad.message {
        CmMessage::Req(req) => vec![req.local_id],
        CmMessage::Rep(rep) => vec![rep.local_id, rep.remote_id],
        CmMessage::Rtu(rtu) => vec![rtu.local_id, rtu.remote_id],
        CmMessage::Rej(rej) => vec![rej.remote_id],
        CmMessage::Dreq(dreq) => vec![dreq.local_id, dreq.remote_id],
        CmMessage::Drep(drep) => vec![drep.local_id, drep.remote_id],
        CmMessage::SidrReq(req) => vec![req.request_id],
        CmMessage::SidrRep(rep) => vec![rep.request_id],
        _ => vec![],
    };
    let of = name(&first.mad)[0];
    captured.into_iter().filter(|datagram| name(&datagram.mad).contains(&of)).collect()
}

/// Every exchange, by the place of its first datagram.
fn exchanges(pick: fn(&CmMessage) -> bool) -> Vec<Vec<Captured>> {
    let captured = captured();
    let begins = captured.iter().enumerate().filter(|(_, datagram)| pick(&datagram.mad.message));
    begins.map(|(index, _)| exchange(index)).collect()
}

fn config(ca_guid: u64) -> CmConfig {
    CmConfig { ca_guid, ..CmConfig::default() }
}

/// A datagram without what is chosen freely: numbers, PSNs and the exchange's ID.
fn anonymous(mut mad: CmMad) -> CmMad {
    mad.transaction_id = 0;
    match &mut mad.message {
        CmMessage::Req(req) => (req.local_id, req.starting_psn) = (0, Psn::ZERO),
        CmMessage::Rep(rep) => (rep.local_id, rep.remote_id, rep.starting_psn) = (0, 0, Psn::ZERO),
        CmMessage::Rtu(rtu) => (rtu.local_id, rtu.remote_id) = (0, 0),
        CmMessage::Dreq(dreq) => (dreq.local_id, dreq.remote_id) = (0, 0),
        CmMessage::Drep(drep) => (drep.local_id, drep.remote_id) = (0, 0),
        CmMessage::SidrReq(req) => req.request_id = 0,
        _ => {}
    }
    mad
}

/// What we sent must be what the kernel sent, to the byte.
fn assert_same(cm: &mut Cm, captured: &Captured) -> CmMad {
    let transmit = cm.poll_transmit().expect("something to send");
    assert_eq!(cm.poll_transmit(), None);
    assert_eq!(transmit.route.source, captured.arrival.source);
    assert_eq!(transmit.route.destination, captured.arrival.destination);
    let ours = CmMad::parse(&transmit.mad).unwrap();
    assert_eq!(anonymous(ours), anonymous(captured.mad));
    assert_eq!(anonymous(ours).emit(), anonymous(captured.mad).emit());
    ours
}

/// Puts our names into a captured datagram, and keeps the peer's.
fn addressed(captured: &Captured, ours: u32, transaction_id: u64) -> CmMad {
    let mut mad = CmMad { transaction_id, ..captured.mad };
    match &mut mad.message {
        CmMessage::Rep(Rep { remote_id, .. })
        | CmMessage::Rtu(Rtu { remote_id, .. })
        | CmMessage::Dreq(Dreq { remote_id, .. })
        | CmMessage::Drep(Drep { remote_id, .. }) => *remote_id = ours,
        CmMessage::SidrRep(rep) => rep.request_id = ours,
        other => panic!("{other:?}"),
    }
    mad
}

/// The parameters with which we would have sent a captured request.
fn params(req: &Req) -> ReqParams<'_> {
    let primary = req.primary;
    ReqParams {
        path: Path {
            source: primary.local_gid,
            destination: primary.remote_gid,
            flow_label: primary.flow_label,
            hop_limit: primary.hop_limit,
            mtu: Mtu::Mtu1024,
            // The kernel's constant for RoCE in the captured version.
            packet_life_time: 18,
            ..Path::default()
        },
        service: req.service,
        addresses: IpCmHeader::parse(&*req.private_data),
        transport: TransportService::Rc,
        local: Endpoint {
            qpn: req.qpn,
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            rnr_retry_count: req.rnr_retry_count,
            flow_control: req.flow_control,
            ..Endpoint::default()
        },
        retry_count: req.retry_count,
        patience: Patience::default(),
        private_data: &req.private_data[IpCmHeader::LEN..],
    }
}

/// Our client in the place of the kernel's.
#[test]
fn our_client_says_what_the_kernels_says() {
    let connected = exchanges(|message| matches!(message, CmMessage::Req(_)));
    let mut checked = 0;
    for exchange in connected {
        let CmMessage::Req(req) = exchange[0].mad.message else { panic!() };
        let mut cm = Cm::new(config(req.ca_guid));
        let id = cm.connect(Instant::ZERO, &params(&req)).unwrap();
        let ours = assert_same(&mut cm, &exchange[0]);
        for captured in &exchange[1..] {
            checked += 1;
            let back = captured.arrival;
            match captured.mad.message {
                CmMessage::Rep(rep) => {
                    let mad = addressed(captured, id.0, ours.transaction_id);
                    cm.handle_mad(Instant::ZERO, &back, 0, &mad.emit());
                    let Some(CmEvent::Reply(reply)) = cm.poll_event() else { panic!() };
                    assert_eq!((reply.remote.qpn, reply.send_psn), (rep.qpn, rep.starting_psn));
                }
                CmMessage::Rtu(_) => {
                    cm.establish(Instant::ZERO, id, &[]).unwrap();
                    assert_same(&mut cm, captured);
                }
                CmMessage::Dreq(_) if back.source == exchange[0].arrival.source => {
                    cm.disconnect(Instant::ZERO, id, &[]).unwrap();
                    let dreq = assert_same(&mut cm, captured);
                    assert_eq!(dreq.transaction_id, ours.transaction_id, "the kernel's too are equal");
                }
                CmMessage::Dreq(_) | CmMessage::Drep(_) if back.source != exchange[0].arrival.source => {
                    let mad = addressed(captured, id.0, captured.mad.transaction_id);
                    cm.handle_mad(Instant::ZERO, &back, 0, &mad.emit());
                    assert_eq!(cm.poll_event(), Some(CmEvent::Disconnected { id }));
                }
                CmMessage::Drep(_) => {
                    assert_same(&mut cm, captured);
                }
                CmMessage::Rej(mut rej) => {
                    rej.remote_id = id.0;
                    let mad = CmMad { message: CmMessage::Rej(rej), ..captured.mad };
                    cm.handle_mad(Instant::ZERO, &back, 0, &mad.emit());
                    let Some(CmEvent::Rejected { reason, .. }) = cm.poll_event() else { panic!() };
                    assert_eq!(reason, RejReason::INVALID_SERVICE_ID);
                }
                ref other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(checked, 6 + 6 + 6 + 4 + 11);
}

/// Our server in the place of the kernel's.
#[test]
fn our_server_says_what_the_kernels_says() {
    let mut accepted = 0;
    for exchange in exchanges(|message| matches!(message, CmMessage::Req(_))) {
        let Some(Captured { mad: CmMad { message: CmMessage::Rep(rep), .. }, .. }) = exchange.get(1) else {
            continue;
        };
        accepted += 1;
        let mut cm = Cm::new(config(rep.ca_guid));
        let CmMessage::Req(req) = exchange[0].mad.message else { panic!() };
        cm.listen(Listen { service: req.service, datagram: false, address: ListenAddress::Any }, 0).unwrap();
        cm.handle_mad(Instant::ZERO, &exchange[0].arrival, 5, &exchange[0].mad.emit());
        let Some(CmEvent::Request(request)) = cm.poll_event() else { panic!() };
        assert_eq!((request.ack_timeout, request.path.packet_life_time), (19, 18));
        let local = Endpoint {
            qpn: rep.qpn,
            responder_resources: rep.responder_resources,
            initiator_depth: rep.initiator_depth,
            rnr_retry_count: rep.rnr_retry_count,
            srq: rep.srq,
            flow_control: rep.flow_control,
            ..Endpoint::default()
        };
        let params = RepParams { local, private_data: &*rep.private_data };
        cm.accept(Instant::ZERO, request.id, &params).unwrap();
        let ours = assert_same(&mut cm, &exchange[1]);
        assert_eq!(ours.transaction_id, exchange[0].mad.transaction_id);
        let rtu = addressed(&exchange[2], request.id.0, ours.transaction_id);
        cm.handle_mad(Instant::ZERO, &exchange[2].arrival, 5, &rtu.emit());
        assert!(matches!(cm.poll_event(), Some(CmEvent::Established { .. })));
    }
    assert_eq!(accepted, 6);
}

/// These carry no number of ours: they must be equal without allowances.
#[test]
fn our_refusals_and_resolutions_are_the_kernels_to_the_byte() {
    let refused = exchanges(|message| matches!(message, CmMessage::Req(_)));
    let refused = refused.iter().filter(|exchange| matches!(exchange[1].mad.message, CmMessage::Rej(_)));
    assert_eq!(refused.clone().count(), 11);
    for exchange in refused {
        let mut cm = Cm::new(config(1));
        cm.handle_mad(Instant::ZERO, &exchange[0].arrival, 5, &exchange[0].mad.emit());
        assert_eq!(cm.poll_transmit().unwrap().mad, exchange[1].mad.emit());
    }
    let resolved = exchanges(|message| matches!(message, CmMessage::SidrReq(_)));
    assert_eq!(resolved.len(), 2);
    for exchange in resolved {
        let (CmMessage::SidrReq(req), CmMessage::SidrRep(rep)) =
            (exchange[0].mad.message, exchange[1].mad.message)
        else {
            panic!()
        };
        let mut cm = Cm::new(config(1));
        cm.listen(Listen { service: req.service, datagram: true, address: ListenAddress::AnyV4 }, 0).unwrap();
        cm.handle_mad(Instant::ZERO, &exchange[0].arrival, 5, &exchange[0].mad.emit());
        let Some(CmEvent::SidrRequest(request)) = cm.poll_event() else { panic!() };
        cm.answer(Instant::ZERO, request.id, Ok((rep.qpn, rep.qkey)), &[]).unwrap();
        assert_eq!(cm.poll_transmit().unwrap().mad, exchange[1].mad.emit());

        let mut cm = Cm::new(config(1));
        let path = Path {
            source: exchange[0].arrival.source,
            destination: exchange[0].arrival.destination,
            ..Path::default()
        };
        let (service, addresses) = (req.service, request.addresses);
        let params =
            SidrParams { path, service, addresses, patience: Patience::default(), private_data: &[] };
        let id = cm.resolve(Instant::ZERO, &params).unwrap();
        let ours = assert_same(&mut cm, &exchange[0]);
        let answer = addressed(&exchange[1], id.0, ours.transaction_id);
        cm.handle_mad(Instant::ZERO, &exchange[1].arrival, 5, &answer.emit());
        let Some(CmEvent::SidrReply(reply)) = cm.poll_event() else { panic!() };
        assert_eq!((reply.qpn, reply.qkey), (rep.qpn, 0x0123_4567));
    }
}

/// In the capture the client begins to send with the PSN of the server's REP, and the server with that
/// of the client's REQ.
#[test]
fn each_side_begins_with_the_psn_that_the_other_named() {
    let exchange = exchange(0);
    let (CmMessage::Req(req), CmMessage::Rep(rep)) = (exchange[0].mad.message, exchange[1].mad.message)
    else {
        panic!()
    };
    assert_eq!((req.starting_psn, rep.starting_psn), (Psn::new(0x4A_4021), Psn::new(0x65_43F9)));
    let mut cm = Cm::new(config(1));
    let id = cm.connect(Instant::ZERO, &params(&req)).unwrap();
    let sent = CmMad::parse(&cm.poll_transmit().unwrap().mad).unwrap();
    let CmMessage::Req(ours) = sent.message else { panic!() };
    let mad = addressed(&exchange[1], id.0, sent.transaction_id);
    cm.handle_mad(Instant::ZERO, &exchange[1].arrival, 0, &mad.emit());
    let rtr = cm.qp_change(id, QpState::Rtr).unwrap();
    assert_eq!((rtr.rq_psn, rtr.dest_qp), (Some(ours.starting_psn), Some(Qpn::new(0x11))));
    assert_eq!(cm.qp_change(id, QpState::Rts).unwrap().sq_psn, Some(Psn::new(0x65_43F9)));
}
