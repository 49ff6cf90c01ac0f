//! A lossless network in virtual time: hosts, switches and links between them.
//!
//! ```
//! use fabric::topology::{FatTree, HostId, LinkSpec};
//! use fabric::{Config, FlowSpec, Network, Outcome, Rate};
//! use nic::{Duration, Instant};
//!
//! let link = LinkSpec::new(Rate::gbps(100), Duration::from_micros(1));
//! let mut network = Network::new(FatTree::new(4, link).build(), &Config::default())?;
//! let flow = network.add_flow(FlowSpec::new(HostId(0), HostId(15), 1_000_000));
//! assert_eq!(network.run(Instant::from_nanos(1_000_000)), Outcome::Finished);
//! println!("{:?}", network.flows()[flow.0 as usize].completion_time());
//! # Ok::<(), fabric::BuildError>(())
//! ```
//!
//! Time is in integer picoseconds and everything is deterministic: equal seeds give equal events in equal
//! order, whatever the machine. Packets are header values and a length, in one flat pool; memory grows with
//! the packets in flight and the number of ports, never with its square, except for two bytes per switch
//! and host in the routing tables.
//!
//! | module | idea |
//! |---|---|
//! | [`engine`] | events and their queue |
//! | [`topology`] | who is connected to whom: shapes, and any graph from a file |
//! | [`forward`] | routes, and the choice among equal ones |
//! | [`switch`] | settings of switches, shared buffer, headroom, scheduling |
//! | [`host`] | what sends and receives at the ends |
//! | [`network`] | all of them, running: ingress, egress, PFC, failures, diagnosis |
//! | [`deadlock`] | whether the routes of a network could ever deadlock under PFC |
//! | [`metrics`] | completion times, slowdowns, utilization |
//! | [`import`] | the input files of other simulators |
//! | [`workload`] | who sends what: incast, permutation, all-to-all, Poisson arrivals, traces |
//!
//! Where what is still missing belongs: rate control in `nic`, behind its trait; what switches write into
//! packets for it (in-band telemetry) beside the headers in the pool; links inside a server and receivers
//! that are slow, in [`host`]; several threads in [`network`], one part of the topology each, for which
//! events are ordered by what they are and not by when they were planned; observers of packets (captures)
//! where [`network`] puts a frame on a wire; scenario files and reports above this crate.
#![forbid(unsafe_code)]

pub mod deadlock;
pub mod engine;
mod flow;
pub mod forward;
mod framing;
pub mod host;
pub mod import;
pub mod metrics;
pub mod network;
mod packet;
mod priority;
mod random;
mod rate;
pub mod switch;
pub mod topology;
pub mod workload;

pub use flow::{Flow, FlowId, FlowSpec};
pub use forward::routes::PortId;
pub use framing::Framing;
pub use network::{BuildError, Config, Drop, Network, Outcome};
pub use priority::{PRIORITIES, Priorities};
pub use random::Random;
pub use rate::{QuantityError, Rate, parse_duration};
