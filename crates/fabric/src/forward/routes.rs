//! Shortest paths, as tables of switches.

use std::collections::{BTreeMap, VecDeque};

use crate::topology::{HostId, LinkId, NodeId, SwitchId, Topology};

/// A port. A switch's ports come in the order of its links; those of all switches, in the order of
/// switches, come before those of the hosts, in the order of hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u32);

/// Where the ports of a topology are.
#[derive(Clone, Debug)]
pub struct PortMap {
    /// The first port of every switch, and the first of the hosts.
    first: Vec<u32>,
    /// The two ports of every link: that of its end `a`, and that of `b`.
    ends: Vec<[PortId; 2]>,
}

impl PortMap {
    /// Numbers the ports of a topology.
    pub fn new(topology: &Topology) -> Self {
        let switches = topology.switches() as usize;
        let mut degree = vec![0; switches];
        let ends = topology.links().iter().flat_map(|link| [link.a, link.b]);
        for switch in ends.filter_map(|end| topology.as_switch(end)) {
            degree[switch.0 as usize] += 1;
        }
        let mut first = vec![0; switches + 1];
        for switch in 0..switches {
            first[switch + 1] = first[switch] + degree[switch];
        }
        let mut next = first.clone();
        let hosts = first[switches];
        let mut port = |node: NodeId| match topology.as_switch(node) {
            None => PortId(hosts + node.0),
            Some(switch) => {
                next[switch.0 as usize] += 1;
                PortId(next[switch.0 as usize] - 1)
            }
        };
        let ends = topology.links().iter().map(|link| [port(link.a), port(link.b)]).collect();
        Self { first, ends }
    }

    /// The ports of a link: that of its end `a`, and that of `b`.
    pub fn ends(&self, link: LinkId) -> [PortId; 2] {
        self.ends[link.0 as usize]
    }

    /// The ports of a switch.
    pub fn of_switch(&self, switch: SwitchId) -> std::ops::Range<u32> {
        self.first[switch.0 as usize]..self.first[switch.0 as usize + 1]
    }

    /// A host's port.
    pub fn of_host(&self, host: HostId) -> PortId {
        PortId(self.switch_ports() + host.0)
    }

    /// Number of ports of all switches.
    pub fn switch_ports(&self) -> u32 {
        self.first.last().copied().unwrap_or(0)
    }
}

/// By which ports of every switch a destination is reached: two bytes for each switch and destination,
/// and the sets of ports, each kept once per switch.
#[derive(Clone, Debug)]
pub struct Routes {
    hosts: u32,
    /// Row by row of switches: the number of the set, among the switch's.
    table: Vec<u16>,
    /// The first set of every switch.
    first_set: Vec<u32>,
    sets: Vec<PortSet>,
    members: Vec<PortId>,
}

#[derive(Clone, Copy, Debug)]
struct PortSet {
    first: u32,
    len: u32,
}

impl Routes {
    /// The shortest paths over the links that are up. A port appears in its set as often as its link's
    /// weight says.
    pub fn shortest(topology: &Topology, ports: &PortMap, is_up: impl Fn(LinkId) -> bool) -> Self {
        let mut builder = Builder::new(topology);
        let neighbours: Vec<Vec<Neighbour>> = topology
            .neighbours()
            .iter()
            .enumerate()
            .map(|(node, links)| {
                let up = links.iter().filter(|(link, _)| is_up(*link));
                up.map(|(link, other)| neighbour(topology, ports, NodeId(node as u32), *link, *other))
                    .collect()
            })
            .collect();
        for attachment in 0..topology.switches() {
            builder.add_destinations(topology, &neighbours, SwitchId(attachment));
        }
        builder.finish()
    }

    /// The ports by which `switch` sends packets for `destination`; none if it has no way.
    pub fn ports(&self, switch: SwitchId, destination: HostId) -> &[PortId] {
        let entry = switch.0 as usize * self.hosts as usize + destination.0 as usize;
        let set = self.sets[self.first_set[switch.0 as usize] as usize + usize::from(self.table[entry])];
        &self.members[set.first as usize..(set.first + set.len) as usize]
    }

    /// Sends packets of `switch` for `destination` by these ports instead, for experiments such as routing
    /// loops. A port that is there twice has twice the weight.
    ///
    /// # Panics
    /// If the switch has 65535 different sets of ports.
    pub fn set(&mut self, switch: SwitchId, destination: HostId, ports: &[PortId]) {
        let next = switch.0 as usize + 1;
        let end = self.first_set.get(next).map_or(self.sets.len(), |first| *first as usize);
        let number = end - self.first_set[switch.0 as usize] as usize;
        self.sets.insert(end, PortSet { first: self.members.len() as u32, len: ports.len() as u32 });
        self.members.extend_from_slice(ports);
        for first in &mut self.first_set[next..] {
            *first += 1;
        }
        let entry = switch.0 as usize * self.hosts as usize + destination.0 as usize;
        self.table[entry] = u16::try_from(number).expect("at most 65535 sets of ports");
    }

    /// Sends nothing by `port` of `switch` any more: what a switch does by itself when its link fails.
    pub fn remove_port(&mut self, switch: SwitchId, port: PortId) {
        let end = self.first_set.get(switch.0 as usize + 1).map_or(self.sets.len(), |first| *first as usize);
        for set in &mut self.sets[self.first_set[switch.0 as usize] as usize..end] {
            let members = &mut self.members[set.first as usize..(set.first + set.len) as usize];
            let mut kept = 0;
            for index in 0..members.len() {
                if members[index] != port {
                    members[kept] = members[index];
                    kept += 1;
                }
            }
            set.len = kept as u32;
        }
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        size_of_val(&*self.table)
            + size_of_val(&*self.first_set)
            + size_of_val(&*self.sets)
            + size_of_val(&*self.members)
    }
}

/// One end of a link that is up.
#[derive(Clone, Copy)]
struct Neighbour {
    port: PortId,
    node: NodeId,
    weight: u16,
}

fn neighbour(topology: &Topology, ports: &PortMap, node: NodeId, link: LinkId, other: NodeId) -> Neighbour {
    let [a, b] = ports.ends(link);
    let is_a = topology.links()[link.0 as usize].a == node;
    let weight = topology.links()[link.0 as usize].weight;
    Neighbour { port: if is_a { a } else { b }, node: other, weight }
}

/// Collects the sets of ports of every switch.
struct Builder {
    hosts: u32,
    table: Vec<u16>,
    sets: Vec<BTreeMap<Vec<PortId>, u16>>,
}

const UNREACHED: u32 = u32::MAX;

impl Builder {
    fn new(topology: &Topology) -> Self {
        let mut sets = vec![BTreeMap::new(); topology.switches() as usize];
        for set in &mut sets {
            set.insert(Vec::new(), 0);
        }
        let entries = topology.switches() as usize * topology.hosts() as usize;
        Self { hosts: topology.hosts(), table: vec![0; entries], sets }
    }

    /// Adds the routes to the hosts of one switch.
    fn add_destinations(&mut self, topology: &Topology, neighbours: &[Vec<Neighbour>], attachment: SwitchId) {
        let node = topology.switch(attachment);
        let is_host = |neighbour: &&Neighbour| topology.as_switch(neighbour.node).is_none();
        let hosts: Vec<Neighbour> = neighbours[node.0 as usize].iter().filter(is_host).copied().collect();
        if hosts.is_empty() {
            return;
        }
        let distance = distances(topology, neighbours, node);
        for switch in (0..topology.switches()).map(SwitchId) {
            let node = topology.switch(switch);
            let own = distance[node.0 as usize];
            if own == 0 || own == UNREACHED {
                continue;
            }
            let nearer =
                neighbours[node.0 as usize].iter().filter(|other| distance[other.node.0 as usize] == own - 1);
            let set = nearer.flat_map(|other| std::iter::repeat_n(other.port, other.weight.into())).collect();
            let number = self.intern(switch, set);
            for host in &hosts {
                self.enter(switch, host.node, number);
            }
        }
        for host in &hosts {
            let number = self.intern(attachment, vec![host.port]);
            self.enter(attachment, host.node, number);
        }
    }

    fn intern(&mut self, switch: SwitchId, set: Vec<PortId>) -> u16 {
        let sets = &mut self.sets[switch.0 as usize];
        let next = u16::try_from(sets.len()).expect("at most 65535 sets of ports");
        *sets.entry(set).or_insert(next)
    }

    fn enter(&mut self, switch: SwitchId, host: NodeId, number: u16) {
        self.table[switch.0 as usize * self.hosts as usize + host.0 as usize] = number;
    }

    fn finish(self) -> Routes {
        let (mut first_set, mut sets, mut members) = (Vec::new(), Vec::new(), Vec::new());
        for of_switch in self.sets {
            first_set.push(sets.len() as u32);
            let mut by_number: Vec<_> = of_switch.into_iter().collect();
            by_number.sort_unstable_by_key(|(_, number)| *number);
            for (set, _) in by_number {
                sets.push(PortSet { first: members.len() as u32, len: set.len() as u32 });
                members.extend(set);
            }
        }
        Routes { hosts: self.hosts, table: self.table, first_set, sets, members }
    }
}

/// Links from every node to `from`, through switches only.
fn distances(topology: &Topology, neighbours: &[Vec<Neighbour>], from: NodeId) -> Vec<u32> {
    let mut distance = vec![UNREACHED; neighbours.len()];
    distance[from.0 as usize] = 0;
    let mut next = VecDeque::from([from]);
    while let Some(node) = next.pop_front() {
        for other in &neighbours[node.0 as usize] {
            let unreached = distance[other.node.0 as usize] == UNREACHED;
            if unreached && topology.as_switch(other.node).is_some() {
                distance[other.node.0 as usize] = distance[node.0 as usize] + 1;
                next.push_back(other.node);
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests;
