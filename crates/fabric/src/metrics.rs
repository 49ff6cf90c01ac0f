//! Figures of a run: completion times, slowdowns, utilization.

use nic::Duration;

use crate::flow::{Flow, FlowId};
use crate::forward::routes::PortId;
use crate::network::Network;
use crate::rate::Rate;
use crate::topology::NodeId;

/// A distribution of some figure, exact: every value is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Distribution {
    /// In ascending order.
    values: Vec<f64>,
}

impl Distribution {
    /// Number of values.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The mean; NaN if there are none.
    pub fn mean(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.values.len() as f64
    }

    /// The least value that is not below `percent` of all (nearest rank); NaN if there are none.
    pub fn percentile(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.values.len() as f64).ceil() as usize;
        self.values.get(rank.max(1) - 1).or(self.values.last()).copied().unwrap_or(f64::NAN)
    }

    /// The largest; NaN if there are none.
    pub fn max(&self) -> f64 {
        self.values.last().copied().unwrap_or(f64::NAN)
    }
}

impl FromIterator<f64> for Distribution {
    fn from_iter<I: IntoIterator<Item = f64>>(values: I) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_unstable_by(f64::total_cmp);
        Self { values }
    }
}

/// A path through an empty network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathCost {
    /// Links.
    pub hops: u32,
    /// Propagation and latencies, one way.
    pub delay: Duration,
    /// The rate of its slowest link.
    pub bottleneck: Rate,
    /// The time of one full frame on all links but the slowest.
    pub forwarding: Duration,
}

impl Network {
    /// Completion times of the flows that are finished, in microseconds.
    pub fn completion_times(&self) -> Distribution {
        let time = |flow: &Flow| flow.completion_time().map(|time| time.as_picos() as f64 / 1e6);
        self.flows().iter().filter_map(time).collect()
    }

    /// How many times longer than in an empty network the flows took that are finished.
    pub fn slowdowns(&self) -> Distribution {
        let ids = (0..self.flows().len() as u32).map(FlowId);
        let slowdown = |id: FlowId| {
            let flow = &self.flows()[id.0 as usize];
            let time = flow.arrival?.saturating_since(flow.spec.start);
            Some(time.as_picos() as f64 / self.ideal_time(id)?.as_picos() as f64)
        };
        ids.filter_map(slowdown).collect()
    }

    /// How long a flow takes in an empty network, until its last byte arrives; nothing if it has no path.
    pub fn ideal_time(&self, id: FlowId) -> Option<Duration> {
        let flow = &self.flows()[id.0 as usize];
        let (payload, frame) = self.full_packet(&flow.spec);
        let wire = self.framing().on_wire(frame as usize) as u64;
        let packets = flow.spec.bytes.div_ceil(payload).max(1);
        // The last packet may be short; it waits for the full ones before it on every link.
        let missing = packets * payload - flow.spec.bytes;
        let path = self.path_cost(id, if packets == 1 { wire - missing } else { wire })?;
        let sending = path.bottleneck.time_for(packets * wire - missing);
        Some(path.delay + path.forwarding + sending)
    }

    /// The path that a flow takes by the first of equal ways, for frames of so many bytes on the wire.
    fn path_cost(&self, id: FlowId, wire: u64) -> Option<PathCost> {
        let spec = &self.flows()[id.0 as usize].spec;
        let mut port = self.port_map().of_host(spec.source);
        let (mut hops, mut delay, mut total) = (0, 0, 0);
        let mut bottleneck: Option<Rate> = None;
        loop {
            let (rate, ahead, far) = self.link_of(port);
            hops += 1;
            delay += ahead.as_picos();
            total += rate.time_for(wire).as_picos();
            bottleneck = Some(bottleneck.map_or(rate, |slowest| slowest.min(rate)));
            if far == NodeId::from(spec.destination) {
                break;
            }
            // A loop of routes has no end.
            let switch = self.topology().as_switch(far).filter(|_| hops <= 64)?;
            port = *self.routes().ports(switch, spec.destination).first()?;
        }
        let bottleneck = bottleneck?;
        let forwarding = Duration::from_picos(total - bottleneck.time_for(wire).as_picos());
        Some(PathCost { hops, delay: Duration::from_picos(delay), bottleneck, forwarding })
    }

    /// The part of the time so far in which a port was sending; 0 at time zero.
    pub fn utilization(&self, port: PortId) -> f64 {
        let elapsed = self.now().as_picos();
        if elapsed == 0 {
            return 0.0;
        }
        let (rate, ..) = self.link_of(port);
        rate.time_for(self.sent(port).0).as_picos() as f64 / elapsed as f64
    }
}

#[cfg(test)]
mod tests {
    use nic::Instant;

    use super::*;
    use crate::network::{Config, Outcome};
    use crate::topology::{FatTree, HostId, LinkSpec};
    use crate::{FlowSpec, Framing, host::HostKind};

    #[test]
    fn percentiles_are_values_that_occur() {
        let distribution: Distribution = [5.0, 1.0, 3.0, 2.0, 4.0].into_iter().collect();
        assert_eq!((distribution.mean(), distribution.max(), distribution.len()), (3.0, 5.0, 5));
        assert_eq!(
            [0.0, 20.0, 21.0, 50.0, 99.0, 100.0].map(|p| distribution.percentile(p)),
            [1.0, 1.0, 2.0, 3.0, 5.0, 5.0]
        );
        assert!(Distribution::default().percentile(50.0).is_nan());
    }

    #[test]
    fn a_flow_alone_has_no_slowdown() {
        let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
        let mut config = Config { framing: Framing::fixed(48), ..Config::default() };
        config.switch.latency = Duration::from_nanos(300);
        config.host.kind = HostKind::Raw { payload: 1000 };
        for bytes in [1, 999, 1000, 1001, 123_456] {
            let mut network = Network::new(FatTree::new(4, link).build(), &config).unwrap();
            network.add_flow(FlowSpec::new(HostId(0), HostId(15), bytes));
            assert_eq!(network.run(Instant::from_nanos(1_000_000)), Outcome::Finished);
            let slowdown = network.slowdowns().max();
            assert!((0.98..1.0001).contains(&slowdown), "{bytes}: {slowdown}");
        }
    }

    #[test]
    fn a_busy_port_is_utilized_to_the_full() {
        let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
        let mut network = Network::new(FatTree::new(4, link).build(), &Config::default()).unwrap();
        network.add_flow(FlowSpec::new(HostId(0), HostId(1), 10_000_000));
        assert_eq!(network.run(Instant::from_nanos(10_000_000)), Outcome::Finished);
        let port = network.port_map().of_host(HostId(0));
        assert!((0.99..1.0).contains(&network.utilization(port)), "{}", network.utilization(port));
        assert_eq!(network.utilization(network.port_map().of_host(HostId(9))), 0.0);
    }
}
