//! Who is connected to whom.
//!
//! | function or module | shape |
//! |---|---|
//! | [`LeafSpine`] | two tiers: every leaf switch to every spine |
//! | [`FatTree`] | three tiers of equal switches of k ports |
//! | [`RailOptimized`] | GPU i of every server on rail switch i, rails joined by spines |
//! | [`Dragonfly`] | groups of fully meshed switches, joined by one link per pair of groups |
//! | [`Ring`] | switches in a circle, as in industrial networks |
//! | [`parse`] | any graph, from a text file |

mod clos;
mod dragonfly;
mod file;
mod rails;
mod ring;

use std::fmt;

use nic::Duration;

use crate::rate::Rate;

pub use clos::{FatTree, LeafSpine};
pub use dragonfly::Dragonfly;
pub(crate) use file::statements;
pub use file::{ParseError, Problem, parse};
pub use rails::RailOptimized;
pub use ring::Ring;

/// A host or a switch. Hosts are numbered from 0 to [`Topology::hosts`], switches after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A host, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// A switch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SwitchId(pub u32);

/// A link, in the order of [`Topology::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

impl From<HostId> for NodeId {
    fn from(host: HostId) -> Self {
        Self(host.0)
    }
}

/// How a link loses frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Loss {
    /// Not at all.
    #[default]
    None,
    /// So often is a bit wrong; the frame check finds every wrong frame.
    Bits(f64),
    /// So often is a frame lost, whatever its length.
    Frames(f64),
}

impl Loss {
    /// The probability that a frame of so many bytes is lost.
    pub fn of_frame(self, bytes: u32) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Bits(rate) => -f64::exp_m1(f64::from(bytes) * 8.0 * f64::ln_1p(-rate)),
            Self::Frames(rate) => rate,
        }
    }
}

/// What a link is like, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkSpec {
    /// Its rate.
    pub rate: Rate,
    /// Its propagation delay: about 5 ns a metre.
    pub delay: Duration,
    /// What it loses.
    pub loss: Loss,
}

impl LinkSpec {
    /// A link that loses nothing.
    pub const fn new(rate: Rate, delay: Duration) -> Self {
        Self { rate, delay, loss: Loss::None }
    }
}

/// A link between two nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// One end.
    pub a: NodeId,
    /// The other.
    pub b: NodeId,
    /// What it is like.
    pub spec: LinkSpec,
    /// Its share of the traffic that could as well take another: 1, unless set.
    pub weight: u16,
}

/// Hosts, switches and the links between them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Topology {
    hosts: Vec<String>,
    switches: Vec<String>,
    links: Vec<Link>,
    hosts_per_server: u32,
}

/// Why a topology cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// There is no host.
    #[error("there is no host")]
    NoHost,
    /// A host has one port, and so one link.
    #[error("host {host} has {links} links; expected one")]
    HostLinks {
        /// Which.
        host: String,
        /// How many.
        links: usize,
    },
    /// A link from a node to itself.
    #[error("node {0} is linked to itself")]
    Loop(String),
    /// No path.
    #[error("there is no path from host {from} to {to}")]
    Disconnected {
        /// The first host.
        from: String,
        /// One that it cannot reach.
        to: String,
    },
    /// A probability that is none.
    #[error("the link between {a} and {b} loses {rate}; expected at least 0 and less than 1")]
    Loss {
        /// One end.
        a: String,
        /// The other.
        b: String,
        /// What was given.
        rate: String,
    },
}

impl Topology {
    /// So many hosts and switches with names made of a prefix and a number, and no link yet.
    pub fn new(hosts: u32, switches: u32) -> Self {
        let names = |prefix: &str, count| (0..count).map(|i| format!("{prefix}{i}")).collect();
        Self {
            hosts: names("h", hosts),
            switches: names("s", switches),
            links: Vec::new(),
            hosts_per_server: 1,
        }
    }

    /// One more host. Hosts and switches may be added in any order, links once all of them are there.
    pub fn add_host(&mut self, name: impl Into<String>) {
        debug_assert!(self.links.is_empty(), "a host after a link would move the switches' numbers");
        self.hosts.push(name.into());
    }

    /// One more switch.
    pub fn add_switch(&mut self, name: impl Into<String>) {
        self.switches.push(name.into());
    }

    /// One more link.
    pub fn add_link(&mut self, a: NodeId, b: NodeId, spec: LinkSpec) {
        self.links.push(Link { a, b, spec, weight: 1 });
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts.len() as u32
    }

    /// Number of switches.
    pub fn switches(&self) -> u32 {
        self.switches.len() as u32
    }

    /// The links, in the order they were added.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// The links, to change what they are like.
    pub fn links_mut(&mut self) -> &mut [Link] {
        &mut self.links
    }

    /// A switch's node.
    pub fn switch(&self, switch: SwitchId) -> NodeId {
        NodeId(self.hosts() + switch.0)
    }

    /// The switch that a node is, if it is one.
    pub fn as_switch(&self, node: NodeId) -> Option<SwitchId> {
        node.0.checked_sub(self.hosts()).map(SwitchId)
    }

    /// A node's name.
    pub fn name(&self, node: NodeId) -> &str {
        match self.as_switch(node) {
            None => &self.hosts[node.0 as usize],
            Some(switch) => &self.switches[switch.0 as usize],
        }
    }

    /// Hosts `n * i` to `n * i + n - 1` are the `n` adapters of server `i`; 1 unless set.
    pub fn hosts_per_server(&self) -> u32 {
        self.hosts_per_server
    }

    /// For every node, its links and the node at their other end, in the order of links.
    pub fn neighbours(&self) -> Vec<Vec<(LinkId, NodeId)>> {
        let mut neighbours = vec![Vec::new(); self.hosts.len() + self.switches.len()];
        for (index, link) in self.links.iter().enumerate() {
            neighbours[link.a.0 as usize].push((LinkId(index as u32), link.b));
            neighbours[link.b.0 as usize].push((LinkId(index as u32), link.a));
        }
        neighbours
    }

    /// Checks that every host has one link and reaches every other.
    pub fn check(&self) -> Result<(), TopologyError> {
        if self.hosts.is_empty() {
            return Err(TopologyError::NoHost);
        }
        for link in &self.links {
            self.check_link(link)?;
        }
        let neighbours = self.neighbours();
        for (host, links) in self.hosts.iter().zip(&neighbours) {
            if links.len() != 1 {
                return Err(TopologyError::HostLinks { host: host.clone(), links: links.len() });
            }
        }
        self.check_paths(&neighbours)
    }

    fn check_link(&self, link: &Link) -> Result<(), TopologyError> {
        if link.a == link.b {
            return Err(TopologyError::Loop(self.name(link.a).to_owned()));
        }
        let (Loss::Bits(rate) | Loss::Frames(rate)) = link.spec.loss else { return Ok(()) };
        if (0.0..1.0).contains(&rate) {
            return Ok(());
        }
        let (a, b) = (self.name(link.a).to_owned(), self.name(link.b).to_owned());
        Err(TopologyError::Loss { a, b, rate: rate.to_string() })
    }

    fn check_paths(&self, neighbours: &[Vec<(LinkId, NodeId)>]) -> Result<(), TopologyError> {
        let mut reached = vec![false; neighbours.len()];
        reached[0] = true;
        let mut next = vec![NodeId(0)];
        while let Some(node) = next.pop() {
            for (_, neighbour) in &neighbours[node.0 as usize] {
                if !std::mem::replace(&mut reached[neighbour.0 as usize], true) {
                    next.push(*neighbour);
                }
            }
        }
        match reached[..self.hosts.len()].iter().position(|reached| !reached) {
            None => Ok(()),
            Some(host) => {
                Err(TopologyError::Disconnected { from: self.hosts[0].clone(), to: self.hosts[host].clone() })
            }
        }
    }
}

impl fmt::Display for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} hosts, {} switches, {} links", self.hosts(), self.switches(), self.links.len())
    }
}

#[cfg(test)]
mod tests;
