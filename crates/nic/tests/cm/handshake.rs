//! Connections that come about and end without trouble.

use nic::Duration;
use nic::cm::*;
use wire::cm::{CmMessage, ServiceId, TransportService};
use wire::{Gid, Qpn};

use crate::world::*;

#[test]
fn both_sides_learn_what_the_other_brings() {
    let mut world = World::new(2);
    let listener = world.cm(1).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 1, 0x11);
    assert_eq!(world.cm(0).state(client), Some(State::ReqSent));
    world.settle();

    let request = world.requested(1);
    let server = request.id;
    assert_eq!(request.listener, listener);
    assert_eq!(request.path, Path { source_gid_index: 3, ..world.path(1, 0) });
    assert_eq!((request.service, request.transport), (SERVICE, TransportService::Rc));
    assert_eq!(request.addresses, Some(world.addresses(0, 1)));
    assert_eq!(request.remote, endpoint(0x11));
    assert_eq!(request.remote_ca_guid, 0x5054_00FF_FE77_0002);
    assert_eq!((request.ack_timeout, request.retry_count), (17, 7));
    assert_eq!(request.patience, Patience::default());
    assert_eq!(text(&request.private_data), b"hello");
    assert_eq!(request.private_data.len(), 56);
    assert_eq!(world.cm(1).state(server), Some(State::ReqRcvd));

    let now = world.now;
    world.cm(1).accept(now, server, &consent(0x22)).unwrap();
    assert_eq!(world.cm(1).state(server), Some(State::RepSent));
    world.settle();
    let CmEvent::Reply(reply) = world.event(0) else { panic!() };
    assert_eq!((reply.id, reply.remote), (client, endpoint(0x22)));
    assert_eq!(reply.remote_ca_guid, 0x5054_00FF_FE77_0003);
    assert_eq!(reply.target_ack_delay, 15);
    assert_eq!(text(&reply.private_data), b"welcome");
    assert_eq!(reply.private_data.len(), 196);
    assert_eq!(world.cm(0).state(client), Some(State::RepRcvd));

    let now = world.now;
    world.cm(0).establish(now, client, b"ready").unwrap();
    world.settle();
    let CmEvent::Established { id, private_data } = world.event(1) else { panic!() };
    assert_eq!((id, text(&private_data), private_data.len()), (server, &b"ready"[..], 224));
    assert_eq!(world.cm(0).state(client), Some(State::Established));
    assert_eq!(world.cm(1).state(server), Some(State::Established));
    assert_eq!(world.cm(1).counters().retransmitted + world.cm(0).counters().retransmitted, 0);
}

#[test]
fn a_connection_ends_on_both_sides_and_leaves_nothing() {
    for ending in [0, 1] {
        let mut world = World::new(2);
        let ids = <[CmId; 2]>::from(connected(&mut world));
        let now = world.now;
        world.cm(ending).disconnect(now, ids[ending], b"bye").unwrap();
        assert_eq!(world.cm(ending).state(ids[ending]), Some(State::DreqSent));
        world.settle();
        for (program, id) in ids.into_iter().enumerate() {
            assert_eq!(world.event(program), CmEvent::Disconnected { id });
            assert_eq!(world.cm(program).state(id), Some(State::Timewait));
        }
        world.run_for(Duration::from_millis(3_000));
        for (program, id) in ids.into_iter().enumerate() {
            assert_eq!(world.event(program), CmEvent::TimewaitExit { id });
            assert_eq!(world.cm(program).state(id), Some(State::Closed));
            let now = world.now;
            world.cm(program).destroy(now, id).unwrap();
            assert_eq!(world.cm(program).destroy(now, id), Err(CmError::UnknownId));
        }
        world.assert_nothing_left();
    }
}

#[test]
fn both_sides_may_end_it_at_once() {
    let mut world = World::new(2);
    let ids = <[CmId; 2]>::from(connected(&mut world));
    let now = world.now;
    for (program, id) in ids.into_iter().enumerate() {
        world.cm(program).disconnect(now, id, &[]).unwrap();
    }
    world.settle();
    for (program, id) in ids.into_iter().enumerate() {
        assert_eq!(world.event(program), CmEvent::Disconnected { id });
        assert!(world.programs[program].events.is_empty());
        world.cm(program).destroy(now, id).unwrap();
    }
    world.run_for(Duration::from_millis(3_000));
    world.assert_nothing_left();
    assert_eq!(world.cm(0).counters().retransmitted, 0);
}

#[test]
fn both_sides_may_be_one_program() {
    let mut world = World::new(1);
    world.cm(0).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 0, 0x11);
    world.settle();
    let server = world.requested(0).id;
    assert_ne!(client, server);
    let now = world.now;
    world.cm(0).accept(now, server, &consent(0x22)).unwrap();
    world.settle();
    assert_eq!(world.event(0).id(), client);
    let now = world.now;
    world.cm(0).establish(now, client, &[]).unwrap();
    world.settle();
    assert_eq!(world.event(0).id(), server);
    let now = world.now;
    world.cm(0).disconnect(now, server, &[]).unwrap();
    world.settle();
    let ended: Vec<_> = (0..2).map(|_| world.event(0)).collect();
    assert_eq!(ended, [CmEvent::Disconnected { id: client }, CmEvent::Disconnected { id: server }]);
    let now = world.now;
    world.cm(0).destroy(now, client).unwrap();
    world.cm(0).destroy(now, server).unwrap();
    world.run_for(Duration::from_millis(3_000));
    world.assert_nothing_left();
}

#[test]
fn numbers_end_in_the_suffix_and_begin_anywhere() {
    let config = CmConfig { id_suffix: 0x2A, id_suffix_bits: 8, seed: 5, ..CmConfig::default() };
    let mut world = World::with_config(2, config);
    let first = world.connect(0, 1, 0x11);
    let second = world.connect(0, 1, 0x12);
    assert_eq!((first.0 & 0xFF, second.0 & 0xFF), (0x2A, 0x2A));
    assert_eq!(second.0 - first.0, 0x100);
    let mut other = World::with_config(2, CmConfig { seed: 6, ..config });
    assert_ne!(other.connect(0, 1, 0x11), first);
}

#[test]
fn the_closest_listener_takes_a_request() {
    let mut world = World::new(2);
    let destination = world.addresses(0, 1).destination;
    let listens = [
        Listen { address: ListenAddress::AnyV6, ..anywhere() },
        anywhere(),
        Listen { address: ListenAddress::AnyV4, ..anywhere() },
        at(destination),
    ];
    let listeners = listens.map(|listen| world.cm(1).listen(listen, 0).unwrap());
    assert_eq!(world.cm(1).listen(listens[0], 0), Err(CmError::InUse));
    // Each takes what the closer ones, which go one by one, have left over.
    for listener in [listeners[3], listeners[2], listeners[1]] {
        world.connect(0, 1, 0x11);
        world.settle();
        let request = world.requested(1);
        assert_eq!(request.listener, listener);
        let now = world.now;
        world.cm(1).destroy(now, request.id).unwrap();
        world.cm(1).unlisten(now, listener).unwrap();
        world.settle();
    }
    let now = world.now;
    assert_eq!(world.cm(1).unlisten(now, listeners[1]), Err(CmError::UnknownId));
    assert_eq!(world.cm(1).listeners(), 1);
}

#[test]
fn services_need_no_addresses() {
    let mut world = World::new(2);
    let service = ServiceId(0x1000_0000_0000_0001);
    world.cm(1).listen(Listen { service, ..anywhere() }, 0).unwrap();
    let data = [7; 92];
    let params = ReqParams { service, addresses: None, private_data: &data, ..world.request(0, 1, 0x11) };
    world.cm(0).connect(nic::Instant::ZERO, &params).unwrap();
    world.settle();
    let request = world.requested(1);
    assert_eq!((request.addresses, request.private_data), (None, data.to_vec()));
}

#[test]
fn other_kinds_of_connections_name_their_queue_pairs() {
    for transport in [TransportService::Uc, TransportService::Xrc] {
        let mut world = World::new(2);
        world.trace = Some(Vec::new());
        world.cm(1).listen(anywhere(), 0).unwrap();
        let params = ReqParams { transport, ..world.request(0, 1, 0x11) };
        let now = world.now;
        let client = world.cm(0).connect(now, &params).unwrap();
        world.settle();
        let request = world.requested(1);
        assert_eq!(request.transport, transport);
        let now = world.now;
        world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
        world.settle();
        let CmEvent::Reply(reply) = world.event(0) else { panic!() };
        assert_eq!((reply.id, reply.remote.qpn), (client, Qpn::new(0x22)));
        let Some((_, mad)) = world.trace.as_ref().unwrap().last() else { panic!() };
        let CmMessage::Rep(rep) = mad.message else { panic!("{mad:?}") };
        let none = Qpn::new(0);
        let expected =
            if transport == TransportService::Xrc { (none, Qpn::new(0x22)) } else { (Qpn::new(0x22), none) };
        assert_eq!((rep.qpn, rep.ee_context), expected);
    }
}

#[test]
fn options_of_vendors_are_passed_on() {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    let ece = Ece { vendor_id: 0x12_3456, options: 0x789A_BCDE };
    let mut params = world.request(0, 1, 0x11);
    params.local.ece = ece;
    let now = world.now;
    world.cm(0).connect(now, &params).unwrap();
    world.settle();
    let request = world.requested(1);
    assert_eq!(request.remote.ece, ece);
    let answer = Ece { vendor_id: 0xAB_CDEF, options: 7 };
    let now = world.now;
    let params = RepParams { local: Endpoint { ece: answer, ..endpoint(0x22) }, private_data: &[] };
    world.cm(1).accept(now, request.id, &params).unwrap();
    world.settle();
    let CmEvent::Reply(reply) = world.event(0) else { panic!() };
    assert_eq!(reply.remote.ece, answer);
}

#[test]
fn datagrams_of_a_path_keep_to_it() {
    let path =
        Path { source: Gid([1; 16]), traffic_class: 0x68, flow_label: 9, hop_limit: 0, ..Path::default() };
    let route = path.route();
    assert_eq!(
        (route.source, route.traffic_class, route.flow_label, route.hop_limit),
        (path.source, 0x68, 9, 64)
    );
    assert!(route.source_port >= 0xC000);
    let other = Path { destination: Gid([2; 16]), ..path };
    assert_ne!(other.route().source_port, route.source_port);
}

#[test]
fn equal_seeds_give_equal_traces() {
    let run = |seed| {
        let mut world = World::with_config(2, CmConfig { seed, ..CmConfig::default() });
        world.faults = Faults { loss: 200, duplicate: 200, reorder: 200 };
        world.trace = Some(Vec::new());
        world.cm(1).listen(anywhere(), 0).unwrap();
        (0..20).for_each(|qpn| {
            world.connect(0, 1, 0x100 + qpn);
        });
        world.run_for(Duration::from_millis(20_000));
        world.trace.unwrap()
    };
    assert!(run(1) == run(1));
    assert!(run(1) != run(2));
}
