//! From a topology and settings to a network.

use nic::{Duration, Instant};

use super::port::{Port, PortSide, Ports, Queue};
use super::{Config, Diagnosis, Engine, Flows, Hosts, Ledger, Network, Paths, Plans, Switches, Watchdog};
use crate::engine::{Calendar, Event};
use crate::forward::Routes;
use crate::forward::choose::Chooser;
use crate::forward::routes::PortMap;
use crate::host::{Host, HostKind};
use crate::network::port::PortCounters;
use crate::packet::Packet;
use crate::priority::PRIORITIES;
use crate::random::Random;
use crate::rate::Rate;
use crate::switch::buffer::{Group, GroupLimits, SharedBuffer};
use crate::switch::headroom::{Headroom, response_bytes};
use crate::switch::state::{Profile, Switch};
use crate::switch::{BufferConfig, HeadroomConfig, PauseConfig, Reaction, SwitchConfig, Switching, Wred};
use crate::topology::{HostId, LinkId, Loss, SwitchId, Topology, TopologyError};

/// Why a network cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The topology does not hold together.
    #[error(transparent)]
    Topology(#[from] TopologyError),
    /// The parts of a buffer are larger than the whole.
    #[error(
        "the buffer of switch {switch} has {total} bytes; expected at least {reserved} reserved \
         and {headroom} for headroom, and some to share"
    )]
    Buffer {
        /// Which.
        switch: String,
        /// All of it.
        total: u64,
        /// Reserved bytes of all ports.
        reserved: u64,
        /// Headroom of all ports.
        headroom: u64,
    },
    /// More ports than events can name.
    #[error("the topology has {0} ports; expected at most {max}", max = Event::PLACES)]
    Ports(u64),
    /// A pause of no time.
    #[error("pauses of zero quanta hold nobody; expected 1 to 65535")]
    Quanta,
    /// A setting of the adapters.
    #[error("adapters are set to {0}")]
    Adapter(&'static str),
    /// The marking of a queue.
    #[error(
        "priority {0} is marked from {1} to {2} bytes with probability {3}; expected bytes that grow and a probability of 0 to 1"
    )]
    Marking(u8, u32, u32, String),
}

/// What is the same for the ports of a node.
#[derive(Clone, Copy)]
struct NodeSettings {
    /// From the arrival of a packet to its handling.
    latency: Duration,
    /// From the decision to send a packet to its first bit on the wire.
    departure: Duration,
    pause: PauseConfig,
    /// After so many bytes of a frame it is handled.
    sees: u16,
}

impl Network {
    /// Builds the network of a topology.
    pub fn new(topology: Topology, config: &Config) -> Result<Self, BuildError> {
        topology.check()?;
        let count = 2 * topology.links().len() as u64;
        if count > u64::from(Event::PLACES) {
            return Err(BuildError::Ports(count));
        }
        if let HostKind::Nic(adapter) = &config.host.kind
            && let Some(problem) = adapter.problem()
        {
            return Err(BuildError::Adapter(problem));
        }
        std::iter::once(&config.switch)
            .chain(config.switches.iter().map(|(_, own)| own))
            .try_for_each(check_marking)?;
        let settings = settings(&topology, config);
        if settings.iter().any(|node| node.pause.quanta == 0) {
            return Err(BuildError::Quanta);
        }
        let map = PortMap::new(&topology);
        let ports = ports(&topology, &map, &settings, config.seed);
        let switches = switches(&topology, &map, &ports, config)?;
        let routes = Routes::shortest(&topology, &map, |_| true);
        let seed_of = |host: u32| Random::derive(config.seed, host.into()).next();
        let hosts =
            (0..topology.hosts()).map(|host| Host::new(HostId(host), &config.host, seed_of(host))).collect();
        Ok(Self {
            engine: Engine { now: Instant::ZERO, queue: Calendar::new(), digest: 0, events: 0, forwards: 0 },
            packets: Default::default(),
            ports,
            hosts: Hosts { all: hosts, armed: vec![u64::MAX; topology.hosts() as usize] },
            flows: Flows::default(),
            plans: Plans::new(topology.links().len(), config.rerouting),
            ledger: Ledger::default(),
            diagnosis: Diagnosis::new(config.diagnosis),
            watchdog: Watchdog::new(switches.all.len()),
            switches,
            paths: Paths { topology, map, routes },
            framing: config.framing,
        })
    }
}

fn check_marking(config: &SwitchConfig) -> Result<(), BuildError> {
    for (priority, queue) in config.queues.iter().enumerate() {
        let Some(Wred { min, max, probability }) = queue.ecn else { continue };
        if min > max || !(0.0..=1.0).contains(&probability) {
            return Err(BuildError::Marking(priority as u8, min, max, probability.to_string()));
        }
    }
    Ok(())
}

/// The settings of a switch.
fn switch_config(config: &Config, switch: SwitchId) -> &SwitchConfig {
    let own = config.switches.iter().rev().find(|(other, _)| *other == switch);
    own.map_or(&config.switch, |(_, own)| own)
}

fn settings(topology: &Topology, config: &Config) -> Vec<NodeSettings> {
    let host = NodeSettings {
        latency: config.host.receive_latency,
        departure: config.host.send_latency,
        pause: config.host.pause,
        sees: u16::MAX,
    };
    let of_switch = |switch| {
        let config = switch_config(config, SwitchId(switch));
        let sees = match config.switching {
            Switching::StoreAndForward => u16::MAX,
            Switching::CutThrough { after } => after.max(1),
        };
        NodeSettings { latency: config.latency, departure: Duration::ZERO, pause: config.pause, sees }
    };
    let hosts = (0..topology.hosts()).map(|_| host);
    hosts.chain((0..topology.switches()).map(of_switch)).collect()
}

/// Makes the two ports of every link.
fn ports(topology: &Topology, map: &PortMap, settings: &[NodeSettings], seed: u64) -> Ports {
    let mut all = vec![None; 2 * topology.links().len()];
    for (index, link) in topology.links().iter().enumerate() {
        let [a, b] = map.ends(LinkId(index as u32));
        for (port, peer, node, far) in [(a, b, link.a, link.b), (b, a, link.b, link.a)] {
            let (near, far) = (settings[node.0 as usize], settings[far.0 as usize]);
            let rate = link.spec.rate;
            let delay = (link.spec.delay + near.departure + far.latency).as_picos();
            let mut made = Port::new(node, peer.0, rate, delay);
            made.peer_sees = far.sees;
            made.set(Port::LOSSY, link.spec.loss != Loss::None);
            let reaction = reaction(far.pause, rate);
            let side = PortSide {
                link: LinkId(index as u32),
                rate,
                pause_delay: (link.spec.delay + reaction).as_picos(),
                loss: link.spec.loss,
                random: Random::derive(seed, u64::from(port.0) << 32),
                last_down: Instant::ZERO,
                refreshing: false,
                quanta: near.pause.quanta,
                disobeyed: Default::default(),
                pause_until: Default::default(),
                paused_since: Default::default(),
                counters: PortCounters::default(),
            };
            all[port.0 as usize] = Some((made, side));
        }
    }
    let (all, sides) = all.into_iter().flatten().unzip();
    let switch_ports = map.switch_ports() as usize;
    Ports {
        all,
        sides,
        queues: vec![Queue::EMPTY; switch_ports * PRIORITIES],
        deficits: vec![[0; PRIORITIES]; switch_ports],
    }
}

fn reaction(pause: PauseConfig, rate: Rate) -> Duration {
    match pause.reaction {
        Reaction::Slowest => rate.time_for(response_bytes(rate).into()),
        Reaction::Fixed(time) => time,
    }
}

fn switches(
    topology: &Topology,
    map: &PortMap,
    ports: &Ports,
    config: &Config,
) -> Result<Switches, BuildError> {
    let mut switches = Switches::default();
    let mut configs: Vec<&SwitchConfig> = Vec::new();
    for switch in (0..topology.switches()).map(SwitchId) {
        let own = switch_config(config, switch);
        let profile = configs.iter().position(|other| *other == own).unwrap_or(configs.len());
        if profile == configs.len() {
            configs.push(own);
            switches.profiles.push(Profile::new(own));
        }
        let node = topology.switch(switch);
        let limits = map.of_switch(switch).map(|port| limits(topology, ports, port, own));
        let limits: Vec<GroupLimits> = limits.collect();
        let shared = shared_bytes(topology.name(node), own, &limits)?;
        switches.all.push(Switch {
            profile: profile as u32,
            buffer: SharedBuffer::new(shared),
            random: Random::derive(config.seed, u64::from(node.0) << 32 | 1),
            chooser: Chooser::new(&own.forwarding, config.seed, node.0),
        });
        switches.limits.extend(limits);
    }
    switches.groups = vec![Group::default(); switches.limits.len() * PRIORITIES];
    Ok(switches)
}

/// What limits each lossless priority of a switch's port.
fn limits(topology: &Topology, ports: &Ports, port: u32, config: &SwitchConfig) -> GroupLimits {
    let buffer = &config.buffer;
    let side = &ports.sides[port as usize];
    let spec = topology.links()[side.link.0 as usize].spec;
    let threshold = match buffer.scaled_to {
        Some(base) => buffer.threshold.scaled(side.rate, base),
        None => buffer.threshold,
    };
    let headroom = match buffer.headroom {
        HeadroomConfig::Fixed(bytes) => bytes,
        HeadroomConfig::Cables(times) => times * spec.rate.bytes_in(spec.delay) as u32,
        HeadroomConfig::Computed { lossless_mtu, port_mtu } => {
            let response = spec.rate.bytes_in(peer_reaction(topology, ports, port)) as u32;
            let formula = Headroom::new(spec.rate, spec.delay, lossless_mtu, port_mtu);
            Headroom { response, cell: buffer.cell, ..formula }.bytes() as u32
        }
    };
    GroupLimits { reserved: buffer.reserved, headroom, xon_offset: buffer.xon_offset, threshold }
}

/// How long it takes, beyond the cable, until a port sees its peer obey: the reaction itself, what has been
/// decided to send but is not on the wire yet, and the latency with which the last packet is handled.
fn peer_reaction(topology: &Topology, ports: &Ports, port: u32) -> Duration {
    let side = &ports.sides[port as usize];
    let cable = topology.links()[side.link.0 as usize].spec.delay.as_picos();
    let peer = &ports[ports[port].peer];
    Duration::from_picos(side.pause_delay - cable + peer.delay - cable)
}

/// What is left of a buffer when every port has its own.
fn shared_bytes(name: &str, config: &SwitchConfig, limits: &[GroupLimits]) -> Result<u64, BuildError> {
    let BufferConfig { total, .. } = config.buffer;
    let lossless = u64::from(config.lossless.0.count_ones());
    let sum = |part: fn(&GroupLimits) -> u32| {
        lossless * limits.iter().map(|limit| u64::from(part(limit))).sum::<u64>()
    };
    let (reserved, headroom) = (sum(|limit| limit.reserved), sum(|limit| limit.headroom));
    match total.checked_sub(reserved + headroom) {
        None | Some(0) => Err(BuildError::Buffer { switch: name.to_owned(), total, reserved, headroom }),
        Some(shared) => Ok(shared),
    }
}

/// Every packet of the pool, port and event is of a size that was thought about.
const _: () = assert!(size_of::<Packet>() == 32 && size_of::<Event>() == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{HostConfig, NicConfig};
    use crate::topology::{FatTree, LinkSpec, NodeId};

    fn topology() -> Topology {
        FatTree::new(4, LinkSpec::new(Rate::gbps(100), Duration::from_micros(1))).build()
    }

    #[test]
    fn a_buffer_that_is_too_small_is_refused_with_what_it_needs() {
        let mut config = Config::default();
        config.switch.buffer.total = 100_000;
        config.switch.buffer.headroom = HeadroomConfig::Fixed(30_000);
        let error = Network::new(topology(), &config).unwrap_err().to_string();
        assert_eq!(
            error,
            "the buffer of switch edge0 has 100000 bytes; expected at least 16384 reserved and 120000 for \
             headroom, and some to share"
        );
    }

    #[test]
    fn a_topology_that_falls_apart_is_refused() {
        let mut topology = Topology::new(2, 2);
        for end in 0..2 {
            let spec = LinkSpec::new(Rate::gbps(100), Duration::ZERO);
            topology.add_link(NodeId(end), NodeId(2 + end), spec);
        }
        let error = Network::new(topology, &Config::default()).unwrap_err();
        assert!(matches!(error, BuildError::Topology(TopologyError::Disconnected { .. })));
    }

    #[test]
    fn settings_that_make_no_sense_are_refused() {
        let build = |change: fn(&mut Config)| {
            let mut config = Config::default();
            change(&mut config);
            Network::new(topology(), &config).unwrap_err().to_string()
        };
        let adapter = |change: NicConfig| HostKind::Nic(change);
        let no_run = adapter(NicConfig { run: 0, ..NicConfig::default() });
        let error = Network::new(
            topology(),
            &Config { host: HostConfig { kind: no_run, ..HostConfig::default() }, ..Config::default() },
        );
        assert_eq!(
            error.unwrap_err().to_string(),
            "adapters are set to a run of no packets; expected at least 1"
        );
        assert_eq!(
            build(|config| config.switch.queues[3].ecn = Some(Wred { min: 9, max: 5, probability: 0.1 })),
            "priority 3 is marked from 9 to 5 bytes with probability 0.1; expected bytes that grow and a \
             probability of 0 to 1"
        );
        assert_eq!(
            build(|config| config.switch.pause.quanta = 0),
            "pauses of zero quanta hold nobody; expected 1 to 65535"
        );
    }

    #[test]
    fn switches_set_alike_share_a_profile() {
        let own = SwitchConfig { latency: Duration::from_nanos(7), ..SwitchConfig::default() };
        let config = Config { switches: vec![(SwitchId(3), own)], ..Config::default() };
        let network = Network::new(topology(), &config).unwrap();
        assert_eq!(network.switches.profiles.len(), 2);
        assert_eq!(network.switches.all[3].profile, 1);
    }
}
