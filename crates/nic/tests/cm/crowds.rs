//! Many connections, one after the other and at once.

use nic::cm::*;
use nic::{Duration, Instant};

use crate::world::*;

/// What became of all connections.
#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    established: usize,
    ended: usize,
    failed: usize,
}

/// The server is the last program; every other connects and disconnects `rounds` times.
fn crowd(world: &mut World, rounds: usize, patience: Duration) -> Tally {
    let server = world.programs.len() - 1;
    world.cm(server).listen(anywhere(), 0).unwrap();
    let requests: Vec<_> = (0..server).map(|client| world.request(client, server, 0)).collect();
    let mut begun = vec![1; server];
    let mut tally = Tally::default();
    let connect = |cm: &mut Cm, now: Instant, client: usize, round: usize| {
        let local = endpoint(0x1000 * (client as u32 + 1) + round as u32 % 0x800);
        cm.connect(now, &ReqParams { local, ..requests[client] }).unwrap();
    };
    for client in 0..server {
        let now = world.now;
        connect(&mut world.programs[client].cm, now, client, 0);
    }
    let mut qpn = 0;
    world.drive(patience, |cm, now, program, event| {
        let id = event.id();
        match event {
            CmEvent::Request(_) => {
                qpn += 1;
                cm.accept(now, id, &consent(qpn)).unwrap();
            }
            CmEvent::Reply(_) => {
                cm.establish(now, id, &[]).unwrap();
                cm.disconnect(now, id, &[]).unwrap();
            }
            CmEvent::Established { .. } => tally.established += 1,
            CmEvent::Disconnected { .. } => {
                cm.destroy(now, id).unwrap();
                tally.ended += 1;
                if program != server && begun[program] < rounds {
                    begun[program] += 1;
                    connect(cm, now, program, begun[program]);
                }
            }
            other => {
                println!("{program}: {other:?}");
                tally.failed += 1;
            }
        }
    });
    tally
}

#[test]
fn ten_thousand_connects_and_disconnects_leave_nothing() {
    let mut world = World::new(2);
    let tally = crowd(&mut world, 10_000, Duration::from_millis(10_000));
    assert_eq!(tally, Tally { established: 10_000, ended: 20_000, failed: 0 });
    world.assert_nothing_left();
    assert_eq!(world.cm(1).counters().superseded, 0);
}

#[test]
fn lingering_connections_make_room() {
    let config = CmConfig { max_ids: 16, ..CmConfig::default() };
    let mut world = World::with_config(2, config);
    let tally = crowd(&mut world, 500, Duration::from_millis(10_000));
    assert_eq!(tally, Tally { established: 500, ended: 1_000, failed: 0 });
    world.assert_nothing_left();
}

#[test]
fn a_hundred_clients_on_one_listener() {
    let mut world = World::new(101);
    let tally = crowd(&mut world, 10, Duration::from_millis(10_000));
    assert_eq!(tally, Tally { established: 1_000, ended: 2_000, failed: 0 });
    world.assert_nothing_left();
}

#[test]
fn a_hundred_clients_on_a_bad_network() {
    for seed in 0..3 {
        let mut world = World::with_config(101, CmConfig { seed: 1000 * seed, ..CmConfig::default() });
        world.faults = Faults { loss: 50, duplicate: 50, reorder: 50 };
        let tally = crowd(&mut world, 10, Duration::from_millis(200_000));
        assert_eq!(tally, Tally { established: 1_000, ended: 2_000, failed: 0 });
        world.assert_nothing_left();
        assert!(world.cm(100).counters().duplicates > 100);
    }
}

#[test]
fn a_small_backlog_serves_all_in_the_end() {
    let mut world = World::new(101);
    world.cm(100).listen(anywhere(), 3).unwrap();
    let clients: Vec<_> = (0..100).map(|client| world.connect(client, 100, client as u32 + 1)).collect();
    // The server looks at what came only now and then.
    let mut served = 0;
    for _ in 0..1_000 {
        world.run_for(Duration::from_millis(50));
        let events = std::mem::take(&mut world.programs[100].events);
        let requests: Vec<_> = events.iter().filter(|event| matches!(event, CmEvent::Request(_))).collect();
        assert!(requests.len() <= 3);
        for request in requests {
            served += 1;
            let now = world.now;
            world.cm(100).accept(now, request.id(), &consent(0x100 + served)).unwrap();
        }
        for (client, &id) in clients.iter().enumerate() {
            let now = world.now;
            if world.cm(client).state(id) == Some(State::RepRcvd) {
                world.cm(client).establish(now, id, &[]).unwrap();
            }
        }
    }
    assert_eq!(served, 100);
    assert!(world.cm(100).counters().backlog_full > 100);
    for (client, id) in clients.into_iter().enumerate() {
        assert_eq!(world.cm(client).state(id), Some(State::Established));
    }
}
