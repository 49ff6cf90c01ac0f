//! PFC: no loss at the computed headroom, and what it does to others.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use fabric::host::HostKind;
use fabric::network::diagnosis::Cause;
use fabric::network::plan::Plan;
use fabric::network::{Drop, QueueStatistics};
use fabric::switch::{Headroom, HeadroomConfig, Reaction, Threshold, WatchdogAction, WatchdogConfig, Wred};
use fabric::topology::{FatTree, HostId, LinkSpec, NodeId, SwitchId, Topology};
use fabric::{Config, FlowId, FlowSpec, Network, Outcome, PortId, Priorities, Rate, workload};
use nic::{Duration, Instant};
use wire::{Ecn, TrafficClass};

const LIMIT: Instant = Instant::from_nanos(10_000_000_000);

fn star(hosts: u32, spec: LinkSpec) -> Topology {
    let mut topology = Topology::new(hosts, 1);
    for host in 0..hosts {
        topology.add_link(NodeId(host), NodeId(hosts), spec);
    }
    topology
}

/// Hosts that send frames without a protocol.
fn frames() -> Config {
    let mut config = Config::default();
    config.host.kind = HostKind::Raw { payload: 1024 };
    config
}

fn micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// The most headroom used, and packets lost, when host 0 sends to a host that does not take any more, while
/// frames of 9100 bytes go the other way from time `phase` on.
fn worst_case(headroom: u32, phase: u64) -> (u32, u64) {
    let cable = LinkSpec::new(Rate::gbps(100), Duration::from_nanos(1500));
    let mut config = frames();
    config.host.pause.reaction = Reaction::Slowest;
    config.switch.buffer.headroom = HeadroomConfig::Fixed(headroom);
    config.switch.buffer.threshold = Threshold::Static(20_000);
    let mut network = Network::new(star(3, cable), &config).unwrap();
    network.plan(Instant::ZERO, Plan::Storm(HostId(1), Priorities::of(3)));
    let data = FlowSpec::new(HostId(0), HostId(1), 10_000_000);
    network.add_flow(FlowSpec { mtu: Some(1500 - 62), start: micros(10), ..data });
    let reverse = FlowSpec::new(HostId(2), HostId(0), 10_000_000);
    let class = TrafficClass { dscp: 0, ecn: Ecn::NotCapable };
    network.add_flow(FlowSpec { mtu: Some(9100 - 62), class, start: Instant::from_nanos(phase), ..reverse });
    network.run_until(micros(100));
    (network.ingress(PortId(0), 3).peak_headroom, network.ledger().dropped_for(Drop::Headroom))
}

#[test]
fn the_computed_headroom_loses_nothing_and_a_little_less_does() {
    let formula = Headroom::new(Rate::gbps(100), Duration::from_nanos(1500), 1500, 9100).bytes() as u32;
    // The worst moment for XOFF is when a large frame has just begun: try them all.
    let phases = (0..24).map(|step| step * 730 / 24);
    let (mut most, mut lost_with_less) = (0, 0);
    for phase in phases {
        let (used, lost) = worst_case(formula, phase);
        assert_eq!(lost, 0, "phase {phase}");
        most = most.max(used);
        lost_with_less += worst_case(formula * 96 / 100, phase).1;
    }
    assert!(most > formula / 100 * 97, "{most} of {formula}");
    assert!(lost_with_less > 0);
}

#[test]
fn a_pause_stops_a_priority_and_its_victims_but_not_the_others() {
    // Host 0 sends to the hung host 1 and, in the same priority, to host 2; and in another one.
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut network = Network::new(star(3, link), &frames()).unwrap();
    network.plan(Instant::ZERO, Plan::Storm(HostId(1), Priorities::of(3)));
    network.plan(micros(5_000), Plan::StormEnd(HostId(1)));
    let other = TrafficClass { dscp: 0, ecn: Ecn::NotCapable };
    network.add_flow(FlowSpec::new(HostId(0), HostId(1), 20_000_000));
    network.add_flow(FlowSpec::new(HostId(0), HostId(2), 20_000_000));
    network.add_flow(FlowSpec { class: other, ..FlowSpec::new(HostId(0), HostId(2), 20_000_000) });
    network.run_until(micros(5_000));
    let received: Vec<u64> = network.flows().iter().map(|flow| flow.received).collect();
    assert_eq!(received[0], 0);
    assert!(received[1] < 6_000_000, "the victim stands still: {}", received[1]);
    assert_eq!(received[2], 20_000_000);
    assert_eq!(network.cause(PortId(1), 3), Cause::Host(HostId(1)));
    let storm = network.diagnosis().storms()[0];
    assert_eq!((storm.host, storm.priority), (HostId(1), 3));

    assert_eq!(network.run(LIMIT), Outcome::Finished);
    assert_eq!(network.ledger().dropped, 0);
    let host = network.port_map().of_host(HostId(0));
    let paused = network.port_counters(host).paused[3];
    assert!(paused > 3_000_000_000, "{paused} ps of 5 ms");
}

#[test]
fn every_pause_can_be_explained() {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut network = Network::new(star(4, link), &frames()).unwrap();
    let flows = [(1, 0), (2, 0), (3, 1)]
        .map(|(from, to)| network.add_flow(FlowSpec::new(HostId(from), HostId(to), 50_000_000)));
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let pauses = network.diagnosis().pauses();
    assert!(!pauses.is_empty());
    for pause in pauses {
        assert_eq!((pause.switch, pause.priority), (SwitchId(0), 3));
        assert_eq!(pause.trigger.egress, PortId(0), "only the way to host 0 is crowded");
        assert_eq!(pause.trigger.flow, flows[pause.ingress.0 as usize - 1]);
        assert!(u64::from(pause.occupied) >= pause.limit);
    }
    let explained = pauses[0].explanation.as_ref().unwrap();
    assert_eq!(explained.egress.len(), 1);
    let (egress, is_paused, bytes) = explained.egress[0];
    assert_eq!((egress, is_paused), (PortId(0), false));
    assert_eq!(explained.flows, [(FlowId(pauses[0].ingress.0 - 1), bytes)]);
    assert_eq!(bytes, pauses[0].occupied);
}

#[test]
fn pauses_end_by_themselves_if_they_are_not_renewed() {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut config = frames();
    config.host.pause.quanta = 1000;
    let mut network = Network::new(star(2, link), &config).unwrap();
    network.plan(Instant::ZERO, Plan::Storm(HostId(1), Priorities::of(3)));
    network.plan(micros(50), Plan::LinkDown(fabric::topology::LinkId(1)));
    network.plan(micros(51), Plan::LinkUp(fabric::topology::LinkId(1)));
    network.plan(micros(60), Plan::StormEnd(HostId(1)));
    network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10_000));
    assert_eq!(network.run(LIMIT), Outcome::Stuck, "what waited for the link that failed is lost");
    let counters = network.port_counters(PortId(1));
    // 1000 quanta are 5.12 us, renewed at half: about 23 frames in 60 us.
    assert!((20..28).contains(&counters.pauses_received), "{counters:?}");
    assert!(counters.paused[3] > 55_000_000, "{counters:?}");
}

/// Hosts around a ring, each sending to the one two switches on.
fn ring(config: &Config) -> Network {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let shape = fabric::topology::Ring { switches: 5, hosts_per_switch: 1, host_link: link, ring_link: link };
    let mut network = Network::new(shape.build(), config).unwrap();
    for host in 0..5 {
        network.add_flow(FlowSpec::new(HostId(host), HostId((host + 2) % 5), 20_000_000));
    }
    network
}

fn small_buffers() -> Config {
    let mut config = frames();
    config.switch.buffer.total = 1_000_000;
    config
}

#[test]
fn a_ring_deadlocks_and_says_so() {
    let mut network = ring(&small_buffers());
    let Outcome::Deadlock(deadlock) = network.run(LIMIT) else { panic!("no deadlock") };
    assert_eq!((deadlock.circle.len(), deadlock.priority), (5, 3));
    assert!(deadlock.circle.iter().all(|port| deadlock.stuck.contains(port)));
    assert!(deadlock.time < micros(5_000), "{:?}", deadlock.time);
    let received: u64 = network.flows().iter().map(|flow| flow.received).sum();
    network.run_until(micros(20_000));
    assert_eq!(
        network.flows().iter().map(|flow| flow.received).sum::<u64>(),
        received,
        "it never moves again"
    );
    assert_eq!(network.ledger().dropped, 0);
}

#[test]
fn a_watchdog_breaks_a_deadlock_at_the_price_of_packets() {
    let mut config = small_buffers();
    config.diagnosis.stall = Duration::from_micros(200);
    config.switch.watchdog = Some(WatchdogConfig {
        detection: Duration::from_micros(500),
        restoration: Duration::from_micros(500),
        action: WatchdogAction::Drop,
    });
    let mut network = ring(&config);
    assert_eq!(network.run(micros(200_000)), Outcome::Stuck, "all is sent, some of it is lost");
    assert!(network.watchdog_triggers() > 0);
    assert!(network.ledger().dropped_for(Drop::Watchdog) > 0);
    assert!(network.diagnosis().deadlock().is_some());
    assert_eq!(network.ledger().in_flight(), 0);
}

#[test]
fn a_fat_tree_does_not_deadlock_however_small_its_buffers() {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut config = small_buffers();
    config.switch.buffer.threshold = Threshold::Static(10_000);
    let mut network = Network::new(FatTree::new(4, link).build(), &config).unwrap();
    for flow in workload::all_to_all(16, 100_000) {
        network.add_flow(flow);
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let paused = |host| network.port_counters(network.port_map().of_host(HostId(host))).pauses_received;
    assert!((0..16).map(paused).sum::<u64>() > 100);
    assert_eq!(network.ledger().dropped, 0);
}

/// Packets that go round four switches until their 64 hops are used up.
fn loop_of_four(rate: u64) -> Outcome {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let shape = fabric::topology::Ring { switches: 4, hosts_per_switch: 1, host_link: link, ring_link: link };
    let topology = shape.build();
    let mut config = small_buffers();
    config.switch.buffer.threshold = Threshold::Static(20_000);
    let mut network = Network::new(topology, &config).unwrap();
    for switch in 0..4 {
        let onward = network.port_map().ends(fabric::topology::LinkId(4 + switch))[0];
        network.routes_mut().set(SwitchId(switch), HostId(2), &[onward]);
    }
    let pace = Rate::from_bits_per_second(rate);
    network.add_flow(FlowSpec { pace, ..FlowSpec::new(HostId(0), HostId(2), 1 << 40) });
    network.run(micros(20_000))
}

#[test]
fn a_routing_loop_deadlocks_if_more_is_injected_than_its_hops_use_up() {
    // Four links of 100 Gb/s carry each packet for 63 hops: 100 * 4 / 63 Gb/s. (Hu et al., HotNets 2016.)
    let threshold = 100_000_000_000 * 4 / 63;
    assert_eq!(loop_of_four(threshold / 100 * 98), Outcome::TimeLimit);
    assert!(matches!(loop_of_four(threshold / 100 * 102), Outcome::Deadlock(_)));
}

#[test]
fn long_queues_are_marked() {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut config = frames();
    config.switch.queues[3].ecn = Some(Wred { min: 100_000, max: 400_000, probability: 0.2 });
    let mut network = Network::new(star(3, link), &config).unwrap();
    for source in [1, 2] {
        network.add_flow(FlowSpec::new(HostId(source), HostId(0), 2_000_000));
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let QueueStatistics { peak, marks, .. } = network.queue(PortId(0), 3);
    assert!(peak > 1_900_000, "{peak}");
    // 4 MB leave; while the last 2 MB drain, all packets that leave more than 400 KB behind are marked.
    let packets = 4_000_000 / 1024;
    assert!(u64::from(marks) > packets * 6 / 10 && u64::from(marks) < packets, "{marks}");
    assert_eq!(network.ledger().marked_packets, marks.into());
}
