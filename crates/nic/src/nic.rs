//! The adapter: its objects, and its face to verbs, wire and clock.

mod address;
mod completion;
mod queue_pair;
mod receive;
mod registration;

use alloc::collections::VecDeque;

use crate::ah::AhTable;
use crate::cq::CqTable;
use crate::keys::KeyTable;
use crate::memory::Memory;
use crate::multicast::MulticastTable;
use crate::port::Port;
use crate::qp::QpTable;
use crate::random::Random;
use crate::schedule::Schedule;
use crate::srq::SrqTable;
use crate::table::Table;
use crate::time::Duration;
use crate::verbs::*;

/// What an adapter is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Every QPN it gives out ends in these bits, so that packets can be steered by QPN.
    pub qpn_suffix: u32,
    /// How many bits `qpn_suffix` has, at most 16; 0 for an adapter that has the whole QPN space.
    pub qpn_suffix_bits: u8,
    /// Limits.
    pub limits: Limits,
    /// Seeds initial keys and QPNs.
    pub seed: u64,
    /// Bytes that may be in flight per connection, unless congestion control says less.
    pub window: u32,
    /// Whether packets are sent ECN-capable and marked ones answered with CNPs.
    pub ecn: bool,
    /// The least time between two CNPs of a queue pair.
    pub cnp_interval: Duration,
}

impl Default for Config {
    /// An adapter with the whole QPN space, 256 KiB in flight per connection, without ECN, and CNPs at
    /// the interval of the DCQCN paper (SIGCOMM 2015).
    fn default() -> Self {
        Self {
            qpn_suffix: 0,
            qpn_suffix_bits: 0,
            limits: Limits::default(),
            seed: 0,
            window: 256 * 1024,
            ecn: false,
            cnp_interval: Duration::from_micros(50),
        }
    }
}

/// Counters since the adapter was made, named after the kernel's hardware counters where it has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets sent.
    pub sent_packets: u64,
    /// Payload bytes sent.
    pub sent_bytes: u64,
    /// Packets accepted.
    pub received_packets: u64,
    /// Payload bytes accepted.
    pub received_bytes: u64,
    /// Requests that had been carried out before.
    pub duplicate_request: u64,
    /// Requests with a PSN ahead of the expected one.
    pub out_of_sequence: u64,
    /// Sequence error NAKs received.
    pub packet_seq_err: u64,
    /// RNR NAKs received.
    pub rcvd_rnr_err: u64,
    /// RNR NAKs sent.
    pub send_rnr_err: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// ACK timeouts.
    pub ack_timeout: u64,
    /// Requests given up after their last retry.
    pub retry_exceeded: u64,
    /// Requests given up after their last RNR retry.
    pub retry_rnr_exceeded: u64,
    /// Packets for no queue pair, or one not ready for them.
    pub dropped_unknown_qp: u64,
    /// Packets with a wrong partition key.
    pub dropped_pkey: u64,
    /// Datagrams with a wrong queue key.
    pub dropped_qkey: u64,
    /// Packets of an unknown or unsuitable opcode, length or version.
    pub dropped_malformed: u64,
    /// Datagrams that found no receive, or were too long for it.
    pub dropped_no_receive: u64,
    /// Congestion notifications sent.
    pub np_cnp_sent: u64,
    /// ECN-marked packets received.
    pub np_ecn_marked_roce_packets: u64,
    /// Congestion notifications received.
    pub rp_cnp_handled: u64,
}

/// One RDMA adapter.
///
/// Its parts are plain fields, so that a queue pair can be worked on with the rest borrowed beside it.
#[derive(Debug)]
pub struct Nic<M> {
    pub(crate) memory: M,
    pub(crate) config: Config,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<Event>,
    pub(crate) port: Port,
    /// Protection domains have nothing but their users.
    pub(crate) pds: Table<()>,
    pub(crate) keys: KeyTable,
    pub(crate) cqs: CqTable,
    pub(crate) srqs: SrqTable,
    pub(crate) ahs: AhTable,
    pub(crate) groups: MulticastTable,
    pub(crate) qps: QpTable,
    pub(crate) schedule: Schedule,
}

impl<M: Memory> Nic<M> {
    /// An adapter with no GID and its port down.
    ///
    /// # Panics
    /// If the QPN suffix of `config` has more than 16 bits, or more than it says.
    pub fn new(config: Config, memory: M) -> Self {
        let mut random = Random::new(config.seed);
        let limits = &config.limits;
        Self {
            memory,
            config,
            counters: Counters::default(),
            events: VecDeque::new(),
            port: Port::default(),
            pds: Table::with_limit(limits.max_pd),
            keys: KeyTable::new(limits, random.next()),
            cqs: CqTable::new(limits.max_cq, limits.max_cqe),
            srqs: SrqTable::new(limits),
            ahs: AhTable::new(limits.max_ah),
            groups: MulticastTable::new(limits.max_mcast_grp, limits.max_mcast_qp_attach),
            qps: QpTable::new(&config, random.next() as u32),
            schedule: Schedule::default(),
        }
    }

    /// The memory it was made with.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// What it was made with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // ---- port

    /// Sets or clears an entry of the GID table; raises [`AsyncEvent::GidChange`] if it differs.
    pub fn set_gid(&mut self, index: u8, entry: Option<GidEntry>) {
        self.port.set_gid(index, entry, &mut self.events);
    }

    /// An entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<GidEntry> {
        self.port.gid(index)
    }

    /// Sets the port's state and the largest MTU it carries; raises an event if the state differs.
    pub fn set_port(&mut self, state: PortState, mtu: Mtu) {
        self.port.set(state, mtu, &mut self.events);
    }

    /// The port's state and the largest MTU it carries.
    pub fn port(&self) -> (PortState, Mtu) {
        (self.port.state(), self.port.mtu())
    }

    // ---- protection domains

    /// Makes a protection domain.
    pub fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        self.pds.insert(()).map(Pd).map_err(|_| CreateError::TooMany)
    }

    /// Unmakes one that no region, window, queue or handle belongs to.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), DestroyError> {
        self.pds.remove(pd.0)
    }
}

#[cfg(test)]
mod tests;
