//! The circle of industrial networks.

use super::{LinkSpec, NodeId, SwitchId, Topology};

/// Switches in a circle, each with some hosts. Traffic takes the shorter way; where both are equally
/// long, either. With PFC, a ring can deadlock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ring {
    /// Switches: at least three.
    pub switches: u32,
    /// Hosts of each.
    pub hosts_per_switch: u32,
    /// The links to hosts.
    pub host_link: LinkSpec,
    /// The links of the circle.
    pub ring_link: LinkSpec,
}

impl Ring {
    /// Host `i` is on switch `i / hosts_per_switch`; link `hosts + i` joins switch `i` and the next.
    ///
    /// # Panics
    /// If there are fewer than three switches.
    pub fn build(&self) -> Topology {
        assert!(self.switches >= 3, "a ring of {} switches", self.switches);
        let mut topology = Topology::new(self.switches * self.hosts_per_switch, self.switches);
        for host in 0..topology.hosts() {
            let switch = topology.switch(SwitchId(host / self.hosts_per_switch));
            topology.add_link(NodeId(host), switch, self.host_link);
        }
        for switch in 0..self.switches {
            let next = topology.switch(SwitchId((switch + 1) % self.switches));
            topology.add_link(topology.switch(SwitchId(switch)), next, self.ring_link);
        }
        topology
    }
}
