//! A port sends.

use super::Network;
use super::port::{Drop, Port, Ports};
use crate::engine::Kind;
use crate::packet::{Handle, Packet};
use crate::priority::Priorities;
use crate::topology::{HostId, SwitchId};

/// A packet that has left its queue.
struct Dequeued {
    handle: Handle,
    /// The port by which it came, if it now owes its peer an XON.
    owing: Option<u32>,
}

impl Network {
    /// A port has fallen free.
    pub(super) fn on_wake(&mut self, port: u32) {
        self.ports[port].set(Port::AWAKENING, false);
        self.kick(port);
    }

    /// Something changed at a port: sends what may be sent, now or when the port falls free.
    pub(super) fn kick(&mut self, port: u32) {
        let state = &mut self.ports[port];
        if state.busy_until > self.engine.now.as_picos() {
            if !state.is(Port::AWAKENING) {
                state.set(Port::AWAKENING, true);
                let due = state.busy_until;
                self.engine.push(due, Kind::Wake, port, 0);
            }
            return;
        }
        if state.is(Port::DOWN) {
            return;
        }
        if !state.owed.is_empty() {
            self.send_pause(port);
            return self.kick_if_more(port);
        }
        let eligible = state.eligible();
        if self.ports.is_host(port) {
            return self.pull(port);
        }
        if !eligible.is_empty() {
            self.serve(port, eligible);
            self.kick_if_more(port);
        }
    }

    /// Asks a host for its next packet.
    fn pull(&mut self, port: u32) {
        let host = HostId(self.ports[port].node.0);
        let paused = self.ports[port].paused;
        let (sender, mut context) = self.host(host);
        let Some(handle) = sender.next_packet(paused, &mut context) else { return };
        self.ledger.sent += u64::from(self.packets[handle].frame);
        self.send(port, handle);
        self.kick(port);
        self.arm(host);
    }

    /// Plans to go on when the port falls free, if there is more to send.
    fn kick_if_more(&mut self, port: u32) {
        let state = &self.ports[port];
        if self.ports.is_host(port) || !state.owed.is_empty() || !state.eligible().is_empty() {
            self.kick(port);
        }
    }

    /// Sends the next packet of a switch's port that is free.
    fn serve(&mut self, port: u32, eligible: Priorities) {
        let priority = self.next_queue(port, eligible);
        let Some(next) = self.dequeue(port, priority) else { return };
        self.send(port, next.handle);
        self.tell(next.owing);
    }

    /// Lets a port say what it owes its peer.
    fn tell(&mut self, port: Option<u32>) {
        if let Some(port) = port {
            self.kick(port);
        }
    }

    fn next_queue(&mut self, port: u32, eligible: Priorities) -> u8 {
        if eligible.0.is_power_of_two() {
            return eligible.0.trailing_zeros() as u8;
        }
        let switch = self.switch_of(port);
        let profile = &self.switches.profiles[self.switches.all[switch.0 as usize].profile as usize];
        let Ports { all, queues, deficits, .. } = &mut self.ports;
        let packets = &self.packets;
        let head = |priority| u32::from(packets[queues[Ports::index(port, priority)].head].frame);
        profile.schedule.next(eligible, &mut all[port as usize].turn, &mut deficits[port as usize], head)
    }

    /// The switch of a switch's port.
    pub(super) fn switch_of(&self, port: u32) -> SwitchId {
        SwitchId(self.ports[port].node.0 - self.paths.topology.hosts())
    }

    /// Takes the first packet out of a queue, gives its bytes back to the buffer, and marks it if the
    /// queue is long.
    fn dequeue(&mut self, port: u32, priority: u8) -> Option<Dequeued> {
        let queue = &mut self.ports.queues[Ports::index(port, priority)];
        let handle = queue.pop(&self.packets)?;
        let packet = &mut self.packets[handle];
        let (frame, ingress) = (u32::from(packet.frame), packet.ingress);
        queue.bytes -= frame;
        queue.sent = queue.sent.wrapping_add(1);
        let (left, is_empty) = (queue.bytes, queue.head == Handle::NONE);
        let state = &mut self.ports.all[port as usize];
        state.queued -= frame;
        if is_empty {
            state.waiting.remove(priority);
            self.ports.deficits[port as usize][usize::from(priority)] = 0;
        }
        self.ledger.queued -= u64::from(frame);

        let switch = SwitchId(state.node.0 - self.paths.topology.hosts());
        let state = &mut self.switches.all[switch.0 as usize];
        let profile = &self.switches.profiles[state.profile as usize];
        if profile.marks(priority, left, &mut state.random) && packet.mark() {
            queue.marks += 1;
            self.ledger.marked_packets += 1;
        }
        let bytes = profile.occupied(frame);
        if !profile.lossless.contains(priority) {
            state.buffer.release_lossy(bytes);
            return Some(Dequeued { handle, owing: None });
        }
        let group = &mut self.switches.groups[Ports::index(ingress, priority)];
        state.buffer.release(group, &self.switches.limits[ingress as usize], bytes);
        let owing = self.check_xon(switch, ingress, priority).then_some(ingress);
        Some(Dequeued { handle, owing })
    }

    /// Puts a frame on the wire of a port that is free.
    pub(super) fn send(&mut self, port: u32, handle: Handle) {
        let now = self.engine.now.as_picos();
        let state = &mut self.ports[port];
        let frame = u32::from(self.packets[handle].frame);
        let wire = self.framing.on_wire(frame as usize) as u32;
        debug_assert!(state.busy_until <= now && !state.is(Port::DOWN));
        state.busy_until = now + state.byte_time.picos(wire);
        state.sent_bytes += u64::from(wire);
        state.sent_frames += 1;
        let seen = u32::from(self.framing.preamble) + frame.min(state.peer_sees.into());
        let arrival = now + state.byte_time.picos(seen) + state.delay;
        let (peer, lossy) = (state.peer, state.is(Port::LOSSY));
        self.ledger.on_wire += u64::from(frame);
        if lossy {
            self.damage(port, handle, wire);
        }
        self.engine.push(arrival, Kind::Arrival, peer, handle.0);
    }

    /// Damages a frame as often as the link does.
    fn damage(&mut self, port: u32, handle: Handle, wire: u32) {
        let side = &mut self.ports.sides[port as usize];
        if side.random.unit() < side.loss.of_frame(wire) {
            self.packets[handle].flags |= Packet::CORRUPT;
        }
    }

    /// Drops everything that waits in a queue.
    pub(super) fn flush(&mut self, port: u32, priority: u8, reason: Drop) {
        while let Some(next) = self.dequeue(port, priority) {
            self.drop(port, next.handle, reason);
            self.tell(next.owing);
        }
    }
}
