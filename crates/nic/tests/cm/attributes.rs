//! What connection management says of queue pairs is what an adapter takes.

use std::net::Ipv4Addr;

use nic::cm::*;
use nic::memory::PhantomMemory;
use nic::verbs::*;
use nic::{Config, Instant, Nic};
use wire::cm::TransportService;
use wire::{Gid, Psn, Qpn};

use crate::world::*;

/// An adapter with our address at index 3, and a queue pair of it.
fn adapter(last: u8, qp_type: QpType) -> (Nic<PhantomMemory>, Qpn) {
    let mut nic = Nic::new(Config { seed: last.into(), ..Config::default() }, PhantomMemory);
    let gid = Gid::from(Ipv4Addr::new(10, 77, 0, last));
    nic.set_gid(3, Some(GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 2 }));
    nic.set_port(PortState::Active, Mtu::Mtu4096);
    let pd = nic.alloc_pd().unwrap();
    let (cq, _) = nic.create_cq(16).unwrap();
    let capabilities = QpCapabilities {
        max_send_wr: 4,
        max_recv_wr: 4,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let init = QpInit { pd, qp_type, send_cq: cq, recv_cq: cq, srq: None, capabilities, signal_all: false };
    let (qpn, _) = nic.create_qp(&init).unwrap();
    (nic, qpn)
}

const STATES: [QpState; 3] = [QpState::Init, QpState::Rtr, QpState::Rts];

/// Connects two adapters' queue pairs; returns what they came to.
fn connect(transport: TransportService, qp_type: QpType) -> [QpAttributes; 2] {
    let mut world = World::new(2);
    let (mut client, client_qpn) = adapter(2, qp_type);
    let (mut server, server_qpn) = adapter(3, qp_type);
    let now = Instant::ZERO;
    client.modify_qp(now, client_qpn, &connection_init()).unwrap();
    server.modify_qp(now, server_qpn, &connection_init()).unwrap();

    world.cm(1).listen(anywhere(), 0).unwrap();
    let mut params = world.request(0, 1, client_qpn.value());
    params.path.source_gid_index = 3;
    params.transport = transport;
    params.local.initiator_depth = 9;
    params.local.rnr_retry_count = 5;
    let active = world.cm(0).connect(now, &params).unwrap();
    assert_eq!(world.cm(0).qp_change(active, QpState::Rtr), Err(CmError::WrongState(State::ReqSent)));
    world.settle();
    let passive = world.requested(1).id;
    // As rdma_accept does: first the queue pair, then the answer.
    for state in STATES {
        let change = world.cm(1).qp_change(passive, state).unwrap();
        server.modify_qp(now, server_qpn, &change).unwrap();
    }
    let later = world.now;
    world.cm(1).accept(later, passive, &consent(server_qpn.value())).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    for state in STATES {
        let change = world.cm(0).qp_change(active, state).unwrap();
        client.modify_qp(now, client_qpn, &change).unwrap();
    }
    assert_eq!(world.cm(0).qp_change(active, QpState::Sqd), Err(CmError::InvalidValue("state")));
    assert_eq!(world.cm(0).qp_change(CmId(0), QpState::Init), Err(CmError::UnknownId));
    [client.query_qp(client_qpn).unwrap(), server.query_qp(server_qpn).unwrap()]
}

#[test]
fn queue_pairs_come_to_fit_each_other() {
    for (transport, qp_type) in [(TransportService::Rc, QpType::Rc), (TransportService::Uc, QpType::Uc)] {
        let [client, server] = connect(transport, qp_type);
        for (side, other) in [(&client, &server), (&server, &client)] {
            assert_eq!(side.state, QpState::Rts);
            assert_eq!(side.sq_psn, other.rq_psn);
            assert_ne!(side.sq_psn, Psn::ZERO);
            assert_eq!(side.path.source_gid_index, 3);
            assert_eq!((side.path_mtu, side.pkey_index, side.port), (Mtu::Mtu1024, 0, 1));
            assert!(side.access.remote_write && side.access.remote_read && side.access.remote_atomic);
        }
        assert_eq!(client.path.destination, Gid::from(Ipv4Addr::new(10, 77, 0, 3)));
        assert_eq!(server.path.destination, Gid::from(Ipv4Addr::new(10, 77, 0, 2)));
        if qp_type == QpType::Uc {
            continue;
        }
        // The client wants 9 outstanding and takes 4; the server wants 2 and takes 4.
        assert_eq!((client.max_rd_atomic, client.max_dest_rd_atomic), (4, 2));
        assert_eq!((client.timeout, server.timeout), (17, 17));
        assert_eq!((client.retry_count, server.retry_count), (7, 7));
        // Each side retries as often as the other asked for.
        assert_eq!((client.rnr_retry, server.rnr_retry), (7, 5));
        assert_eq!((client.min_rnr_timer, server.min_rnr_timer), (12, 12));
    }
}

#[test]
fn the_peer_may_not_read_what_nobody_offers() {
    let mut world = World::new(2);
    let mut params = world.request(0, 1, 0x11);
    params.local.responder_resources = 0;
    let id = world.cm(0).connect(Instant::ZERO, &params).unwrap();
    let access = world.cm(0).qp_change(id, QpState::Init).unwrap().access.unwrap();
    assert_eq!(access, Access { remote_write: true, ..Access::default() });
}

#[test]
fn datagram_queue_pairs_come_up_without_a_peer() {
    let (mut nic, qpn) = adapter(2, QpType::Ud);
    for state in STATES {
        nic.modify_qp(Instant::ZERO, qpn, &datagram_change(state, 0x0123_4567).unwrap()).unwrap();
    }
    let attributes = nic.query_qp(qpn).unwrap();
    assert_eq!((attributes.state, attributes.qkey), (QpState::Rts, 0x0123_4567));
    assert_eq!(datagram_change(QpState::Error, 0), Err(CmError::InvalidValue("state")));
}

/// Packets of connection management are told from others by their headers.
#[test]
fn datagrams_look_like_those_of_queue_pair_1() {
    let headers = CmTransmit::headers(Psn::new(7));
    assert!(is_cm_datagram(&headers));
    assert!(headers.is_consistent());
    let mut world = World::new(2);
    world.connect(0, 1, 0x11);
    let datagram = world.cm(0).poll_transmit().unwrap();
    let transmit = datagram.clone().into_transmit(Psn::new(7));
    assert_eq!((transmit.route, transmit.source_qp, transmit.packets()), (datagram.route, Qpn::GSI, 1));
    assert_eq!((transmit.headers(0), transmit.payload_range(0)), (headers, 0..256));
    let nic::packet::PayloadSource::Inline { bytes, range } = transmit.payload else { panic!() };
    assert_eq!((&bytes[..], range), (&datagram.mad[..], 0..256));
    let mut other = headers;
    other.bth.dest_qp = Qpn::new(2);
    assert!(!is_cm_datagram(&other));
    let wire::Extended::Deth(deth) = headers.extended else { panic!() };
    for deth in [wire::Deth { qkey: 1, ..deth }, wire::Deth { source_qp: Qpn::new(2), ..deth }] {
        assert!(!is_cm_datagram(&wire::Headers { extended: wire::Extended::Deth(deth), ..headers }));
    }
}
