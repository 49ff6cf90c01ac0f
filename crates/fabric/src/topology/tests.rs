use std::collections::BTreeSet;

use super::*;

fn link() -> LinkSpec {
    LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))
}

/// The number of links of every switch.
fn degrees(topology: &Topology) -> BTreeSet<usize> {
    topology.neighbours()[topology.hosts() as usize..].iter().map(Vec::len).collect()
}

#[test]
fn a_fat_tree_uses_every_port_of_every_switch() {
    for (k, hosts, switches) in [(4, 16, 20), (8, 128, 80), (16, 1024, 320)] {
        let topology = FatTree::new(k, link()).build();
        topology.check().unwrap();
        assert_eq!((topology.hosts(), topology.switches()), (hosts, switches));
        assert_eq!(topology.links().len() as u32, 3 * hosts);
        assert_eq!(degrees(&topology), BTreeSet::from([k as usize]));
    }
}

#[test]
fn a_leaf_spine_network_is_oversubscribed_as_asked() {
    let shape = LeafSpine {
        leaves: 4,
        spines: 2,
        hosts_per_leaf: 16,
        parallel: 2,
        host_link: link(),
        uplink: LinkSpec::new(Rate::gbps(400), Duration::from_nanos(500)),
    };
    let topology = shape.build();
    topology.check().unwrap();
    assert_eq!(topology.to_string(), "64 hosts, 6 switches, 80 links");
    assert_eq!(degrees(&topology), BTreeSet::from([8, 20]));
    assert_eq!(topology.name(NodeId(64)), "leaf0");
    assert_eq!(topology.name(NodeId(69)), "spine1");
}

#[test]
fn adapters_of_one_number_share_a_rail_switch() {
    let shape =
        RailOptimized { segments: 2, servers: 4, rails: 8, spines: 4, host_link: link(), uplink: link() };
    let topology = shape.build();
    topology.check().unwrap();
    assert_eq!(topology.to_string(), "64 hosts, 20 switches, 128 links");
    let neighbours = topology.neighbours();
    for host in 0..64 {
        let (segment, rail) = (host / 32, host % 8);
        let (_, switch) = neighbours[host as usize][0];
        assert_eq!(topology.name(switch), format!("rail{segment}.{rail}"));
    }
    assert_eq!(topology.hosts_per_server(), 8);
}

#[test]
fn a_dragonfly_has_one_link_between_any_two_groups() {
    for groups in [9, 5] {
        let shape = Dragonfly {
            groups,
            switches: 4,
            globals: 2,
            hosts: 2,
            host_link: link(),
            local_link: link(),
            global_link: link(),
        };
        let topology = shape.build();
        topology.check().unwrap();
        let group = |node: NodeId| topology.as_switch(node).map(|switch| switch.0 / 4);
        let mut pairs = BTreeSet::new();
        for link in topology.links() {
            let (Some(a), Some(b)) = (group(link.a), group(link.b)) else { continue };
            assert!(a == b || pairs.insert((a, b)), "two links from {a} to {b}");
        }
        assert_eq!(pairs.len() as u32, groups * (groups - 1) / 2);
        assert!(degrees(&topology).iter().all(|degree| *degree <= 2 + 3 + 2));
    }
}

#[test]
fn a_ring_closes() {
    let shape = Ring { switches: 5, hosts_per_switch: 2, host_link: link(), ring_link: link() };
    let topology = shape.build();
    topology.check().unwrap();
    assert_eq!(degrees(&topology), BTreeSet::from([4]));
}

#[test]
fn a_frame_is_lost_if_any_of_its_bits_is_wrong() {
    let loss = Loss::Bits(1e-6).of_frame(1250);
    assert!((loss - 0.00995).abs() < 1e-5, "{loss}");
    assert_eq!(Loss::Frames(0.25).of_frame(64), 0.25);
}

#[test]
fn a_graph_is_read_from_text() {
    let text = "# two racks\nhost a b\nswitch x y\nlink a x 100Gbps 500ns\nlink x y 400Gbps 1us ber=1e-12\n\
                host c # late\nlink b y 25G 1us loss=0.001\nlink c y 25G 1us\n";
    let topology = parse(text).unwrap();
    assert_eq!(topology.to_string(), "3 hosts, 2 switches, 4 links");
    assert_eq!(topology.name(topology.links()[1].b), "y");
    assert_eq!(topology.links()[1].spec.loss, Loss::Bits(1e-12));
    assert_eq!(
        topology.links()[2].spec,
        LinkSpec { loss: Loss::Frames(0.001), ..LinkSpec::new(Rate::gbps(25), Duration::from_micros(1)) }
    );
}

#[test]
fn what_cannot_be_read_is_refused_with_its_line_and_what_was_expected() {
    let cases = [
        ("", "line 0: there is no host"),
        ("nodes 5", "line 1: \"nodes\": expected host, switch or link"),
        ("host a a", "line 1: there is a node \"a\" already"),
        (
            "host a\nswitch x\nlink a y 1G 1us",
            "line 3: unknown node \"y\": expected one declared by host or switch above",
        ),
        (
            "host a\nswitch x\nlink a x 1G",
            "line 3: expected link, two nodes, a rate and a delay, such as: link a b 100Gbps 500ns",
        ),
        ("host a\nswitch x\nlink a x 0Gbps 1us", "line 3: a rate of zero"),
        (
            "host a\nswitch x\nlink a x 1G fast",
            "line 3: \"fast\": expected a number and a unit, such as 1000ns",
        ),
        (
            "host a\nswitch x\nlink a x 1G 1us loss=2",
            "line 3: \"loss=2\": expected ber= or loss= and a number of at least 0 and less than 1",
        ),
        ("host a b\nswitch x\nlink a x 1G 1us", "line 3: host b has 0 links; expected one"),
        (
            "host a b\nswitch x y\nlink a x 1G 1us\nlink b y 1G 1us",
            "line 4: there is no path from host a to b",
        ),
        ("host a\nswitch x\nlink a x 1G 1us\nlink x x 1G 1us", "line 4: node x is linked to itself"),
    ];
    for (text, message) in cases {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
}

#[test]
fn two_hosts_may_be_linked_without_a_switch() {
    let topology = parse("host a b\nlink a b 100Gbps 1us").unwrap();
    assert_eq!(topology.to_string(), "2 hosts, 0 switches, 1 links");
}
