//! Latency and goodput of single flows, by closed formulas.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use fabric::switch::Switching;
use fabric::topology::{HostId, LinkSpec, NodeId, SwitchId, Topology};
use fabric::{Config, FlowSpec, Framing, Network, Outcome, Rate};
use nic::{Duration, Instant};

const LIMIT: Instant = Instant::from_nanos(10_000_000_000);

/// Two hosts with a chain of switches between them.
fn chain(switches: u32, spec: LinkSpec) -> Topology {
    let mut topology = Topology::new(2, switches);
    let switch = |topology: &Topology, index| topology.switch(SwitchId(index));
    topology.add_link(NodeId(0), switch(&topology, 0), spec);
    for index in 1..switches {
        topology.add_link(switch(&topology, index - 1), switch(&topology, index), spec);
    }
    topology.add_link(switch(&topology, switches - 1), NodeId(1), spec);
    topology
}

fn config(framing: Framing, payload: u16) -> Config {
    let mut config = Config { framing, ..Config::default() };
    config.host.kind = fabric::host::HostKind::Raw { payload };
    config
}

/// The completion time of one flow, in picoseconds.
fn completion(topology: Topology, config: &Config, bytes: u64) -> u64 {
    let mut network = Network::new(topology, config).unwrap();
    let flow = network.add_flow(FlowSpec::new(HostId(0), HostId(1), bytes));
    assert_eq!(network.run(LIMIT), Outcome::Finished);
    assert!(network.ledger().balances());
    network.flows()[flow.0 as usize].completion_time().unwrap().as_picos()
}

#[test]
fn store_and_forward_takes_a_frame_time_per_hop() {
    // n*L/C + (h-1)*L/C + h*d, exactly, for frames without a gap.
    for gigabits in [10, 25, 40, 50, 100, 200, 400, 800] {
        for (switches, packets) in [(1, 1), (1, 100), (3, 1), (5, 1000)] {
            let spec = LinkSpec::new(Rate::gbps(gigabits), Duration::from_nanos(500));
            let time = completion(chain(switches, spec), &config(Framing::fixed(48), 1000), packets * 1000);
            let frame = 1048 * 8000 / gigabits;
            let hops = u64::from(switches) + 1;
            assert_eq!(
                time,
                packets * frame + (hops - 1) * frame + hops * 500_000,
                "{gigabits} Gb/s, {hops} hops"
            );
        }
    }
}

#[test]
fn ethernet_has_a_gap_after_every_frame_but_the_last() {
    let spec = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let (packets, hops) = (100, 4);
    let time = completion(chain(hops as u32 - 1, spec), &config(Framing::ETHERNET, 4096), packets * 4096);
    let (wire, gap) = (4096 + 82, 12);
    assert_eq!(time, 80 * ((packets - 1) * wire + hops * (wire - gap)) + hops * 1_000_000);
}

#[test]
fn cut_through_waits_for_the_header_only() {
    let spec = LinkSpec::new(Rate::gbps(100), Duration::from_nanos(500));
    let mut config = config(Framing::fixed(48), 4096);
    config.switch.switching = Switching::CutThrough { after: 64 };
    config.switch.latency = Duration::from_nanos(300);
    for switches in [1, 3, 5] {
        let time = completion(chain(switches, spec), &config, 4096);
        let hops = u64::from(switches) + 1;
        let formula = (hops - 1) * (64 * 80 + 300_000) + 4144 * 80 + hops * 500_000;
        assert_eq!(time, formula, "{switches} switches");
    }
}

#[test]
fn cut_through_to_a_faster_link_stores_the_frame() {
    let mut topology = chain(1, LinkSpec::new(Rate::gbps(100), Duration::ZERO));
    topology.links_mut()[1].spec.rate = Rate::gbps(400);
    let mut config = config(Framing::fixed(48), 4096);
    config.switch.switching = Switching::CutThrough { after: 64 };
    assert_eq!(completion(topology, &config, 4096), 4144 * (80 + 20));
}

#[test]
fn a_flow_has_the_goodput_of_its_rate_and_mtu() {
    for gigabits in [10, 100, 400] {
        for payload in [256u16, 1024, 4096] {
            let spec = LinkSpec::new(Rate::gbps(gigabits), Duration::from_micros(1));
            let bytes = 1000 * u64::from(payload);
            let time = completion(chain(2, spec), &config(Framing::ETHERNET, payload), bytes);
            let goodput = bytes as f64 * 8e12 / (time - 3_000_000) as f64;
            let formula = gigabits as f64 * 1e9 * f64::from(payload) / (f64::from(payload) + 82.0);
            assert!((goodput / formula - 1.0).abs() < 0.003, "{goodput} for {formula}");
        }
    }
}

#[test]
fn latencies_of_switches_and_hosts_add_up() {
    let spec = LinkSpec::new(Rate::gbps(100), Duration::from_nanos(100));
    let mut config = config(Framing::BARE, 1000);
    config.switch.latency = Duration::from_nanos(450);
    config.host.receive_latency = Duration::from_nanos(600);
    let frame = (1000 + 58) * 80;
    assert_eq!(completion(chain(2, spec), &config, 1000), 3 * (frame + 100_000) + 2 * 450_000 + 600_000);
}
