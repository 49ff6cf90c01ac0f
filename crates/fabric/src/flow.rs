//! Flows: who sends how much to whom, and when it arrived.

use nic::Instant;
use nic::verbs::Status;
use wire::{Qpn, ROCE_V2_PORT, TrafficClass};

use crate::rate::Rate;
use crate::topology::HostId;

/// What is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Who sends.
    pub source: HostId,
    /// Who receives: another host.
    pub destination: HostId,
    /// Payload bytes.
    pub bytes: u64,
    /// When it begins.
    pub start: Instant,
    /// DSCP, and whether the sender reacts to marks.
    pub class: TrafficClass,
    /// UDP source port: what distinguishes the flows of two hosts to ECMP.
    pub source_port: u16,
    /// UDP destination port: RoCE's, but for flows of other simulators.
    pub destination_port: u16,
    /// If set, packets leave no faster than this; their wire bytes count.
    pub pace: Option<Rate>,
    /// Payload bytes of a full packet, if not those that the host is set to.
    pub mtu: Option<u16>,
}

impl FlowSpec {
    /// DSCP 26, which the switches' default puts into the lossless priority, ECN-capable.
    pub const ROCE: TrafficClass = TrafficClass { dscp: 26, ecn: wire::Ecn::Capable0 };

    /// A RoCE flow that begins at time zero. Its source port follows from its hosts.
    pub const fn new(source: HostId, destination: HostId, bytes: u64) -> Self {
        let source_port = 0xC000 | (source.0.wrapping_mul(31) ^ destination.0) as u16 & 0x3FFF;
        Self {
            source,
            destination,
            bytes,
            start: Instant::ZERO,
            class: Self::ROCE,
            source_port,
            destination_port: ROCE_V2_PORT,
            pace: None,
            mtu: None,
        }
    }

    /// The ports of its packets, source port in the low half. Answers of RoCE come from a port of their
    /// own (IBTA A17.9.3), here the same; answers of other simulators come from the destination port.
    pub(crate) const fn ports(&self, is_forward: bool) -> u32 {
        let (source, destination) = (self.source_port as u32, self.destination_port as u32);
        if is_forward || self.destination_port == ROCE_V2_PORT {
            destination << 16 | source
        } else {
            source << 16 | destination
        }
    }
}

/// A flow, in the order they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// What became of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// What was asked for.
    pub spec: FlowSpec,
    /// Payload bytes that arrived, first times only.
    pub received: u64,
    /// When the last of them arrived.
    pub arrival: Option<Instant>,
    /// When the sender knew that all had arrived. Without a transport: when it had.
    pub finish: Option<Instant>,
    /// Why the sender gave up.
    pub error: Option<Status>,
    /// The queue pairs of sender and receiver, while it lasts and if there are any.
    pub queue_pairs: Option<[Qpn; 2]>,
}

impl Flow {
    /// A flow of which nothing was sent yet.
    pub(crate) const fn new(spec: FlowSpec) -> Self {
        Self { spec, received: 0, arrival: None, finish: None, error: None, queue_pairs: None }
    }

    /// From its start until the sender knew of its end.
    pub fn completion_time(&self) -> Option<nic::Duration> {
        self.finish.map(|finish| finish.saturating_since(self.spec.start))
    }

    /// Whether it was finished or given up.
    pub const fn is_over(&self) -> bool {
        self.finish.is_some() || self.error.is_some()
    }

    /// Counts payload that arrived.
    pub(crate) const fn receive(&mut self, now: Instant, bytes: u64) {
        self.received += bytes;
        if self.received >= self.spec.bytes && self.arrival.is_none() {
            self.arrival = Some(now);
        }
    }
}
