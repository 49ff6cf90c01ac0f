//! A source of frames without a protocol.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nic::Instant;
use wire::{Bth, Icrc};

use super::Context;
use crate::flow::{FlowId, FlowSpec};
use crate::packet::{Handle, Packet};
use crate::priority::Priorities;
use crate::topology::HostId;

/// Sends the packets of its flows in turn, and counts what arrives.
#[derive(Clone, Debug)]
pub(crate) struct RawHost {
    id: HostId,
    payload: u16,
    priorities: [u8; 64],
    /// Flows that may send now, in turn.
    ready: VecDeque<Sending>,
    /// Paced flows whose next packet is to leave later, by that time.
    later: BinaryHeap<Reverse<Later>>,
}

/// A flow that is not sent yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sending {
    id: FlowId,
    spec: FlowSpec,
    sent: u64,
}

/// A flow that waits for a point in time, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Later(u64, Sending);

impl Ord for Later {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1.id).cmp(&(other.0, other.1.id))
    }
}

impl PartialOrd for Later {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl RawHost {
    pub fn new(id: HostId, payload: u16, priorities: [u8; 64]) -> Self {
        Self { id, payload, priorities, ready: VecDeque::new(), later: BinaryHeap::new() }
    }

    /// Payload bytes of a full packet, unless a flow says otherwise.
    pub fn payload(&self) -> u16 {
        self.payload.max(1)
    }

    pub fn start(&mut self, id: FlowId, spec: &FlowSpec) {
        self.ready.push_back(Sending { id, spec: *spec, sent: 0 });
    }

    pub fn receive(&mut self, handle: Handle, context: &mut Context<'_>) {
        let packet = &context.packets[handle];
        let flow = &mut context.flows[packet.flow as usize];
        flow.receive(context.now, packet.payload.into());
        if flow.arrival.is_some() && !flow.is_over() {
            flow.finish = flow.arrival;
            context.over.push(FlowId(packet.flow));
        }
    }

    pub fn next_packet(&mut self, paused: Priorities, context: &mut Context<'_>) -> Option<Handle> {
        for _ in 0..self.ready.len() {
            let flow = self.ready.pop_front()?;
            if paused.contains(self.priority(&flow.spec)) {
                self.ready.push_back(flow);
                continue;
            }
            return Some(self.send(flow, context));
        }
        None
    }

    fn priority(&self, spec: &FlowSpec) -> u8 {
        self.priorities[usize::from(spec.class.dscp & 0x3F)]
    }

    /// Sends the next packet of a flow, and puts the flow where it waits for its next turn.
    fn send(&mut self, mut flow: Sending, context: &mut Context<'_>) -> Handle {
        let mtu = flow.spec.mtu.unwrap_or(self.payload).max(1);
        let payload = (flow.spec.bytes - flow.sent).min(mtu.into()) as u16;
        let pad = payload.wrapping_neg() & 0x3;
        let frame = context.framing.frame_of(Bth::LEN + Icrc::LEN + usize::from(pad), payload.into());
        let packet = Packet {
            ports: flow.spec.ports(true),
            flow: flow.id.0,
            traffic_class: flow.spec.class.byte(),
            priority: self.priority(&flow.spec),
            ..Packet::new(self.id, flow.spec.destination, frame as u16, payload)
        };
        flow.sent += u64::from(payload);
        if flow.sent < flow.spec.bytes {
            match flow.spec.pace {
                None => self.ready.push_back(flow),
                Some(pace) => {
                    let next = context.now + pace.time_for(context.framing.on_wire(frame) as u64);
                    self.later.push(Reverse(Later(next.as_picos(), flow)));
                }
            }
        }
        context.packets.insert(packet)
    }

    pub fn timeout(&self) -> Option<Instant> {
        self.later.peek().map(|Reverse(Later(time, _))| Instant::from_picos(*time))
    }

    pub fn on_timeout(&mut self, now: Instant) {
        while let Some(Reverse(Later(time, flow))) = self.later.peek().copied() {
            if time > now.as_picos() {
                return;
            }
            self.later.pop();
            self.ready.push_back(flow);
        }
    }
}
