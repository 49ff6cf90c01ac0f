//! Datagram services.

use nic::Duration;
use nic::cm::*;
use wire::Qpn;
use wire::cm::{CmMessage, PortSpace, ServiceId, SidrStatus};

use crate::world::*;

const UDP: ServiceId = ServiceId::of_port(PortSpace::UDP, PORT);
const QKEY: u32 = 0x0123_4567;

fn resolve(world: &mut World) -> CmId {
    let params = SidrParams {
        path: world.path(0, 1),
        service: UDP,
        addresses: Some(world.addresses(0, 1)),
        patience: Patience::default(),
        private_data: b"who serves?",
    };
    let now = world.now;
    world.cm(0).resolve(now, &params).unwrap()
}

fn served() -> Listen {
    Listen { service: UDP, datagram: true, address: ListenAddress::AnyV4 }
}

#[test]
fn a_service_names_its_queue_pair() {
    for lost in 0..2 {
        for pick in [
            |message: &CmMessage| matches!(message, CmMessage::SidrReq(_)),
            |message: &CmMessage| matches!(message, CmMessage::SidrRep(_)),
        ] {
            let mut world = World::new(2);
            world.lose = lose_first(lost, pick);
            world.faults.duplicate = 500;
            let listener = world.cm(1).listen(served(), 0).unwrap();
            let client = resolve(&mut world);
            world.run_for(Duration::from_millis(1_000));
            let CmEvent::SidrRequest(request) = world.event(1) else { panic!() };
            assert!(world.programs[1].events.is_empty());
            assert_eq!((request.listener, request.service), (listener, UDP));
            assert_eq!(request.addresses, Some(world.addresses(0, 1)));
            assert_eq!((text(&request.private_data), request.private_data.len()), (&b"who serves?"[..], 180));
            assert_eq!(request.path.destination, world.programs[0].gid);

            let now = world.now;
            world.cm(1).answer(now, request.id, Ok((Qpn::new(0x15), QKEY)), b"I do").unwrap();
            world.cm(1).destroy(now, request.id).unwrap();
            world.run_for(Duration::from_millis(1_500));
            let CmEvent::SidrReply(reply) = world.event(0) else { panic!() };
            assert_eq!((reply.id, reply.status), (client, SidrStatus::VALID));
            assert_eq!((reply.qpn, reply.qkey), (Qpn::new(0x15), QKEY));
            assert_eq!((text(&reply.private_data), reply.private_data.len()), (&b"I do"[..], 136));
            assert!(world.programs.iter().all(|program| program.events.is_empty()));
            let now = world.now;
            world.cm(0).destroy(now, client).unwrap();
            world.run_for(Duration::from_millis(3_000));
            world.assert_nothing_left();
        }
    }
}

#[test]
fn nobody_serves_or_wants_to() {
    let mut world = World::new(2);
    let status = |world: &mut World| match world.event(0) {
        CmEvent::SidrReply(reply) => reply.status,
        other => panic!("{other:?}"),
    };
    // A listener for connections is none for datagrams.
    world.cm(1).listen(Listen { datagram: false, ..served() }, 0).unwrap();
    resolve(&mut world);
    world.settle();
    assert_eq!(status(&mut world), SidrStatus::UNSUPPORTED);

    world.cm(1).listen(served(), 0).unwrap();
    for answer in [SidrStatus::NO_QP, SidrStatus::REJECTED] {
        resolve(&mut world);
        world.settle();
        let id = world.event(1).id();
        let now = world.now;
        if answer == SidrStatus::REJECTED {
            world.cm(1).destroy(now, id).unwrap();
        } else {
            world.cm(1).answer(now, id, Err(answer), &[]).unwrap();
            world.cm(1).destroy(now, id).unwrap();
        }
        world.settle();
        assert_eq!(status(&mut world), answer);
    }
}

#[test]
fn a_dead_host_is_unreachable() {
    let mut world = World::new(2);
    world.programs[1].is_dead = true;
    let (given_up, destroyed) = (resolve(&mut world), resolve(&mut world));
    let now = world.now;
    world.cm(0).destroy(now, destroyed).unwrap();
    world.run_for(Duration::from_millis(150_000));
    assert_eq!(world.event(0), CmEvent::Unreachable { id: given_up });
    assert!(world.programs[0].events.is_empty());
    let now = world.now;
    world.cm(0).destroy(now, given_up).unwrap();
    assert_eq!(world.cm(0).connections(), 0);
}
