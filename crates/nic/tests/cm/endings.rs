//! Peers that die, forget, or do not want any more.

use nic::Duration;
use nic::cm::*;
use wire::cm::{CmMessage, RejReason};

use crate::world::*;

const SECOND: Duration = Duration::from_millis(1_000);
const MINUTES: Duration = Duration::from_millis(150_000);

#[test]
fn a_dead_peer_is_given_up() {
    let mut world = World::new(2);
    let (client, _) = connected(&mut world);
    world.programs[1].is_dead = true;
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.run_for(MINUTES);
    assert_eq!(world.event(0), CmEvent::Disconnected { id: client });
    assert_eq!(world.event(0), CmEvent::TimewaitExit { id: client });
    let counters = world.cm(0).counters();
    assert_eq!((counters.retransmitted, counters.timeouts), (15, 1));

    let unreachable = world.connect(0, 1, 0x12);
    world.run_for(MINUTES);
    assert_eq!(world.event(0), CmEvent::Unreachable { id: unreachable });
    assert_eq!(world.cm(0).state(unreachable), Some(State::Closed));
    let now = world.now;
    for id in [client, unreachable] {
        world.cm(0).destroy(now, id).unwrap();
    }
    assert_eq!(world.cm(0).connections(), 0);
}

#[test]
fn a_client_that_dies_before_it_is_ready_is_given_up() {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    world.connect(0, 1, 0x11);
    world.settle();
    let id = world.requested(1).id;
    world.programs[0].is_dead = true;
    let now = world.now;
    world.cm(1).accept(now, id, &consent(0x22)).unwrap();
    world.run_for(MINUTES);
    assert_eq!(world.event(1), CmEvent::Unreachable { id });
    assert!(world.programs[1].events.is_empty(), "nothing was established that could linger");
    let now = world.now;
    world.cm(1).destroy(now, id).unwrap();
    world.run_for(SECOND + SECOND + SECOND);
    assert_eq!(world.cm(1).connections(), 0);
}

#[test]
fn a_peer_that_was_started_anew_confirms_the_end() {
    let mut world = World::new(2);
    let (client, _) = connected(&mut world);
    world.programs[1] = Program::new(1, CmConfig { seed: 77, ..CmConfig::default() });
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.settle();
    assert_eq!(world.event(0), CmEvent::Disconnected { id: client });
    assert_eq!(world.cm(1).counters().unmatched, 1);
}

/// The trap: a client that is gone without a word, and comes back with the same queue pair.
#[test]
fn a_quick_reconnect_is_not_refused_as_stale() {
    let mut world = World::new(2);
    let (_, server) = connected(&mut world);
    world.programs[0] = Program::new(0, CmConfig { seed: 77, ..CmConfig::default() });
    let again = world.connect(0, 1, 0x11);
    world.settle();
    assert_eq!(world.event(1), CmEvent::Disconnected { id: server });
    let request = world.requested(1);
    assert_eq!(world.cm(1).counters().superseded, 1);
    let now = world.now;
    world.cm(1).accept(now, request.id, &consent(0x23)).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    let now = world.now;
    world.cm(0).establish(now, again, &[]).unwrap();
    world.settle();
    assert!(matches!(world.event(1), CmEvent::Established { .. }));
}

#[test]
fn a_reconnect_while_the_old_connection_lingers_is_welcome() {
    let mut world = World::new(2);
    let (client, server) = connected(&mut world);
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.settle();
    assert_eq!(world.event(1), CmEvent::Disconnected { id: server });
    assert_eq!(world.cm(1).state(server), Some(State::Timewait));
    world.connect(0, 1, 0x11);
    world.settle();
    assert_eq!(world.requested(1).remote, endpoint(0x11));
    assert_eq!(world.cm(1).counters().superseded, 0);
}

/// A client that starts anew with the same numbers: what it asks is a new request all the same.
#[test]
fn a_request_of_an_old_name_is_a_new_one() {
    let mut world = World::new(2);
    let (_, server) = connected(&mut world);
    let reborn = Program::new(0, CmConfig::default());
    world.programs[0] = reborn;
    let params = ReqParams { local: endpoint(0x99), ..world.request(0, 1, 0x99) };
    let now = world.now;
    world.cm(0).connect(now, &params).unwrap();
    world.settle();
    assert_eq!(world.event(1), CmEvent::Disconnected { id: server });
    assert_eq!(world.requested(1).remote, endpoint(0x99));
}

#[test]
fn a_server_that_forgot_its_queue_pair_is_noticed_by_the_client() {
    let mut world = World::new(2);
    let (client, _) = connected(&mut world);
    world.programs[1] = Program::new(1, CmConfig { seed: 77, ..CmConfig::default() });
    world.cm(1).listen(anywhere(), 0).unwrap();
    let other = world.connect(0, 1, 0x12);
    world.settle();
    let request = world.requested(1);
    let now = world.now;
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.settle();
    assert_eq!(world.event(0), CmEvent::Disconnected { id: client });
    assert_eq!(world.event(0).id(), other);
}

/// Brings a connection between program 0 (client) and 1 to a state of the client or the server.
fn in_state(world: &mut World, state: State) -> (usize, CmId) {
    world.cm(1).listen(anywhere(), 0).unwrap();
    if state == State::ReqSent {
        world.programs[1].is_dead = true;
    }
    let client = world.connect(0, 1, 0x11);
    world.run_for(Duration::from_millis(1));
    match state {
        State::ReqSent => return (0, client),
        State::MraReqRcvd => {
            world.run_for(SECOND);
            return (0, client);
        }
        _ => {}
    }
    let server = world.requested(1).id;
    if state == State::ReqRcvd {
        return (1, server);
    }
    let now = world.now;
    world.cm(1).accept(now, server, &consent(0x22)).unwrap();
    world.settle();
    match state {
        State::RepRcvd => return (0, client),
        State::RepSent => return (1, server),
        State::MraRepRcvd => {
            world.run_for(SECOND);
            return (1, server);
        }
        _ => {}
    }
    let now = world.now;
    world.cm(0).establish(now, client, &[]).unwrap();
    world.settle();
    if state == State::Established {
        return (0, client);
    }
    if state == State::DreqSent {
        world.programs[1].is_dead = true;
    }
    let now = world.now;
    world.cm(0).disconnect(now, client, &[]).unwrap();
    world.settle();
    if state == State::Closed {
        world.run_for(SECOND + SECOND + SECOND);
    }
    (0, client)
}

const ALL: [State; 10] = [
    State::ReqSent,
    State::MraReqRcvd,
    State::ReqRcvd,
    State::RepRcvd,
    State::RepSent,
    State::MraRepRcvd,
    State::Established,
    State::DreqSent,
    State::Timewait,
    State::Closed,
];

#[test]
fn what_is_destroyed_in_any_state_ends_on_both_sides() {
    for state in ALL {
        let mut world = World::new(2);
        let (program, id) = in_state(&mut world, state);
        assert_eq!(world.cm(program).state(id), Some(state));
        world.programs.iter_mut().for_each(|program| program.events.clear());
        world.programs[1].is_dead = false;
        let now = world.now;
        world.cm(program).destroy(now, id).unwrap();
        world.run_for(SECOND);
        assert!(world.programs[program].events.is_empty(), "{state:?}: it has no name any more");

        let peer = 1 - program;
        let heard = std::mem::take(&mut world.programs[peer].events);
        match state {
            State::MraReqRcvd | State::ReqRcvd | State::RepRcvd | State::RepSent | State::MraRepRcvd => {
                let expected =
                    if state == State::MraReqRcvd { RejReason::TIMEOUT } else { RejReason::CONSUMER };
                let [CmEvent::Rejected { reason, .. }] = heard[..] else { panic!("{state:?}: {heard:?}") };
                assert_eq!(reason, expected);
            }
            State::Established | State::DreqSent => {
                assert!(matches!(heard[..], [CmEvent::Disconnected { .. }]), "{state:?}: {heard:?}");
            }
            _ => assert!(heard.is_empty(), "{state:?}: {heard:?}"),
        }
        if let Some(event) = heard.first() {
            let (now, id) = (world.now, event.id());
            world.cm(peer).destroy(now, id).unwrap();
        }
        world.run_for(SECOND + SECOND + SECOND);
        assert_eq!(world.cm(program).connections(), 0, "{state:?}");
        assert_eq!(world.cm(program).poll_timeout(), None, "{state:?}");
    }
}

#[test]
fn verbs_that_make_no_sense_are_refused_in_every_state() {
    for state in ALL {
        let mut world = World::new(2);
        let (program, id) = in_state(&mut world, state);
        let now = world.now;
        let cm = world.cm(program);
        let wrong = Err(CmError::WrongState(state));
        if state != State::ReqRcvd {
            assert_eq!(cm.accept(now, id, &consent(1)), wrong);
        }
        if state != State::RepRcvd {
            assert_eq!(cm.establish(now, id, &[]), wrong);
        }
        if state != State::Established {
            assert_eq!(cm.disconnect(now, id, &[]), wrong);
        }
        if !matches!(state, State::ReqRcvd | State::RepRcvd | State::RepSent | State::MraRepRcvd) {
            assert_eq!(cm.reject(now, id, RejReason::CONSUMER, &[], &[]), wrong);
        }
        assert_eq!(cm.answer(now, id, Err(wire::cm::SidrStatus::NO_QP), &[]), wrong);
        let unknown = CmId(id.0 ^ 0x4000_0000);
        assert_eq!(cm.accept(now, unknown, &consent(1)), Err(CmError::UnknownId));
        assert_eq!(cm.state(id), Some(state));
    }
}

#[test]
fn a_client_may_refuse_an_answer() {
    let mut world = World::new(2);
    let (_, client) = in_state(&mut world, State::RepRcvd);
    world.lose = lose_first(1, |message| matches!(message, CmMessage::Rej(_)));
    let now = world.now;
    world.cm(0).reject(now, client, RejReason::CONSUMER, &[], b"changed my mind").unwrap();
    world.run_for(SECOND);
    let CmEvent::Rejected { reason, private_data, .. } = world.event(1) else { panic!() };
    assert_eq!((reason, text(&private_data)), (RejReason::CONSUMER, &b"changed my mind"[..]));
}

#[test]
fn an_answer_that_comes_too_late_is_refused() {
    let mut world = World::new(2);
    world.cm(1).listen(anywhere(), 0).unwrap();
    world.lose = lose_first(1, |message| matches!(message, CmMessage::Rej(_)));
    let client = world.connect(0, 1, 0x11);
    world.settle();
    let request = world.requested(1);
    let now = world.now;
    world.cm(0).destroy(now, client).unwrap();
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.settle();
    let CmEvent::Rejected { id, reason, .. } = world.event(1) else { panic!() };
    assert_eq!((id, reason), (request.id, RejReason::INVALID_COMM_ID));
}

#[test]
fn a_listener_that_closes_refuses_what_was_not_heard() {
    let mut world = World::new(2);
    let listener = world.cm(1).listen(anywhere(), 0).unwrap();
    let heard = world.connect(0, 1, 0x11);
    world.settle();
    let request = world.requested(1);
    // The second request waits in the queue of events when the listener closes.
    world.connect(0, 1, 0x12);
    let transmit = world.cm(0).poll_transmit().unwrap();
    let arrival = nic::Arrival {
        source: world.programs[0].gid,
        destination: world.programs[1].gid,
        traffic_class: 0,
        hop_limit: 64,
    };
    let now = world.now;
    world.cm(1).handle_mad(now, &arrival, 3, &transmit.mad);
    world.cm(1).unlisten(now, listener).unwrap();
    world.settle();
    assert!(world.programs[1].events.is_empty());
    assert!(matches!(world.event(0), CmEvent::Rejected { reason: RejReason::CONSUMER, .. }));
    let now = world.now;
    world.cm(1).accept(now, request.id, &consent(0x22)).unwrap();
    world.settle();
    assert_eq!(world.event(0).id(), heard);
}
