//! Whether the routes of a network could ever deadlock under PFC.
//!
//! A queue waits for the queues that its packets go to next. If no queue can come to wait for itself, PFC
//! cannot deadlock (Dally and Seitz 1987). Paths that go up and then down a tree never do; shortest paths
//! of rings and dragonflies do.

use crate::forward::Routes;
use crate::forward::routes::{PortId, PortMap};
use crate::topology::{HostId, LinkId, NodeId, SwitchId, Topology};

/// A circle of ports, each of which may come to wait for the next, if there is one.
pub fn cyclic_dependency(topology: &Topology, map: &PortMap, routes: &Routes) -> Option<Vec<PortId>> {
    let mut next = vec![Vec::new(); map.switch_ports() as usize];
    let far = far_ends(topology, map);
    for destination in (0..topology.hosts()).map(HostId) {
        add_dependencies(topology, routes, &far, destination, &mut next);
    }
    find_circle(&next)
}

/// The node at the other end of every switch port.
fn far_ends(topology: &Topology, map: &PortMap) -> Vec<NodeId> {
    let mut far = vec![NodeId(0); 2 * topology.links().len()];
    for (index, link) in topology.links().iter().enumerate() {
        let [a, b] = map.ends(LinkId(index as u32));
        far[a.0 as usize] = link.b;
        far[b.0 as usize] = link.a;
    }
    far
}

/// Adds what queues wait for because of packets to one destination.
fn add_dependencies(
    topology: &Topology,
    routes: &Routes,
    far: &[NodeId],
    destination: HostId,
    next: &mut [Vec<PortId>],
) {
    let mut seen = vec![false; topology.switches() as usize];
    let mut reached: Vec<SwitchId> = sources(topology, destination);
    while let Some(switch) = reached.pop() {
        if std::mem::replace(&mut seen[switch.0 as usize], true) {
            continue;
        }
        for port in routes.ports(switch, destination) {
            let Some(onward) = topology.as_switch(far[port.0 as usize]) else { continue };
            for following in routes.ports(onward, destination) {
                let known = &mut next[port.0 as usize];
                if !known.contains(following) {
                    known.push(*following);
                }
            }
            reached.push(onward);
        }
    }
}

/// The switches that have hosts other than the destination.
fn sources(topology: &Topology, destination: HostId) -> Vec<SwitchId> {
    let switch = |link: &crate::topology::Link| {
        let (host, switch) =
            if topology.as_switch(link.a).is_none() { (link.a, link.b) } else { (link.b, link.a) };
        (host.0 != destination.0 && topology.as_switch(host).is_none())
            .then(|| topology.as_switch(switch))
            .flatten()
    };
    topology.links().iter().filter_map(switch).collect()
}

/// A circle in a directed graph, by depth-first search.
fn find_circle(next: &[Vec<PortId>]) -> Option<Vec<PortId>> {
    /// What the search knows of a port.
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        Unknown,
        OnPath,
        Clear,
    }
    let mut marks = vec![Mark::Unknown; next.len()];
    for start in 0..next.len() {
        if marks[start] != Mark::Unknown {
            continue;
        }
        // Ports on the path, and how many of the following ones were tried.
        let mut path = vec![(start, 0)];
        marks[start] = Mark::OnPath;
        while let Some((port, tried)) = path.last_mut() {
            let port = *port;
            let Some(following) = next[port].get(*tried) else {
                marks[port] = Mark::Clear;
                path.pop();
                continue;
            };
            *tried += 1;
            let following = following.0 as usize;
            match marks.get(following) {
                Some(Mark::OnPath) => {
                    let on_path = path.iter().skip_while(|(port, _)| *port != following);
                    return Some(on_path.map(|(port, _)| PortId(*port as u32)).collect());
                }
                Some(Mark::Unknown) => {
                    marks[following] = Mark::OnPath;
                    path.push((following, 0));
                }
                _ => {}
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use nic::Duration;

    use super::*;
    use crate::rate::Rate;
    use crate::topology::{Dragonfly, FatTree, LeafSpine, LinkSpec, RailOptimized, Ring};

    fn link() -> LinkSpec {
        LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
    }

    fn circle(topology: &Topology) -> Option<Vec<PortId>> {
        let map = PortMap::new(topology);
        cyclic_dependency(topology, &map, &Routes::shortest(topology, &map, |_| true))
    }

    #[test]
    fn trees_have_no_circle() {
        assert_eq!(circle(&FatTree::new(4, link()).build()), None);
        let leaf_spine = LeafSpine {
            leaves: 3,
            spines: 2,
            hosts_per_leaf: 2,
            parallel: 2,
            host_link: link(),
            uplink: link(),
        };
        assert_eq!(circle(&leaf_spine.build()), None);
        let rails =
            RailOptimized { segments: 2, servers: 2, rails: 4, spines: 2, host_link: link(), uplink: link() };
        assert_eq!(circle(&rails.build()), None);
    }

    #[test]
    fn a_fat_tree_with_a_failed_link_has_a_circle_only_if_paths_bounce() {
        let topology = FatTree::new(4, link()).build();
        let map = PortMap::new(&topology);
        // The first link between an edge and an aggregation switch.
        let routes = Routes::shortest(&topology, &map, |link| link.0 != 16);
        assert_eq!(cyclic_dependency(&topology, &map, &routes), None);
    }

    #[test]
    fn rings_and_dragonflies_have_one() {
        let ring = Ring { switches: 5, hosts_per_switch: 1, host_link: link(), ring_link: link() };
        assert_eq!(circle(&ring.build()).map(|circle| circle.len()), Some(5));
        // Three switches are one hop apart: nothing goes round.
        let triangle = Ring { switches: 3, ..ring };
        assert_eq!(circle(&triangle.build()), None);
        let dragonfly = Dragonfly {
            groups: 9,
            switches: 4,
            globals: 2,
            hosts: 2,
            host_link: link(),
            local_link: link(),
            global_link: link(),
        };
        assert!(circle(&dragonfly.build()).is_some());
    }
}
