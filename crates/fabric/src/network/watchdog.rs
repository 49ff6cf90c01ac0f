//! The PFC watchdog: queues that a peer pauses for too long are not paused any more.

use nic::{Duration, Instant};

use super::Network;
use super::port::{Drop, Port};
use crate::engine::Kind;
use crate::priority::Priorities;
use crate::switch::{WatchdogAction, WatchdogConfig};
use crate::topology::SwitchId;

/// What the watchdogs of all switches remember.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watchdog {
    /// One for each switch.
    switches: Vec<Watched>,
    /// How often a queue was found stalled.
    triggered: u64,
}

#[derive(Clone, Debug, Default)]
struct Watched {
    /// The next look is planned.
    armed: bool,
    stalls: Vec<Stall>,
}

/// A queue that was paused and had packets at the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stall {
    port: u32,
    priority: u8,
    sent: u32,
    since: Instant,
}

impl Watchdog {
    /// Watches so many switches.
    pub fn new(switches: usize) -> Self {
        Self { switches: vec![Watched::default(); switches], triggered: 0 }
    }
}

/// Looks per detection time.
const LOOKS: u64 = 4;

impl Network {
    /// How often a watchdog found a queue stalled.
    pub fn watchdog_triggers(&self) -> u64 {
        self.watchdog.triggered
    }

    fn watchdog_config(&self, switch: SwitchId) -> Option<WatchdogConfig> {
        self.switches.profiles[self.switches.all[switch.0 as usize].profile as usize].watchdog
    }

    /// Whether any switch has a watchdog.
    pub(super) fn has_watchdog(&self) -> bool {
        self.switches.profiles.iter().any(|profile| profile.watchdog.is_some())
    }

    /// A port was paused: its switch has to look at it.
    pub(super) fn watch(&mut self, port: u32) {
        if self.ports.is_host(port) {
            return;
        }
        let switch = self.switch_of(port);
        let Some(config) = self.watchdog_config(switch) else { return };
        let watched = &mut self.watchdog.switches[switch.0 as usize];
        if !std::mem::replace(&mut watched.armed, true) {
            let next = self.engine.now + look_interval(config);
            self.engine.push(next.as_picos(), Kind::Watchdog, switch.0, 0);
        }
    }

    /// Looks at the queues of a switch, and again later while any is paused or not obeyed.
    pub(super) fn on_watchdog(&mut self, switch: SwitchId) {
        let Some(config) = self.watchdog_config(switch) else { return };
        let before = std::mem::take(&mut self.watchdog.switches[switch.0 as usize].stalls);
        let mut stalls = Vec::new();
        let mut again = false;
        for port in self.paths.map.of_switch(switch) {
            self.restore(port, config);
            let state = &self.ports[port];
            again |= !state.paused.is_empty() || !self.ports.sides[port as usize].disobeyed.is_empty();
            for priority in state.paused.common(state.waiting).iter() {
                stalls.push(self.stall(port, priority, &before));
            }
        }
        let is_over = |stall: &Stall| self.engine.now.saturating_since(stall.since) >= config.detection;
        let (over, under): (Vec<Stall>, Vec<Stall>) = stalls.into_iter().partition(is_over);
        for stall in over {
            self.disobey(stall, config.action);
            again = true;
        }
        let watched = &mut self.watchdog.switches[switch.0 as usize];
        watched.stalls = under;
        watched.armed = again;
        if again {
            let next = self.engine.now + look_interval(config);
            self.engine.push(next.as_picos(), Kind::Watchdog, switch.0, 0);
        }
    }

    /// A queue that is paused and has packets: since when it stands still.
    fn stall(&self, port: u32, priority: u8, before: &[Stall]) -> Stall {
        let sent = self.ports.queue(port, priority).sent;
        let same = |stall: &&Stall| (stall.port, stall.priority, stall.sent) == (port, priority, sent);
        match before.iter().find(same) {
            Some(stall) => *stall,
            None => Stall { port, priority, sent, since: self.engine.now },
        }
    }

    fn disobey(&mut self, stall: Stall, action: WatchdogAction) {
        self.watchdog.triggered += 1;
        self.ports.sides[stall.port as usize].disobeyed.insert(stall.priority);
        self.ports[stall.port].set(Port::STALLED, true);
        self.unpause(stall.port, Priorities::of(stall.priority));
        if action == WatchdogAction::Drop {
            self.flush(stall.port, stall.priority, Drop::Watchdog);
        }
        // The peer is heard last when it sends its next XOFF.
        self.ports.sides[stall.port as usize].pause_until[usize::from(stall.priority)] = self.engine.now;
        self.kick(stall.port);
    }

    /// Obeys the peer again in priorities that it did not pause for the restoration time.
    fn restore(&mut self, port: u32, config: WatchdogConfig) {
        let side = &mut self.ports.sides[port as usize];
        if side.disobeyed.is_empty() {
            return;
        }
        for priority in side.disobeyed.iter() {
            let quiet = self.engine.now.saturating_since(side.pause_until[usize::from(priority)]);
            if quiet >= config.restoration {
                side.disobeyed.remove(priority);
            }
        }
        let stalled = !side.disobeyed.is_empty();
        self.ports[port].set(Port::STALLED, stalled);
    }

    /// Whether the watchdog drops packets of a priority at a port of which some priority is not obeyed.
    pub(super) fn drops_stalled(&self, port: u32, priority: u8) -> bool {
        let drops = |config: WatchdogConfig| config.action == WatchdogAction::Drop;
        self.ports.sides[port as usize].disobeyed.contains(priority)
            && self.watchdog_config(self.switch_of(port)).is_some_and(drops)
    }
}

fn look_interval(config: WatchdogConfig) -> Duration {
    Duration::from_picos((config.detection.as_picos() / LOOKS).max(1))
}
