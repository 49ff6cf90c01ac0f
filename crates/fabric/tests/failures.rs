//! Links that fail, and bits that are wrong.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use fabric::forward::{Choice, Forwarding};
use fabric::host::HostKind;
use fabric::network::Drop;
use fabric::network::plan::Plan;
use fabric::topology::{FatTree, HostId, LeafSpine, LinkId, LinkSpec, Loss, NodeId, Topology};
use fabric::{Config, FlowSpec, Framing, Network, Outcome, Rate, workload};
use nic::{Duration, Instant};

const LIMIT: Instant = Instant::from_nanos(1_000_000_000);

fn link() -> LinkSpec {
    LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
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

/// Two leaves with one host each, two spines; links 2 and 3 go up from the first leaf.
fn two_ways(config: &Config) -> Network {
    let shape =
        LeafSpine { leaves: 2, spines: 2, hosts_per_leaf: 1, parallel: 1, host_link: link(), uplink: link() };
    Network::new(shape.build(), config).unwrap()
}

#[test]
fn traffic_takes_another_way_when_a_link_fails() {
    let mut config = Config { framing: Framing::fixed(48), ..frames() };
    config.rerouting.detection = Duration::from_micros(20);
    config.rerouting.convergence = Duration::from_micros(200);
    for failing in [LinkId(2), LinkId(3)] {
        let mut network = two_ways(&config);
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10_000_000));
        network.plan(micros(100), Plan::LinkDown(failing));
        let outcome = network.run(LIMIT);
        let lost = network.ledger().dropped_for(Drop::LinkDown);
        let used = network.sent(network.port_map().ends(failing)[0]).1 > 0;
        assert_eq!(lost > 0, used);
        assert_eq!(outcome, if used { Outcome::Stuck } else { Outcome::Finished });
        // What was sent in 20 us and was on the wire for another.
        assert!(!used || (lost * 1072 * 8 / 100).abs_diff(21_000) < 500, "{lost}");
    }
}

#[test]
fn what_was_on_a_link_that_failed_shortly_is_lost() {
    let mut network = two_ways(&frames());
    network.add_flow(FlowSpec::new(HostId(0), HostId(1), 1_000_000));
    let cut = Duration::from_nanos(100);
    network.plan(micros(50), Plan::LinkDown(LinkId(0)));
    network.plan(micros(50) + cut, Plan::LinkUp(LinkId(0)));
    assert_eq!(network.run(LIMIT), Outcome::Stuck);
    // 1 us of cable is 11 frames; the host waited while its link was down.
    let lost = network.ledger().dropped_for(Drop::LinkDown);
    assert!((11..=13).contains(&lost), "{lost}");
    assert_eq!(network.ledger().dropped_for(Drop::LinkDown), network.ledger().drops.iter().sum::<u64>());
}

#[test]
fn frames_are_lost_as_often_as_bits_are_wrong() {
    for loss in [Loss::Frames(0.01), Loss::Bits(1e-6)] {
        let mut topology = Topology::new(2, 1);
        for host in 0..2 {
            topology.add_link(NodeId(host), NodeId(2), link());
        }
        topology.links_mut()[1].spec.loss = loss;
        let mut network = Network::new(topology, &frames()).unwrap();
        let packets = 100_000;
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), packets * 1024));
        assert_eq!(network.run(LIMIT), Outcome::Stuck);
        let lost = network.ledger().dropped_for(Drop::Damaged) as f64;
        let expected = packets as f64 * loss.of_frame(1024 + 82);
        assert!((lost - expected).abs() < 4.0 * expected.sqrt(), "{lost} for {expected}");
    }
}

/// A network that uses all that is left to chance.
fn chaos(seed: u64) -> Network {
    let mut topology = FatTree::new(4, link()).build();
    topology.links_mut()[20].spec.loss = Loss::Frames(0.001);
    let mut config = Config { seed, ..frames() };
    config.switch.forwarding = Forwarding::Spray(Choice::Random);
    config.switch.buffer.total = 1_000_000;
    let mut network = Network::new(topology, &config).unwrap();
    for flow in workload::all_to_all(16, 50_000) {
        network.add_flow(flow);
    }
    network.plan(micros(30), Plan::LinkDown(LinkId(25)));
    network.plan(micros(60), Plan::LinkUp(LinkId(25)));
    network.run(LIMIT);
    network
}

#[test]
fn equal_seeds_give_equal_events() {
    let (a, b, other) = (chaos(1), chaos(1), chaos(2));
    assert_eq!((a.digest(), a.events(), a.flows()), (b.digest(), b.events(), b.flows()));
    assert_ne!(a.digest(), other.digest());
    assert!(a.events() > 50_000);
}

#[test]
fn spraying_spreads_what_ecmp_lets_collide() {
    let makespan = |forwarding| {
        let mut config = Config { framing: Framing::fixed(48), ..frames() };
        config.switch.forwarding = forwarding;
        config.host.kind = fabric::host::HostKind::Raw { payload: 1000 };
        let mut network = Network::new(FatTree::new(4, link()).build(), &config).unwrap();
        for flow in workload::permutation(16, 8, 1_000_000) {
            network.add_flow(flow);
        }
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        network.now().as_picos() as f64 / 1e6
    };
    let ideal = (1_000.0 + 5.0) * 0.08384 + 6.0;
    let ecmp = makespan(Forwarding::default());
    for forwarding in
        [Forwarding::Adaptive, Forwarding::Spray(Choice::InTurn), Forwarding::Spray(Choice::LeastQueued)]
    {
        let spread = makespan(forwarding);
        assert!(
            spread < 1.1 * ideal && spread < 0.7 * ecmp,
            "{forwarding:?}: {spread}, ECMP {ecmp}, ideal {ideal}"
        );
    }
}
