use nic::Duration;

use super::*;
use crate::rate::Rate;
use crate::topology::{FatTree, LinkSpec, Ring, parse};

fn link() -> LinkSpec {
    LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
}

fn routes(topology: &Topology) -> (PortMap, Routes) {
    let ports = PortMap::new(topology);
    let routes = Routes::shortest(topology, &ports, |_| true);
    (ports, routes)
}

#[test]
fn a_fat_tree_has_as_many_ways_as_half_its_ports() {
    let topology = FatTree::new(8, link()).build();
    let (_, routes) = routes(&topology);
    let count = |switch, host| routes.ports(SwitchId(switch), HostId(host)).len();
    assert_eq!(count(0, 0), 1, "its own host");
    assert_eq!(count(0, 4), 4, "up, within the pod");
    assert_eq!(count(0, 127), 4, "up");
    assert_eq!(count(32, 4), 1, "down");
    assert_eq!(count(32, 127), 4, "up again");
    assert_eq!(count(64, 127), 1, "from the core");
}

#[test]
fn every_path_of_a_network_leads_to_its_destination() {
    let topology = FatTree::new(4, link()).build();
    let (ports, routes) = routes(&topology);
    let mut peer = BTreeMap::new();
    for (index, link) in topology.links().iter().enumerate() {
        let [a, b] = ports.ends(LinkId(index as u32));
        peer.insert(a, link.b);
        peer.insert(b, link.a);
    }
    for destination in (0..topology.hosts()).map(HostId) {
        let mut nodes: Vec<NodeId> =
            (0..topology.switches()).map(|switch| topology.switch(SwitchId(switch))).collect();
        for _ in 0..5 {
            nodes = nodes
                .iter()
                .filter_map(|node| topology.as_switch(*node))
                .flat_map(|switch| routes.ports(switch, destination))
                .map(|port| peer[port])
                .collect();
            nodes.sort_unstable();
            nodes.dedup();
            let arrived = nodes.iter().filter(|node| topology.as_switch(**node).is_none());
            assert!(arrived.into_iter().all(|node| *node == destination.into()));
        }
        assert_eq!(nodes, [destination.into()], "five hops are enough");
    }
}

#[test]
fn the_tables_of_a_thousand_hosts_are_small() {
    let topology = FatTree::new(16, link()).build();
    let (_, routes) = routes(&topology);
    assert!(routes.memory() < 800_000, "{} bytes", routes.memory());
}

#[test]
fn a_ring_takes_the_shorter_way_and_both_where_they_are_equal() {
    let topology = Ring { switches: 4, hosts_per_switch: 1, host_link: link(), ring_link: link() }.build();
    let (_, routes) = routes(&topology);
    let count = |host| routes.ports(SwitchId(0), HostId(host)).len();
    assert_eq!((count(0), count(1), count(2), count(3)), (1, 1, 2, 1));
}

#[test]
fn links_that_are_down_are_avoided() {
    let topology = Ring { switches: 4, hosts_per_switch: 1, host_link: link(), ring_link: link() }.build();
    let ports = PortMap::new(&topology);
    // Link 4 joins switch 0 and 1.
    let routes = Routes::shortest(&topology, &ports, |link| link != LinkId(4));
    assert_eq!(routes.ports(SwitchId(0), HostId(1)), [ports.ends(LinkId(7))[1]]);
    let none = Routes::shortest(&topology, &ports, |link| link.0 < 4);
    assert!(none.ports(SwitchId(0), HostId(1)).is_empty());
}

#[test]
fn weights_repeat_ports_and_a_failed_port_is_taken_out() {
    let text = "host a b\nswitch x y z w\nlink a x 1G 1us\nlink b w 1G 1us\nlink x y 1G 1us\nlink x z 1G 1us\n\
                link y w 1G 1us\nlink z w 1G 1us";
    let mut topology = parse(text).unwrap();
    topology.links_mut()[3].weight = 3;
    let (ports, mut routes) = routes(&topology);
    let (to_y, to_z) = (ports.ends(LinkId(2))[0], ports.ends(LinkId(3))[0]);
    assert_eq!(routes.ports(SwitchId(0), HostId(1)), [to_y, to_z, to_z, to_z]);
    routes.remove_port(SwitchId(0), to_z);
    assert_eq!(routes.ports(SwitchId(0), HostId(1)), [to_y]);
    assert_eq!(routes.ports(SwitchId(2), HostId(1)).len(), 1);
}

#[test]
fn a_route_can_be_set_by_hand_without_touching_others() {
    let topology = Ring { switches: 4, hosts_per_switch: 1, host_link: link(), ring_link: link() }.build();
    let (ports, mut routes) = routes(&topology);
    let before = routes.clone();
    let around = ports.ends(LinkId(7))[1];
    routes.set(SwitchId(0), HostId(1), &[around]);
    assert_eq!(routes.ports(SwitchId(0), HostId(1)), [around]);
    for switch in 0..4 {
        for host in 0..4 {
            let (switch, host) = (SwitchId(switch), HostId(host));
            if (switch, host) != (SwitchId(0), HostId(1)) {
                assert_eq!(routes.ports(switch, host), before.ports(switch, host));
            }
        }
    }
}
