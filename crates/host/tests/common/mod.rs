//! A side of a connection, with all it needs, and tests that say only what differs.

#![allow(dead_code)]

use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use host::{Adapter, CompletionChannel, Config, Device};
use nic::verbs::*;
use wire::{Gid, Psn, Qpn};

/// Bytes of a side's region.
pub const REGION: usize = 1 << 20;

const QKEY: u32 = 0x1111_1111;

/// Gives this test a network namespace and a slot service of its own, and waits until that answers.
///
/// Without the privilege for a namespace it shares the machine's, and the service of whoever was first.
pub fn service() {
    thread_local!(static ONCE: Once = const { Once::new() });
    ONCE.with(|once| once.call_once(start_service));
}

fn start_service() {
    // SAFETY: moves this thread alone, and the threads that it starts, into a new network namespace.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
        let up = std::process::Command::new("ip").args(["link", "set", "lo", "up"]).status();
        assert!(up.is_ok_and(|status| status.success()), "`ip link set lo up` works: is iproute2 installed?");
    }
    std::thread::spawn(|| match host::slot::serve(true) {
        Ok(()) | Err(host::slot::ServiceError::AlreadyRunning) => {}
        Err(error) => panic!("{error}"),
    });
    let deadline = Instant::now() + Duration::from_secs(5);
    while let Err(error) = Device::new(Config::default()).open() {
        assert!(Instant::now() < deadline, "the service does not answer: {error}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One adapter with a region, a completion queue and a queue pair.
pub struct Side {
    pub adapter: Adapter,
    pub channel: Arc<CompletionChannel>,
    pub pd: Pd,
    pub cq: Cq,
    pub qpn: Qpn,
    pub mr: MrInfo,
    pub gid_index: u8,
    /// Local ACK timeout code: short where packets are lost on purpose.
    timeout: u8,
    memory: Box<[u64]>,
}

/// Two of them, connected.
pub fn connected(qp_type: QpType) -> (Side, Side) {
    connected_with(Config::default(), qp_type)
}

/// Two of them with a configuration, connected.
pub fn connected_with(config: Config, qp_type: QpType) -> (Side, Side) {
    service();
    let (a, b) = (Side::new(config.clone(), qp_type), Side::new(config, qp_type));
    a.ready(b.qpn, qp_type);
    b.ready(a.qpn, qp_type);
    (a, b)
}

pub fn create_qp(adapter: &Adapter, pd: Pd, cq: Cq, qp_type: QpType) -> Qpn {
    let capabilities = QpCapabilities {
        max_send_wr: 256,
        max_recv_wr: 256,
        max_send_sge: 4,
        max_recv_sge: 4,
        max_inline_data: 64,
    };
    let init = QpInit { pd, qp_type, send_cq: cq, recv_cq: cq, srq: None, capabilities, signal_all: true };
    adapter.create_qp(&init).unwrap().0
}

impl Side {
    fn new(config: Config, qp_type: QpType) -> Self {
        let timeout = if config.faults.is_some() { 11 } else { 14 };
        let adapter = Device::new(config).open().unwrap();
        let channel = Arc::new(CompletionChannel::new().unwrap());
        let pd = adapter.alloc_pd().unwrap();
        let (cq, _) = adapter.create_cq(1024, Some((channel.clone(), 77))).unwrap();
        let memory = vec![0_u64; REGION / 8].into_boxed_slice();
        let access = Access {
            local_write: true,
            remote_write: true,
            remote_read: true,
            remote_atomic: true,
            ..Access::default()
        };
        let address = memory.as_ptr() as u64;
        // SAFETY: `memory` lives until the side is dropped, after its adapter.
        let mr = unsafe { adapter.reg_mr(pd, address, REGION as u64, address, access) }.unwrap();
        let loopback = Gid::from(std::net::IpAddr::from([127, 0, 0, 1]));
        let gid_index = (0..64).find(|&index| adapter.gid(index).is_some_and(|entry| entry.gid == loopback));
        let qpn = create_qp(&adapter, pd, cq, qp_type);
        let gid_index = gid_index.expect("the loopback interface has an entry");
        Self { adapter, channel, pd, cq, qpn, mr, gid_index, timeout, memory }
    }

    fn ready(&self, peer: Qpn, qp_type: QpType) {
        let access =
            Access { remote_write: true, remote_read: true, remote_atomic: true, ..Access::default() };
        let (rc, ud) = (qp_type == QpType::Rc, qp_type == QpType::Ud);
        let init = QpChange {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: (!ud).then_some(access),
            qkey: ud.then_some(QKEY),
            ..QpChange::default()
        };
        let rtr = QpChange {
            state: Some(QpState::Rtr),
            path: (!ud).then(|| self.path()),
            path_mtu: (!ud).then_some(Mtu::Mtu4096),
            dest_qp: (!ud).then_some(peer),
            rq_psn: (!ud).then_some(Psn::new(0xFF_FFF0)),
            max_dest_rd_atomic: rc.then_some(16),
            min_rnr_timer: rc.then_some(1),
            ..QpChange::default()
        };
        let rts = QpChange {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(0xFF_FFF0)),
            timeout: rc.then_some(self.timeout),
            retry_count: rc.then_some(7),
            rnr_retry: rc.then_some(7),
            max_rd_atomic: rc.then_some(16),
            ..QpChange::default()
        };
        for change in [init, rtr, rts] {
            self.adapter.modify_qp(self.qpn, &change).unwrap();
        }
    }

    /// Shortens the local ACK timeout and the number of retries.
    pub fn set_patience(&self, timeout: u8, retries: u8) {
        let to = |state, change| QpChange { state: Some(state), ..change };
        let drained = self.adapter.modify_qp(self.qpn, &to(QpState::Sqd, QpChange::default()));
        drained.unwrap();
        let patience = QpChange { timeout: Some(timeout), retry_count: Some(retries), ..QpChange::default() };
        self.adapter.modify_qp(self.qpn, &to(QpState::Sqd, patience)).unwrap();
        self.adapter.modify_qp(self.qpn, &to(QpState::Rts, QpChange::default())).unwrap();
    }

    /// The path to the other side, which has the same address.
    pub fn path(&self) -> AddressVector {
        AddressVector {
            destination: self.adapter.gid(self.gid_index).unwrap().gid,
            source_gid_index: self.gid_index,
            hop_limit: 64,
            is_global: true,
            port: 1,
            ..AddressVector::default()
        }
    }

    /// How the peer names a place in the region.
    pub fn remote(&self, offset: usize) -> Remote {
        Remote { address: self.address() + offset as u64, rkey: self.mr.rkey }
    }

    fn address(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    pub fn sge(&self, offset: usize, length: usize) -> Sge {
        Sge { address: self.address() + offset as u64, length: length as u32, lkey: self.mr.lkey }
    }

    pub fn send(&self, operation: SendOperation, offset: usize, length: usize) {
        self.post(operation, None, offset, length).unwrap();
    }

    pub fn send_datagram(&self, to: &Side, offset: usize, length: usize) {
        let ah = self.adapter.create_ah(self.pd, self.path()).unwrap();
        let destination = DatagramDestination { ah, qpn: to.qpn, qkey: QKEY };
        self.post(SendOperation::Send, Some(destination), offset, length).unwrap();
    }

    fn post(
        &self,
        operation: SendOperation,
        destination: Option<DatagramDestination>,
        offset: usize,
        length: usize,
    ) -> Result<(), PostError> {
        let sges = [self.sge(offset, length)];
        let request = SendRequest {
            wr_id: 1,
            operation,
            data: SendData::Gather(&sges),
            flags: SendFlags::default(),
            destination,
        };
        self.adapter.post(|poster| poster.send(self.qpn, &request))
    }

    pub fn post_recv(&self, offset: usize, length: usize) {
        let request = RecvRequest { wr_id: 2, scatter: &[self.sge(offset, length)] };
        self.adapter.post(|poster| poster.recv(self.qpn, &request)).unwrap();
    }

    /// The next completion, for which it polls.
    pub fn wait(&self) -> Completion {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let mut found = None;
            self.adapter.poll_cq(self.cq, 1, |completion| found = Some(*completion)).unwrap();
            if let Some(completion) = found {
                return completion;
            }
            assert!(Instant::now() < deadline, "no completion");
        }
    }

    /// Fills the region.
    pub fn fill(&self, byte: u8) {
        // SAFETY: inside the region; the adapter may read it meanwhile, as peers' reads always may.
        unsafe { std::ptr::write_bytes(self.address() as *mut u8, byte, REGION) };
    }

    /// A copy of part of the region.
    pub fn bytes(&self, offset: usize, length: usize) -> Vec<u8> {
        assert!(offset + length <= REGION);
        // SAFETY: inside the region, and what is looked at has been completed.
        unsafe { std::slice::from_raw_parts((self.address() as *const u8).add(offset), length) }.to_vec()
    }

    pub fn load(&self, offset: usize) -> u64 {
        u64::from_ne_bytes(self.bytes(offset, 8).try_into().unwrap())
    }

    pub fn store(&self, offset: usize, value: u64) {
        // SAFETY: inside the region, aligned if `offset` is.
        unsafe { ((self.address() as *mut u8).add(offset) as *mut u64).write_volatile(value) };
    }
}
