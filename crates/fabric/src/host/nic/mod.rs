//! A host with an RDMA adapter: the very state machine that answers on a real wire.
//!
//! Each flow is a reliable connection of its own and one RDMA WRITE (several, if it is longer than a
//! message may be). Its queue pairs are made when it begins and unmade when it is done.

mod connect;
mod memory;

use std::collections::{BTreeMap, VecDeque};

use nic::verbs::{Cq, Mtu, Pd, PortState, Status};
use nic::{Arrival, Config, Duration, Instant, Nic, Payload, Transmit};
use wire::{Kind, Qpn};

use super::Context;
use crate::flow::FlowId;
use crate::packet::{Handle, Packet};
use crate::priority::Priorities;
use crate::topology::HostId;

use memory::FlowMemory;

pub(crate) use connect::connect;
use connect::{gid as gid_of, host as host_of};

/// The settings of an adapter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Payload bytes of a full packet.
    pub mtu: Mtu,
    /// Bytes that may be in flight per connection.
    pub window: u32,
    /// Whether packets are ECN-capable and marked ones are answered by congestion notifications.
    pub ecn: bool,
    /// The least time between two congestion notifications of a connection.
    pub cnp_interval: Duration,
    /// The DSCP of congestion notifications.
    pub cnp_dscp: u8,
    /// Packets of a connection that leave before the next connection has its turn, at least one. More make a
    /// simulation faster and traffic burstier.
    pub run: u16,
    /// Local ACK timeout: 4.096 us times two to this power (IBTA 9.7.6.1.3).
    pub timeout: u8,
    /// Retries after a timeout, 0 to 7.
    pub retry_count: u8,
}

impl Default for NicConfig {
    /// As adapters are set for a lossless network, with a window of 256 KiB and no ECN.
    fn default() -> Self {
        Self {
            mtu: Mtu::Mtu1024,
            window: 256 * 1024,
            ecn: false,
            cnp_interval: Duration::from_micros(50),
            cnp_dscp: 48,
            run: 1,
            timeout: 14,
            retry_count: 7,
        }
    }
}

impl NicConfig {
    /// What is wrong with the settings, if anything.
    pub(crate) fn problem(&self) -> Option<&'static str> {
        match self {
            Self { run: 0, .. } => Some("a run of no packets; expected at least 1"),
            Self { timeout: 32.., .. } => Some("a timeout code above 31"),
            Self { retry_count: 8.., .. } => Some("a retry count above 7"),
            Self { cnp_dscp: 64.., .. } => Some("a DSCP above 63"),
            _ => None,
        }
    }
}

/// An adapter, and what it is about to send.
#[derive(Debug)]
pub(crate) struct NicHost {
    id: HostId,
    config: NicConfig,
    priorities: [u8; 64],
    nic: Nic<FlowMemory>,
    pd: Pd,
    cq: Cq,
    /// Names all memory, to itself and to peers.
    key: u32,
    /// The flow of each queue pair.
    flows: BTreeMap<Qpn, FlowId>,
    /// Runs that the adapter has given away and the port has not taken. Only the first ones' priorities are
    /// paused: the adapter is not asked for more while the last one can go on.
    held: VecDeque<Held>,
    /// Whether the adapter is worth asking for more. It is not after it had nothing, until it is told
    /// something; nor after it gave a request whose priority is paused, until that has left or an answer may
    /// have come up.
    has_news: bool,
}

/// A run of packets, of which some have left.
#[derive(Debug)]
struct Held {
    transmit: Transmit,
    next: usize,
    /// All its packets, but for their sizes.
    template: Packet,
    /// Whether it is an answer or a notification. Those come first, so once a request is held, all
    /// answers there were at that time are.
    is_answer: bool,
}

impl NicHost {
    pub fn new(id: HostId, config: NicConfig, priorities: [u8; 64], seed: u64) -> Self {
        let adapter = Config {
            seed,
            window: config.window,
            ecn: config.ecn,
            cnp_interval: config.cnp_interval,
            ..Config::default()
        };
        let mut nic = Nic::new(adapter, FlowMemory::default());
        let parts = connect::parts(&mut nic, id);
        nic.set_port(PortState::Active, Mtu::Mtu4096);
        Self {
            id,
            config,
            priorities,
            nic,
            pd: parts.pd,
            cq: parts.cq,
            key: parts.key,
            flows: BTreeMap::new(),
            held: VecDeque::new(),
            has_news: false,
        }
    }

    /// Payload bytes of a full packet.
    pub fn mtu(&self) -> u32 {
        self.config.mtu.bytes()
    }

    /// Hands a packet to the adapter.
    pub fn receive(&mut self, handle: Handle, context: &mut Context<'_>) {
        let (packet, headers) = (&context.packets[handle], context.packets.headers(handle));
        let arrival = Arrival {
            source: gid_of(packet.source),
            destination: gid_of(self.id),
            traffic_class: packet.traffic_class,
            hop_limit: packet.hops,
        };
        let payload = usize::from(packet.payload) + usize::from(headers.bth.pad_count);
        self.nic.handle_packet(context.now, &arrival, headers, Payload::Phantom(payload));
        self.has_news = true;
        self.collect(context);
    }

    /// Takes what has arrived and what is complete.
    fn collect(&mut self, context: &mut Context<'_>) {
        for (flow, bytes) in self.nic.memory().arrived() {
            context.flows[flow.0 as usize].receive(context.now, bytes);
        }
        while let Ok(Some(completion)) = self.nic.poll_cq(self.cq) {
            let id = FlowId(completion.wr_id as u32);
            let flow = &mut context.flows[id.0 as usize];
            if !flow.is_over() {
                match completion.status {
                    Status::Success => flow.finish = Some(context.now),
                    status => flow.error = Some(status),
                }
                context.over.push(id);
            }
        }
    }

    pub fn next_packet(&mut self, paused: Priorities, context: &mut Context<'_>) -> Option<Handle> {
        let is_free = |held: &Held| !paused.contains(held.template.priority);
        let index = match self.held.iter().position(is_free) {
            Some(index) => index,
            None => self.pull(paused, context)?,
        };
        let held = &mut self.held[index];
        let handle = held.send_next(context);
        if held.next == held.transmit.packets() {
            self.held.remove(index);
            self.has_news = true;
        }
        Some(handle)
    }

    /// Asks the adapter for runs until there is one whose priority is not paused; says where it is held.
    fn pull(&mut self, paused: Priorities, context: &Context<'_>) -> Option<usize> {
        while self.has_news {
            let Some(transmit) = self.nic.poll_transmit(context.now, self.config.run.into()) else {
                self.has_news = false;
                return None;
            };
            let held = self.hold(transmit, context);
            let is_paused = paused.contains(held.template.priority);
            // Requests wait in the adapter, not here.
            self.has_news = !is_paused || held.is_answer;
            self.held.push_back(held);
            if !is_paused {
                return Some(self.held.len() - 1);
            }
        }
        None
    }

    fn hold(&self, transmit: Transmit, context: &Context<'_>) -> Held {
        let headers = transmit.headers(0);
        let kind = headers.bth.opcode.layout().map(|layout| layout.kind);
        let is_request =
            matches!(kind, Some(Kind::Send | Kind::Write | Kind::ReadRequest | Kind::AtomicRequest));
        let flow = self.flows.get(&transmit.source_qp).copied();
        let mut class = transmit.route.traffic_class;
        if kind == Some(Kind::CongestionNotification) {
            class = self.config.cnp_dscp << 2 | class & 0x3;
        }
        let template = Packet {
            ports: flow.map_or(0, |flow| context.flows[flow.0 as usize].spec.ports(is_request)),
            flow: flow.map_or(u32::MAX, |flow| flow.0),
            traffic_class: class,
            hops: transmit.route.hop_limit,
            priority: self.priorities[usize::from(class >> 2)],
            ..Packet::new(self.id, host_of(transmit.route.destination), 0, 0)
        };
        Held { transmit, next: 0, template, is_answer: !is_request }
    }

    pub fn timeout(&self) -> Option<Instant> {
        self.nic.poll_timeout()
    }

    pub fn on_timeout(&mut self, context: &mut Context<'_>) {
        self.nic.handle_timeout(context.now);
        self.has_news = true;
        self.collect(context);
    }

    /// Forgets a queue pair whose flow is over.
    pub fn disconnect(&mut self, qpn: Qpn) {
        self.flows.remove(&qpn);
        // It cannot be in use: no multicast group has it.
        let _ = self.nic.destroy_qp(qpn);
    }

    /// The adapter's counters.
    pub fn counters(&self) -> nic::Counters {
        self.nic.counters()
    }
}

impl Held {
    /// Makes the next packet of the run.
    fn send_next(&mut self, context: &mut Context<'_>) -> Handle {
        let headers = self.transmit.headers(self.next);
        let payload = self.transmit.payload_range(self.next).len();
        self.next += 1;
        let frame = context.framing.frame(&headers, payload);
        let packet = Packet { frame: frame as u16, payload: payload as u16, ..self.template };
        context.packets.insert_with(packet, headers)
    }
}
