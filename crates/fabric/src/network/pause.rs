//! PFC (IEEE 802.1Q, 36): a port whose peer sends too much tells it to stop, priority by priority.
//!
//! A pause frame waits for the frame that its port is sending, takes its time on the wire, and is obeyed
//! after the peer's reaction time. It is never damaged. While a priority is held it is renewed at half its
//! time.

use nic::Duration;

use super::Network;
use super::diagnosis::Trigger;
use super::port::{Port, Ports};
use crate::engine::Kind;
use crate::framing::Framing;
use crate::priority::Priorities;
use crate::switch::headroom::QUANTUM;
use crate::topology::SwitchId;

/// What a pause frame says, as the argument of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PauseFrame {
    /// The priorities it is about.
    enabled: Priorities,
    /// Those of them that are to stop; the others may go on.
    stopped: Priorities,
    /// For so many quanta.
    quanta: u16,
}

impl PauseFrame {
    const fn pack(self) -> u32 {
        self.enabled.0 as u32 | (self.stopped.0 as u32) << 8 | (self.quanta as u32) << 16
    }

    const fn unpack(word: u32) -> Self {
        let [enabled, stopped, low, high] = word.to_le_bytes();
        let quanta = u16::from_le_bytes([low, high]);
        Self { enabled: Priorities(enabled), stopped: Priorities(stopped), quanta }
    }
}

impl Network {
    /// Holds the peer of `ingress` in a priority if it has more than its share of the buffer.
    pub(super) fn check_xoff(&mut self, switch: SwitchId, ingress: u32, priority: u8, trigger: Trigger) {
        if self.ports[ingress].holding.contains(priority) {
            return;
        }
        let buffer = &self.switches.all[switch.0 as usize].buffer;
        let group = &mut self.switches.groups[Ports::index(ingress, priority)];
        let limits = &self.switches.limits[ingress as usize];
        if !buffer.is_over(group, limits) {
            return;
        }
        group.xoffs += 1;
        let occupied = group.used + group.headroom;
        let limit = limits.threshold.limit(buffer.free());
        self.record_pause(switch, ingress, priority, occupied, limit, trigger);
        self.hold(ingress, Priorities::of(priority));
    }

    /// Lets the peer of `ingress` go on in a priority if it was held and has little in the buffer; says
    /// whether the port is to tell it so.
    pub(super) fn check_xon(&mut self, switch: SwitchId, ingress: u32, priority: u8) -> bool {
        let port = &mut self.ports[ingress];
        if !port.holding.contains(priority) {
            return false;
        }
        let group = &self.switches.groups[Ports::index(ingress, priority)];
        let buffer = &self.switches.all[switch.0 as usize].buffer;
        if !buffer.is_under(group, &self.switches.limits[ingress as usize]) {
            return false;
        }
        port.holding.remove(priority);
        port.owed.insert(priority);
        true
    }

    /// Holds the peer of a port in some priorities.
    pub(super) fn hold(&mut self, port: u32, priorities: Priorities) {
        let state = &mut self.ports[port];
        state.holding = state.holding.and(priorities);
        state.owed = state.owed.and(priorities);
        self.kick(port);
    }

    /// Lets the peer of a port go on in all priorities.
    pub(super) fn let_go(&mut self, port: u32) {
        let state = &mut self.ports[port];
        state.owed = state.owed.and(state.holding);
        state.holding = Priorities::NONE;
        self.kick(port);
    }

    /// Sends a pause frame by a port that is free and owes its peer one.
    pub(super) fn send_pause(&mut self, port: u32) {
        let side = &mut self.ports.sides[port as usize];
        let state = &mut self.ports.all[port as usize];
        let stopped = state.owed.common(state.holding);
        let frame = PauseFrame { enabled: state.owed, stopped, quanta: side.quanta };
        state.owed = Priorities::NONE;
        let now = self.engine.now.as_picos();
        let wire = self.framing.on_wire(Framing::PAUSE_FRAME as usize) as u32;
        let seen = u32::from(self.framing.preamble) + Framing::PAUSE_FRAME;
        state.busy_until = now + state.byte_time.picos(wire);
        state.sent_bytes += u64::from(wire);
        state.sent_frames += 1;
        side.counters.xoff_sent += u64::from(!stopped.is_empty());
        side.counters.xon_sent += u64::from(stopped != frame.enabled);
        let obeyed = now + state.byte_time.picos(seen) + side.pause_delay;
        self.engine.push(obeyed, Kind::Pause, state.peer, frame.pack());
        if !stopped.is_empty() && !side.refreshing {
            side.refreshing = true;
            let renewal = now + state.byte_time.picos(u32::from(side.quanta) * QUANTUM) / 2;
            self.engine.push(renewal.max(state.busy_until), Kind::PauseRefresh, port, 0);
        }
    }

    /// Obeys a pause frame.
    pub(super) fn on_pause(&mut self, port: u32, word: u32) {
        let frame = PauseFrame::unpack(word);
        if self.ports[port].is(Port::DOWN) {
            return;
        }
        self.ports.sides[port as usize].counters.pauses_received += 1;
        let stopped = if frame.quanta == 0 { Priorities::NONE } else { frame.stopped };
        self.unpause(port, frame.enabled.without(stopped));
        if !stopped.is_empty() {
            self.stop(port, stopped, frame.quanta);
        }
        self.kick(port);
    }

    /// Pauses a port in some priorities.
    fn stop(&mut self, port: u32, stopped: Priorities, quanta: u16) {
        let now = self.engine.now;
        let side = &mut self.ports.sides[port as usize];
        let state = &mut self.ports.all[port as usize];
        let until = now + Duration::from_picos(state.byte_time.picos(u32::from(quanta) * QUANTUM));
        let obeyed = stopped.without(side.disobeyed);
        for priority in stopped.iter() {
            let index = usize::from(priority);
            if !state.paused.contains(priority) {
                side.paused_since[index] = now;
            }
            side.pause_until[index] = until;
        }
        state.paused = state.paused.and(obeyed);
        self.engine.push(until.as_picos(), Kind::PauseEnd, port, 0);
        self.watch(port);
        for priority in obeyed.iter() {
            self.look_into_stall(port, priority);
        }
    }

    /// Ends the pauses of a port in some priorities.
    pub(super) fn unpause(&mut self, port: u32, priorities: Priorities) {
        let side = &mut self.ports.sides[port as usize];
        let state = &mut self.ports.all[port as usize];
        for priority in priorities.common(state.paused).iter() {
            let index = usize::from(priority);
            let paused = self.engine.now.saturating_since(side.paused_since[index]);
            side.counters.paused[index] += paused.as_picos();
            state.paused.remove(priority);
        }
    }

    /// Ends the pauses that were not renewed.
    pub(super) fn on_pause_end(&mut self, port: u32) {
        let until = &self.ports.sides[port as usize].pause_until;
        let ended = |priority: &u8| until[usize::from(*priority)] <= self.engine.now;
        let ended: Priorities = self.ports[port].paused.iter().filter(ended).collect();
        if !ended.is_empty() {
            self.unpause(port, ended);
            self.kick(port);
        }
    }

    /// Renews the pauses that a port still means.
    pub(super) fn on_pause_refresh(&mut self, port: u32) {
        self.ports.sides[port as usize].refreshing = false;
        let state = &mut self.ports[port];
        if !state.holding.is_empty() && !state.is(Port::DOWN) {
            state.owed = state.owed.and(state.holding);
            self.kick(port);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_frame_fits_an_event() {
        let frame = PauseFrame { enabled: Priorities(0x48), stopped: Priorities(0x08), quanta: 0xFFFE };
        assert_eq!(PauseFrame::unpack(frame.pack()), frame);
    }
}
