//! Trees of switches in which every path goes up and then down.

use super::{LinkSpec, NodeId, SwitchId, Topology};

/// Two tiers. Oversubscribed by `hosts_per_leaf * host rate / (spines * parallel * uplink rate)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LeafSpine {
    /// Switches with hosts.
    pub leaves: u32,
    /// Switches above them.
    pub spines: u32,
    /// Hosts on each leaf.
    pub hosts_per_leaf: u32,
    /// Links from a leaf to a spine.
    pub parallel: u32,
    /// The links to hosts.
    pub host_link: LinkSpec,
    /// The links to spines.
    pub uplink: LinkSpec,
}

impl LeafSpine {
    /// Hosts `hosts_per_leaf * i` and after them are on leaf `i`; leaves come before spines.
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(self.leaves * self.hosts_per_leaf, 0);
        for leaf in 0..self.leaves {
            topology.add_switch(format!("leaf{leaf}"));
        }
        for spine in 0..self.spines {
            topology.add_switch(format!("spine{spine}"));
        }
        for host in 0..topology.hosts() {
            let leaf = topology.switch(SwitchId(host / self.hosts_per_leaf));
            topology.add_link(NodeId(host), leaf, self.host_link);
        }
        for leaf in 0..self.leaves {
            for spine in 0..self.spines * self.parallel {
                let spine = topology.switch(SwitchId(self.leaves + spine % self.spines));
                topology.add_link(topology.switch(SwitchId(leaf)), spine, self.uplink);
            }
        }
        topology
    }
}

/// Three tiers of switches with `k` ports: `k` pods of `k/2` edge and `k/2` aggregation switches, and
/// `k^2/4` core switches (Al-Fares, Loukissas and Vahdat 2008). With `k/2` hosts on each edge switch
/// every pair of hosts could have the full rate at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FatTree {
    /// Ports of a switch: even, at least 2.
    pub k: u32,
    /// Hosts on each edge switch: `k/2`, or more to oversubscribe it.
    pub hosts_per_edge: u32,
    /// The links to hosts.
    pub host_link: LinkSpec,
    /// The links between switches.
    pub fabric_link: LinkSpec,
}

impl FatTree {
    /// The one that is not oversubscribed, of equal links.
    pub const fn new(k: u32, link: LinkSpec) -> Self {
        Self { k, hosts_per_edge: k / 2, host_link: link, fabric_link: link }
    }

    /// Hosts `hosts_per_edge * i` and after them are on edge switch `i`; switches come in the order edge,
    /// aggregation, core, pod by pod.
    ///
    /// # Panics
    /// If `k` is odd or zero.
    pub fn build(&self) -> Topology {
        assert!(self.k > 0 && self.k.is_multiple_of(2), "a fat tree of {} ports", self.k);
        let half = self.k / 2;
        let per_tier = self.k * half;
        let mut topology = Topology::new(per_tier * self.hosts_per_edge, 0);
        for (tier, count) in [("edge", per_tier), ("aggr", per_tier), ("core", half * half)] {
            for switch in 0..count {
                topology.add_switch(format!("{tier}{switch}"));
            }
        }
        for host in 0..topology.hosts() {
            let edge = topology.switch(SwitchId(host / self.hosts_per_edge));
            topology.add_link(NodeId(host), edge, self.host_link);
        }
        for pod in 0..self.k {
            self.add_pod(&mut topology, pod);
        }
        topology
    }

    fn add_pod(&self, topology: &mut Topology, pod: u32) {
        let half = self.k / 2;
        let edge = |i: u32| SwitchId(pod * half + i);
        let aggregation = |i: u32| SwitchId((self.k + pod) * half + i);
        let core = |i: u32| SwitchId(2 * self.k * half + i);
        for i in 0..half {
            for j in 0..half {
                let (low, high) = (topology.switch(edge(i)), topology.switch(aggregation(j)));
                topology.add_link(low, high, self.fabric_link);
            }
            for j in 0..half {
                let (low, high) = (topology.switch(aggregation(i)), topology.switch(core(i * half + j)));
                topology.add_link(low, high, self.fabric_link);
            }
        }
    }
}
