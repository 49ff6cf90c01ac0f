//! Topology and flow files: numbers in lines, the first of which says how many follow.

use std::collections::BTreeMap;

use nic::{Duration, Instant};

use super::LineError;
use crate::flow::FlowSpec;
use crate::rate::{Rate, parse_duration};
use crate::topology::{HostId, LinkSpec, Loss, NodeId, Topology, statements};

/// Reads a topology: nodes, switches and links; the switches; and a link a line.
///
/// Hosts must have lower numbers than switches: the hash that chooses paths depends on the numbers.
pub fn parse_topology(text: &str) -> Result<Topology, LineError> {
    let mut lines = statements(text);
    let last = text.lines().count();
    let mut next = |what: &str| lines.next().ok_or_else(|| LineError::new(last, format!("expected {what}")));

    let (line, statement) = next("the numbers of nodes, switches and links")?;
    let [nodes, switches, links] = numbers(line, statement, "the numbers of nodes, switches and links")?;
    let hosts =
        nodes.checked_sub(switches).ok_or_else(|| LineError::new(line, "more switches than nodes"))?;
    let mut topology = Topology::new(hosts, switches);
    if switches > 0 {
        let (line, statement) = next("the numbers of the switches")?;
        check_switches(line, statement, hosts, nodes)?;
    }
    for _ in 0..links {
        let (line, statement) = next("a link for each that the first line says")?;
        let (a, b, spec) = parse_link(line, statement, nodes)?;
        topology.add_link(a, b, spec);
    }
    Ok(topology)
}

fn check_switches(line: usize, statement: &str, hosts: u32, nodes: u32) -> Result<(), LineError> {
    let listed: Vec<&str> = statement.split_whitespace().collect();
    let expected = (hosts..nodes).map(|node| node.to_string());
    if expected.eq(listed.iter().copied()) {
        return Ok(());
    }
    Err(LineError::new(line, format!("expected the switches {hosts} to {}, after all hosts", nodes - 1)))
}

fn parse_link(line: usize, statement: &str, nodes: u32) -> Result<(NodeId, NodeId, LinkSpec), LineError> {
    const EXPECTED: &str = "two nodes, a rate, a delay and a loss rate, such as: 0 16 100Gbps 1000ns 0.0";
    let words: Vec<&str> = statement.split_whitespace().collect();
    let [a, b, rate, delay, loss] = words[..] else {
        return Err(LineError::new(line, format!("expected {EXPECTED}")));
    };
    let node = |word: &str| match word.parse() {
        Ok(node) if node < nodes => Ok(NodeId(node)),
        _ => Err(LineError::new(line, format!("node {word}: expected a number below {nodes}"))),
    };
    let rate: Rate = rate.parse().map_err(|error| LineError::new(line, format!("{error}")))?;
    let delay = parse_duration(delay).map_err(|error| LineError::new(line, error.to_string()))?;
    let loss: f64 = loss.parse().map_err(|_| LineError::new(line, format!("expected {EXPECTED}")))?;
    let loss = if loss == 0.0 { Loss::None } else { Loss::Frames(loss) };
    Ok((node(a)?, node(b)?, LinkSpec { rate, delay, loss }))
}

/// Reads flows: how many; and a flow a line: source, destination, priority, port, bytes, start in seconds.
///
/// Source ports count up from 10000 for the flows of two hosts, as the simulator gives them out.
pub fn parse_flows(text: &str, topology: &Topology) -> Result<Vec<FlowSpec>, LineError> {
    let mut lines = statements(text);
    let last = text.lines().count();
    let (line, statement) =
        lines.next().ok_or_else(|| LineError::new(last, "expected the number of flows"))?;
    let [count] = numbers(line, statement, "the number of flows")?;
    let mut ports = BTreeMap::new();
    let mut flows = Vec::new();
    for _ in 0..count {
        let (line, statement) =
            lines.next().ok_or_else(|| LineError::new(last, format!("expected {count} flows")))?;
        let mut flow = parse_flow(line, statement, topology.hosts())?;
        let port = ports.entry((flow.source, flow.destination)).or_insert(10_000u16);
        flow.source_port = *port;
        *port = port.wrapping_add(1);
        flows.push(flow);
    }
    Ok(flows)
}

fn parse_flow(line: usize, statement: &str, hosts: u32) -> Result<FlowSpec, LineError> {
    const EXPECTED: &str =
        "source, destination, priority, port, bytes and start in seconds, such as: 0 5 3 100 1000000 2";
    let malformed = || LineError::new(line, format!("expected {EXPECTED}"));
    let words: Vec<&str> = statement.split_whitespace().collect();
    let [source, destination, priority, port, bytes, start] = words[..] else { return Err(malformed()) };
    let host = |word: &str| match word.parse() {
        Ok(host) if host < hosts => Ok(HostId(host)),
        _ => Err(LineError::new(line, format!("host {word}: expected a number below {hosts}"))),
    };
    let (source, destination) = (host(source)?, host(destination)?);
    if source == destination {
        return Err(LineError::new(line, format!("a flow from host {} to itself", source.0)));
    }
    let priority: u8 = priority.parse().ok().filter(|priority| *priority < 8).ok_or_else(malformed)?;
    let start: f64 = start.parse().ok().filter(|start| (0.0..1e6).contains(start)).ok_or_else(malformed)?;
    let mut flow = FlowSpec::new(source, destination, bytes.parse().map_err(|_| malformed())?);
    flow.class.dscp = priority * 8;
    flow.destination_port = port.parse().map_err(|_| malformed())?;
    flow.start = Instant::ZERO + Duration::from_nanos((start * 1e9).round() as u64);
    Ok(flow)
}

/// The numbers of a line, as many as are asked for.
fn numbers<const N: usize>(line: usize, statement: &str, what: &str) -> Result<[u32; N], LineError> {
    let numbers: Option<Vec<u32>> = statement.split_whitespace().map(|word| word.parse().ok()).collect();
    let exactly = numbers.and_then(|numbers| numbers.try_into().ok());
    exactly.ok_or_else(|| LineError::new(line, format!("expected {what}")))
}
