//! A network that runs: hosts, switches and links, carried from event to event.
//!
//! | module | idea |
//! |---|---|
//! | `build` | from a topology and settings to a network |
//! | `ingress` | a packet arrives: at a host, or at a switch that sends it on |
//! | `egress` | a port sends: which packet, when, and what becomes free |
//! | `pause` | PFC: saying XOFF and XON, and obeying them |
//! | [`plan`] | what is to happen at a given time: failures, repairs, storms |
//! | [`diagnosis`] | why a pause was said; who blocks whom; deadlock |
//! | [`ledger`] | every byte accounted for |
//! | `statistics` | what can be asked of it |
//! | `port` | ports and queues in flat memory |
//! | `warm` | cache misses that overlap |

mod build;
pub mod diagnosis;
mod egress;
mod ingress;
pub mod ledger;
mod pause;
pub mod plan;
pub(crate) mod port;
mod statistics;
mod warm;
mod watchdog;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nic::{Duration, Instant};

use crate::engine::{Calendar, Event, Kind};
use crate::flow::{Flow, FlowId, FlowSpec};
use crate::forward::Routes;
use crate::forward::routes::PortMap;
use crate::framing::Framing;
use crate::host::{self, Context, Host, HostConfig};
use crate::packet::{Handle, Pool};
use crate::switch::SwitchConfig;
use crate::switch::buffer::{Group, GroupLimits};
use crate::switch::state::{Profile, Switch};
use crate::topology::{HostId, SwitchId, Topology};

use diagnosis::{Deadlock, Diagnosis};
use ledger::Ledger;
use plan::Plans;
use port::Ports;
use watchdog::Watchdog;

pub use build::BuildError;
pub use port::{Drop, PortCounters};
pub use statistics::{BufferStatistics, IngressStatistics, QueueStatistics};

/// The settings of a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// Bytes around packets.
    pub framing: Framing,
    /// All switches but those named below.
    pub switch: SwitchConfig,
    /// Switches that are set otherwise.
    pub switches: Vec<(SwitchId, SwitchConfig)>,
    /// All hosts.
    pub host: HostConfig,
    /// How long it takes to route around a failure.
    pub rerouting: Rerouting,
    /// What is recorded of pauses.
    pub diagnosis: DiagnosisConfig,
    /// Seeds all that is left to chance.
    pub seed: u64,
}

/// How long it takes to route around a link that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rerouting {
    /// Until the switches at its ends use their other ports, where they have equal ones.
    pub detection: Duration,
    /// Until all switches use the new shortest paths.
    pub convergence: Duration,
}

impl Default for Rerouting {
    /// A switch sees the loss of signal at once; a routing protocol takes its time.
    fn default() -> Self {
        Self { detection: Duration::from_micros(10), convergence: Duration::from_millis(50) }
    }
}

/// What is recorded of pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiagnosisConfig {
    /// At most so many XOFFs are recorded one by one.
    pub pauses: usize,
    /// A queue that is paused for so long without sending is looked into: storm or deadlock?
    pub stall: Duration,
}

impl Default for DiagnosisConfig {
    fn default() -> Self {
        Self { pauses: 10_000, stall: Duration::from_millis(1) }
    }
}

/// A network.
#[derive(Debug)]
pub struct Network {
    engine: Engine,
    packets: Pool,
    ports: Ports,
    switches: Switches,
    hosts: Hosts,
    paths: Paths,
    flows: Flows,
    plans: Plans,
    ledger: Ledger,
    diagnosis: Diagnosis,
    watchdog: Watchdog,
    framing: Framing,
}

/// Time.
#[derive(Clone, Debug)]
struct Engine {
    now: Instant,
    queue: Calendar,
    /// A digest of all events so far.
    digest: u64,
    events: u64,
    /// Packets that switches sent on.
    forwards: u64,
}

impl Engine {
    fn push(&mut self, time: u64, kind: Kind, place: u32, argument: u32) {
        self.queue.push(Event::new(Instant::from_picos(time), kind, place, argument));
    }

    fn record(&mut self, event: Event) {
        let word = event.picos() ^ u64::from(event.place()) << 40 ^ (event.kind() as u64) << 61;
        self.digest = (self.digest.rotate_left(7) ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.events += 1;
    }
}

/// The switches, and what each of their ports has in their buffers.
#[derive(Clone, Debug, Default)]
struct Switches {
    all: Vec<Switch>,
    profiles: Vec<Profile>,
    /// Eight for every port.
    groups: Vec<Group>,
    /// One for every port.
    limits: Vec<GroupLimits>,
}

/// The flows, and which of them have not begun or are not over.
#[derive(Clone, Debug)]
struct Flows {
    all: Vec<Flow>,
    /// Those that have not begun, by their start in picoseconds.
    starts: BinaryHeap<Reverse<(u64, FlowId)>>,
    /// When the next start is planned, in picoseconds.
    armed: u64,
    /// How many are not over.
    unfinished: usize,
    /// Those that are over since this was last looked at.
    over: Vec<FlowId>,
}

impl Default for Flows {
    fn default() -> Self {
        Self { all: Vec::new(), starts: BinaryHeap::new(), armed: u64::MAX, unfinished: 0, over: Vec::new() }
    }
}

/// The hosts, and when the timer of each is due, in picoseconds.
#[derive(Debug, Default)]
struct Hosts {
    all: Vec<Host>,
    armed: Vec<u64>,
}

/// Where everything is, and how to get there.
#[derive(Clone, Debug)]
struct Paths {
    topology: Topology,
    map: PortMap,
    routes: Routes,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// All flows are done.
    Finished,
    /// The time limit was reached with flows undone.
    TimeLimit,
    /// Flows are undone, and nothing is due any more: packets were lost that nobody sends again.
    Stuck,
    /// Switches wait for each other in a circle.
    Deadlock(Deadlock),
}

impl Network {
    /// The time.
    pub fn now(&self) -> Instant {
        self.engine.now
    }

    /// Adds a flow, which begins at its time or, if that is past, now.
    ///
    /// # Panics
    /// If a host does not exist, or the flow is from a host to itself.
    pub fn add_flow(&mut self, spec: FlowSpec) -> FlowId {
        let hosts = self.paths.topology.hosts();
        assert!(spec.source.0 < hosts && spec.destination.0 < hosts, "a flow of a host that does not exist");
        assert_ne!(spec.source, spec.destination, "a flow from a host to itself");
        let id = FlowId(self.flows.all.len() as u32);
        let start = spec.start.max(self.engine.now);
        self.flows.all.push(Flow::new(FlowSpec { start, ..spec }));
        self.flows.unfinished += 1;
        self.flows.starts.push(Reverse((start.as_picos(), id)));
        self.arm_start();
        id
    }

    fn next_start(&self) -> Option<u64> {
        self.flows.starts.peek().map(|Reverse((time, _))| *time)
    }

    /// Begins the flows whose time has come.
    fn on_start(&mut self) {
        while self.next_start().is_some_and(|time| time <= self.engine.now.as_picos()) {
            let Some(Reverse((_, id))) = self.flows.starts.pop() else { return };
            let flow = &mut self.flows.all[id.0 as usize];
            let source = flow.spec.source;
            host::start_flow(&mut self.hosts.all, id, flow, self.engine.now);
            self.kick(self.paths.map.of_host(source).0);
            self.arm(source);
        }
        self.flows.armed = u64::MAX;
        self.arm_start();
    }

    /// Plans the event of the next start, unless an earlier one is planned, which will plan the next.
    fn arm_start(&mut self) {
        let Some(next) = self.next_start() else { return };
        if next < self.flows.armed {
            self.flows.armed = next;
            self.engine.push(next, Kind::Start, 0, 0);
        }
    }

    /// Takes note of flows that are over.
    fn settle(&mut self) {
        while let Some(id) = self.flows.over.pop() {
            self.flows.unfinished -= 1;
            host::end_flow(&mut self.hosts.all, &mut self.flows.all[id.0 as usize]);
        }
    }

    /// All flows, in the order they were added.
    pub fn flows(&self) -> &[Flow] {
        &self.flows.all
    }

    /// Runs until all flows are done, at most until `limit`.
    pub fn run(&mut self, limit: Instant) -> Outcome {
        while self.flows.unfinished > 0 {
            if !self.step(limit) {
                return if self.engine.queue.is_empty() { Outcome::Stuck } else { Outcome::TimeLimit };
            }
            if let Some(deadlock) = self.diagnosis.take_deadlock() {
                return Outcome::Deadlock(deadlock);
            }
        }
        Outcome::Finished
    }

    /// Carries out everything that is due until `limit`, and moves time there.
    pub fn run_until(&mut self, limit: Instant) {
        while self.step(limit) {}
        self.engine.now = self.engine.now.max(limit);
    }

    /// Carries out the next event, unless it is due after `limit`.
    pub fn step(&mut self, limit: Instant) -> bool {
        let Some(event) = self.engine.queue.pop_until(limit.as_picos()) else { return false };
        if self.engine.queue.has_opened() {
            self.warm();
        }
        self.engine.now = self.engine.now.max(event.time());
        self.engine.record(event);
        match event.kind() {
            Kind::Arrival => self.on_arrival(event.place(), Handle(event.argument())),
            Kind::Wake => self.on_wake(event.place()),
            Kind::Timer => self.on_timer(HostId(event.place())),
            Kind::Pause => self.on_pause(event.place(), event.argument()),
            Kind::PauseEnd => self.on_pause_end(event.place()),
            Kind::PauseRefresh => self.on_pause_refresh(event.place()),
            Kind::Watchdog => self.on_watchdog(SwitchId(event.place())),
            Kind::Control => self.on_plan(event.place()),
            Kind::Start => self.on_start(),
        }
        #[cfg(debug_assertions)]
        self.ledger.check();
        true
    }

    fn on_timer(&mut self, host: HostId) {
        self.hosts.armed[host.0 as usize] = u64::MAX;
        let (owner, mut context) = self.host(host);
        owner.on_timeout(&mut context);
        self.settle();
        self.kick(self.paths.map.of_host(host).0);
        self.arm(host);
    }

    /// Plans the event of a host's timer, unless an earlier one is planned, which will plan the next.
    fn arm(&mut self, host: HostId) {
        let index = host.0 as usize;
        let Some(timeout) = self.hosts.all[index].timeout() else { return };
        let due = timeout.max(self.engine.now).as_picos();
        if due < self.hosts.armed[index] {
            self.hosts.armed[index] = due;
            self.engine.push(due, Kind::Timer, host.0, 0);
        }
    }

    /// A host, and what it may use.
    fn host(&mut self, host: HostId) -> (&mut Host, Context<'_>) {
        let context = Context {
            now: self.engine.now,
            framing: &self.framing,
            flows: &mut self.flows.all,
            packets: &mut self.packets,
            over: &mut self.flows.over,
        };
        (&mut self.hosts.all[host.0 as usize], context)
    }
}
