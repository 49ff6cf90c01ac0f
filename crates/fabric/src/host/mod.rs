//! What is at the ends of the network: who sends, receives and keeps time.
//!
//! The port of a host pulls: whenever it falls free it asks for the next packet of a priority that is not
//! paused. A host keeps no queue of packets.
//!
//! | module | idea |
//! |---|---|
//! | `nic` | an RDMA adapter, the same state machine as on a real wire |
//! | `raw` | a source of frames without a protocol, to measure links and switches by closed formulas |

mod nic;
mod raw;

use ::nic::{Duration, Instant};

use crate::flow::{Flow, FlowId};
use crate::framing::Framing;
use crate::packet::{Handle, Pool};
use crate::priority::Priorities;
use crate::switch::PauseConfig;
use crate::topology::HostId;

use self::nic::NicHost;
use raw::RawHost;

pub use self::nic::NicConfig;

/// The settings of all hosts.
#[derive(Clone, Debug, PartialEq)]
pub struct HostConfig {
    /// What sends and receives.
    pub kind: HostKind,
    /// The priority of every DSCP, as the adapter is told by the switches (DCBX) or by hand.
    pub priorities: [u8; 64],
    /// From the arrival of a packet to its handling.
    pub receive_latency: Duration,
    /// From the decision to send a packet to its first bit on the wire.
    pub send_latency: Duration,
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
    /// An RDMA adapter: a flow is a reliable connection and an RDMA WRITE.
    Nic(NicConfig),
}

impl Default for HostConfig {
    fn default() -> Self {
        Self {
            kind: HostKind::Nic(NicConfig::default()),
            priorities: std::array::from_fn(|dscp| dscp as u8 / 8),
            receive_latency: Duration::ZERO,
            send_latency: Duration::ZERO,
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
    /// Flows that are over, to be taken note of by the caller.
    pub over: &'a mut Vec<FlowId>,
}

/// A host in a running network.
#[derive(Debug)]
pub(crate) enum Host {
    Raw(RawHost),
    Nic(Box<NicHost>),
}

impl Host {
    pub fn new(id: HostId, config: &HostConfig, seed: u64) -> Self {
        match config.kind {
            HostKind::Raw { payload } => Self::Raw(RawHost::new(id, payload, config.priorities)),
            HostKind::Nic(adapter) => Self::Nic(Box::new(NicHost::new(id, adapter, config.priorities, seed))),
        }
    }

    /// Takes note of a packet that arrived.
    pub fn receive(&mut self, handle: Handle, context: &mut Context<'_>) {
        match self {
            Self::Raw(host) => host.receive(handle, context),
            Self::Nic(host) => host.receive(handle, context),
        }
    }

    /// The next packet to send, of a priority that is not paused.
    pub fn next_packet(&mut self, paused: Priorities, context: &mut Context<'_>) -> Option<Handle> {
        match self {
            Self::Raw(host) => host.next_packet(paused, context),
            Self::Nic(host) => host.next_packet(paused, context),
        }
    }

    /// When [`Self::on_timeout`] is to be called.
    pub fn timeout(&self) -> Option<Instant> {
        match self {
            Self::Raw(host) => host.timeout(),
            Self::Nic(host) => host.timeout(),
        }
    }

    /// Does what is due.
    pub fn on_timeout(&mut self, context: &mut Context<'_>) {
        match self {
            Self::Raw(host) => host.on_timeout(context.now),
            Self::Nic(host) => host.on_timeout(context),
        }
    }

    /// The counters of the adapter, if there is one.
    pub fn counters(&self) -> Option<::nic::Counters> {
        match self {
            Self::Raw(_) => None,
            Self::Nic(host) => Some(host.counters()),
        }
    }
}

/// Begins a flow between two of the hosts.
pub(crate) fn start_flow(hosts: &mut [Host], id: FlowId, flow: &mut Flow, now: Instant) {
    let spec = &flow.spec;
    match ends(hosts, flow) {
        (Host::Raw(source), _) => source.start(id, spec),
        (Host::Nic(source), Host::Nic(destination)) => {
            flow.queue_pairs = Some(self::nic::connect(source, destination, id, spec, now));
        }
        (Host::Nic(_), Host::Raw(_)) => unreachable!("all hosts are of one kind"),
    }
}

/// Forgets what belongs to a flow that is over.
pub(crate) fn end_flow(hosts: &mut [Host], flow: &mut Flow) {
    let Some(qpns) = flow.queue_pairs.take() else { return };
    if let (Host::Nic(source), Host::Nic(destination)) = ends(hosts, flow) {
        source.disconnect(qpns[0]);
        destination.disconnect(qpns[1]);
    }
}

/// The two hosts of a flow, which are different.
fn ends<'a>(hosts: &'a mut [Host], flow: &Flow) -> (&'a mut Host, &'a mut Host) {
    let (from, to) = (flow.spec.source.0 as usize, flow.spec.destination.0 as usize);
    if from < to {
        let (low, high) = hosts.split_at_mut(to);
        (&mut low[from], &mut high[0])
    } else {
        let (low, high) = hosts.split_at_mut(from);
        (&mut high[0], &mut low[to])
    }
}
