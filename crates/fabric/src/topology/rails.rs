//! The network of a training cluster that keeps most traffic on one switch.

use super::{LinkSpec, NodeId, SwitchId, Topology};

/// Servers with several GPUs and one adapter for each. Adapter `r` of every server of a segment is on
/// rail switch `r` of the segment, so that adapters of the same number are one hop apart; traffic
/// between rails goes through the server (NVLink) or over the spines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RailOptimized {
    /// Groups of servers that share rail switches.
    pub segments: u32,
    /// Servers of a segment.
    pub servers: u32,
    /// GPUs, and adapters, of a server.
    pub rails: u32,
    /// Spine switches, each linked to every rail switch; 0 for a single segment whose rails are apart.
    pub spines: u32,
    /// The links to adapters.
    pub host_link: LinkSpec,
    /// The links to spines.
    pub uplink: LinkSpec,
}

impl RailOptimized {
    /// Host `rails * s + r` is adapter `r` of server `s`; rail switches come before spines, segment by
    /// segment.
    pub fn build(&self) -> Topology {
        let mut topology = Topology::new(self.segments * self.servers * self.rails, 0);
        topology.hosts_per_server = self.rails;
        for segment in 0..self.segments {
            for rail in 0..self.rails {
                topology.add_switch(format!("rail{segment}.{rail}"));
            }
        }
        for spine in 0..self.spines {
            topology.add_switch(format!("spine{spine}"));
        }
        let rails = self.segments * self.rails;
        for host in 0..topology.hosts() {
            let (server, rail) = (host / self.rails, host % self.rails);
            let switch = topology.switch(SwitchId(server / self.servers * self.rails + rail));
            topology.add_link(NodeId(host), switch, self.host_link);
        }
        for rail in 0..rails {
            for spine in 0..self.spines {
                let (low, high) = (topology.switch(SwitchId(rail)), topology.switch(SwitchId(rails + spine)));
                topology.add_link(low, high, self.uplink);
            }
        }
        topology
    }
}
