//! Any graph, from a text file.
//!
//! One statement a line; `#` starts a comment.
//!
//! ```text
//! host   a b c                      names of hosts
//! switch left right                 names of switches
//! link   a left 100Gbps 500ns       two ends, rate, delay
//! link   left right 400Gbps 1us ber=1e-12
//! link   c right 100Gbps 1us loss=0.001
//! ```

use std::collections::BTreeMap;

use super::{LinkSpec, Loss, NodeId, Topology, TopologyError};
use crate::rate::{QuantityError, Rate, parse_duration};

/// Why a topology cannot be read: where, and what.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct ParseError {
    /// Line number, from 1; the last one, if the topology as a whole is at fault.
    pub line: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A line that does not begin with a known word.
    #[error("\"{0}\": expected host, switch or link")]
    Statement(String),
    /// A link without all its parts.
    #[error("expected link, two nodes, a rate and a delay, such as: link a b 100Gbps 500ns")]
    Incomplete,
    /// A node that was not declared in a line before.
    #[error("unknown node \"{0}\": expected one declared by host or switch above")]
    UnknownNode(String),
    /// A name given twice.
    #[error("there is a node \"{0}\" already")]
    Duplicate(String),
    /// A rate or delay.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// An option of a link.
    #[error("\"{0}\": expected ber= or loss= and a number of at least 0 and less than 1")]
    Option(String),
    /// The topology as a whole.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

/// Reads a topology.
pub fn parse(text: &str) -> Result<Topology, ParseError> {
    let mut topology = Topology::new(0, 0);
    let mut links = Vec::new();
    let mut nodes = Nodes::default();
    for (line, statement) in statements(text) {
        read(statement, &mut topology, &mut nodes, &mut links)
            .map_err(|problem| ParseError { line, problem })?;
    }
    for (a, b, spec) in links {
        topology.add_link(a.id(&topology), b.id(&topology), spec);
    }
    let last = text.lines().count();
    topology.check().map_err(|error| ParseError { line: last, problem: error.into() })?;
    Ok(topology)
}

/// The lines that say something, without comments, with their numbers.
pub(crate) fn statements(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().filter_map(|(index, line)| {
        let statement = line.split('#').next().unwrap_or_default().trim();
        (!statement.is_empty()).then_some((index + 1, statement))
    })
}

/// A node, while it is not known yet how many hosts come before the first switch.
#[derive(Clone, Copy)]
enum Node {
    Host(u32),
    Switch(u32),
}

impl Node {
    fn id(self, topology: &Topology) -> NodeId {
        match self {
            Self::Host(index) => NodeId(index),
            Self::Switch(index) => NodeId(topology.hosts() + index),
        }
    }
}

/// Nodes by name.
#[derive(Default)]
struct Nodes(BTreeMap<String, Node>);

impl Nodes {
    fn insert(&mut self, name: &str, node: Node) -> Result<(), Problem> {
        match self.0.insert(name.to_owned(), node) {
            None => Ok(()),
            Some(_) => Err(Problem::Duplicate(name.to_owned())),
        }
    }

    fn find(&self, name: &str) -> Result<Node, Problem> {
        self.0.get(name).copied().ok_or_else(|| Problem::UnknownNode(name.to_owned()))
    }
}

fn read(
    statement: &str,
    topology: &mut Topology,
    nodes: &mut Nodes,
    links: &mut Vec<(Node, Node, LinkSpec)>,
) -> Result<(), Problem> {
    let mut words = statement.split_whitespace();
    match words.next().unwrap_or_default() {
        "host" => words.try_for_each(|name| {
            nodes.insert(name, Node::Host(topology.hosts()))?;
            topology.add_host(name);
            Ok(())
        }),
        "switch" => words.try_for_each(|name| {
            nodes.insert(name, Node::Switch(topology.switches()))?;
            topology.add_switch(name);
            Ok(())
        }),
        "link" => {
            links.push(read_link(words, nodes)?);
            Ok(())
        }
        other => Err(Problem::Statement(other.to_owned())),
    }
}

fn read_link<'a>(
    mut words: impl Iterator<Item = &'a str>,
    nodes: &Nodes,
) -> Result<(Node, Node, LinkSpec), Problem> {
    let mut next = || words.next().ok_or(Problem::Incomplete);
    let (a, b) = (nodes.find(next()?)?, nodes.find(next()?)?);
    let rate: Rate = next()?.parse()?;
    let mut spec = LinkSpec::new(rate, parse_duration(next()?)?);
    for option in words {
        spec.loss = read_loss(option).ok_or_else(|| Problem::Option(option.to_owned()))?;
    }
    Ok((a, b, spec))
}

fn read_loss(option: &str) -> Option<Loss> {
    let (key, value) = option.split_once('=')?;
    let value = value.parse::<f64>().ok().filter(|value| (0.0..1.0).contains(value))?;
    match key {
        "ber" => Some(Loss::Bits(value)),
        "loss" => Some(Loss::Frames(value)),
        _ => None,
    }
}
