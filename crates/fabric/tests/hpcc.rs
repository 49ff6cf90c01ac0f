//! The recorded results of the HPCC simulator for ns-3, without congestion control, on its own inputs: a fat
//! tree of 16 hosts and 100 Gb/s links of 1 us.
//!
//! Its hash chooses the paths, so the same flows collide, and times agree flow by flow. What differs, and why:
//!
//! - It cuts times to nanoseconds: a packet of 1048 bytes takes 83 ns instead of 83.84, 1.0 % above the line
//!   rate. Its times are that much shorter wherever a link is busy all the time.
//! - Its packets have 1000 bytes of payload, which no path MTU is. Here they have 1024, and 49 bytes more on
//!   the wire, so that a message takes as many bytes in all.
//! - It acknowledges every packet; the adapter here one in many. Acknowledgements take 6 % of the way back
//!   there. In both they wait in the queues of data: flows 5 to 13 and 15 to 7 of the permutation collide with
//!   nothing, and still end late, because their acknowledgements do.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic like tests")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use fabric::host::{HostKind, NicConfig};
use fabric::import::hpcc;
use fabric::{Framing, Network, Outcome, PortId};
use nic::Instant;
use nic::verbs::Mtu;

/// A packet of the simulator takes 83 ns, one of the same size at 100 Gb/s takes 83.84.
const ROUNDING: f64 = 83.84 / 83.0;

fn data(scenario: &str, file: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/hpcc").join(scenario).join(file)
}

/// Completion times in microseconds, by source and destination.
struct Times(BTreeMap<(u32, u32), f64>);

impl Times {
    fn mean(&self) -> f64 {
        self.0.values().sum::<f64>() / self.0.len() as f64
    }

    fn makespan(&self) -> f64 {
        self.0.values().copied().fold(0.0, f64::max)
    }
}

/// What the simulator recorded: addresses, ports, bytes, start, completion time in nanoseconds, and more.
fn recorded(scenario: &str, variant: &str) -> Times {
    let text = std::fs::read_to_string(data(scenario, &format!("{variant}.fct"))).unwrap();
    let host = |word: &str| u32::from_str_radix(&word[2..], 16).map(|address| (address & 0xFF_FFFF) >> 8);
    let times = text.lines().map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = (host(words[0]).unwrap(), host(words[1]).unwrap());
        (pair, words[6].parse::<f64>().unwrap() / 1e3)
    });
    Times(times.collect())
}

/// The same scenario here, and how often a switch said XOFF.
fn simulated(scenario: &str, variant: &str) -> (Times, u32) {
    let loaded = hpcc::load(&data(scenario, &format!("hpcc_config_{variant}.txt"))).unwrap();
    let adapter = NicConfig { mtu: Mtu::Mtu1024, window: 1 << 30, ..NicConfig::default() };
    let mut config = loaded.config(HostKind::Nic(adapter));
    config.framing = Framing::fixed(49);
    let mut network = Network::new(loaded.topology, &config).unwrap();
    for flow in &loaded.flows {
        network.add_flow(*flow);
    }
    assert_eq!(network.run(Instant::from_nanos(4_000_000_000)), Outcome::Finished);
    assert_eq!(network.ledger().dropped, 0);
    let times = network.flows().iter().map(|flow| {
        let pair = (flow.spec.source.0, flow.spec.destination.0);
        (pair, flow.completion_time().unwrap().as_picos() as f64 / 1e6)
    });
    let ports = (0..network.port_map().switch_ports()).map(PortId);
    let pauses = ports.map(|port| network.ingress(port, 3).xoffs).sum();
    (Times(times.collect()), pauses)
}

fn assert_near(what: &str, value: f64, expected: f64, part: f64) {
    assert!((value / expected - 1.0).abs() <= part, "{what}: {value} for {expected}");
}

#[test]
fn an_incast_agrees_flow_by_flow() {
    let (theirs, (ours, pauses)) = (recorded(INCAST, "pfconly"), simulated(INCAST, "pfconly"));
    for (pair, time) in &theirs.0 {
        assert_near(&format!("{pair:?}"), ours.0[pair], time * ROUNDING, 0.003);
    }
    // 15 MB of payload over the last link, and the way there and back.
    assert_near("makespan", ours.makespan(), 15.0 * 1000.0 * 0.08384 + 12.0, 0.01);
    assert_near("pauses", pauses.into(), 51.0, 0.04);
}

#[test]
fn an_incast_with_a_small_buffer_pauses_as_often() {
    let (theirs, (ours, pauses)) = (recorded(INCAST, "pfconly_2MB"), simulated(INCAST, "pfconly_2MB"));
    for (pair, time) in &theirs.0 {
        assert_near(&format!("{pair:?}"), ours.0[pair], time * ROUNDING, 0.02);
    }
    assert_near("pauses", pauses.into(), 905.0, 0.15);
}

#[test]
fn a_permutation_has_the_same_collisions() {
    let (theirs, (ours, pauses)) = (recorded(PERMUTATION, "pfconly"), simulated(PERMUTATION, "pfconly"));
    for (pair, time) in &theirs.0 {
        assert_near(&format!("{pair:?}"), ours.0[pair], *time, 0.03);
    }
    assert_near("mean", ours.mean(), theirs.mean(), 0.01);
    assert_eq!(pauses, 0);

    let (theirs, (ours, pauses)) =
        (recorded(PERMUTATION, "pfconly_2MB"), simulated(PERMUTATION, "pfconly_2MB"));
    assert_near("mean", ours.mean(), theirs.mean(), 0.01);
    assert_near("pauses", pauses.into(), 170.0, 0.15);
}

#[test]
fn all_to_all_agrees_on_average() {
    for (variant, pauses) in [("pfconly", 0.0), ("pfconly_2MB", 1352.0)] {
        let (theirs, (ours, our_pauses)) = (recorded(ALL_TO_ALL, variant), simulated(ALL_TO_ALL, variant));
        assert_near("mean", ours.mean(), theirs.mean(), 0.03);
        assert_near("makespan", ours.makespan(), theirs.makespan(), 0.02);
        assert_near("pauses", f64::from(our_pauses) + 1.0, pauses + 1.0, 0.15);
    }
}

#[test]
fn two_long_flows_share_the_last_link() {
    let (theirs, (ours, pauses)) = (recorded(TWO_FLOWS, "pfconly"), simulated(TWO_FLOWS, "pfconly"));
    assert_near("makespan", ours.makespan(), theirs.makespan() * ROUNDING, 0.001);
    // 100 MB of payload over the last link, and the way there and back.
    assert_near("makespan", ours.makespan(), 100_000.0 * 0.08384 + 12.0, 0.001);
    assert_near("pauses", pauses.into(), 3931.0, 0.15);
}

const INCAST: &str = "k4_incast_1000000_f15";
const PERMUTATION: &str = "k4_perm_1000000";
const ALL_TO_ALL: &str = "k4_a2a_1000000";
const TWO_FLOWS: &str = "k4_twoflow_50000000";
