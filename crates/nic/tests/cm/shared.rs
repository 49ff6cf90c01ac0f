//! Many programs at one address.

use nic::Duration;
use nic::cm::*;
use wire::cm::{PortSpace, RejReason, ServiceId};

use crate::world::*;

const SECOND: Duration = Duration::from_millis(1_000);

/// Program 0 has an address of its own; the others, as many as are asked for, share one.
fn world(sharers: u32) -> World {
    let mut world = World::new(1);
    let mut switchboard = Switchboard::new(8, 1);
    for sharer in 0..sharers {
        let suffix = 0x40 + sharer;
        let config =
            CmConfig { id_suffix: suffix, id_suffix_bits: 8, seed: suffix.into(), ..CmConfig::default() };
        switchboard.join(suffix);
        world.programs.push(Program::new(1, config));
    }
    let gid = world.programs[1].gid;
    world.switchboards.push((gid, switchboard));
    world
}

fn switchboard(world: &mut World) -> &mut Switchboard {
    &mut world.switchboards[0].1
}

fn service(program: usize) -> ServiceId {
    ServiceId::of_port(PortSpace::TCP, 7000 + program as u16)
}

fn listen(world: &mut World, program: usize) -> Listen {
    let listen = Listen { service: service(program), ..anywhere() };
    let suffix = world.programs[program].suffix;
    switchboard(world).listen(suffix, listen).unwrap();
    world.cm(program).listen(listen, 0).unwrap();
    listen
}

/// Connects two programs; returns both names.
fn connect(world: &mut World, client: usize, server: usize) -> (CmId, CmId) {
    let qpn = 0x100 * client as u32 + server as u32;
    let params = ReqParams { service: service(server), ..world.request(client, server, qpn) };
    let now = world.now;
    let active = world.cm(client).connect(now, &params).unwrap();
    world.settle();
    let passive = world.requested(server).id;
    let now = world.now;
    world.cm(server).accept(now, passive, &consent(0x1000 + qpn)).unwrap();
    world.settle();
    assert!(matches!(world.event(client), CmEvent::Reply(_)));
    let now = world.now;
    world.cm(client).establish(now, active, &[]).unwrap();
    world.settle();
    assert!(matches!(world.event(server), CmEvent::Established { .. }));
    (active, passive)
}

/// Ends a program as a signal does.
fn kill(world: &mut World, program: usize) {
    world.programs[program].is_dead = true;
    let (now, suffix) = (world.now, world.programs[program].suffix);
    switchboard(world).leave(now, suffix);
}

#[test]
fn everybody_connects_to_everybody() {
    let mut world = world(3);
    (1..4).for_each(|server| {
        listen(&mut world, server);
    });
    for client in 0..4 {
        for server in 1..4 {
            let (active, passive) = connect(&mut world, client, server);
            let now = world.now;
            world.cm(client).disconnect(now, active, &[]).unwrap();
            world.settle();
            // A program that is its own peer may hear of either end first.
            for (program, id) in [(client, active), (server, passive)] {
                let heard = &mut world.programs[program].events;
                let index = heard.iter().position(|event| *event == CmEvent::Disconnected { id }).unwrap();
                heard.remove(index);
                world.cm(program).destroy(now, id).unwrap();
            }
        }
    }
    world.run_for(SECOND + SECOND + SECOND);
    world.assert_nothing_left();
    assert!(world.programs.iter().all(|program| program.cm.counters().unmatched == 0));
}

#[test]
fn nobody_listening_is_told_without_any_program() {
    let mut world = world(1);
    let listened = listen(&mut world, 1);
    let suffix = world.programs[1].suffix;
    assert_eq!(switchboard(&mut world).listen(7, listened), Err(BindError::InUse));
    switchboard(&mut world).unlisten(7, listened);
    switchboard(&mut world).unlisten(suffix, listened);
    world.connect(0, 1, 0x11);
    let params = SidrParams {
        path: world.path(0, 1),
        service: ServiceId::of_port(PortSpace::UDP, 1),
        addresses: Some(world.addresses(0, 1)),
        patience: Patience::default(),
        private_data: &[],
    };
    let now = world.now;
    world.cm(0).resolve(now, &params).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }));
    assert!(matches!(world.event(0), CmEvent::SidrReply(reply) if reply.status.0 == 1));
    assert_eq!(world.cm(1).counters().received, 0);
}

/// Servers of one client close their listener as soon as they have it, before the RTU is there.
#[test]
fn repetitions_find_who_stopped_listening() {
    let mut world = world(1);
    let listened = listen(&mut world, 1);
    world.lose = lose_first(1, |message| matches!(message, wire::cm::CmMessage::Rep(_)));
    let params = ReqParams { service: listened.service, ..world.request(0, 1, 0x11) };
    let now = world.now;
    let client = world.cm(0).connect(now, &params).unwrap();
    world.settle();
    let request = world.requested(1);
    let suffix = world.programs[1].suffix;
    switchboard(&mut world).unlisten(suffix, listened);
    let now = world.now;
    world.cm(1).unlisten(now, request.listener).unwrap();
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.run_for(SECOND);
    assert_eq!(world.event(0).id(), client);
    assert_eq!(world.cm(0).state(client), Some(State::RepRcvd));
}

#[test]
fn peers_of_a_killed_program_hear_of_it() {
    for is_lossy in [false, true] {
        let mut world = world(3);
        (1..4).for_each(|server| {
            listen(&mut world, server);
        });
        // A client elsewhere, a client beside it, and a server that it is a client of.
        let victims = [connect(&mut world, 0, 1).0, connect(&mut world, 2, 1).0, connect(&mut world, 1, 3).1];
        let (survivor, _) = connect(&mut world, 0, 2);
        if is_lossy {
            world.lose = lose_first(3, |message| matches!(message, wire::cm::CmMessage::Dreq(_)));
        }
        kill(&mut world, 1);
        world.run_for(SECOND);
        for (program, id) in [0, 2, 3].into_iter().zip(victims) {
            assert_eq!(world.event(program), CmEvent::Disconnected { id });
            assert!(world.programs[program].events.is_empty());
        }
        assert_eq!(world.cm(0).state(survivor), Some(State::Established));
        assert_eq!(switchboard(&mut world).poll_timeout(), None);

        // What reaches it later is answered for it.
        let params = ReqParams { service: service(1), ..world.request(0, 1, 0x77) };
        let now = world.now;
        world.cm(0).connect(now, &params).unwrap();
        world.settle();
        let rejected = world.programs[0]
            .events
            .iter()
            .any(|event| matches!(event, CmEvent::Rejected { reason: RejReason::INVALID_SERVICE_ID, .. }));
        assert!(rejected);
    }
}

#[test]
fn a_server_killed_before_it_is_ready_leaves_nobody_waiting() {
    let mut world = world(1);
    // A server that is killed before the RTU comes.
    listen(&mut world, 1);
    let params = ReqParams { service: service(1), ..world.request(0, 1, 0x11) };
    let now = world.now;
    let client = world.cm(0).connect(now, &params).unwrap();
    world.settle();
    let id = world.requested(1).id;
    let now = world.now;
    world.cm(1).accept(now, id, &consent(0x22)).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    kill(&mut world, 1);
    let now = world.now;
    world.cm(0).establish(now, client, &[]).unwrap();
    world.settle();
    assert_eq!(world.event(0), CmEvent::Disconnected { id: client });
}

#[test]
fn a_client_killed_before_it_is_answered_leaves_nobody_waiting() {
    let mut world = world(1);
    world.cm(0).listen(anywhere(), 0).unwrap();
    world.connect(1, 0, 0x11);
    world.settle();
    kill(&mut world, 1);
    let id = world.requested(0).id;
    let now = world.now;
    world.cm(0).accept(now, id, &consent(0x22)).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Rejected { reason: RejReason::INVALID_COMM_ID, .. }));
}

#[test]
fn a_client_that_gives_up_reaches_the_program_that_was_asked() {
    let mut world = world(2);
    listen(&mut world, 2);
    let params = ReqParams { service: service(2), ..world.request(0, 2, 0x11) };
    let now = world.now;
    let client = world.cm(0).connect(now, &params).unwrap();
    world.settle();
    let request = world.requested(2);
    let now = world.now;
    world.cm(0).destroy(now, client).unwrap();
    world.settle();
    let CmEvent::Rejected { id, reason, .. } = world.event(2) else { panic!() };
    assert_eq!((id, reason), (request.id, RejReason::TIMEOUT));
}

#[test]
fn ports_are_one_programs() {
    let mut world = world(2);
    let bind = Bind { space: PortSpace::TCP, address: ListenAddress::AnyV4, port: 7, reuse: false };
    let board = switchboard(&mut world);
    assert_eq!(board.bind(0x40, bind), Ok(7));
    assert_eq!(board.bind(0x41, bind), Err(BindError::InUse));
    let port = board.bind(0x41, Bind { port: 0, ..bind }).unwrap();
    assert!(port >= 32_768);
    board.release(0x41, Bind { port, ..bind });
    assert_eq!(board.bind(0x40, Bind { port, ..bind }), Ok(port));
    kill(&mut world, 1);
    assert_eq!(switchboard(&mut world).bind(0x41, bind), Ok(7));
}
