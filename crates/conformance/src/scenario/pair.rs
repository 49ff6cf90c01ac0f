//! Two connected ends on an arm, and what scenarios say about them.

use std::array;

use nic::verbs::*;
use wire::{Gid, Psn, Qpn};

use crate::arm::{Arm, MEMORY, Side, Verb};

/// All rights.
pub const ALL: Access = Access { window_bind: true, ..Access::ALL };

/// The queue key of datagrams.
pub const QKEY: u32 = 0x1111_1111;

/// Requests that a queue takes.
pub const DEPTH: u32 = 64;

/// What a scenario wants different from the usual.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The kind of queue pair.
    pub qp_type: QpType,
    /// Path MTU.
    pub mtu: Mtu,
    /// The first PSN of each end.
    pub psns: [Psn; 2],
    /// Sizes of the queues.
    pub capabilities: QpCapabilities,
    /// Local ACK timeout code; the arm's own if there is none.
    pub timeout: Option<u8>,
    /// Retries after a timeout.
    pub retry_count: u8,
    /// Retries after RNR.
    pub rnr_retry: u8,
    /// RNR NAK timer code.
    pub min_rnr_timer: u8,
    /// READs and atomics outstanding, and accepted.
    pub rd_atomic: u8,
    /// What a queue pair's peer may do.
    pub access: Access,
    /// Rights on the region, which is all of the memory.
    pub region: Access,
    /// Whether every request is signalled.
    pub signal_all: bool,
    /// Receives come from a shared receive queue.
    pub srq: Option<SrqAttributes>,
}

impl Setup {
    /// A reliable connection that is patient, may do everything and signals every request. PSNs wrap soon.
    pub const USUAL: Self = Self {
        qp_type: QpType::Rc,
        mtu: Mtu::Mtu1024,
        psns: [Psn::new(0x00_1000), Psn::new(0xFF_FFF0)],
        capabilities: QpCapabilities {
            max_send_wr: DEPTH,
            max_recv_wr: DEPTH,
            max_send_sge: 4,
            max_recv_sge: 4,
            max_inline_data: 256,
        },
        timeout: None,
        retry_count: 7,
        rnr_retry: 7,
        min_rnr_timer: 1,
        rd_atomic: 4,
        access: ALL,
        region: ALL,
        signal_all: true,
        srq: None,
    };
}

impl Default for Setup {
    fn default() -> Self {
        Self::USUAL
    }
}

/// One end: what belongs to it beside its queue pair.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Its protection domain.
    pub pd: Pd,
    /// Where sends complete.
    pub send_cq: Cq,
    /// Where receives complete.
    pub recv_cq: Cq,
    /// All of its memory.
    pub mr: MrInfo,
    /// Its shared receive queue, if it has one.
    pub srq: Option<Srq>,
    /// The queue pair under test.
    pub qpn: Qpn,
}

/// See the module.
pub struct Pair<'a> {
    arm: &'a mut dyn Arm,
    /// What it was made with.
    pub setup: Setup,
    /// Both ends.
    pub ends: [End; 2],
    /// Every queue pair that was made, by its end.
    queue_pairs: Vec<(usize, Qpn)>,
}

impl<'a> Pair<'a> {
    /// Two ends, connected.
    pub fn new(arm: &'a mut dyn Arm, setup: Setup) -> Self {
        let mut pair = Self::unconnected(arm, setup);
        pair.connect();
        pair
    }

    /// Two ends whose queue pairs are in RESET.
    pub fn unconnected(arm: &'a mut dyn Arm, setup: Setup) -> Self {
        let ends = array::from_fn(|index| End::new(arm.side(index), &setup));
        let mut pair = Self { arm, setup, ends, queue_pairs: Vec::new() };
        pair.add_queue_pairs();
        pair
    }

    /// Makes another connection, which is the one under test from now on.
    pub fn add_connection(&mut self) {
        self.add_queue_pairs();
        self.connect();
    }

    fn add_queue_pairs(&mut self) {
        for index in 0..2 {
            self.ends[index].qpn = self.add_queue_pair(index);
        }
    }

    /// Makes another queue pair of an end, in RESET.
    pub fn add_queue_pair(&mut self, index: usize) -> Qpn {
        let End { pd, send_cq, recv_cq, srq, .. } = self.ends[index];
        let Setup { qp_type, capabilities, signal_all, .. } = self.setup;
        let init = QpInit { pd, qp_type, send_cq, recv_cq, srq, capabilities, signal_all };
        let qpn = self.side(index).create_qp(&init).expect("a queue pair");
        self.queue_pairs.push((index, qpn));
        qpn
    }

    /// Brings both queue pairs to RTS.
    pub fn connect(&mut self) {
        for index in 0..2 {
            for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
                let change = self.change_to(index, state);
                self.modify(index, &change).unwrap_or_else(|error| panic!("to {state:?}: {error:?}"));
            }
        }
    }

    /// What brings a queue pair to a state on the way to RTS, or just to a state.
    pub fn change_to(&mut self, index: usize, state: QpState) -> QpChange {
        let setup = self.setup;
        let (is_connected, is_reliable) = (setup.qp_type != QpType::Ud, setup.qp_type == QpType::Rc);
        let change = QpChange { state: Some(state), ..QpChange::default() };
        match state {
            QpState::Init => QpChange {
                pkey_index: Some(0),
                port: Some(1),
                access: is_connected.then_some(setup.access),
                qkey: (!is_connected).then_some(QKEY),
                ..change
            },
            QpState::Rtr => QpChange {
                path: is_connected.then(|| self.path(index)),
                path_mtu: is_connected.then_some(setup.mtu),
                dest_qp: is_connected.then_some(self.ends[1 - index].qpn),
                rq_psn: is_connected.then_some(setup.psns[1 - index]),
                max_dest_rd_atomic: is_reliable.then_some(setup.rd_atomic),
                min_rnr_timer: is_reliable.then_some(setup.min_rnr_timer),
                ..change
            },
            QpState::Rts => QpChange {
                sq_psn: Some(setup.psns[index]),
                timeout: is_reliable.then(|| setup.timeout.unwrap_or_else(|| self.arm.ack_timeout())),
                retry_count: is_reliable.then_some(setup.retry_count),
                rnr_retry: is_reliable.then_some(setup.rnr_retry),
                max_rd_atomic: is_reliable.then_some(setup.rd_atomic),
                ..change
            },
            _ => change,
        }
    }

    /// The path from an end to the other.
    pub fn path(&mut self, index: usize) -> AddressVector {
        let (_, destination) = self.side(1 - index).gid();
        self.path_to(index, destination)
    }

    /// The path from an end to an address.
    pub fn path_to(&mut self, index: usize, destination: Gid) -> AddressVector {
        let (source_gid_index, _) = self.side(index).gid();
        AddressVector {
            destination,
            source_gid_index,
            is_global: true,
            port: 1,
            hop_limit: 64,
            ..AddressVector::default()
        }
    }

    /// The side that an end is on.
    pub fn side(&mut self, index: usize) -> &mut dyn Side {
        self.arm.side(index)
    }

    /// Lets time pass in which nothing more is expected.
    pub fn settle(&mut self) {
        self.arm.settle();
    }

    /// Begins a wait that [`Pair::step`] goes on with.
    pub fn start_waiting(&mut self) {
        self.arm.start_waiting();
    }

    /// Lets a little happen. False when the wait is in vain.
    pub fn step(&mut self) -> bool {
        self.arm.step()
    }

    /// Waits until `look` finds something.
    ///
    /// # Panics
    /// When it does not.
    pub fn until<T>(&mut self, what: &str, mut look: impl FnMut(&mut Self) -> Option<T>) -> T {
        self.arm.start_waiting();
        loop {
            if let Some(found) = look(self) {
                return found;
            }
            if !self.arm.step() {
                // The last step may have brought it.
                return look(self).unwrap_or_else(|| panic!("{what}: never came"));
            }
        }
    }

    // ---- memory

    /// A piece of an end's memory.
    pub fn sge(&mut self, index: usize, offset: u64, length: u32) -> Sge {
        let lkey = self.ends[index].mr.lkey;
        Sge { address: self.side(index).address() + offset, length, lkey }
    }

    /// The other end's memory, as an end names it.
    pub fn remote(&mut self, index: usize, offset: u64) -> Remote {
        let rkey = self.ends[1 - index].mr.rkey;
        Remote { address: self.side(1 - index).address() + offset, rkey }
    }

    /// Writes to an end's memory.
    pub fn store(&mut self, index: usize, offset: u64, bytes: &[u8]) {
        self.side(index).store(offset, bytes);
    }

    /// Reads an end's memory.
    pub fn load(&mut self, index: usize, offset: u64, length: usize) -> Vec<u8> {
        self.side(index).load(offset, length)
    }

    /// Writes a word to an end's memory.
    pub fn store_word(&mut self, index: usize, offset: u64, word: u64) {
        self.store(index, offset, &word.to_ne_bytes());
    }

    /// Reads a word of an end's memory.
    pub fn load_word(&mut self, index: usize, offset: u64) -> u64 {
        let bytes = self.load(index, offset, 8);
        u64::from_ne_bytes(bytes.try_into().expect("eight bytes"))
    }

    // ---- requests

    /// Posts a send request.
    pub fn post(&mut self, index: usize, request: &SendRequest<'_>) -> Verb<()> {
        let qpn = self.ends[index].qpn;
        self.side(index).post_send(qpn, request)
    }

    /// Posts an operation on registered memory, without flags.
    pub fn send(&mut self, index: usize, wr_id: u64, operation: SendOperation, sges: &[Sge]) {
        self.post(index, &request(wr_id, operation, sges)).expect("a request");
    }

    /// Posts a receive, to the shared queue if there is one.
    pub fn recv(&mut self, index: usize, wr_id: u64, scatter: &[Sge]) {
        let End { qpn, srq, .. } = self.ends[index];
        let request = RecvRequest { wr_id, scatter };
        match srq {
            Some(srq) => self.side(index).post_srq_recv(srq, &request),
            None => self.side(index).post_recv(qpn, &request),
        }
        .expect("a receive");
    }

    // ---- completions and events

    /// The next completion of an end's sends, for which it waits.
    pub fn sent(&mut self, index: usize) -> Completion {
        let cq = self.ends[index].send_cq;
        self.until("a send completion", |pair| pair.poll(index, cq))
    }

    /// The next completion of an end's receives, for which it waits.
    pub fn received(&mut self, index: usize) -> Completion {
        let cq = self.ends[index].recv_cq;
        self.until("a receive completion", |pair| pair.poll(index, cq))
    }

    /// The next completion of a queue, if there is one.
    pub fn poll(&mut self, index: usize, cq: Cq) -> Option<Completion> {
        self.side(index).poll_cq(cq).expect("a completion queue")
    }

    /// Waits for so many sends of an end and says what became of them.
    pub fn all_sent(&mut self, index: usize, count: usize) -> Vec<(u64, Status)> {
        (0..count).map(|_| self.sent(index)).map(|done| (done.wr_id, done.status)).collect()
    }

    /// Waits for so many receives of an end and says what became of them.
    pub fn all_received(&mut self, index: usize, count: usize) -> Vec<(u64, Status)> {
        (0..count).map(|_| self.received(index)).map(|done| (done.wr_id, done.status)).collect()
    }

    /// Asserts that there is no completion that nobody waited for.
    pub fn assert_nothing_more(&mut self) {
        for index in 0..2 {
            let End { send_cq, recv_cq, .. } = self.ends[index];
            assert_eq!(self.poll(index, send_cq), None, "one send completion more at end {index}");
            assert_eq!(self.poll(index, recv_cq), None, "one receive completion more at end {index}");
        }
    }

    /// Waits for the next asynchronous event of an end that is about its own objects.
    pub fn event(&mut self, index: usize) -> AsyncEvent {
        self.until("an asynchronous event", |pair| pair.event_now(index))
    }

    /// The next asynchronous event of an end, if there is one. That a connection came alive is no news here.
    pub fn event_now(&mut self, index: usize) -> Option<AsyncEvent> {
        loop {
            match self.side(index).async_event()? {
                AsyncEvent::CommunicationEstablished(_) | AsyncEvent::GidChange | AsyncEvent::PortActive => {}
                event => return Some(event),
            }
        }
    }

    // ---- states

    /// Changes an end's queue pair.
    pub fn modify(&mut self, index: usize, change: &QpChange) -> Verb<()> {
        let qpn = self.ends[index].qpn;
        self.side(index).modify_qp(qpn, change)
    }

    /// Moves an end's queue pair to a state that takes no attribute.
    pub fn set_state(&mut self, index: usize, state: QpState) {
        let change = QpChange { state: Some(state), ..QpChange::default() };
        self.modify(index, &change).unwrap_or_else(|error| panic!("to {state:?}: {error:?}"));
    }

    /// The state of an end's queue pair.
    pub fn state(&mut self, index: usize) -> QpState {
        let qpn = self.ends[index].qpn;
        self.side(index).query_qp(qpn).expect("a queue pair").state
    }

    /// Waits until an end's queue pair is in a state.
    pub fn await_state(&mut self, index: usize, state: QpState) {
        self.until("a change of state", |pair| (pair.state(index) == state).then_some(()));
    }

    /// Unmakes an end's queue pair, as if its program had died.
    pub fn destroy_queue_pair(&mut self, index: usize) {
        let qpn = self.ends[index].qpn;
        self.queue_pairs.retain(|other| *other != (index, qpn));
        self.side(index).destroy_qp(qpn).expect("a queue pair that nothing uses");
    }

    /// Unmakes everything, which shows that nothing was left in use.
    pub fn close(mut self) {
        for (index, qpn) in std::mem::take(&mut self.queue_pairs) {
            self.side(index).destroy_qp(qpn).expect("a queue pair that nothing uses");
        }
        for index in 0..2 {
            self.ends[index].close(self.arm.side(index)).expect("objects that nothing uses");
        }
    }
}

impl End {
    fn new(side: &mut dyn Side, setup: &Setup) -> Self {
        let pd = side.alloc_pd().expect("a protection domain");
        let send_cq = side.create_cq(4 * DEPTH).expect("a completion queue");
        let recv_cq = side.create_cq(4 * DEPTH).expect("a completion queue");
        let start = side.address();
        let mr = side.reg_mr(pd, start, MEMORY, start, setup.region).expect("a region");
        let srq =
            setup.srq.map(|attributes| side.create_srq(pd, attributes).expect("a shared receive queue"));
        Self { pd, send_cq, recv_cq, mr, srq, qpn: Qpn::default() }
    }

    fn close(&self, side: &mut dyn Side) -> Verb<()> {
        if let Some(srq) = self.srq {
            side.destroy_srq(srq)?;
        }
        side.destroy_cq(self.send_cq)?;
        side.destroy_cq(self.recv_cq)?;
        side.dereg_mr(self.mr.mr)?;
        side.dealloc_pd(self.pd)
    }
}

/// A request without flags, to start from.
pub fn request(wr_id: u64, operation: SendOperation, sges: &[Sge]) -> SendRequest<'_> {
    let (data, flags) = (SendData::Gather(sges), SendFlags::default());
    SendRequest { wr_id, operation, data, flags, destination: None }
}

/// Bytes that tell one number from another.
pub fn content(number: u64, length: usize) -> Vec<u8> {
    let start = number.wrapping_mul(0x9E37_79B9) as u32;
    (0..length as u32).map(|at| (start.wrapping_add(at).wrapping_mul(0x85EB_CA6B) >> 24) as u8).collect()
}
