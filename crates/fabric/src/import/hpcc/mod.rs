//! Scenarios of the HPCC simulator for ns-3 (Li et al. 2019).
//!
//! A scenario is a config file that names a topology and a flow file. [`load`] reads all three;
//! [`Scenario::config`] sets a network as that simulator sets its own: sizes on the wire, buffers, the
//! hash that chooses paths. What differs is written down there.

mod config;
mod files;

use std::path::{Path, PathBuf};

use crate::flow::FlowSpec;
use crate::forward::{Forwarding, Hash};
use crate::framing::Framing;
use crate::host::HostKind;
use crate::network::Config;
use crate::network::plan::Plan;
use crate::priority::Priorities;
use crate::rate::Rate;
use crate::switch::{BufferConfig, HeadroomConfig, SwitchConfig, Threshold, Wred};
use crate::topology::{LinkId, Topology, TopologyError};

pub use config::HpccConfig;
pub use files::{parse_flows, parse_topology};

/// A scenario.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Who is connected to whom.
    pub topology: Topology,
    /// Who sends what.
    pub flows: Vec<FlowSpec>,
    /// How the network is set.
    pub settings: HpccConfig,
}

/// Why a scenario cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read at all.
    #[error("{file}: {1}", file = .0.display())]
    File(PathBuf, std::io::Error),
    /// A line of a file.
    #[error("{file}:{1}", file = .0.display())]
    Line(PathBuf, LineError),
    /// The topology does not hold together.
    #[error("{file}: {1}", file = .0.display())]
    Topology(PathBuf, TopologyError),
}

/// What is wrong in a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}: {problem}")]
pub struct LineError {
    /// Line number, from 1; the last one if something is missing.
    pub line: usize,
    /// What was found and what was expected.
    pub problem: String,
}

impl LineError {
    fn new(line: usize, problem: impl Into<String>) -> Self {
        Self { line, problem: problem.into() }
    }
}

/// Reads a config file and the files it names, which are looked for beside it.
pub fn load(path: &Path) -> Result<Scenario, ImportError> {
    let settings = HpccConfig::parse(&read(path)?).map_err(|error| ImportError::Line(path.into(), error))?;
    let beside = |name: &str| path.parent().unwrap_or(Path::new("")).join(name);
    let topology_path = beside(&settings.topology_file);
    let topology = parse_topology(&read(&topology_path)?)
        .map_err(|error| ImportError::Line(topology_path.clone(), error))?;
    topology.check().map_err(|error| ImportError::Topology(topology_path, error))?;
    let flow_path = beside(&settings.flow_file);
    let flows =
        parse_flows(&read(&flow_path)?, &topology).map_err(|error| ImportError::Line(flow_path, error))?;
    Ok(Scenario { topology, flows, settings })
}

fn read(path: &Path) -> Result<String, ImportError> {
    std::fs::read_to_string(path).map_err(|error| ImportError::File(path.into(), error))
}

impl Scenario {
    /// Bytes that the simulator puts around a payload: PPP, IPv4, UDP and its own headers.
    pub const OVERHEAD: u16 = 48;

    /// A network set as the simulator sets its own, with hosts of this kind.
    ///
    /// It differs in this: pause frames take their time on the wire, times are not rounded to nanoseconds,
    /// only the priorities that flows use are lossless, and the packet that reaches a threshold does not
    /// count as headroom.
    pub fn config(&self, kind: HostKind) -> Config {
        let mut config = Config { framing: Framing::fixed(Self::OVERHEAD), ..Config::default() };
        config.host.kind = kind;
        config.switch = self.switch();
        config
    }

    fn switch(&self) -> SwitchConfig {
        let mut switch = SwitchConfig {
            buffer: BufferConfig {
                total: self.settings.buffer_mib * (1 << 20),
                reserved: 4 << 10,
                threshold: Threshold::Dynamic(-3),
                scaled_to: self.host_rate(),
                headroom: HeadroomConfig::Cables(3),
                xon_offset: 3 << 10,
                cell: 1,
            },
            lossless: self.flows.iter().map(|flow| flow.class.dscp / 8).collect::<Priorities>(),
            forwarding: Forwarding::Ecmp(Hash::HpccNs3),
            ..SwitchConfig::default()
        };
        if self.settings.marks {
            for priority in switch.lossless.iter() {
                switch.queues[usize::from(priority)].ecn = self.marking();
            }
        }
        switch
    }

    /// When packets are marked: by the rate of the hosts, of which most networks have but one.
    fn marking(&self) -> Option<Wred> {
        let rate = self.host_rate()?;
        let of_rate = |map: &[(Rate, f64)]| map.iter().find(|(of, _)| *of == rate).map(|(_, value)| *value);
        Some(Wred {
            min: (of_rate(&self.settings.kmin)? * 1e3) as u32,
            max: (of_rate(&self.settings.kmax)? * 1e3) as u32,
            probability: of_rate(&self.settings.pmax)?,
        })
    }

    /// The rate of the first host's link.
    fn host_rate(&self) -> Option<Rate> {
        let is_host = |node| self.topology.as_switch(node).is_none();
        let link = self.topology.links().iter().find(|link| is_host(link.a) || is_host(link.b))?;
        Some(link.spec.rate)
    }

    /// The failure that the config file plans, if there is one.
    pub fn failure(&self) -> Option<(nic::Instant, Plan)> {
        let (time, a, b) = self.settings.link_down?;
        let joins =
            |link: &&crate::topology::Link| (link.a.0, link.b.0) == (a, b) || (link.a.0, link.b.0) == (b, a);
        let index = self.topology.links().iter().position(|link| joins(&link))?;
        Some((time, Plan::LinkDown(LinkId(index as u32))))
    }
}

#[cfg(test)]
mod tests;
