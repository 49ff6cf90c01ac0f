//! How many packets the switches of a fat tree send on per second, and how long whole scenarios take.
//!
//! Time is that of the processor, not of the clock on the wall: the machine may be shared. Each scenario
//! runs a few times and the fastest counts. Arguments choose scenarios by a part of their name.

use fabric::topology::{FatTree, LinkSpec};
use fabric::{Config, Network, Outcome, Rate, workload};
use nic::{Duration, Instant};
use rustix::time::{ClockId, clock_gettime};

/// A permutation in a fat tree of 100 Gb/s links of 1 us.
struct Scenario {
    name: &'static str,
    k: u32,
    bytes: u64,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario { name: "raw-k4", k: 4, bytes: 4_000_000 },
    Scenario { name: "raw-k8", k: 8, bytes: 1_000_000 },
    Scenario { name: "raw-k16", k: 16, bytes: 1_000_000 },
];

const RUNS: usize = 3;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    println!(
        "{:10} {:>9} {:>9} {:>12} {:>12} {:>10}",
        "scenario", "build ms", "run ms", "forwards/s", "events/s", "packets"
    );
    for scenario in SCENARIOS {
        if wanted.is_empty() || wanted.iter().any(|part| scenario.name.contains(part.as_str())) {
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
        "{:10} {:9.1} {:9.1} {:12.0} {:12.0} {:10}",
        scenario.name,
        build * 1e3,
        run * 1e3,
        network.forwards() as f64 / run,
        network.events() as f64 / run,
        network.peak_packets(),
    );
}

fn build(scenario: &Scenario) -> Network {
    let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
    let mut network =
        Network::new(FatTree::new(scenario.k, link).build(), &Config::default()).expect("a fat tree");
    let hosts = network.topology().hosts();
    for flow in workload::permutation(hosts, hosts / 2, scenario.bytes) {
        network.add_flow(flow);
    }
    network
}

/// Seconds of this process on a processor.
fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
