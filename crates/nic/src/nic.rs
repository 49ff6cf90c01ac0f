//! The adapter: its objects, and its face to verbs, wire and clock.

use wire::{Gid, Headers, Qpn};

use crate::memory::{Memory, Payload};
use crate::packet::{Arrival, Transmit};
use crate::time::Instant;
use crate::verbs::*;

/// What an adapter is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Every QPN it gives out ends in these bits, so that packets can be steered by QPN.
    pub qpn_suffix: u32,
    /// How many bits `qpn_suffix` has; 0 for an adapter that has the whole QPN space.
    pub qpn_suffix_bits: u8,
    /// Limits.
    pub limits: Limits,
    /// Seeds initial keys and QPNs.
    pub seed: u64,
    /// Bytes that may be in flight per connection, unless congestion control says less.
    pub window: u32,
    /// Whether packets are sent ECN-capable and marked ones answered with CNPs.
    pub ecn: bool,
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
#[derive(Debug)]
pub struct Nic<M> {
    memory: M,
}

impl<M: Memory> Nic<M> {
    /// An adapter with no GID and its port down.
    pub fn new(config: Config, memory: M) -> Self {
        let _ = config;
        Self { memory }
    }

    /// The memory it was made with.
    pub fn memory(&mut self) -> &mut M {
        &mut self.memory
    }

    /// Counters so far.
    pub fn counters(&self) -> Counters {
        todo!()
    }

    // ---- port

    /// Sets or clears an entry of the GID table; raises [`AsyncEvent::GidChange`] if it differs.
    pub fn set_gid(&mut self, index: u8, entry: Option<GidEntry>) {
        let _ = (index, entry);
        todo!()
    }

    /// An entry of the GID table.
    pub fn gid(&self, index: u8) -> Option<GidEntry> {
        let _ = index;
        todo!()
    }

    /// Sets the port's state and the largest MTU it carries; raises an event if the state differs.
    pub fn set_port(&mut self, state: PortState, mtu: Mtu) {
        let _ = (state, mtu);
        todo!()
    }

    // ---- protection domains, memory

    /// Makes a protection domain.
    pub fn alloc_pd(&mut self) -> Result<Pd, CreateError> {
        todo!()
    }

    /// Unmakes it.
    pub fn dealloc_pd(&mut self, pd: Pd) -> Result<(), DestroyError> {
        let _ = pd;
        todo!()
    }

    /// Registers memory: `length` bytes at `address`, which requests name by addresses from `iova` on.
    pub fn reg_mr(
        &mut self,
        pd: Pd,
        address: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<MrInfo, RegisterError> {
        let _ = (pd, address, length, iova, access);
        todo!()
    }

    /// Changes a region in place; its keys may change.
    pub fn rereg_mr(&mut self, mr: Mr, change: MrChange) -> Result<MrInfo, RegisterError> {
        let _ = (mr, change);
        todo!()
    }

    /// Ends a region. Its keys are dead when this returns.
    pub fn dereg_mr(&mut self, mr: Mr) -> Result<(), DestroyError> {
        let _ = mr;
        todo!()
    }

    /// Makes a window; returns it and its first remote key.
    pub fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Result<(Mw, u32), CreateError> {
        let _ = (pd, mw_type);
        todo!()
    }

    /// Unmakes it, unbinding it first.
    pub fn dealloc_mw(&mut self, mw: Mw) -> Result<(), DestroyError> {
        let _ = mw;
        todo!()
    }

    // ---- completion queues

    /// Makes a completion queue of at least `capacity` entries; returns it and its real size.
    pub fn create_cq(&mut self, capacity: u32) -> Result<(Cq, u32), CreateError> {
        let _ = capacity;
        todo!()
    }

    /// Changes its size; returns the real one.
    pub fn resize_cq(&mut self, cq: Cq, capacity: u32) -> Result<u32, CqError> {
        let _ = (cq, capacity);
        todo!()
    }

    /// Unmakes it.
    pub fn destroy_cq(&mut self, cq: Cq) -> Result<(), DestroyError> {
        let _ = cq;
        todo!()
    }

    /// Takes the oldest completion.
    pub fn poll_cq(&mut self, cq: Cq) -> Result<Option<Completion>, CqError> {
        let _ = cq;
        todo!()
    }

    /// Asks for one [`Event::Completion`] at the next completion, or the next solicited or failed one.
    pub fn req_notify_cq(&mut self, cq: Cq, solicited_only: bool) -> Result<(), CqError> {
        let _ = (cq, solicited_only);
        todo!()
    }

    // ---- shared receive queues

    /// Makes a shared receive queue; returns it and its real attributes.
    pub fn create_srq(
        &mut self,
        pd: Pd,
        attributes: SrqAttributes,
    ) -> Result<(Srq, SrqAttributes), CreateError> {
        let _ = (pd, attributes);
        todo!()
    }

    /// Changes it; returns its real attributes.
    pub fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Result<SrqAttributes, ModifySrqError> {
        let _ = (srq, change);
        todo!()
    }

    /// Its attributes.
    pub fn query_srq(&self, srq: Srq) -> Option<SrqAttributes> {
        let _ = srq;
        todo!()
    }

    /// Unmakes it.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), DestroyError> {
        let _ = srq;
        todo!()
    }

    /// Posts a receive on it.
    pub fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let _ = (srq, request);
        todo!()
    }

    // ---- address handles, multicast

    /// Makes an address handle.
    pub fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Result<Ah, CreateError> {
        let _ = (pd, path);
        todo!()
    }

    /// Unmakes it.
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), DestroyError> {
        let _ = ah;
        todo!()
    }

    /// Delivers a multicast group's datagrams to a queue pair. True if it is the group's first here.
    pub fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<bool, MulticastError> {
        let _ = (qpn, group);
        todo!()
    }

    /// Ends that. True if it was the group's last here.
    pub fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<bool, MulticastError> {
        let _ = (qpn, group);
        todo!()
    }

    // ---- queue pairs

    /// Makes a queue pair in RESET; returns its number and the sizes granted.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<(Qpn, QpCapabilities), CreateError> {
        let _ = init;
        todo!()
    }

    /// Changes its attributes or moves it to another state, or changes nothing at all.
    pub fn modify_qp(&mut self, now: Instant, qpn: Qpn, change: &QpChange) -> Result<(), ModifyQpError> {
        let _ = (now, qpn, change);
        todo!()
    }

    /// All its attributes.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpAttributes> {
        let _ = qpn;
        todo!()
    }

    /// Unmakes it; its completions leave the completion queues.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DestroyError> {
        let _ = qpn;
        todo!()
    }

    /// Posts a send request.
    pub fn post_send(&mut self, now: Instant, qpn: Qpn, request: &SendRequest<'_>) -> Result<(), PostError> {
        let _ = (now, qpn, request);
        todo!()
    }

    /// Posts a receive request.
    pub fn post_recv(&mut self, now: Instant, qpn: Qpn, request: &RecvRequest<'_>) -> Result<(), PostError> {
        let _ = (now, qpn, request);
        todo!()
    }

    // ---- wire and clock

    /// Takes one packet off the wire. `payload` is what follows the headers, pad included, ICRC not.
    pub fn handle_packet(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        headers: &Headers,
        payload: Payload<'_>,
    ) {
        let _ = (now, arrival, headers, payload);
        todo!()
    }

    /// The next run of at most `max_packets` packets to put on the wire.
    pub fn poll_transmit(&mut self, now: Instant, max_packets: usize) -> Option<Transmit> {
        let _ = (now, max_packets);
        todo!()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        todo!()
    }

    /// When [`Self::handle_timeout`] wants to be called.
    pub fn poll_timeout(&self) -> Option<Instant> {
        todo!()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let _ = now;
        todo!()
    }
}
