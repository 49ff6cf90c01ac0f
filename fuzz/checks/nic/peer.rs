//! One adapter with its objects.

use std::collections::BTreeMap;

use nic::verbs::*;
use nic::{Config, Duration, Nic};
use wire::Qpn;

use super::ledger::Receive;
use super::memory::{BASE, GuardedMemory, SLOT, SLOTS};
use super::network::Addresses;
use super::operation::{Setup, Side};

/// Completion queues of this length take everything that a run posts.
const ROOMY: u32 = 1 << 16;
/// And of this length not.
const CRAMPED: u32 = 24;

/// One adapter with the objects that are there from the beginning, and those that come and go.
pub struct Peer {
    pub nic: Nic<GuardedMemory>,
    pub pd: Pd,
    pub other_pd: Pd,
    /// Names all slots, with all rights.
    pub arena: MrInfo,
    pub send_cq: Queue,
    pub recv_cq: Queue,
    /// The length of both.
    pub entries: u32,
    pub srq: Srq,
    /// Receives on the shared queue, by their id.
    pub shared: BTreeMap<u64, Receive>,
    /// The way to the other side.
    pub ah: Ah,
    /// The way to the multicast group.
    pub group_ah: Ah,
    pub regions: Vec<MrInfo>,
    pub windows: Vec<(Mw, u32)>,
    /// Keys that are or were valid.
    pub keys: Vec<u32>,
    slots: Vec<usize>,
    /// Queue pairs on the shared receive queue that told they take no more from it.
    pub last_wqe_reached: Vec<Qpn>,
    /// How many runs it sends at a time, if it is held up.
    pub held: Option<u8>,
}

/// A completion queue and what was asked of it.
pub struct Queue {
    pub cq: Cq,
    pub armed: bool,
    /// It overran.
    pub is_dead: bool,
}

/// All rights, and that to bind windows.
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

impl Peer {
    pub fn new(side: Side, setup: &Setup, addresses: Addresses) -> Self {
        let config = Config {
            seed: u64::from(setup.seed) * 2 + side.index() as u64,
            window: 1024 * (u32::from(setup.window) + 1),
            ecn: setup.seed.is_multiple_of(2),
            cnp_interval: Duration::from_micros(4),
            qpn_suffix: 0,
            qpn_suffix_bits: 0,
            limits: Limits::default(),
        };
        let mut nic = Nic::new(config, GuardedMemory::new());
        nic.set_port(PortState::Active, Mtu::Mtu1024);
        nic.set_gid(0, Some(addresses.entry(side)));
        let pd = nic.alloc_pd().expect("there is room");
        let other_pd = nic.alloc_pd().expect("there is room");
        let length = (SLOTS * SLOT) as u64;
        let arena = nic.reg_mr(pd, BASE, length, BASE, ALL).expect("the arena is memory");
        nic.memory().open(arena.mr.0, BASE, length, true);
        let entries = if setup.is_cramped { CRAMPED } else { ROOMY };
        let queue = |nic: &mut Nic<GuardedMemory>| {
            let (cq, _) = nic.create_cq(entries).expect("there is room");
            Queue { cq, armed: false, is_dead: false }
        };
        let (send_cq, recv_cq) = (queue(&mut nic), queue(&mut nic));
        let shared = SrqAttributes { max_wr: 64, max_sge: 2, limit: 0 };
        let (srq, _) = nic.create_srq(pd, shared).expect("there is room");
        let ah = nic.create_ah(pd, addresses.path_from(side)).expect("the path is usable");
        let to_group = addresses.path(addresses.group());
        let group_ah = nic.create_ah(pd, to_group).expect("the path is usable");
        Self {
            nic,
            pd,
            other_pd,
            arena,
            send_cq,
            recv_cq,
            entries,
            srq,
            shared: BTreeMap::new(),
            ah,
            group_ah,
            regions: Vec::new(),
            windows: Vec::new(),
            keys: vec![arena.lkey, 0],
            slots: (0..SLOTS).collect(),
            last_wqe_reached: Vec::new(),
            held: None,
        }
    }

    /// A slot that nobody uses.
    pub fn take_slot(&mut self) -> Option<usize> {
        self.slots.pop()
    }

    pub fn give_slot(&mut self, slot: usize) {
        debug_assert!(!self.slots.contains(&slot));
        self.slots.push(slot);
    }

    /// So many bytes of a slot, in `parts` pieces.
    pub fn elements(&self, slot: usize, length: usize, parts: u8) -> Vec<Sge> {
        let piece = (length / usize::from(parts.max(1))).max(1);
        let mut sges = Vec::new();
        let mut at = 0;
        while at < length {
            let rest = length - at;
            let take = if sges.len() + 1 == usize::from(parts.max(1)) { rest } else { piece.min(rest) };
            let address = slot_address(slot) + at as u64;
            sges.push(Sge { address, length: take as u32, lkey: self.arena.lkey });
            at += take;
        }
        sges
    }

    pub fn key(&self, pick: u8) -> u32 {
        self.keys[usize::from(pick) % self.keys.len()]
    }

    /// Unmakes everything, which nothing uses any more.
    pub fn end(mut self) {
        let nic = &mut self.nic;
        for (mw, _) in self.windows {
            assert_eq!(nic.dealloc_mw(mw), Ok(()));
        }
        for region in self.regions.iter().chain([&self.arena]) {
            assert_eq!(nic.dereg_mr(region.mr), Ok(()));
        }
        assert_eq!(nic.dealloc_pd(self.pd), Err(DestroyError::Busy));
        assert_eq!(nic.destroy_ah(self.ah), Ok(()));
        assert_eq!(nic.destroy_ah(self.group_ah), Ok(()));
        assert_eq!(nic.destroy_srq(self.srq), Ok(()));
        assert_eq!(nic.destroy_cq(self.send_cq.cq), Ok(()));
        assert_eq!(nic.destroy_cq(self.recv_cq.cq), Ok(()));
        assert_eq!(nic.dealloc_pd(self.pd), Ok(()));
        assert_eq!(nic.dealloc_pd(self.other_pd), Ok(()));
    }
}

pub fn slot_address(slot: usize) -> u64 {
    BASE + (slot * SLOT) as u64
}
