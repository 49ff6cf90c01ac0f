//! Floods, nonsense, and whatever else arrives.

use nic::cm::*;
use nic::{Arrival, Duration, Instant};
use proptest::prelude::*;
use wire::cm::{CmMad, CmMessage, Dreq, Mra, Rej, RejReason, RejectedMessage, Rep, Req, Rtu, SidrReq};
use wire::{Gid, Qpn};

use crate::world::*;

fn mad(message: CmMessage) -> CmMad {
    CmMad { transaction_id: 9, attribute_modifier: 0, message }
}

/// The request that program 0 would send to program 1.
fn request(world: &mut World) -> (Req, CmMad) {
    let id = world.connect(0, 1, 0x11);
    let transmit = world.cm(0).poll_transmit().unwrap();
    world.cm(0).destroy(Instant::ZERO, id).unwrap();
    assert!(world.cm(0).poll_transmit().is_some());
    let mad = CmMad::parse(&transmit.mad).unwrap();
    let CmMessage::Req(req) = mad.message else { panic!() };
    (req, mad)
}

/// An attacker may take any address, number and queue pair it likes.
#[test]
fn a_flood_of_requests_is_bounded_and_ends() {
    let mut world = World::new(3);
    world.cm(1).listen(anywhere(), 0).unwrap();
    let (req, template) = request(&mut world);
    for number in 0..200_000u32 {
        let req = Req { local_id: number, qpn: Qpn::new(number), ..req };
        let arrival = Arrival {
            source: Gid::from(std::net::Ipv4Addr::from_bits(0x0A00_0000 + number % 5000)),
            destination: world.programs[1].gid,
            traffic_class: 0,
            hop_limit: 64,
        };
        let flood = CmMad { message: CmMessage::Req(req), ..template };
        world.cm(1).handle_mad(Instant::ZERO, &arrival, 3, &flood.emit());
    }
    assert_eq!(world.cm(1).connections(), 1024);
    assert_eq!(world.cm(1).counters().backlog_full, 200_000 - 1024);

    // The program refuses all; then somebody honest comes.
    let mut requests = 0;
    world.drive(Duration::from_millis(10), |cm, now, _, event| {
        requests += 1;
        cm.destroy(now, event.id()).unwrap();
    });
    assert_eq!(requests, 1024);
    world.connect(2, 1, 0x11);
    world.settle();
    assert_eq!(world.requested(1).remote, endpoint(0x11));
}

/// Each request of the flood makes the one before it forgotten: that must not make room.
#[test]
fn a_flood_from_one_queue_pair_is_bounded_too() {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    let (req, template) = request(&mut world);
    for number in 1..20_000 {
        let flood = CmMad { message: CmMessage::Req(Req { local_id: number, ..req }), ..template };
        world.inject(0, 1, flood.emit().to_vec());
    }
    world.settle();
    assert_eq!(world.cm(1).connections(), 1024);
    assert!(world.programs[1].events.len() <= 2048);
    for event in std::mem::take(&mut world.programs[1].events) {
        let now = world.now;
        let _ = world.cm(1).destroy(now, event.id());
    }
    world.run_for(Duration::from_millis(3_000));
    assert_eq!(world.cm(1).connections(), 0);
}

#[test]
fn answers_to_strangers_are_bounded() {
    let mut world = World::new(2);
    let arrival = Arrival {
        source: world.programs[0].gid,
        destination: world.programs[1].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let strangers = [
        CmMessage::Dreq(Dreq { local_id: 1, remote_id: 2, ..Dreq::default() }),
        CmMessage::Rep(Rep { local_id: 1, remote_id: 2, ..Rep::default() }),
        CmMessage::Req(Req::default()),
        CmMessage::SidrReq(SidrReq::default()),
    ];
    for round in 0..5_000 {
        let bytes = mad(strangers[round % 4]).emit();
        world.cm(1).handle_mad(Instant::ZERO, &arrival, 3, &bytes);
    }
    let mut answers = 0;
    while world.cm(1).poll_transmit().is_some() {
        answers += 1;
    }
    assert_eq!(answers, 1024);
    let counters = world.cm(1).counters();
    assert_eq!((counters.sent, counters.no_room), (1024, 5_000 - 1024));
}

#[test]
fn strangers_that_expect_no_answer_get_none() {
    let mut world = World::new(2);
    let (client, server) = connected(&mut world);
    let (client, server) = (client.0, server.0);
    let before = world.cm(1).counters();
    let messages = [
        CmMessage::Rtu(Rtu { local_id: client, remote_id: server ^ 0x100, ..Rtu::default() }),
        CmMessage::Rtu(Rtu { local_id: client ^ 0x100, remote_id: server, ..Rtu::default() }),
        CmMessage::Mra(Mra { local_id: client, remote_id: server, ..Mra::default() }),
        CmMessage::Rej(Rej { local_id: client ^ 0x100, remote_id: server, ..Rej::default() }),
        CmMessage::Rej(Rej { local_id: client, remote_id: 0, reason: RejReason::CONSUMER, ..Rej::default() }),
        CmMessage::Dreq(Dreq { local_id: client, remote_id: server, ..Dreq::default() }),
        CmMessage::Unknown { attribute_id: 0x19, data: [0; 232] },
    ];
    for message in messages {
        world.inject(0, 1, mad(message).emit().to_vec());
    }
    world.inject(0, 1, vec![0; 256]);
    world.inject(0, 1, vec![]);
    world.settle();
    let after = world.cm(1).counters();
    assert_eq!(after.sent, before.sent);
    assert_eq!((after.unmatched - before.unmatched, after.malformed - before.malformed), (5, 4));
    assert!(world.programs[1].events.is_empty());
    assert_eq!(world.cm(1).state(CmId(server)), Some(State::Established));
}

/// Who knows all the numbers still has to be the peer.
#[test]
fn only_the_peer_can_end_a_connection() {
    let mut world = World::new(3);
    let (client, server) = connected(&mut world);
    let dreq =
        Dreq { local_id: client.0, remote_id: server.0, remote_qpn: Qpn::new(0x22), ..Dreq::default() };
    let rej =
        Rej { local_id: client.0, remote_id: server.0, message: RejectedMessage::Other, ..Rej::default() };
    world.inject(2, 1, mad(CmMessage::Dreq(dreq)).emit().to_vec());
    world.inject(2, 1, mad(CmMessage::Rej(rej)).emit().to_vec());
    world.settle();
    assert_eq!(world.cm(1).state(server), Some(State::Established));
    world.inject(0, 1, mad(CmMessage::Dreq(dreq)).emit().to_vec());
    world.settle();
    assert_eq!(world.event(1), CmEvent::Disconnected { id: server });
}

#[test]
fn datagrams_to_or_from_groups_are_dropped() {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    let (_, req) = request(&mut world);
    let (us, them) = (world.programs[1].gid, world.programs[0].gid);
    let group = Gid::from(std::net::Ipv4Addr::new(224, 0, 0, 1));
    for (source, destination) in [(them, group), (group, us), (Gid::UNSPECIFIED, us)] {
        let arrival = Arrival { source, destination, traffic_class: 0, hop_limit: 1 };
        world.cm(1).handle_mad(Instant::ZERO, &arrival, 3, &req.emit());
    }
    assert_eq!((world.cm(1).counters().malformed, world.cm(1).connections()), (3, 0));
}

/// What a program or a stranger may do next.
#[derive(Clone, Debug)]
enum Step {
    Connect { from: usize, to: usize, qpn: u32 },
    Verb { program: usize, pick: usize, verb: u8 },
    Forge { from: usize, to: usize, attribute: u16, ids: (usize, usize), noise: u8 },
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..3usize, 0..3usize, 1..20u32).prop_map(|(from, to, qpn)| Step::Connect { from, to, qpn }),
        (0..3usize, 0..64usize, 0..8u8).prop_map(|(program, pick, verb)| Step::Verb { program, pick, verb }),
        (0..3usize, 0..3usize, 0x10..0x1Bu16, (0..64usize, 0..64usize), any::<u8>())
            .prop_map(|(from, to, attribute, ids, noise)| Step::Forge { from, to, attribute, ids, noise }),
        prop_oneof![Just(0), Just(1), Just(300), Just(5_000)].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever is done, nothing panics, names stay with their owners, and in the end nothing is left.
    #[test]
    fn anything_may_happen(steps in steps(), loss in 0u64..300) {
        let mut world = World::new(3);
        world.faults = Faults { loss, duplicate: 100, reorder: 100 };
        let mut names: [Vec<CmId>; 3] = Default::default();
        for program in 0..3 {
            world.cm(program).listen(anywhere(), 2).unwrap();
        }
        for step in steps {
            take(&mut world, &mut names, step);
            for (program, names) in names.iter_mut().enumerate() {
                for event in world.programs[program].events.drain(..) {
                    match event {
                        CmEvent::Request(request) => names.push(request.id),
                        other => prop_assert!(names.contains(&other.id()), "{:?}", other),
                    }
                }
            }
        }
        world.faults = Faults::default();
        world.settle();
        for (program, names) in names.iter_mut().enumerate() {
            names.extend(world.programs[program].events.drain(..).filter(|event| matches!(event, CmEvent::Request(_))).map(|event| event.id()));
            let now = world.now;
            names.drain(..).for_each(|id| world.programs[program].cm.destroy(now, id).unwrap());
        }
        world.run_for(Duration::from_millis(300_000));
        for program in 0..3 {
            let late: Vec<_> = world.programs[program].events.drain(..).map(|event| event.id()).collect();
            let now = world.now;
            late.into_iter().for_each(|id| { let _ = world.cm(program).destroy(now, id); });
        }
        world.run_for(Duration::from_millis(300_000));
        world.assert_nothing_left();
    }
}

fn take(world: &mut World, names: &mut [Vec<CmId>; 3], step: Step) {
    match step {
        Step::Connect { from, to, qpn } => names[from].push(world.connect(from, to, qpn)),
        Step::Verb { program, pick, verb } => {
            if names[program].is_empty() {
                return;
            }
            let index = pick % names[program].len();
            let id = names[program][index];
            let now = world.now;
            let cm = world.cm(program);
            // Most are refused in the state they meet.
            let _ = match verb {
                0 => cm.accept(now, id, &consent(0x20 + pick as u32)),
                1 => cm.establish(now, id, &[]),
                2 => cm.disconnect(now, id, &[]),
                3 => cm.reject(now, id, RejReason::CONSUMER, &[], &[]),
                4 => cm.qp_change(id, nic::verbs::QpState::Rtr).map(|_| ()),
                5 => {
                    cm.notify_established(now, id);
                    Ok(())
                }
                _ => {
                    names[program].swap_remove(index);
                    cm.destroy(now, id)
                }
            };
        }
        Step::Forge { from, to, attribute, ids, noise } => {
            let name = |program: usize, pick: usize| {
                let names = &names[program];
                names.get(pick % names.len().max(1)).map_or(0, |id| id.0)
            };
            let mut data = [noise; 232];
            data[0..4].copy_from_slice(&name(from, ids.0).to_be_bytes());
            data[4..8].copy_from_slice(&name(to, ids.1).to_be_bytes());
            let message = CmMessage::Unknown { attribute_id: attribute, data };
            world.inject(from, to, mad(message).emit().to_vec());
        }
        Step::Wait(milliseconds) => world.run_for(Duration::from_millis(milliseconds)),
    }
}
