//! Groups of switches that are one long link apart.

use super::{LinkSpec, NodeId, SwitchId, Topology};

/// Switches of a group are fully meshed, and every pair of groups has one link (Kim, Dally, Scott and
/// Abts 2008). `groups` is at most `switches * globals + 1`.
///
/// Shortest paths of a dragonfly depend on each other in circles: with PFC on one priority it can
/// deadlock, which [`crate::deadlock`] tells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dragonfly {
    /// Number of groups.
    pub groups: u32,
    /// Switches of a group.
    pub switches: u32,
    /// Links of a switch to other groups.
    pub globals: u32,
    /// Hosts of a switch.
    pub hosts: u32,
    /// The links to hosts.
    pub host_link: LinkSpec,
    /// The links within a group.
    pub local_link: LinkSpec,
    /// The links between groups.
    pub global_link: LinkSpec,
}

impl Dragonfly {
    /// Host `i` is on switch `i / hosts`, which belongs to group `i / hosts / switches`.
    ///
    /// # Panics
    /// If there are more groups than links to join them.
    pub fn build(&self) -> Topology {
        assert!(
            self.groups <= self.switches * self.globals + 1,
            "{} groups need more than {} links each",
            self.groups,
            self.switches * self.globals
        );
        let mut topology = Topology::new(self.groups * self.switches * self.hosts, 0);
        for group in 0..self.groups {
            for switch in 0..self.switches {
                topology.add_switch(format!("g{group}.{switch}"));
            }
        }
        for host in 0..topology.hosts() {
            let switch = topology.switch(SwitchId(host / self.hosts));
            topology.add_link(NodeId(host), switch, self.host_link);
        }
        for group in 0..self.groups {
            self.add_locals(&mut topology, group);
        }
        self.add_globals(&mut topology);
        topology
    }

    fn add_locals(&self, topology: &mut Topology, group: u32) {
        let first = group * self.switches;
        for a in 0..self.switches {
            for b in a + 1..self.switches {
                let (a, b) = (topology.switch(SwitchId(first + a)), topology.switch(SwitchId(first + b)));
                topology.add_link(a, b, self.local_link);
            }
        }
    }

    /// The groups seen from a group, itself left out, are spread over its switches in their order.
    fn add_globals(&self, topology: &mut Topology) {
        let switch = |group: u32, other: u32| {
            let rank = (other + self.groups - group - 1) % self.groups;
            SwitchId(group * self.switches + rank / self.globals)
        };
        for a in 0..self.groups {
            for b in a + 1..self.groups {
                let ends = (topology.switch(switch(a, b)), topology.switch(switch(b, a)));
                topology.add_link(ends.0, ends.1, self.global_link);
            }
        }
    }
}
