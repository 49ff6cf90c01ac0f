//! How many packets the switches of a fat tree send on per second, and how long whole scenarios take.
//!
//! Time is that of the processor, not of the clock on the wall: the machine may be shared. Each scenario
//! runs a few times and the fastest counts. Arguments choose scenarios by a part of their name; those
//! marked long run only if named.

use fabric::host::{HostKind, NicConfig};
use fabric::topology::{FatTree, LinkSpec};
use fabric::{Config, FlowSpec, Network, Outcome, Rate, workload};
use nic::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

/// Traffic in a fat tree of 100 Gb/s links of 1 us.
struct Scenario {
    name: &'static str,
    k: u32,
    kind: HostKind,
    pattern: Pattern,
    bytes: u64,
    is_long: bool,
}

enum Pattern {
    Permutation,
    AllToAll,
}

/// Frames without a protocol: the cost of switches and links alone.
const RAW: HostKind = HostKind::Raw { payload: 1024 };

fn scenarios() -> [Scenario; 7] {
    use Pattern::{AllToAll, Permutation};
    let adapters = HostKind::Nic(NicConfig::default());
    let scenario = |name, k, kind, pattern, bytes| Scenario { name, k, kind, pattern, bytes, is_long: false };
    [
        scenario("raw-k4", 4, RAW, Permutation, 4_000_000),
        scenario("raw-k8", 8, RAW, Permutation, 1_000_000),
        scenario("raw-k16", 16, RAW, Permutation, 1_000_000),
        scenario("nic-k4", 4, adapters, Permutation, 4_000_000),
        scenario("nic-k8", 8, adapters, Permutation, 1_000_000),
        Scenario { is_long: true, ..scenario("nic-k16", 16, adapters, Permutation, 1_000_000) },
        Scenario { is_long: true, ..scenario("nic-k8-all-to-all", 8, adapters, AllToAll, 64_000) },
    ]
}

const RUNS: usize = 3;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!(
        "{:18} {:>9} {:>9} {:>12} {:>12} {:>10} {:>9}",
        "scenario", "build ms", "run ms", "forwards/s", "events/s", "packets", "peak MB"
    );
    for scenario in scenarios() {
        let is_named = wanted.iter().any(|part| scenario.name.contains(part.as_str()));
        if is_named || (wanted.is_empty() && !scenario.is_long) {
            measure(&scenario);
        }
    }
}

fn measure(scenario: &Scenario) {
    let results = (0..RUNS).map(|_| {
        let start = processor_time();
        let mut network = build(scenario);
        let built = processor_time();
        let outcome = network.run(Instant::from_nanos(1_000_000_000));
        assert_eq!(outcome, Outcome::Finished);
        (processor_time() - built, built - start, network)
    });
    let Some((run, build, network)) = results.min_by(|a, b| a.0.total_cmp(&b.0)) else { return };
    println!(
        "{:18} {:9.1} {:9.1} {:12.0} {:12.0} {:10} {:9.1}",
        scenario.name,
        build * 1e3,
        run * 1e3,
        network.forwards() as f64 / run,
        network.events() as f64 / run,
        network.peak_packets(),
        peak_megabytes(),
    );
}

fn build(scenario: &Scenario) -> Network {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut config = Config::default();
    config.host.kind = scenario.kind;
    let mut network = Network::new(FatTree::new(scenario.k, link).build(), &config).expect("a fat tree");
    for flow in flows(scenario, network.topology().hosts()) {
        network.add_flow(flow);
    }
    network
}

fn flows(scenario: &Scenario, hosts: u32) -> Vec<FlowSpec> {
    match scenario.pattern {
        Pattern::Permutation => workload::permutation(hosts, hosts / 2, scenario.bytes),
        Pattern::AllToAll => workload::all_to_all(hosts, scenario.bytes),
    }
}

/// Seconds of this process on a processor.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory this process ever had, as Linux tells it.
fn peak_megabytes() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) / 1e3
}
