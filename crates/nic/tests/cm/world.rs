//! Programs, each with its connection management, on a network with a delay and faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, Ipv4Addr};

use nic::cm::*;
use nic::{Arrival, Duration, Instant};
use wire::cm::{CmMad, CmMessage, IpCmHeader, PortSpace, ServiceId, TransportService};
use wire::{Gid, Qpn};

/// How often a datagram suffers what, in parts of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    pub reorder: u64,
}

/// A program on a host of its own.
pub struct Program {
    pub cm: Cm,
    pub gid: Gid,
    /// What its numbers end in.
    pub suffix: u32,
    /// Events that nobody has looked at.
    pub events: Vec<CmEvent>,
    /// Datagrams to it vanish.
    pub is_dead: bool,
}

/// Decides what to lose: given the sender and the datagram.
type Loss = Box<dyn FnMut(usize, &CmMad) -> bool>;

/// All programs and the network between them.
pub struct World {
    pub now: Instant,
    pub programs: Vec<Program>,
    /// Of addresses that programs share.
    pub switchboards: Vec<(Gid, Switchboard)>,
    pub faults: Faults,
    pub lose: Option<Loss>,
    /// Every datagram sent, lost ones included, with its sender.
    pub trace: Option<Vec<(usize, CmMad)>>,
    random: u64,
    flying: BinaryHeap<Reverse<Datagram>>,
    sequence: u64,
}

/// A datagram on its way; ordered by arrival, then by departure.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Datagram {
    due: Instant,
    sequence: u64,
    from: usize,
    to: usize,
    bytes: Vec<u8>,
}

const DELAY: Duration = Duration::from_micros(10);

/// What tests ask for unless they say otherwise.
pub const PORT: u16 = 7174;
pub const SERVICE: ServiceId = ServiceId::of_port(PortSpace::TCP, PORT);

impl World {
    /// So many programs.
    pub fn new(count: usize) -> Self {
        Self::with_config(count, CmConfig::default())
    }

    /// So many programs with this configuration, but for what must differ.
    pub fn with_config(count: usize, config: CmConfig) -> Self {
        let programs = (0..count).map(|index| Program::new(index, config)).collect();
        Self {
            now: Instant::ZERO,
            programs,
            switchboards: Vec::new(),
            faults: Faults::default(),
            lose: None,
            trace: None,
            random: 1,
            flying: BinaryHeap::new(),
            sequence: 0,
        }
    }

    pub fn cm(&mut self, program: usize) -> &mut Cm {
        &mut self.programs[program].cm
    }

    /// What program `from` asks for when it connects to `to`.
    pub fn request(&self, from: usize, to: usize, qpn: u32) -> ReqParams<'static> {
        ReqParams {
            path: self.path(from, to),
            service: SERVICE,
            addresses: Some(self.addresses(from, to)),
            transport: TransportService::Rc,
            local: endpoint(qpn),
            retry_count: 7,
            patience: Patience::default(),
            private_data: b"hello",
        }
    }

    pub fn path(&self, from: usize, to: usize) -> Path {
        Path { source: self.programs[from].gid, destination: self.programs[to].gid, ..Path::default() }
    }

    pub fn addresses(&self, from: usize, to: usize) -> IpCmHeader {
        let ip = |program: usize| self.programs[program].gid.ip();
        IpCmHeader { source: ip(from), source_port: 0x9371, destination: ip(to) }
    }

    /// Connects as [`World::request`] says.
    pub fn connect(&mut self, from: usize, to: usize, qpn: u32) -> CmId {
        let params = self.request(from, to, qpn);
        let now = self.now;
        self.cm(from).connect(now, &params).unwrap()
    }

    /// Puts a datagram on the network as if `from` had sent it.
    pub fn inject(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        self.fly(from, to, bytes);
    }

    /// The next event of a program, which must be there.
    pub fn event(&mut self, program: usize) -> CmEvent {
        assert!(!self.programs[program].events.is_empty(), "program {program} has no event");
        self.programs[program].events.remove(0)
    }

    /// The request that must be a program's next event.
    pub fn requested(&mut self, program: usize) -> ConnectRequest {
        match self.event(program) {
            CmEvent::Request(request) => *request,
            other => panic!("{other:?}"),
        }
    }

    /// Runs for `duration`, with `program` taking every event as it comes.
    pub fn drive(&mut self, duration: Duration, mut program: impl FnMut(&mut Cm, Instant, usize, CmEvent)) {
        let end = self.now + duration;
        loop {
            self.collect();
            for (index, side) in self.programs.iter_mut().enumerate() {
                for event in side.events.drain(..) {
                    program(&mut side.cm, self.now, index, event);
                }
            }
            self.collect();
            let Some(next) = self.next_time().filter(|&next| next <= end) else { break };
            self.now = self.now.max(next);
            self.happen();
        }
        self.now = end;
    }

    /// Runs as long as something happens within `duration`.
    pub fn run_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.collect();
        while let Some(next) = self.next_time().filter(|&next| next <= end) {
            self.now = self.now.max(next);
            self.happen();
            self.collect();
        }
        self.now = end;
    }

    /// Runs until the next retry would be due.
    pub fn settle(&mut self) {
        self.run_for(Duration::from_millis(1));
    }

    fn next_time(&self) -> Option<Instant> {
        let arrival = self.flying.peek().map(|Reverse(datagram)| datagram.due);
        let timers = self.programs.iter().filter_map(|program| program.cm.poll_timeout());
        let farewells = self.switchboards.iter().filter_map(|(_, switchboard)| switchboard.poll_timeout());
        arrival.into_iter().chain(timers).chain(farewells).min()
    }

    /// Which program of those at the address gets a datagram.
    fn destination(&mut self, to: usize, arrival: &Arrival, bytes: &[u8]) -> Option<usize> {
        let gid = arrival.destination;
        let Some((_, switchboard)) = self.switchboards.iter_mut().find(|(shared, _)| *shared == gid) else {
            return Some(to).filter(|&to| !self.programs[to].is_dead);
        };
        let suffix = switchboard.route(self.now, arrival, 3, bytes)?;
        self.programs
            .iter()
            .position(|program| program.gid == gid && program.suffix == suffix && !program.is_dead)
    }

    /// Does what is due now.
    fn happen(&mut self) {
        while self.flying.peek().is_some_and(|Reverse(datagram)| datagram.due <= self.now) {
            let Some(Reverse(Datagram { from, to, bytes, .. })) = self.flying.pop() else { return };
            let arrival = Arrival {
                source: self.programs[from].gid,
                destination: self.programs[to].gid,
                traffic_class: 0,
                hop_limit: 64,
            };
            if let Some(to) = self.destination(to, &arrival, &bytes) {
                self.programs[to].cm.handle_mad(self.now, &arrival, 3, &bytes);
            }
        }
        for (_, switchboard) in &mut self.switchboards {
            switchboard.handle_timeout(self.now);
        }
        for program in &mut self.programs {
            if program.cm.poll_timeout().is_some_and(|due| due <= self.now) {
                program.cm.handle_timeout(self.now);
            }
        }
    }

    /// Takes what programs have to send and to tell.
    fn collect(&mut self) {
        for index in 0..self.switchboards.len() {
            while let Some(transmit) = self.switchboards[index].1.poll_transmit() {
                let from = self.at(transmit.route.source);
                self.send(from.unwrap(), self.at(transmit.route.destination), transmit.mad.to_vec());
            }
        }
        for from in 0..self.programs.len() {
            while let Some(transmit) = self.programs[from].cm.poll_transmit() {
                assert_eq!(transmit.route.source, self.programs[from].gid);
                let to = self.at(transmit.route.destination);
                if self.programs[from].is_dead {
                    continue;
                }
                self.send(from, to, transmit.mad.to_vec());
            }
            while let Some(event) = self.programs[from].cm.poll_event() {
                self.programs[from].events.push(event);
            }
        }
    }

    /// A program at this address.
    fn at(&self, gid: Gid) -> Option<usize> {
        self.programs.iter().position(|program| program.gid == gid)
    }

    fn send(&mut self, from: usize, to: Option<usize>, bytes: Vec<u8>) {
        let mad = CmMad::parse(&bytes).unwrap();
        if let Some(trace) = &mut self.trace {
            trace.push((from, mad));
        }
        let is_lost = self.lose.as_mut().is_some_and(|lose| lose(from, &mad));
        let Some(to) = to.filter(|_| !is_lost && !self.chance(self.faults.loss)) else { return };
        if self.chance(self.faults.duplicate) {
            self.fly(from, to, bytes.clone());
        }
        self.fly(from, to, bytes);
    }

    fn fly(&mut self, from: usize, to: usize, bytes: Vec<u8>) {
        let late = if self.chance(self.faults.reorder) { Duration::from_millis(400) } else { Duration::ZERO };
        self.sequence += 1;
        let due = self.now + DELAY + late;
        self.flying.push(Reverse(Datagram { due, sequence: self.sequence, from, to, bytes }));
    }

    fn chance(&mut self, parts: u64) -> bool {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % 1000 < parts
    }

    /// Whether nothing is left but listeners.
    pub fn assert_nothing_left(&self) {
        for (index, program) in self.programs.iter().enumerate() {
            assert_eq!(program.cm.connections(), 0, "program {index} leaks: {:?}", program.cm);
            assert_eq!(program.cm.poll_timeout(), None);
        }
    }
}

impl Program {
    pub fn new(index: usize, config: CmConfig) -> Self {
        let address = Ipv4Addr::from_octets([10, 77, (index >> 8) as u8, index as u8 + 2]);
        let (seed, ca_guid) = (config.seed + index as u64, 0x5054_00FF_FE77_0002 + index as u64);
        Self {
            cm: Cm::new(CmConfig { seed, ca_guid, ..config }),
            gid: Gid::from(address),
            suffix: config.id_suffix,
            events: Vec::new(),
            is_dead: false,
        }
    }
}

/// A listener for [`SERVICE`] on any address.
pub fn anywhere() -> Listen {
    Listen { service: SERVICE, datagram: false, address: ListenAddress::Any }
}

/// A listener for [`SERVICE`] on one address.
pub fn at(address: IpAddr) -> Listen {
    Listen { address: ListenAddress::Ip(address), ..anywhere() }
}

/// What a program brings into a connection.
pub fn endpoint(qpn: u32) -> Endpoint {
    Endpoint {
        qpn: Qpn::new(qpn),
        responder_resources: 4,
        initiator_depth: 2,
        rnr_retry_count: 7,
        ..Endpoint::default()
    }
}

/// An answer to a request.
pub fn consent(qpn: u32) -> RepParams<'static> {
    RepParams { local: endpoint(qpn), private_data: b"welcome" }
}

/// The beginning of private data, without the zeros after it.
pub fn text(private_data: &[u8]) -> &[u8] {
    let end = private_data.iter().position(|&byte| byte == 0).unwrap_or(private_data.len());
    &private_data[..end]
}

/// A connection between programs 0 and 1: established, and its names on both sides.
pub fn connected(world: &mut World) -> (CmId, CmId) {
    world.cm(1).listen(anywhere(), 0).unwrap();
    let client = world.connect(0, 1, 0x11);
    world.settle();
    let server = world.requested(1).id;
    let now = world.now;
    world.cm(1).accept(now, server, &consent(0x22)).unwrap();
    world.settle();
    assert!(matches!(world.event(0), CmEvent::Reply(_)));
    let now = world.now;
    world.cm(0).establish(now, client, b"ready").unwrap();
    world.settle();
    assert!(matches!(world.event(1), CmEvent::Established { .. }));
    (client, server)
}

/// Loses the first `count` datagrams that `pick` names.
pub fn lose_first(count: usize, pick: fn(&CmMessage) -> bool) -> Option<Loss> {
    let mut left = count;
    Some(Box::new(move |_, mad| {
        let is_lost = left > 0 && pick(&mad.message);
        left -= usize::from(is_lost);
        is_lost
    }))
}
