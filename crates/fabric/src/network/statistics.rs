//! What can be asked of a network.

use super::Network;
use nic::Duration;
use wire::{Bth, Icrc};

use super::diagnosis::Diagnosis;
use super::ledger::Ledger;
use super::port::{PortCounters, Ports};
use crate::flow::FlowSpec;
use crate::forward::Routes;
use crate::forward::routes::{PortId, PortMap};
use crate::framing::Framing;
use crate::host::Host;
use crate::rate::Rate;
use crate::topology::{HostId, NodeId, SwitchId, Topology};

/// A queue of a switch's port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueStatistics {
    /// Bytes that wait.
    pub bytes: u32,
    /// The most that ever waited.
    pub peak: u32,
    /// Packets that were marked when they left.
    pub marks: u32,
}

/// What a priority of a port has in the buffer of its switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngressStatistics {
    /// All of it, in bytes.
    pub bytes: u32,
    /// What of it is headroom.
    pub headroom: u32,
    /// The most headroom that was ever used.
    pub peak_headroom: u32,
    /// How often XOFF was said; renewals of a pause do not count.
    pub xoffs: u32,
}

/// The shared buffer of a switch, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferStatistics {
    /// In use.
    pub used: u64,
    /// The most that ever was in use.
    pub peak: u64,
    /// Not in use.
    pub free: u64,
}

impl Network {
    /// A number that tells two runs apart: it depends on every event so far, in their order.
    pub fn digest(&self) -> u64 {
        self.engine.digest
    }

    /// Number of events so far.
    pub fn events(&self) -> u64 {
        self.engine.events
    }

    /// Number of packets that switches sent on so far.
    pub fn forwards(&self) -> u64 {
        self.engine.forwards
    }

    /// Bytes so far.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.paths.topology
    }

    /// Where its ports are.
    pub fn port_map(&self) -> &PortMap {
        &self.paths.map
    }

    /// The routes, to look at.
    pub fn routes(&self) -> &Routes {
        &self.paths.routes
    }

    /// The routes, to change by hand. A failure that is routed around computes them anew.
    pub fn routes_mut(&mut self) -> &mut Routes {
        &mut self.paths.routes
    }

    /// What a port counted.
    pub fn port_counters(&self, port: PortId) -> &PortCounters {
        &self.ports.sides[port.0 as usize].counters
    }

    /// Bytes and frames that a port put on the wire, with everything around them.
    pub fn sent(&self, port: PortId) -> (u64, u64) {
        let port = &self.ports[port.0];
        (port.sent_bytes, port.sent_frames)
    }

    /// A queue of a switch's port.
    ///
    /// # Panics
    /// If the port is a host's: hosts have no queues.
    pub fn queue(&self, port: PortId, priority: u8) -> QueueStatistics {
        let queue = self.ports.queue(port.0, priority);
        QueueStatistics { bytes: queue.bytes, peak: queue.peak, marks: queue.marks }
    }

    /// What came in by a port of a switch in one priority.
    ///
    /// # Panics
    /// If the port is a host's.
    pub fn ingress(&self, port: PortId, priority: u8) -> IngressStatistics {
        let group = &self.switches.groups[Ports::index(port.0, priority)];
        IngressStatistics {
            bytes: group.used + group.headroom,
            headroom: group.headroom,
            peak_headroom: group.peak_headroom,
            xoffs: group.xoffs,
        }
    }

    /// The shared buffer of a switch.
    pub fn shared_buffer(&self, switch: SwitchId) -> BufferStatistics {
        let buffer = &self.switches.all[switch.0 as usize].buffer;
        BufferStatistics { used: buffer.used(), peak: buffer.peak(), free: buffer.free() }
    }

    /// The counters of a host's adapter, if it has one.
    pub fn adapter_counters(&self, host: HostId) -> Option<nic::Counters> {
        self.hosts.all[host.0 as usize].counters()
    }

    /// What was found out about pauses.
    pub fn diagnosis(&self) -> &Diagnosis {
        &self.diagnosis
    }

    /// Packets in flight.
    pub fn packets(&self) -> u32 {
        self.packets.len()
    }

    /// The most packets that ever were in flight at once.
    pub fn peak_packets(&self) -> u32 {
        self.packets.peak()
    }

    /// The sizes on the wire.
    pub fn framing(&self) -> &Framing {
        &self.framing
    }

    /// The rate of a port's link, the time from the end of a frame there to its handling at the other end,
    /// and the node there.
    pub(crate) fn link_of(&self, port: PortId) -> (Rate, Duration, NodeId) {
        let state = &self.ports[port.0];
        let rate = self.ports.sides[port.0 as usize].rate;
        (rate, Duration::from_picos(state.delay), self.ports[state.peer].node)
    }

    /// Payload and frame of a full packet of a flow.
    pub(crate) fn full_packet(&self, flow: &FlowSpec) -> (u64, u64) {
        let payload = match (&self.hosts.all[flow.source.0 as usize], flow.mtu) {
            (Host::Nic(host), _) => host.mtu() as usize,
            (Host::Raw(_), Some(mtu)) => mtu.into(),
            (Host::Raw(host), None) => host.payload().into(),
        };
        let frame = self.framing.frame_of(Bth::LEN + Icrc::LEN, payload);
        (payload as u64, frame as u64)
    }
}
