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
//! | `port` | ports and queues in flat memory |

mod build;
pub mod diagnosis;
mod egress;
mod ingress;
pub mod ledger;
mod pause;
pub mod plan;
pub(crate) mod port;
mod watchdog;

use nic::{Duration, Instant};

use crate::engine::{Calendar, Event, Kind};
use crate::flow::{Flow, FlowId, FlowSpec};
use crate::forward::Routes;
use crate::forward::routes::{PortId, PortMap};
use crate::framing::Framing;
use crate::host::{Context, Host, HostConfig};
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
#[derive(Clone, Debug)]
pub struct Network {
    engine: Engine,
    packets: Pool,
    ports: Ports,
    switches: Switches,
    hosts: Hosts,
    paths: Paths,
    flows: Vec<Flow>,
    unfinished: usize,
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

/// The hosts, and when the timer of each is due, in picoseconds.
#[derive(Clone, Debug, Default)]
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
        let id = FlowId(self.flows.len() as u32);
        self.flows.push(Flow::new(spec));
        self.unfinished += 1;
        self.hosts.all[spec.source.0 as usize].add_flow(id, &self.flows[id.0 as usize]);
        self.arm(spec.source);
        id
    }

    /// All flows, in the order they were added.
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    /// Runs until all flows are done, at most until `limit`.
    pub fn run(&mut self, limit: Instant) -> Outcome {
        while self.unfinished > 0 {
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
        if let Some(soon) = self.engine.queue.opened() {
            warm(soon, &self.packets, &self.ports);
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
        }
        #[cfg(debug_assertions)]
        self.ledger.check();
        true
    }

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

    /// A queue of a switch's port: bytes now, the most there ever were, and packets marked.
    ///
    /// # Panics
    /// If the port is a host's: hosts have no queues.
    pub fn queue(&self, port: PortId, priority: u8) -> (u32, u32, u32) {
        let queue = self.ports.queue(port.0, priority);
        (queue.bytes, queue.peak, queue.marks)
    }

    /// The most bytes of headroom that a priority of a switch's port ever used.
    ///
    /// # Panics
    /// If the port is a host's.
    pub fn peak_headroom(&self, port: PortId, priority: u8) -> u32 {
        self.switches.groups[Ports::index(port.0, priority)].peak_headroom
    }

    /// Bytes of the shared buffer of a switch: in use, the most that ever were, and free.
    pub fn shared_buffer(&self, switch: SwitchId) -> (u64, u64, u64) {
        let buffer = &self.switches.all[switch.0 as usize].buffer;
        (buffer.used(), buffer.peak(), buffer.free())
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

    fn on_timer(&mut self, host: HostId) {
        self.hosts.armed[host.0 as usize] = u64::MAX;
        self.hosts.all[host.0 as usize].on_timeout(self.engine.now);
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
            flows: &mut self.flows,
            packets: &mut self.packets,
        };
        (&mut self.hosts.all[host.0 as usize], context)
    }
}

/// Reads what the next events will need, so that the cache misses of all of them overlap instead of
/// stopping each in turn. It halves the time per event of large networks.
fn warm(soon: &[Event], packets: &Pool, ports: &Ports) {
    let mut sum = 0u32;
    for event in soon {
        let port = match event.kind() {
            Kind::Arrival => {
                sum = sum.wrapping_add(packets[Handle(event.argument())].destination.0);
                event.place()
            }
            Kind::Wake => event.place(),
            _ => continue,
        };
        sum = sum.wrapping_add(ports[port].peer);
    }
    std::hint::black_box(sum);
}
