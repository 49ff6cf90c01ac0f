//! What is lost is sent again, and what comes twice does nothing twice.

use nic::Duration;
use nic::cm::*;
use wire::cm::{CmMessage, RejReason};

use crate::world::*;

/// What both programs have heard, without requests' names.
type Heard = [Vec<&'static str>; 2];

fn name(event: &CmEvent) -> &'static str {
    match event {
        CmEvent::Request(_) => "request",
        CmEvent::Reply(_) => "reply",
        CmEvent::Established { .. } => "established",
        CmEvent::Rejected { .. } => "rejected",
        CmEvent::Unreachable { .. } => "unreachable",
        CmEvent::Disconnected { .. } => "disconnected",
        CmEvent::TimewaitExit { .. } => "timewait exit",
        CmEvent::SidrRequest(_) => "sidr request",
        CmEvent::SidrReply(_) => "sidr reply",
    }
}

/// A client (program 0) that connects, and disconnects after a while; a server that agrees.
fn life(world: &mut World) -> Heard {
    let mut heard = Heard::default();
    world.cm(1).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 1, 0x11);
    let mut hear = |cm: &mut Cm, now, program: usize, event: CmEvent| {
        heard[program].push(name(&event));
        let id = event.id();
        match event {
            CmEvent::Request(_) => cm.accept(now, id, &consent(0x22)).unwrap(),
            CmEvent::Reply(_) => cm.establish(now, id, &[]).unwrap(),
            CmEvent::TimewaitExit { .. } => cm.destroy(now, id).unwrap(),
            _ => {}
        }
    };
    world.drive(Duration::from_millis(20_000), &mut hear);
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.drive(Duration::from_millis(40_000), &mut hear);
    world.assert_nothing_left();
    heard
}

fn undisturbed() -> Heard {
    [
        vec!["reply", "disconnected", "timewait exit"],
        vec!["request", "established", "disconnected", "timewait exit"],
    ]
}

const MESSAGES: [fn(&CmMessage) -> bool; 5] = [
    |message| matches!(message, CmMessage::Req(_)),
    |message| matches!(message, CmMessage::Rep(_)),
    |message| matches!(message, CmMessage::Rtu(_)),
    |message| matches!(message, CmMessage::Dreq(_)),
    |message| matches!(message, CmMessage::Drep(_)),
];

#[test]
fn any_message_may_be_lost_a_few_times() {
    for message in MESSAGES {
        for times in [1, 4] {
            let mut world = World::new(2);
            world.lose = lose_first(times, message);
            assert_eq!(life(&mut world), undisturbed());
            let retransmitted: u64 =
                world.programs.iter().map(|program| program.cm.counters().retransmitted).sum();
            // If a REP is lost, both sides try again.
            assert!((times..=2 * times).contains(&(retransmitted as usize)), "{retransmitted}");
        }
    }
}

#[test]
fn every_message_may_come_twice() {
    let mut world = World::new(2);
    world.faults.duplicate = 1000;
    assert_eq!(life(&mut world), undisturbed());
    let counters = world.programs.iter().map(|program| program.cm.counters());
    assert!(counters.map(|counters| counters.duplicates).sum::<u64>() >= 4);
}

#[test]
fn a_program_that_takes_its_time_is_waited_for() {
    let mut world = World::new(2);
    world.trace = Some(Vec::new());
    world.cm(1).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 1, 0x11);
    // Two minutes are more than all retries take.
    world.run_for(Duration::from_millis(60_000));
    assert_eq!(world.cm(0).state(client), Some(State::MraReqRcvd));
    let request = world.requested(1);
    assert!(world.programs[0].events.is_empty() && world.programs[1].events.is_empty());

    let now = world.now;
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.run_for(Duration::from_millis(30_000));
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    assert_eq!(world.cm(1).state(request.id), Some(State::MraRepRcvd));
    let now = world.now;
    world.cm(0).establish(now, client, &[]).unwrap();
    world.settle();
    assert!(matches!(world.event(1), CmEvent::Established { .. }));

    let trace = world.trace.unwrap();
    let count = |pick: fn(&CmMessage) -> bool| trace.iter().filter(|(_, mad)| pick(&mad.message)).count();
    assert_eq!(count(|message| matches!(message, CmMessage::Req(_))), 2);
    assert_eq!(count(|message| matches!(message, CmMessage::Rep(_))), 2);
    assert_eq!(count(|message| matches!(message, CmMessage::Mra(_))), 2);
}

#[test]
fn a_lost_rejection_is_repeated_and_not_asked_for_twice() {
    let mut world = World::new(2);
    world.lose = lose_first(2, |message| matches!(message, CmMessage::Rej(_)));
    world.cm(1).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 1, 0x11);
    world.settle();
    let request = world.requested(1);
    let now = world.now;
    world.cm(1).reject(now, request.id, RejReason::CONSUMER, b"why", b"no").unwrap();
    world.cm(1).destroy(now, request.id).unwrap();
    world.run_for(Duration::from_millis(1_000));
    let CmEvent::Rejected { id, reason, info, private_data, .. } = world.event(0) else { panic!() };
    assert_eq!(
        (id, reason, &info[..], text(&private_data)),
        (client, RejReason::CONSUMER, &b"why"[..], &b"no"[..])
    );
    assert!(world.programs[1].events.is_empty());
    let now = world.now;
    world.cm(0).destroy(now, client).unwrap();
    world.run_for(Duration::from_millis(3_000));
    world.assert_nothing_left();
}

#[test]
fn a_packet_may_tell_before_the_rtu_does() {
    for by_queue_pair in [false, true] {
        let mut world = World::new(2);
        world.lose = lose_first(1, |message| matches!(message, CmMessage::Rtu(_)));
        world.cm(1).listen(anywhere(), 0).unwrap();
        let client = world.connect(0, 1, 0x11);
        world.settle();
        let server = world.requested(1).id;
        let now = world.now;
        world.cm(1).accept(now, server, &consent(0x22)).unwrap();
        world.settle();
        let now = world.now;
        world.cm(0).establish(now, client, &[]).unwrap();
        world.settle();
        assert_eq!(world.cm(1).state(server), Some(State::RepSent));
        let now = world.now;
        for _ in 0..2 {
            if by_queue_pair {
                world.cm(1).notify_traffic(now, endpoint(0x22).qpn);
                world.cm(1).notify_traffic(now, endpoint(0x23).qpn);
            } else {
                world.cm(1).notify_established(now, server);
            }
        }
        world.run_for(Duration::from_millis(10_000));
        assert_eq!(world.event(1), CmEvent::Established { id: server, private_data: Vec::new() });
        assert!(world.programs[1].events.is_empty());
        assert_eq!(world.cm(1).counters().retransmitted, 0);
    }
}

#[test]
fn a_late_rtu_of_a_dead_connection_changes_nothing() {
    let mut world = World::new(2);
    world.trace = Some(Vec::new());
    let (client, server) = connected(&mut world);
    let trace = world.trace.take().unwrap();
    let rtu = trace.iter().find(|(_, mad)| matches!(mad.message, CmMessage::Rtu(_))).unwrap().1.emit();
    let req = trace[0].1.emit();
    let rep = trace.iter().find(|(_, mad)| matches!(mad.message, CmMessage::Rep(_))).unwrap().1.emit();
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.settle();
    world.programs.iter_mut().for_each(|program| program.events.clear());
    world.inject(0, 1, rtu.to_vec());
    world.inject(0, 1, req.to_vec());
    world.inject(1, 0, rep.to_vec());
    world.settle();
    assert!(world.programs.iter().all(|program| program.events.is_empty()));
    assert_eq!(world.cm(1).state(server), Some(State::Timewait));
    assert_eq!(world.cm(0).state(client), Some(State::Timewait));
}
