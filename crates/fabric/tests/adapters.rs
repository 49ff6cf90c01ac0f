//! Hosts with RDMA adapters: the protocol that answers on a real wire, in virtual time.

use fabric::host::{HostKind, NicConfig};
use fabric::network::Drop;
use fabric::network::plan::Plan;
use fabric::switch::Wred;
use fabric::topology::{FatTree, HostId, LinkId, LinkSpec, Loss, NodeId, Topology};
use fabric::{Config, FlowSpec, Framing, Network, Outcome, PortId, Rate, workload};
use nic::verbs::{Mtu, Status};
use nic::{Duration, Instant};

const LIMIT: Instant = Instant::from_nanos(10_000_000_000);

fn link() -> LinkSpec {
    LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
}

fn star(hosts: u32) -> Topology {
    let mut topology = Topology::new(hosts, 1);
    for host in 0..hosts {
        topology.add_link(NodeId(host), NodeId(hosts), link());
    }
    topology
}

fn config(adapter: NicConfig) -> Config {
    let mut config = Config::default();
    config.host.kind = HostKind::Nic(adapter);
    config
}

#[test]
fn a_write_takes_as_long_as_its_packets_and_the_answer() {
    for (mtu, run) in [(Mtu::Mtu1024, 1), (Mtu::Mtu4096, 1), (Mtu::Mtu4096, 16)] {
        let mut network =
            Network::new(star(2), &config(NicConfig { mtu, run, ..NicConfig::default() })).unwrap();
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10 << 20));
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        let mtu = u64::from(mtu.bytes());
        let packets = (10 << 20) / mtu;
        // Each packet has 82 bytes around its payload, the first 16 more, which delay the others on both
        // links; two hops of 1 us.
        let arrival = 80 * (packets * (mtu + 82) + 2 * 16 + (mtu + 82) - 2 * 12) + 2_000_000;
        let flow = network.flows()[0];
        assert_eq!(flow.arrival.unwrap().as_picos(), arrival);
        // An acknowledgement has 66 bytes, and 8 before it on the wire.
        let answer = 2 * (80 * (66 + 8) + 1_000_000);
        assert_eq!(flow.completion_time().unwrap().as_picos(), arrival + answer);
        assert_eq!(flow.received, 10 << 20);
    }
}

#[test]
fn a_window_bounds_the_rate_of_a_long_way() {
    let mut topology = star(2);
    topology.links_mut()[0].spec.delay = Duration::from_micros(100);
    let window = 64 * 1024;
    let mut network = Network::new(topology, &config(NicConfig { window, ..NicConfig::default() })).unwrap();
    network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10_000_000));
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let rate = 1e7 / (network.now().as_picos() as f64 / 1e12);
    let bound = f64::from(window) / 202e-6;
    assert!(rate < bound && rate > 0.7 * bound, "{rate} for {bound}");
}

#[test]
fn an_incast_of_adapters_fills_the_last_link() {
    let mut network = Network::new(star(9), &config(NicConfig::default())).unwrap();
    for flow in workload::incast((1..9).map(HostId), HostId(0), 1 << 20) {
        network.add_flow(flow);
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let bound = 8 * 80 * (1024 * (1024 + 82) + 16);
    let path = 2 * 1_000_000 + 80 * (1024 + 98);
    let last = network.flows().iter().map(|flow| flow.arrival.unwrap().as_picos()).max().unwrap();
    assert!(last > bound && last < (bound + path) * 1001 / 1000, "{last} for {bound} + {path}");
    assert_eq!(network.ledger().dropped, 0);
    let counters = network.adapter_counters(HostId(1)).unwrap();
    assert_eq!((counters.retransmitted, counters.sent_packets), (0, 1024));
}

#[test]
fn lost_packets_are_sent_again() {
    let mut topology = star(2);
    topology.links_mut()[1].spec.loss = Loss::Frames(0.001);
    let mut network = Network::new(topology, &config(NicConfig::default())).unwrap();
    network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10 << 20));
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    assert_eq!(network.flows()[0].received, 10 << 20);
    let lost = network.ledger().dropped_for(Drop::Damaged);
    let counters = network.adapter_counters(HostId(0)).unwrap();
    assert!((4..25).contains(&lost), "{lost}");
    assert!(counters.retransmitted >= lost, "{counters:?}");
}

#[test]
fn go_back_n_sends_a_window_again_for_each_loss() {
    let (mut lost, mut again) = (0, 0);
    for seed in 0..10 {
        let mut topology = star(2);
        topology.links_mut()[1].spec.loss = Loss::Frames(0.001);
        let mut config = config(NicConfig { timeout: 8, ..NicConfig::default() });
        config.seed = seed;
        let mut network = Network::new(topology, &config).unwrap();
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10 << 20));
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        lost += network.ledger().dropped_for(Drop::Damaged);
        again += network.adapter_counters(HostId(0)).unwrap().retransmitted;
    }
    // From the start of the lost packet to that of the next after it, there and back: the next packet has to
    // arrive before the loss is seen.
    let (packet, answer) = (80 * (1024 + 82), 80 * (66 + 8));
    let round_trip = 2 * (packet + 1_000_000) + packet + 2 * (answer + 1_000_000);
    let window = f64::from(round_trip) / f64::from(packet);
    let each = again as f64 / lost as f64;
    assert!((each / window - 1.0).abs() < 0.05, "{each} packets for each of {lost}, window {window}");
}

#[test]
fn a_connection_survives_a_failure_that_is_routed_around_and_gives_up_if_it_is_not() {
    let shape = fabric::topology::LeafSpine {
        leaves: 2,
        spines: 2,
        hosts_per_leaf: 1,
        parallel: 1,
        host_link: link(),
        uplink: link(),
    };
    let adapter = NicConfig { timeout: 6, ..NicConfig::default() };
    for (failing, survives) in [(vec![2], true), (vec![3], true), (vec![1], false)] {
        let mut config = config(adapter);
        config.rerouting.convergence = Duration::from_micros(500);
        let mut network = Network::new(shape.build(), &config).unwrap();
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10_000_000));
        for link in failing {
            network.plan(Instant::from_nanos(100_000), Plan::LinkDown(LinkId(link)));
        }
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        let flow = network.flows()[0];
        if survives {
            assert_eq!((flow.error, flow.received), (None, 10_000_000));
        } else {
            assert_eq!((flow.error, flow.finish), (Some(Status::RetryExceeded), None));
        }
    }
}

#[test]
fn marks_are_answered_by_notifications_in_their_own_priority() {
    let mut config = config(NicConfig { ecn: true, ..NicConfig::default() });
    config.switch.queues[3].ecn = Some(Wred { min: 50_000, max: 200_000, probability: 0.2 });
    let mut network = Network::new(star(5), &config).unwrap();
    for flow in workload::incast((1..5).map(HostId), HostId(0), 4 << 20) {
        network.add_flow(flow);
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let counters = |host| network.adapter_counters(HostId(host)).unwrap();
    let received = counters(0);
    assert!(network.ledger().marked_packets > 100);
    assert_eq!(received.np_ecn_marked_roce_packets, network.ledger().marked_packets);
    let handled: u64 = (1..5).map(|host| counters(host).rp_cnp_handled).sum();
    assert!(handled > 4);
    assert_eq!(received.np_cnp_sent, handled);
}

#[test]
fn a_permutation_is_repeated_to_the_last_event() {
    let run = |seed| {
        let mut config = config(NicConfig::default());
        config.seed = seed;
        let mut network = Network::new(FatTree::new(4, link()).build(), &config).unwrap();
        for flow in workload::permutation(16, 8, 500_000) {
            network.add_flow(flow);
        }
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        (network.digest(), network.events(), network.now())
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn an_adapter_holds_little_while_it_is_paused() {
    let mut config = config(NicConfig { window: 1 << 24, ..NicConfig::default() });
    config.framing = Framing::fixed(48);
    let mut network = Network::new(star(4), &config).unwrap();
    for from in 0..3 {
        for flow in 0..20 {
            let spec = FlowSpec::new(HostId(from), HostId(3), 1_000_000);
            network.add_flow(FlowSpec { source_port: 0xC000 + flow, ..spec });
        }
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    assert!(network.diagnosis().pauses().len() > 10);
    // No more than what the switch holds before and after it says XOFF, and what is on the wires.
    let buffered = network.queue(PortId(3), 3).peak / 1072;
    assert!(network.peak_packets() < buffered + 100, "{}, {buffered}", network.peak_packets());
    assert_eq!(network.ledger().dropped, 0);
}
