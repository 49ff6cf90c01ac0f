//! How flows share links: incast, fair shares, weights.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use fabric::network::Drop;
use fabric::switch::{Service, Threshold};
use fabric::topology::{FatTree, HostId, LinkSpec, NodeId, SwitchId, Topology};
use fabric::{Config, FlowSpec, Framing, Network, Outcome, PortId, Rate, workload};
use nic::{Duration, Instant};
use wire::{Ecn, TrafficClass};

const LIMIT: Instant = Instant::from_nanos(10_000_000_000);

fn link() -> LinkSpec {
    LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
}

/// Hosts on one switch.
fn star(hosts: u32, spec: LinkSpec) -> Topology {
    let mut topology = Topology::new(hosts, 1);
    for host in 0..hosts {
        topology.add_link(NodeId(host), NodeId(hosts), spec);
    }
    topology
}

fn config() -> Config {
    let mut config = Config { framing: Framing::fixed(48), ..Config::default() };
    config.host.kind = fabric::host::HostKind::Raw { payload: 1000 };
    config
}

fn makespan(network: &Network) -> u64 {
    network.flows().iter().map(|flow| flow.finish.unwrap().as_picos()).max().unwrap()
}

#[test]
fn an_incast_takes_as_long_as_all_its_bytes_on_the_last_link() {
    let (senders, bytes) = (15, 1_000_000);
    for topology in [star(16, link()), FatTree::new(4, link()).build()] {
        let hops = if topology.switches() == 1 { 2 } else { 6 };
        let mut network = Network::new(topology, &config()).unwrap();
        for flow in workload::incast((0..16).map(HostId), HostId(0), bytes) {
            network.add_flow(flow);
        }
        assert_eq!(network.run(LIMIT), Outcome::Finished);
        assert_eq!(network.ledger().dropped, 0);
        let formula = senders * (bytes / 1000) * 1048 * 80 + hops * (1_000_000 + 83_840);
        let makespan = makespan(&network);
        assert!((makespan as f64 / formula as f64 - 1.0).abs() < 0.005, "{makespan} for {formula}");
        // No set of flows beats the link.
        assert!(makespan >= senders * (bytes / 1000) * 1048 * 80);
    }
}

#[test]
fn flows_into_one_port_get_equal_shares() {
    // Three senders, one of them with two flows: the switch knows ports, a host its flows.
    let mut network = Network::new(star(4, link()), &config()).unwrap();
    for source in [1, 2, 3] {
        network.add_flow(FlowSpec::new(HostId(source), HostId(0), 100_000_000));
    }
    network.run_until(Instant::from_nanos(3_000_000));
    let received: Vec<u64> = network.flows().iter().map(|flow| flow.received).collect();
    let fair = received.iter().sum::<u64>() as f64 / 3.0;
    for bytes in received {
        assert!((bytes as f64 / fair - 1.0).abs() < 0.01, "{bytes} of {fair}");
    }
}

#[test]
fn pfc_gives_flows_on_one_link_their_max_min_shares() {
    // What a sender has in the buffer grows with its rate: those that want less than the fair share are
    // never paused, and what they leave is shared by the others.
    let mut network = Network::new(star(5, link()), &config()).unwrap();
    let gbps = |rate| Some(Rate::gbps(rate));
    for (source, pace) in [(1, gbps(10)), (2, gbps(20)), (3, None), (4, None)] {
        let flow = FlowSpec::new(HostId(source), HostId(0), 1_000_000_000);
        network.add_flow(FlowSpec { pace, ..flow });
    }
    let received = |network: &Network| network.flows().iter().map(|flow| flow.received).collect::<Vec<_>>();
    network.run_until(Instant::from_nanos(5_000_000));
    let before = received(&network);
    network.run_until(Instant::from_nanos(10_000_000));
    for ((after, before), share) in received(&network).iter().zip(before).zip([10.0, 20.0, 35.0, 35.0]) {
        let wire = (after - before) as f64 * 1.048 * 8.0 / 5e-3 / 1e9;
        assert!((wire / share - 1.0).abs() < 0.01, "{wire} for {share} Gb/s");
    }
}

/// A flow of a DSCP, from one of the hosts after 0 to host 0.
fn flow_of_class(source: u32, dscp: u8, bytes: u64) -> FlowSpec {
    let class = TrafficClass { dscp, ecn: Ecn::NotCapable };
    FlowSpec { class, ..FlowSpec::new(HostId(source), HostId(0), bytes) }
}

#[test]
fn weighted_priorities_share_by_weight_and_a_strict_one_takes_all() {
    let mut config = config();
    config.switch.queues[1].service = Service::Weighted(20);
    config.switch.queues[2].service = Service::Weighted(30);
    config.switch.queues[3].service = Service::Weighted(50);
    let mut network = Network::new(star(5, link()), &config).unwrap();
    for (source, dscp) in [(1, 8), (2, 16), (3, 26)] {
        network.add_flow(flow_of_class(source, dscp, 1_000_000_000));
    }
    network.run_until(Instant::from_nanos(2_000_000));
    let before: Vec<u64> = network.flows().iter().map(|flow| flow.received).collect();
    let total = before.iter().sum::<u64>() as f64;
    for (bytes, share) in before.iter().zip([0.2, 0.3, 0.5]) {
        assert!((*bytes as f64 / total - share).abs() < 0.01, "{bytes} of {total} for {share}");
    }
    network.add_flow(flow_of_class(4, 48, 1_000_000_000));
    network.run_until(Instant::from_nanos(2_200_000));
    let quiet: Vec<u64> = network.flows()[..3].iter().map(|flow| flow.received).collect();
    network.run_until(Instant::from_nanos(3_000_000));
    let after: Vec<u64> = network.flows()[..3].iter().map(|flow| flow.received).collect();
    assert_eq!(quiet, after, "a strict priority at line rate leaves nothing");
}

#[test]
fn a_lossy_queue_drops_at_its_tail_and_a_lossless_one_does_not() {
    for (dscp, drops) in [(0, true), (26, false)] {
        let mut config = config();
        config.switch.queues[0].limit = Threshold::Static(100_000);
        let mut network = Network::new(star(4, link()), &config).unwrap();
        for source in 1..4 {
            network.add_flow(flow_of_class(source, dscp, 1_000_000));
        }
        let outcome = network.run(LIMIT);
        assert_eq!(outcome, if drops { Outcome::Stuck } else { Outcome::Finished });
        let (sent, tail) = (3_000, network.ledger().dropped_for(Drop::Tail));
        assert_eq!(network.ledger().delivered_packets + tail, sent);
        if drops {
            let peak = network.queue(PortId(0), 0).peak;
            assert!(peak <= 100_000 && peak > 98_000, "{peak}");
            // Three come in while one goes out: two of three are lost, but for what the queue holds.
            assert!((tail as f64 / (2_000.0 - 95.0) - 1.0).abs() < 0.01, "{tail}");
        }
    }
}

#[test]
fn no_port_exceeds_its_rate() {
    let mut network = Network::new(FatTree::new(4, link()).build(), &config()).unwrap();
    for flow in workload::all_to_all(16, 200_000) {
        network.add_flow(flow);
    }
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    let elapsed = network.now().as_picos();
    let switches = network.topology().switches();
    for switch in (0..switches).map(SwitchId) {
        for port in network.port_map().of_switch(switch) {
            let (bytes, _) = network.sent(PortId(port));
            assert!(bytes * 80 <= elapsed, "port {port}: {bytes} bytes in {elapsed} ps");
        }
    }
    assert_eq!(network.ledger().in_flight(), 0);
    assert_eq!(network.ledger().delivered, 240 * 200 * 1048);
}
