use nic::Instant;

use super::*;
use crate::topology::{HostId, NodeId};

const CONFIG: &str = "ENABLE_QCN 1\nTOPOLOGY_FILE t.txt\nFLOW_FILE f.txt\nPACKET_PAYLOAD_SIZE 1000\nCC_MODE 1\n\
                      RATE_AI 20Mb/s\nKMAX_MAP 2 25000000000 400 100000000000 1600\nKMIN_MAP 1 100000000000 400\n\
                      PMAX_MAP 1 100000000000 0.2\nBUFFER_SIZE 32\nLINK_DOWN 0 0 0\nENABLE_TRACE 0\n";

const TOPOLOGY: &str = "3 1 2\n2\n0 2 100Gbps 1000ns 0\n1 2 100Gbps 1000ns 0.001\n";

#[test]
fn a_config_is_read() {
    let config = HpccConfig::parse(CONFIG).unwrap();
    assert_eq!((config.payload, config.congestion_control, config.buffer_mib), (1000, 1, 32));
    assert!(config.marks);
    assert_eq!(config.kmax, [(Rate::gbps(25), 400.0), (Rate::gbps(100), 1600.0)]);
    assert_eq!(config.control, [("RATE_AI".to_owned(), "20Mb/s".to_owned())]);
    assert_eq!(config.link_down, None);
}

#[test]
fn what_a_config_gets_wrong_is_named_with_its_line() {
    for (line, message) in [
        ("ENABLE_QCN yes", "13: ENABLE_QCN yes: expected 0 or 1"),
        ("ENABLE_QNC 1", "13: ENABLE_QNC 1: expected a key of this simulator"),
        (
            "KMIN_MAP 2 1 1",
            "13: KMIN_MAP 2 1 1: expected a number of pairs, and pairs of bits per second and a value",
        ),
        ("LINK_DOWN 5 1", "13: LINK_DOWN 5 1: expected microseconds and two nodes"),
        ("BUFFER_SIZE 0", "13: expected BUFFER_SIZE and a value that is not 0"),
    ] {
        assert_eq!(HpccConfig::parse(&format!("{CONFIG}{line}")).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_topology_and_flows_are_read() {
    let topology = parse_topology(TOPOLOGY).unwrap();
    assert_eq!(topology.to_string(), "2 hosts, 1 switches, 2 links");
    assert_eq!(topology.links()[1].spec.loss, crate::topology::Loss::Frames(0.001));
    let flows = parse_flows("2\n0 1 3 100 5000 2\n0 1 3 100 6000 2.000001\n", &topology).unwrap();
    assert_eq!((flows[0].source, flows[0].bytes, flows[0].source_port), (HostId(0), 5000, 10_000));
    assert_eq!((flows[1].source_port, flows[1].destination_port), (10_001, 100));
    assert_eq!(flows[1].start, Instant::from_nanos(2_000_001_000));
}

#[test]
fn what_a_topology_or_flow_gets_wrong_is_named_with_its_line() {
    for (text, message) in [
        ("", "0: expected the numbers of nodes, switches and links"),
        ("3 1\n", "1: expected the numbers of nodes, switches and links"),
        ("3 1 2\n0\n", "2: expected the switches 2 to 2, after all hosts"),
        ("3 1 2\n2\n0 2 100Gbps 1000ns 0\n", "3: expected a link for each that the first line says"),
        ("3 1 1\n2\n0 7 100Gbps 1000ns 0\n", "3: node 7: expected a number below 3"),
        ("3 1 1\n2\n0 2 0Gbps 1000ns 0\n", "3: a rate of zero"),
    ] {
        assert_eq!(parse_topology(text).unwrap_err().to_string(), message);
    }
    let topology = parse_topology(TOPOLOGY).unwrap();
    for (text, message) in [
        ("1\n", "1: expected 1 flows"),
        ("1\n0 2 3 100 5 2", "2: host 2: expected a number below 2"),
        ("1\n0 0 3 100 5 2", "2: a flow from host 0 to itself"),
        (
            "1\n0 1 3 100 5",
            "2: expected source, destination, priority, port, bytes and start in seconds, such as: 0 5 3 100 1000000 2",
        ),
    ] {
        assert_eq!(parse_flows(text, &topology).unwrap_err().to_string(), message);
    }
}

#[test]
fn a_network_is_set_as_the_simulator_sets_its_own() {
    let topology = parse_topology(TOPOLOGY).unwrap();
    let flows = parse_flows("1\n0 1 3 100 5000 2\n", &topology).unwrap();
    let settings =
        HpccConfig { link_down: Some((Instant::from_nanos(9), 2, 1)), ..HpccConfig::parse(CONFIG).unwrap() };
    let scenario = Scenario { topology, flows, settings };
    let config = scenario.config(HostKind::Raw { payload: 1000 });
    let wred = config.switch.queues[3].ecn.unwrap();
    assert_eq!((wred.min, wred.max, wred.probability), (400_000, 1_600_000, 0.2));
    assert_eq!(config.switch.lossless, Priorities::of(3));
    assert_eq!(scenario.topology.links()[1].b, NodeId(2));
    assert_eq!(scenario.failure(), Some((Instant::from_nanos(9), Plan::LinkDown(LinkId(1)))));
}
