//! Who sends what.
//!
//! Each function makes a list of flows for [`Network::add_flow`](crate::Network::add_flow).

mod sizes;
mod trace;

use nic::{Duration, Instant};

use crate::flow::FlowSpec;
use crate::random::Random;
use crate::rate::Rate;
use crate::topology::HostId;

pub use sizes::{SizeDistribution, SizesError};
pub use trace::{TraceError, TraceProblem, parse_trace};

/// Every source sends to one destination.
pub fn incast(sources: impl IntoIterator<Item = HostId>, destination: HostId, bytes: u64) -> Vec<FlowSpec> {
    let sources = sources.into_iter().filter(|source| *source != destination);
    sources.map(|source| FlowSpec::new(source, destination, bytes)).collect()
}

/// Every host sends to the one `shift` after it, round the circle; none if that is itself.
pub fn permutation(hosts: u32, shift: u32, bytes: u64) -> Vec<FlowSpec> {
    let pairs = (0..hosts).map(|host| (HostId(host), HostId((host + shift) % hosts)));
    pairs.filter(|(a, b)| a != b).map(|(a, b)| FlowSpec::new(a, b, bytes)).collect()
}

/// Every host sends to one host, and every host receives from one other, at random: a single cycle
/// through all of them (Sattolo 1986).
pub fn random_permutation(hosts: u32, bytes: u64, random: &mut Random) -> Vec<FlowSpec> {
    let mut to: Vec<u32> = (0..hosts).collect();
    for last in (1..to.len()).rev() {
        to.swap(last, random.below(last as u64) as usize);
    }
    let pairs = to.iter().enumerate().filter(|(from, to)| *from != **to as usize);
    pairs.map(|(from, to)| FlowSpec::new(HostId(from as u32), HostId(*to), bytes)).collect()
}

/// Every host sends to every other: first all to the next, then all to the one after that.
pub fn all_to_all(hosts: u32, bytes: u64) -> Vec<FlowSpec> {
    (1..hosts).flat_map(|shift| permutation(hosts, shift, bytes)).collect()
}

/// Flows that arrive at random, by a Poisson process, between random hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct Poisson {
    /// Number of hosts; at least two.
    pub hosts: u32,
    /// The rate of a host's link.
    pub rate: Rate,
    /// The part of it that each host sends on average, payload only.
    pub load: f64,
    /// How large flows are.
    pub sizes: SizeDistribution,
    /// Flows begin before this time.
    pub duration: Duration,
}

impl Poisson {
    /// The flows, by their start.
    pub fn flows(&self, random: &mut Random) -> Vec<FlowSpec> {
        let bytes_per_pico = self.load * self.rate.bits_per_second() as f64 / 8e12 * f64::from(self.hosts);
        let mean_gap = self.sizes.mean() / bytes_per_pico;
        let mut flows = Vec::new();
        let mut time = random.exponential(mean_gap);
        while time < self.duration.as_picos() as f64 {
            let source = random.below(self.hosts.into()) as u32;
            let hop = 1 + random.below(u64::from(self.hosts) - 1) as u32;
            let destination = HostId((source + hop) % self.hosts);
            let spec = FlowSpec::new(HostId(source), destination, self.sizes.draw(random));
            let source_port = 0xC000 | random.below(0x4000) as u16;
            flows.push(FlowSpec { start: Instant::from_picos(time as u64), source_port, ..spec });
            time += random.exponential(mean_gap);
        }
        flows
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incast_leaves_its_destination_out() {
        let flows = incast((0..16).map(HostId), HostId(3), 1000);
        assert_eq!(flows.len(), 15);
        assert!(flows.iter().all(|flow| flow.destination == HostId(3) && flow.source != HostId(3)));
    }

    #[test]
    fn permutations_give_every_host_one_flow_each_way() {
        let random = random_permutation(100, 1, &mut Random::new(5));
        for flows in [permutation(100, 50, 1), random] {
            let mut from: Vec<u32> = flows.iter().map(|flow| flow.source.0).collect();
            let mut to: Vec<u32> = flows.iter().map(|flow| flow.destination.0).collect();
            from.sort_unstable();
            to.sort_unstable();
            assert_eq!(from, (0..100).collect::<Vec<_>>());
            assert_eq!(to, from);
            assert!(flows.iter().all(|flow| flow.source != flow.destination));
        }
    }

    #[test]
    fn all_to_all_has_every_pair_once() {
        let mut pairs: Vec<_> = all_to_all(8, 1).iter().map(|flow| (flow.source, flow.destination)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), 8 * 7);
    }

    #[test]
    fn poisson_arrivals_have_the_load_asked_for() {
        let poisson = Poisson {
            hosts: 16,
            rate: Rate::gbps(100),
            load: 0.5,
            sizes: SizeDistribution::fixed(100_000),
            duration: Duration::from_millis(20),
        };
        let flows = poisson.flows(&mut Random::new(1));
        let bytes: u64 = flows.iter().map(|flow| flow.bytes).sum();
        let expected = 0.5 * 16.0 * 12.5e9 * 0.020;
        assert!((bytes as f64 / expected - 1.0).abs() < 0.03, "{bytes} for {expected}");
        assert!(flows.is_sorted_by_key(|flow| flow.start));
        assert!(flows.iter().all(|flow| flow.source != flow.destination && flow.destination.0 < 16));
    }
}
