//! Two adapters, a link between them that may lose, duplicate and reorder, and virtual time.
#![allow(dead_code, reason = "each test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

pub mod link;
pub mod memory;
pub mod traffic;

use nic::verbs::*;
use nic::{Arrival, Config, Duration, Instant, Nic, Payload};
use wire::{Gid, Headers, Psn, Qpn};

pub use link::{Faults, Link};
pub use memory::VecMemory;

/// Bytes of memory of each side, registered whole.
pub const MEMORY: u64 = 1 << 20;

/// Where a side's memory begins, in the owner's address space and as registered.
pub const BASE: u64 = 0x1_0000_0000;

/// All rights.
pub const ALL: Access = Access {
    local_write: true,
    remote_write: true,
    remote_read: true,
    remote_atomic: true,
    window_bind: true,
    zero_based: false,
    on_demand: false,
    relaxed_ordering: false,
};

/// One end: an adapter with a protection domain, a completion queue for each direction and one region.
pub struct Side {
    pub nic: Nic<VecMemory>,
    pub pd: Pd,
    pub send_cq: Cq,
    pub recv_cq: Cq,
    pub mr: Mr,
    /// The region's key, local and remote.
    pub key: u32,
    pub gid: Gid,
    /// The queue pair under test.
    pub qpn: Qpn,
}

/// What a test wants different from the usual.
#[derive(Clone, Debug)]
pub struct Setup {
    pub config: Config,
    pub qp_type: QpType,
    pub mtu: Mtu,
    pub psns: [Psn; 2],
    pub capabilities: QpCapabilities,
    pub timeout: u8,
    pub retry_count: u8,
    pub rnr_retry: u8,
    pub min_rnr_timer: u8,
    pub rd_atomic: u8,
    pub access: Access,
    pub signal_all: bool,
    pub srq: bool,
    pub faults: Faults,
    pub seed: u64,
    /// Packets taken from an adapter at once.
    pub run: usize,
    /// Whether the link keeps a line for each packet.
    pub trace: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config::default(),
            qp_type: QpType::Rc,
            mtu: Mtu::Mtu1024,
            psns: [Psn::new(0x00_1000), Psn::new(0xFF_FFF0)],
            capabilities: QpCapabilities {
                max_send_wr: 256,
                max_recv_wr: 256,
                max_send_sge: 4,
                max_recv_sge: 4,
                max_inline_data: 256,
            },
            timeout: 8,
            retry_count: 7,
            rnr_retry: 7,
            min_rnr_timer: 1,
            rd_atomic: 4,
            access: ALL,
            signal_all: true,
            srq: false,
            faults: Faults::default(),
            seed: 1,
            run: 16,
            trace: false,
        }
    }
}

/// Two connected sides.
pub struct Pair {
    pub sides: [Side; 2],
    pub link: Link,
    pub now: Instant,
    pub run: usize,
    pub setup: Setup,
    pub srqs: [Option<Srq>; 2],
}

impl Default for Pair {
    fn default() -> Self {
        Self::new(Setup::default())
    }
}

impl Pair {
    pub fn new(setup: Setup) -> Self {
        let mut sides = [Side::new(&setup, 1), Side::new(&setup, 2)];
        let srqs = core::array::from_fn(|side| sides[side].create_qp(&setup));
        let mut pair =
            Self { sides, link: Link::new(&setup), now: Instant::ZERO, run: setup.run, setup, srqs };
        pair.connect();
        pair
    }

    /// Makes another connection, which is the one under test from now on.
    pub fn add_connection(&mut self) {
        self.srqs = core::array::from_fn(|side| self.sides[side].create_qp(&self.setup));
        self.connect();
    }

    /// Brings both queue pairs to RTS.
    pub fn connect(&mut self) {
        for side in 0..2 {
            self.enter_init(side);
            self.enter_rtr(side);
            self.enter_rts(side);
        }
    }

    pub fn enter_init(&mut self, side: usize) {
        let is_connected = self.setup.qp_type != QpType::Ud;
        let change = QpChange {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: is_connected.then_some(self.setup.access),
            qkey: (!is_connected).then_some(QKEY),
            ..QpChange::default()
        };
        self.modify(side, &change);
    }

    pub fn enter_rtr(&mut self, side: usize) {
        let setup = &self.setup;
        let (is_connected, is_reliable) = (setup.qp_type != QpType::Ud, setup.qp_type == QpType::Rc);
        let peer = &self.sides[1 - side];
        let change = QpChange {
            state: Some(QpState::Rtr),
            path: is_connected.then_some(path_to(peer.gid)),
            path_mtu: is_connected.then_some(setup.mtu),
            dest_qp: is_connected.then_some(peer.qpn),
            rq_psn: is_connected.then_some(setup.psns[1 - side]),
            max_dest_rd_atomic: is_reliable.then_some(setup.rd_atomic),
            min_rnr_timer: is_reliable.then_some(setup.min_rnr_timer),
            ..QpChange::default()
        };
        self.modify(side, &change);
    }

    pub fn enter_rts(&mut self, side: usize) {
        let setup = &self.setup;
        let is_reliable = setup.qp_type == QpType::Rc;
        let change = QpChange {
            state: Some(QpState::Rts),
            sq_psn: Some(setup.psns[side]),
            timeout: is_reliable.then_some(setup.timeout),
            retry_count: is_reliable.then_some(setup.retry_count),
            rnr_retry: is_reliable.then_some(setup.rnr_retry),
            max_rd_atomic: is_reliable.then_some(setup.rd_atomic),
            ..QpChange::default()
        };
        self.modify(side, &change);
    }

    pub fn modify(&mut self, side: usize, change: &QpChange) {
        let Side { nic, qpn, .. } = &mut self.sides[side];
        nic.modify_qp(self.now, *qpn, change).unwrap();
    }

    pub fn set_state(&mut self, side: usize, state: QpState) {
        self.modify(side, &QpChange { state: Some(state), ..QpChange::default() });
    }

    pub fn state(&self, side: usize) -> QpState {
        self.attributes(side).state
    }

    pub fn attributes(&self, side: usize) -> QpAttributes {
        self.sides[side].nic.query_qp(self.sides[side].qpn).unwrap()
    }

    pub fn post_send(&mut self, side: usize, request: &SendRequest<'_>) -> Result<(), PostError> {
        let Side { nic, qpn, .. } = &mut self.sides[side];
        nic.post_send(self.now, *qpn, request)
    }

    /// Posts an operation on registered memory.
    pub fn send(&mut self, side: usize, wr_id: u64, operation: SendOperation, sges: &[Sge]) {
        self.post_send(side, &request(wr_id, operation, sges)).unwrap();
    }

    pub fn recv(&mut self, side: usize, wr_id: u64, sges: &[Sge]) {
        let request = RecvRequest { wr_id, scatter: sges };
        let Side { nic, qpn, .. } = &mut self.sides[side];
        match self.srqs[side] {
            Some(srq) => nic.post_srq_recv(srq, &request).unwrap(),
            None => nic.post_recv(self.now, *qpn, &request).unwrap(),
        }
    }

    /// Binds a new type 2 window to a part of a side's region; returns it and its key.
    pub fn bind_window(&mut self, side: usize, offset: u64, length: u64) -> (Mw, u32) {
        let Side { nic, pd, key: lkey, .. } = &mut self.sides[side];
        let (window, key) = nic.alloc_mw(*pd, MwType::Type2).unwrap();
        let rkey = key & !0xFF | (key + 1) & 0xFF;
        let binding = Binding { lkey: *lkey, address: BASE + offset, length, access: ALL };
        self.send(side, u64::MAX, SendOperation::BindWindow { window, rkey, binding }, &[]);
        self.drive();
        assert_eq!(self.sent(side), [(u64::MAX, Status::Success)]);
        (window, rkey)
    }

    /// An element of a side's region.
    pub fn sge(&self, side: usize, offset: u64, length: u32) -> Sge {
        Sge { address: BASE + offset, length, lkey: self.sides[side].key }
    }

    /// The other side's memory as a side names it.
    pub fn remote(&self, side: usize, offset: u64) -> Remote {
        Remote { address: BASE + offset, rkey: self.sides[1 - side].key }
    }

    pub fn bytes(&mut self, side: usize, offset: u64, length: usize) -> &mut [u8] {
        let start = offset as usize;
        &mut self.sides[side].nic.memory().bytes[start..start + length]
    }

    /// Puts on the link what the adapters want to send.
    pub fn transmit(&mut self) {
        for (from, side) in self.sides.iter_mut().enumerate() {
            while let Some(transmit) = side.nic.poll_transmit(self.now, self.run) {
                self.link.send(self.now, from, &transmit, side.nic.memory());
            }
        }
    }

    /// Goes on to the next packet or timer. False if there is none.
    pub fn step(&mut self) -> bool {
        self.transmit();
        let arrival = self.link.next_arrival();
        let timeout = self.sides.iter().filter_map(|side| side.nic.poll_timeout()).min();
        let Some(next) = arrival.into_iter().chain(timeout).min() else { return false };
        assert!(next >= self.now || timeout == Some(next), "time goes backwards");
        self.now = self.now.max(next);
        while let Some(packet) = self.link.receive(self.now) {
            let nic = &mut self.sides[packet.to].nic;
            deliver(nic, self.now, &packet.arrival, &packet.bytes);
        }
        for side in &mut self.sides {
            side.nic.handle_timeout(self.now);
        }
        true
    }

    /// Goes on until nothing happens any more.
    pub fn drive(&mut self) {
        for _ in 0..10_000_000 {
            if !self.step() {
                return;
            }
        }
        panic!("does not come to rest");
    }

    /// Goes on for so long.
    pub fn drive_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            self.transmit();
            let arrival = self.link.next_arrival();
            let timeout = self.sides.iter().filter_map(|side| side.nic.poll_timeout()).min();
            match arrival.into_iter().chain(timeout).min() {
                Some(next) if next <= end => self.step(),
                _ => break,
            };
        }
        self.now = end;
    }

    pub fn poll_send(&mut self, side: usize) -> Option<Completion> {
        let cq = self.sides[side].send_cq;
        self.sides[side].nic.poll_cq(cq).unwrap()
    }

    pub fn poll_recv(&mut self, side: usize) -> Option<Completion> {
        let cq = self.sides[side].recv_cq;
        self.sides[side].nic.poll_cq(cq).unwrap()
    }

    /// All send completions as id and status.
    pub fn sent(&mut self, side: usize) -> Vec<(u64, Status)> {
        core::iter::from_fn(|| self.poll_send(side)).map(|c| (c.wr_id, c.status)).collect()
    }

    /// All receive completions as id and status.
    pub fn received(&mut self, side: usize) -> Vec<(u64, Status)> {
        core::iter::from_fn(|| self.poll_recv(side)).map(|c| (c.wr_id, c.status)).collect()
    }

    pub fn events(&mut self, side: usize) -> Vec<AsyncEvent> {
        core::iter::from_fn(|| self.sides[side].nic.poll_event())
            .filter_map(|event| match event {
                Event::Async(event) => Some(event),
                Event::Completion(_) => None,
            })
            .collect()
    }

    /// Gives a packet made by hand to a side, as if it came from the other.
    pub fn inject(&mut self, to: usize, headers: &Headers, payload: &[u8]) {
        let arrival = self.link.arrival(self.sides[1 - to].gid, self.sides[to].gid);
        let nic = &mut self.sides[to].nic;
        nic.handle_packet(self.now, &arrival, headers, Payload::Bytes(payload));
    }
}

/// A request without flags, to start from.
pub fn request(wr_id: u64, operation: SendOperation, sges: &[Sge]) -> SendRequest<'_> {
    let (data, flags) = (SendData::Gather(sges), SendFlags::default());
    SendRequest { wr_id, operation, data, flags, destination: None }
}

/// The queue key of datagram tests.
pub const QKEY: u32 = 0x1111_1111;

pub fn path_to(destination: Gid) -> AddressVector {
    AddressVector { destination, is_global: true, port: 1, hop_limit: 64, ..AddressVector::default() }
}

/// Parses a packet as a host does and hands it over.
pub fn deliver(nic: &mut Nic<VecMemory>, now: Instant, arrival: &Arrival, bytes: &[u8]) {
    let (headers, start) = Headers::parse(bytes).unwrap();
    nic.handle_packet(now, arrival, &headers, Payload::Bytes(&bytes[start..]));
}

impl Side {
    fn new(setup: &Setup, number: u8) -> Self {
        let config = Config { seed: u64::from(number), ..setup.config };
        let mut nic = Nic::new(config, VecMemory::new(BASE, MEMORY as usize));
        let gid = Gid::from(core::net::Ipv4Addr::new(10, 0, 0, number));
        nic.set_gid(0, Some(GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 1 }));
        nic.set_port(PortState::Active, Mtu::Mtu4096);
        while nic.poll_event().is_some() {}
        let pd = nic.alloc_pd().unwrap();
        let (send_cq, _) = nic.create_cq(4096).unwrap();
        let (recv_cq, _) = nic.create_cq(4096).unwrap();
        let MrInfo { mr, lkey, rkey } = nic.reg_mr(pd, BASE, MEMORY, BASE, ALL).unwrap();
        assert_eq!(lkey, rkey);
        Self { nic, pd, send_cq, recv_cq, mr, key: lkey, gid, qpn: Qpn::default() }
    }

    pub fn create_qp(&mut self, setup: &Setup) -> Option<Srq> {
        let attributes = SrqAttributes { max_wr: 256, max_sge: 4, limit: 0 };
        let srq = setup.srq.then(|| self.nic.create_srq(self.pd, attributes).unwrap().0);
        let init = QpInit {
            pd: self.pd,
            qp_type: setup.qp_type,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq,
            capabilities: setup.capabilities,
            signal_all: setup.signal_all,
        };
        self.qpn = self.nic.create_qp(&init).unwrap().0;
        srq
    }
}
