//! A packet arrives.

use nic::Duration;

use super::Network;
use super::diagnosis::Trigger;
use super::port::{Drop, Port, Ports};
use crate::engine::Kind;
use crate::flow::FlowId;
use crate::forward::routes::PortId;
use crate::packet::{Handle, Packet};
use crate::topology::{HostId, SwitchId};

impl Network {
    /// A packet is to be handled at the node of port `ingress`, or at least as much of it as the node must
    /// have seen.
    pub(super) fn on_arrival(&mut self, ingress: u32, handle: Handle) {
        let port = &self.ports[ingress];
        let frame = u64::from(self.packets[handle].frame);
        if port.is(Port::DOWN) || (port.is(Port::SCARRED) && self.was_cut(ingress, handle)) {
            self.ledger.on_wire -= frame;
            return self.drop(ingress, handle, Drop::LinkDown);
        }
        let node = port.node;
        match self.paths.topology.as_switch(node) {
            None => {
                self.ledger.on_wire -= frame;
                self.deliver(HostId(node.0), ingress, handle);
            }
            Some(switch) => self.forward(switch, ingress, handle),
        }
    }

    /// Whether the link failed while any part of the packet was on it.
    fn was_cut(&self, ingress: u32, handle: Handle) -> bool {
        let sender = &self.ports[self.ports[ingress].peer];
        let bytes = self.framing.on_wire(self.packets[handle].frame.into()) as u32;
        let ago = Duration::from_picos(sender.delay + sender.byte_time.picos(bytes));
        let last_down = self.ports.sides[ingress as usize].last_down;
        self.engine.now.saturating_since(last_down) <= ago
    }

    /// Hands a packet to a host, and lets the host answer.
    fn deliver(&mut self, host: HostId, ingress: u32, handle: Handle) {
        let packet = self.packets[handle];
        if packet.is(Packet::CORRUPT) {
            return self.drop(ingress, handle, Drop::Damaged);
        }
        if packet.destination != host {
            return self.drop(ingress, handle, Drop::NoRoute);
        }
        self.ledger.delivered += u64::from(packet.frame);
        self.ledger.delivered_packets += 1;
        let (receiver, mut context) = self.host(host);
        receiver.receive(handle, &mut context);
        self.packets.remove(handle);
        self.settle();
        self.kick(ingress);
        self.arm(host);
    }

    /// Sends a packet of a switch on.
    fn forward(&mut self, switch: SwitchId, ingress: u32, handle: Handle) {
        let state = &mut self.switches.all[switch.0 as usize];
        let profile = &self.switches.profiles[state.profile as usize];
        let packet = &mut self.packets[handle];
        let frame = packet.frame;
        if !profile.cuts_through && packet.is(Packet::CORRUPT) {
            self.ledger.on_wire -= u64::from(frame);
            return self.drop(ingress, handle, Drop::Damaged);
        }
        let priority = profile.priority(packet.traffic_class);
        packet.priority = priority;
        packet.ingress = ingress;
        let ways = self.paths.routes.ports(switch, packet.destination);
        let egress = match ways {
            [] => {
                self.ledger.on_wire -= u64::from(frame);
                return self.drop(ingress, handle, Drop::NoRoute);
            }
            [only] => *only,
            _ => {
                let ports = &self.ports;
                let queued = |port: PortId| ports[port.0].queued;
                state.chooser.choose(&profile.forwarding, ways, packet, self.engine.now, queued)
            }
        };
        if profile.cuts_through && self.must_wait(ingress, egress.0, handle) {
            return self.wait_for_end(ingress, handle);
        }
        self.ledger.on_wire -= u64::from(frame);
        let packet = &mut self.packets[handle];
        packet.flags &= !Packet::STORED;
        if packet.hops <= 1 {
            return self.drop(ingress, handle, Drop::HopLimit);
        }
        packet.hops -= 1;
        self.engine.forwards += 1;
        self.enqueue(switch, egress.0, priority, handle);
    }

    /// Whether a frame of which only the start is here would run dry if it left by `egress` now.
    fn must_wait(&self, ingress: u32, egress: u32, handle: Handle) -> bool {
        let (from, to) = (&self.ports[ingress], &self.ports[egress]);
        to.byte_time < from.byte_time && !self.packets[handle].is(Packet::STORED)
    }

    /// Handles a frame again when its end is here.
    fn wait_for_end(&mut self, ingress: u32, handle: Handle) {
        let port = &self.ports[ingress];
        let sender = &self.ports[port.peer];
        let packet = &mut self.packets[handle];
        packet.flags |= Packet::STORED;
        let rest = packet.frame.saturating_sub(sender.peer_sees);
        let end = self.engine.now.as_picos() + port.byte_time.picos(rest.into());
        self.engine.push(end, Kind::Arrival, ingress, handle.0);
    }

    /// Gives a packet to a port of a switch: at once if the port is free, else to a queue if the buffer
    /// has room.
    fn enqueue(&mut self, switch: SwitchId, egress: u32, priority: u8, handle: Handle) {
        let port = &self.ports[egress];
        if port.is(Port::DOWN | Port::STALLED) {
            if let Some(reason) = self.refusal(egress, priority) {
                return self.drop(egress, handle, reason);
            }
        } else if port.is_free_for(priority, self.engine.now) {
            return self.send(egress, handle);
        }
        let state = &mut self.switches.all[switch.0 as usize];
        let profile = &self.switches.profiles[state.profile as usize];
        let packet = &self.packets[handle];
        let (frame, ingress, flow) = (u32::from(packet.frame), packet.ingress, packet.flow);
        let bytes = profile.occupied(frame);
        let lossless = profile.lossless.contains(priority);
        let index = Ports::index(egress, priority);
        if lossless {
            let group = &mut self.switches.groups[Ports::index(ingress, priority)];
            if !state.buffer.admit(group, &self.switches.limits[ingress as usize], bytes) {
                return self.drop(ingress, handle, Drop::Headroom);
            }
        } else {
            let limit = profile.queues[usize::from(priority)].limit;
            if !state.buffer.admit_lossy(self.ports.queues[index].bytes, limit, bytes) {
                return self.drop(egress, handle, Drop::Tail);
            }
        }
        self.ports.queues[index].push(&mut self.packets, handle, frame);
        self.ledger.queued += u64::from(frame);
        let port = &mut self.ports[egress];
        port.queued += frame;
        port.waiting.insert(priority);
        self.kick(egress);
        if lossless {
            self.check_xoff(
                switch,
                ingress,
                priority,
                Trigger { egress: PortId(egress), flow: FlowId(flow) },
            );
        }
    }

    /// Why a port that is down, or whose watchdog has found a queue stalled, takes no packet of a priority.
    fn refusal(&self, egress: u32, priority: u8) -> Option<Drop> {
        if self.ports[egress].is(Port::DOWN) {
            return Some(Drop::LinkDown);
        }
        self.drops_stalled(egress, priority).then_some(Drop::Watchdog)
    }

    /// Drops a packet that is on no wire and in no queue.
    pub(super) fn drop(&mut self, port: u32, handle: Handle, reason: Drop) {
        self.ledger.dropped += u64::from(self.packets[handle].frame);
        self.ledger.drops[reason as usize] += 1;
        self.ports.sides[port as usize].counters.drops[reason as usize] += 1;
        self.packets.remove(handle);
    }
}
