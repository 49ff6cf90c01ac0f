//! Flows: who sends how much to whom, and when it arrived.

use nic::Instant;
use wire::TrafficClass;

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
            pace: None,
            mtu: None,
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
    pub finish: Option<Instant>,
}

impl Flow {
    /// A flow of which nothing was sent yet.
    pub(crate) const fn new(spec: FlowSpec) -> Self {
        Self { spec, received: 0, finish: None }
    }

    /// From its start to the arrival of its last byte.
    pub fn completion_time(&self) -> Option<nic::Duration> {
        self.finish.map(|finish| finish.saturating_since(self.spec.start))
    }

    /// Counts payload that arrived; says whether it was the last.
    pub(crate) const fn receive(&mut self, now: Instant, bytes: u64) -> bool {
        self.received += bytes;
        if self.received < self.spec.bytes || self.finish.is_some() {
            return false;
        }
        self.finish = Some(now);
        true
    }
}
