//! What is at the ends of the network: who sends, receives and keeps time.
//!
//! The port of a host pulls: whenever it falls free it asks for the next packet of a priority that is not
//! paused. A host keeps no queue of packets.
//!
//! | module | idea |
//! |---|---|
//! | `raw` | a source of frames without a protocol, to measure links and switches by closed formulas |

mod raw;

use nic::{Duration, Instant};

use crate::flow::{Flow, FlowId};
use crate::framing::Framing;
use crate::packet::{Handle, Packet, Pool};
use crate::priority::Priorities;
use crate::switch::PauseConfig;
use crate::topology::HostId;

use raw::RawHost;

/// The settings of all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// What sends and receives.
    pub kind: HostKind,
    /// The priority of every DSCP, as the adapter is told by the switches (DCBX) or by hand.
    pub priorities: [u8; 64],
    /// From the arrival of a packet to its handling.
    pub latency: Duration,
    /// How it obeys pauses.
    pub pause: PauseConfig,
}

/// Kinds of host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostKind {
    /// Sends frames of so much payload, flow by flow in turn, as fast as the port takes them; no
    /// acknowledgement, no retransmission.
    Raw {
        /// Payload bytes of a full packet.
        payload: u16,
    },
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            kind: HostKind::Raw { payload: 1024 },
            priorities: std::array::from_fn(|dscp| dscp as u8 / 8),
            latency: Duration::ZERO,
            pause: PauseConfig::default(),
        }
    }
}

/// What a host may use while it is called.
pub(crate) struct Context<'a> {
    pub now: Instant,
    pub framing: &'a Framing,
    pub flows: &'a mut [Flow],
    pub packets: &'a mut Pool,
}

/// A host in a running network.
#[derive(Clone, Debug)]
pub(crate) enum Host {
    Raw(RawHost),
}

impl Host {
    pub fn new(id: HostId, config: &HostConfig) -> Self {
        match config.kind {
            HostKind::Raw { payload } => Self::Raw(RawHost::new(id, payload, config.priorities)),
        }
    }

    /// Begins a flow, now or when its time comes.
    pub fn add_flow(&mut self, id: FlowId, flow: &Flow) {
        match self {
            Self::Raw(host) => host.add_flow(id, flow),
        }
    }

    /// Takes a packet that arrived.
    pub fn receive(&mut self, packet: &Packet, context: &mut Context<'_>) {
        match self {
            Self::Raw(host) => host.receive(packet, context),
        }
    }

    /// The next packet to send, of a priority that is not paused.
    pub fn next_packet(&mut self, paused: Priorities, context: &mut Context<'_>) -> Option<Handle> {
        match self {
            Self::Raw(host) => host.next_packet(paused, context),
        }
    }

    /// When [`Self::on_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Raw(host) => host.timeout(),
        }
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, now: Instant) {
        match self {
            Self::Raw(host) => host.on_timeout(now),
        }
    }
}
