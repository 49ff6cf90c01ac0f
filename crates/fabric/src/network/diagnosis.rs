//! Why a pause was said, who blocks whom, and whether anything will ever move again.

use std::collections::{BTreeMap, BTreeSet};

use nic::Instant;

use super::port::Ports;
use super::{DiagnosisConfig, Network};
use crate::flow::FlowId;
use crate::forward::routes::PortId;
use crate::topology::{HostId, SwitchId};

/// What was found out about pauses.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    config: DiagnosisConfig,
    pauses: Vec<PauseRecord>,
    unrecorded: u64,
    storms: Vec<Storm>,
    deadlock: Option<Deadlock>,
    is_reported: bool,
}

/// An XOFF, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRecord {
    /// When.
    pub time: Instant,
    /// The switch that said it.
    pub switch: SwitchId,
    /// The port by which it was said: packets came in by it.
    pub ingress: PortId,
    /// The priority.
    pub priority: u8,
    /// What the port had in the buffer in this priority.
    pub occupied: u32,
    /// How much of the shared part it might have had.
    pub limit: u64,
    /// The packet that was too much: where to, and of which flow.
    pub trigger: Trigger,
    /// What had been piled up, for the first pauses of a port and then ever fewer: at its 1st, 2nd, 4th, ...
    pub explanation: Option<Explanation>,
}

/// The packet that crossed a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trigger {
    /// The port it waits for.
    pub egress: PortId,
    /// Its flow.
    pub flow: FlowId,
}

/// What a port has in the buffer of its switch in one priority, most bytes first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// By the port that the packets wait for, whether that is paused itself, and bytes.
    pub egress: Vec<(PortId, bool, u32)>,
    /// By flow, and bytes; at most [`Explanation::FLOWS`].
    pub flows: Vec<(FlowId, u32)>,
}

impl Explanation {
    /// The most flows an explanation names.
    pub const FLOWS: usize = 8;
}

/// A host that pauses its switch for long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Storm {
    /// When it was found out.
    pub time: Instant,
    /// The host.
    pub host: HostId,
    /// The priority.
    pub priority: u8,
    /// Since when.
    pub since: Instant,
}

/// Queues of switches that wait for each other, for ever: all that each one's peer would have to send
/// before it says XON waits in another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deadlock {
    /// When it was found out.
    pub time: Instant,
    /// The priority.
    pub priority: u8,
    /// Ports in a circle: the peer of each waits for the next.
    pub circle: Vec<PortId>,
    /// All ports that will never send in this priority again.
    pub stuck: Vec<PortId>,
}

/// What a paused queue waits for in the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// A host that pauses its switch.
    Host(HostId),
    /// A port that sends as fast as it can.
    Congestion(PortId),
    /// Itself.
    Circle(Vec<PortId>),
    /// Nothing any more: the XON is on its way.
    Resolved,
}

impl Diagnosis {
    pub(crate) fn new(config: DiagnosisConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// XOFFs, as many as are recorded, in order.
    pub fn pauses(&self) -> &[PauseRecord] {
        &self.pauses
    }

    /// XOFFs that were not recorded, because there were too many.
    pub fn unrecorded(&self) -> u64 {
        self.unrecorded
    }

    /// Pause storms, each found once.
    pub fn storms(&self) -> &[Storm] {
        &self.storms
    }

    /// The first deadlock.
    pub fn deadlock(&self) -> Option<&Deadlock> {
        self.deadlock.as_ref()
    }

    /// A deadlock that was not reported yet.
    pub(super) fn take_deadlock(&mut self) -> Option<Deadlock> {
        if self.is_reported {
            return None;
        }
        self.is_reported = self.deadlock.is_some();
        self.deadlock.clone()
    }
}

impl Network {
    pub(super) fn record_pause(
        &mut self,
        switch: SwitchId,
        ingress: u32,
        priority: u8,
        occupied: u32,
        limit: u64,
        trigger: Trigger,
    ) {
        if self.diagnosis.pauses.len() >= self.diagnosis.config.pauses {
            self.diagnosis.unrecorded += 1;
            return;
        }
        let count = self.switches.groups[Ports::index(ingress, priority)].xoffs;
        let explanation = count.is_power_of_two().then(|| self.explain(PortId(ingress), priority));
        self.diagnosis.pauses.push(PauseRecord {
            time: self.engine.now,
            switch,
            ingress: PortId(ingress),
            priority,
            occupied,
            limit,
            trigger,
            explanation,
        });
    }

    /// What came in by a port of a switch in one priority and is still there.
    ///
    /// # Panics
    /// If the port is a host's.
    pub fn explain(&self, ingress: PortId, priority: u8) -> Explanation {
        let mut flows = BTreeMap::new();
        let mut explanation = Explanation::default();
        for egress in self.paths.map.of_switch(self.switch_of(ingress.0)) {
            let mut bytes = 0;
            for handle in self.ports.queue(egress, priority).iter(&self.packets) {
                let packet = &self.packets[handle];
                if packet.ingress == ingress.0 {
                    bytes += u32::from(packet.frame);
                    *flows.entry(FlowId(packet.flow)).or_insert(0) += u32::from(packet.frame);
                }
            }
            if bytes > 0 {
                let paused = self.ports[egress].paused.contains(priority);
                explanation.egress.push((PortId(egress), paused, bytes));
            }
        }
        explanation.egress.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
        explanation.flows = flows.into_iter().collect();
        explanation.flows.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        explanation.flows.truncate(Explanation::FLOWS);
        explanation
    }

    /// What a paused queue of a switch waits for in the end, following at each switch the port that most
    /// of what blocks it waits for.
    pub fn cause(&self, port: PortId, priority: u8) -> Cause {
        let mut seen = Vec::new();
        let mut port = port;
        loop {
            if let Some(start) = seen.iter().position(|other| *other == port) {
                return Cause::Circle(seen.split_off(start));
            }
            if !self.ports[port.0].paused.contains(priority) {
                return if seen.is_empty() { Cause::Resolved } else { Cause::Congestion(port) };
            }
            seen.push(port);
            let peer = self.ports[port.0].peer;
            if self.ports.is_host(peer) {
                return Cause::Host(HostId(self.ports[peer].node.0));
            }
            match self.explain(PortId(peer), priority).egress.first() {
                None => return Cause::Resolved,
                Some((egress, _, _)) => port = *egress,
            }
        }
    }

    /// A queue was paused once more: is it part of a storm or a deadlock?
    pub(super) fn look_into_stall(&mut self, port: u32, priority: u8) {
        let since = self.ports.sides[port as usize].paused_since[usize::from(priority)];
        let stalled = self.engine.now.saturating_since(since) >= self.diagnosis.config.stall;
        if !stalled || self.ports.is_host(port) || !self.ports[port].waiting.contains(priority) {
            return;
        }
        let peer = self.ports[port].peer;
        if self.ports.is_host(peer) {
            self.record_storm(HostId(self.ports[peer].node.0), priority, since);
        } else if self.diagnosis.deadlock.is_none() {
            self.diagnosis.deadlock = self.find_deadlock(priority);
            self.diagnosis.is_reported |= self.diagnosis.deadlock.is_some() && self.has_watchdog();
        }
    }

    fn record_storm(&mut self, host: HostId, priority: u8, since: Instant) {
        let known = |storm: &Storm| (storm.host, storm.priority, storm.since) == (host, priority, since);
        if !self.diagnosis.storms.iter().any(known) {
            self.diagnosis.storms.push(Storm { time: self.engine.now, host, priority, since });
        }
    }

    /// Queues that can never send again.
    ///
    /// A paused queue is stuck if its peer is a switch that holds it, and all that came in there by this
    /// link waits in stuck queues. The largest such set is what is left when all that is not stuck is
    /// taken out.
    pub fn find_deadlock(&self, priority: u8) -> Option<Deadlock> {
        let is_paused = |port: &u32| self.ports[*port].eligible() != self.ports[*port].waiting;
        let candidates = (0..self.paths.map.switch_ports()).filter(is_paused);
        let mut waits: BTreeMap<u32, Vec<u32>> =
            candidates.filter_map(|port| Some((port, self.waits_for(port, priority)?))).collect();
        loop {
            let free: Vec<u32> = waits
                .iter()
                .filter(|(_, others)| {
                    others.is_empty() || others.iter().any(|other| !waits.contains_key(other))
                })
                .map(|(port, _)| *port)
                .collect();
            if free.is_empty() {
                break;
            }
            for port in free {
                waits.remove(&port);
            }
        }
        let circle = circle(&waits)?;
        let stuck = waits.keys().map(|port| PortId(*port)).collect();
        Some(Deadlock { time: self.engine.now, priority, circle, stuck })
    }

    /// The ports that must send before a paused queue may, if it is paused by a switch.
    fn waits_for(&self, port: u32, priority: u8) -> Option<Vec<u32>> {
        let state = &self.ports[port];
        let peer = state.peer;
        let is_held = state.paused.common(state.waiting).contains(priority)
            && !self.ports.is_host(peer)
            && self.ports[peer].holding.contains(priority);
        is_held.then(|| self.explain(PortId(peer), priority).egress.iter().map(|(port, ..)| port.0).collect())
    }
}

/// A circle in a graph in which everything waits for something of it.
fn circle(waits: &BTreeMap<u32, Vec<u32>>) -> Option<Vec<PortId>> {
    let mut path = Vec::new();
    let mut seen = BTreeSet::new();
    let mut port = *waits.keys().next()?;
    while seen.insert(port) {
        path.push(PortId(port));
        port = *waits.get(&port)?.first()?;
    }
    let start = path.iter().position(|other| other.0 == port)?;
    Some(path.split_off(start))
}
