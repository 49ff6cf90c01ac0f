//! What is to happen at a given time: failures, repairs, storms.

use nic::{Duration, Instant};

use super::Network;
use super::Rerouting;
use super::port::{Drop, Port};
use crate::engine::Kind;
use crate::forward::Routes;
use crate::priority::Priorities;
use crate::topology::{HostId, LinkId};

/// Something that the user plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// A link fails. What is on it or waits for it in switches is lost; hosts wait.
    LinkDown(LinkId),
    /// A link works again.
    LinkUp(LinkId),
    /// A host pauses its switch in these priorities, for ever: an adapter that hangs.
    Storm(HostId, Priorities),
    /// It does not any more.
    StormEnd(HostId),
}

/// What is planned, and what follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Plans {
    all: Vec<Action>,
    /// Which links are down.
    down: Vec<bool>,
    rerouting: Rerouting,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Planned(Plan),
    /// The switches at the ends of a link notice that it is down.
    Detect(LinkId),
    /// All switches have new routes.
    Converge,
}

impl Plans {
    pub fn new(links: usize, rerouting: Rerouting) -> Self {
        Self { all: Vec::new(), down: vec![false; links], rerouting }
    }
}

impl Network {
    /// Plans something for a point in time that is not past.
    ///
    /// # Panics
    /// If a link or host does not exist.
    pub fn plan(&mut self, at: Instant, plan: Plan) {
        match plan {
            Plan::LinkDown(link) | Plan::LinkUp(link) => {
                assert!((link.0 as usize) < self.paths.topology.links().len(), "{link:?} does not exist");
            }
            Plan::Storm(host, _) | Plan::StormEnd(host) => {
                assert!(host.0 < self.paths.topology.hosts(), "{host:?} does not exist");
            }
        }
        self.add_plan(at.max(self.engine.now), Action::Planned(plan));
    }

    fn add_plan(&mut self, at: Instant, action: Action) {
        let number = self.plans.all.len() as u32;
        self.plans.all.push(action);
        self.engine.push(at.as_picos(), Kind::Control, number, 0);
    }

    pub(super) fn on_plan(&mut self, number: u32) {
        match self.plans.all[number as usize] {
            Action::Planned(Plan::LinkDown(link)) => self.fail(link),
            Action::Planned(Plan::LinkUp(link)) => self.mend(link),
            Action::Planned(Plan::Storm(host, priorities)) => {
                self.hold(self.paths.map.of_host(host).0, priorities);
            }
            Action::Planned(Plan::StormEnd(host)) => self.let_go(self.paths.map.of_host(host).0),
            Action::Detect(link) => self.detect(link),
            Action::Converge => self.converge(),
        }
    }

    fn fail(&mut self, link: LinkId) {
        if std::mem::replace(&mut self.plans.down[link.0 as usize], true) {
            return;
        }
        for port in self.paths.map.ends(link).map(|port| port.0) {
            self.unpause(port, Priorities::ALL);
            let state = &mut self.ports[port];
            state.set(Port::DOWN, true);
            state.set(Port::SCARRED, true);
            self.ports.sides[port as usize].last_down = self.engine.now;
            if !self.ports.is_host(port) {
                for priority in Priorities::ALL.iter() {
                    self.flush(port, priority, Drop::LinkDown);
                }
            }
        }
        let Rerouting { detection, convergence } = self.plans.rerouting;
        self.add_plan(self.engine.now + detection, Action::Detect(link));
        self.replan_routes(convergence);
    }

    fn mend(&mut self, link: LinkId) {
        if !std::mem::replace(&mut self.plans.down[link.0 as usize], false) {
            return;
        }
        for port in self.paths.map.ends(link).map(|port| port.0) {
            let state = &mut self.ports[port];
            state.set(Port::DOWN, false);
            // A peer that has just come up knows of no pause.
            state.owed = state.holding;
            self.kick(port);
        }
        self.replan_routes(self.plans.rerouting.convergence);
    }

    fn replan_routes(&mut self, after: Duration) {
        self.add_plan(self.engine.now + after, Action::Converge);
    }

    fn detect(&mut self, link: LinkId) {
        if !self.plans.down[link.0 as usize] {
            return;
        }
        for port in self.paths.map.ends(link) {
            if !self.ports.is_host(port.0) {
                let switch = self.switch_of(port.0);
                self.paths.routes.remove_port(switch, port);
            }
        }
    }

    fn converge(&mut self) {
        let down = &self.plans.down;
        let is_up = |link: LinkId| !down[link.0 as usize];
        self.paths.routes = Routes::shortest(&self.paths.topology, &self.paths.map, is_up);
    }
}
