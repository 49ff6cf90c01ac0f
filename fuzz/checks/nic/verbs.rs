//! Calls that change objects, requests that need not make sense, and packets that nobody sent.

use nic::Arrival;
use nic::verbs::*;
use wire::{Bth, Extended, Headers, Opcode, Psn};

use super::ledger::{Effect, Receive, Send};
use super::memory::{BASE, LENGTH};
use super::network::Packet;
use super::operation::{Address, Change, End, Forgery, Operation, Region, Rights, Side, State, Wild};
use super::traffic::QKEY;
use super::world::World;

/// More objects of a kind are not made.
const MOST: usize = 12;

impl World {
    pub fn apply_verb(&mut self, operation: &Operation) {
        match operation {
            Operation::Forge(forgery) => self.forge(forgery),
            Operation::PostWild(wild) => self.post_wild(wild),
            Operation::ReceiveWild { end, key, address, length } => {
                self.receive_wild(*end, *key, *address, *length);
            }
            Operation::Modify { end, change } => self.modify(*end, change),
            Operation::Destroy { end } => self.destroy(*end),
            Operation::Register(region) => self.register(region),
            Operation::Reregister { pick, region } => self.reregister(*pick, region),
            Operation::Deregister { side, pick } => self.deregister(*side, *pick),
            Operation::AllocateWindow { side, other_domain, type_2 } => {
                self.allocate_window(*side, *other_domain, *type_2);
            }
            Operation::DeallocateWindow { side, pick } => {
                let peer = self.peer(*side);
                if let Some(at) = usize::from(*pick).checked_rem(peer.windows.len()) {
                    let (mw, _) = peer.windows.remove(at);
                    assert_eq!(peer.nic.dealloc_mw(mw), Ok(()));
                }
            }
            Operation::LimitShared { side, limit } => {
                let peer = self.peer(*side);
                let limit = u32::from(*limit);
                let change = SrqChange { limit: Some(limit), ..SrqChange::default() };
                assert_eq!(peer.nic.modify_srq(peer.srq, change).is_ok(), limit <= 64);
            }
            Operation::ResizeQueue { side, receive, more } => self.resize_queue(*side, *receive, *more),
            Operation::SetGid { side, present } => {
                self.is_lossy = true;
                let entry = self.addresses.entry(*side);
                self.peer(*side).nic.set_gid(0, present.then_some(entry));
            }
            _ => unreachable!("the world does the rest"),
        }
    }

    fn register(&mut self, region: &Region) {
        let &Region { side, other_domain, address, length, iova, rights } = region;
        let (address, length, access) = (place(address), u64::from(length), access(rights));
        let peer = self.peer(side);
        if peer.regions.len() >= MOST {
            return;
        }
        let pd = if other_domain { peer.other_pd } else { peer.pd };
        if let Ok(info) = peer.nic.reg_mr(pd, address, length, place(iova), access) {
            peer.nic.memory().open(info.mr.0, address, length, access.local_write);
            peer.regions.push(info);
            peer.keys.push(info.lkey);
        }
    }

    fn reregister(&mut self, pick: u8, region: &Region) {
        let &Region { side, other_domain, address, length, iova, rights } = region;
        let (address, length, access) = (place(address), u64::from(length), access(rights));
        let peer = self.peer(side);
        let Some(at) = usize::from(pick).checked_rem(peer.regions.len()) else { return };
        let mr = peer.regions[at].mr;
        let pd = if other_domain { peer.other_pd } else { peer.pd };
        let change = MrChange {
            pd: Some(pd),
            translation: Some((address, length, place(iova))),
            access: Some(access),
        };
        if peer.nic.rereg_mr(mr, change).is_ok() {
            peer.nic.memory().open(mr.0, address, length, access.local_write);
        }
    }

    fn deregister(&mut self, side: Side, pick: u8) {
        let peer = self.peer(side);
        let Some(at) = usize::from(pick).checked_rem(peer.regions.len()) else { return };
        let mr = peer.regions[at].mr;
        match peer.nic.dereg_mr(mr) {
            Ok(()) => {
                peer.regions.remove(at);
                peer.nic.memory().close(mr.0);
            }
            Err(error) => assert_eq!(error, DestroyError::Busy),
        }
    }

    fn allocate_window(&mut self, side: Side, other: bool, type_2: bool) {
        let peer = self.peer(side);
        if peer.windows.len() >= MOST {
            return;
        }
        let pd = if other { peer.other_pd } else { peer.pd };
        let mw_type = if type_2 { MwType::Type2 } else { MwType::Type1 };
        let window = peer.nic.alloc_mw(pd, mw_type).expect("there is room");
        peer.windows.push(window);
        peer.keys.push(window.1);
    }

    /// Tries to change a queue pair somehow. From here on its requests may fail.
    fn modify(&mut self, end: End, change: &Change) {
        let Some(at) = self.pair(end.pair) else { return };
        let (now, side, path) = (self.now, end.side, self.addresses.path_from(end.side));
        let pair = &mut self.pairs[at];
        if !pair.end(side).is_alive {
            return;
        }
        pair.is_honest = false;
        let endpoint = &mut pair.ends[side.index()];
        let peer = &mut self.peers[side.index()];
        let before = peer.nic.query_qp(endpoint.qpn).expect("it lives");
        let change = qp_change(change, path, &before);
        let result = peer.nic.modify_qp(now, endpoint.qpn, &change);
        let after = peer.nic.query_qp(endpoint.qpn).expect("it lives");
        if result.is_err() {
            assert_eq!(after, before, "a refused change changes nothing");
            return;
        }
        if let Some(to) = change.state {
            // A queue that has nothing to send may be drained, and one that has may fail, at once.
            let may_fail = matches!(after.state, QpState::Error | QpState::Sqe);
            assert!(after.state == to || may_fail, "{to:?}, not {:?}", after.state);
        }
        match (before.state, change.state) {
            (_, Some(QpState::Reset)) => endpoint.ledger.clear(),
            (QpState::Sqe, Some(QpState::Rts)) => {
                // What comes after those that are complete by now may succeed again.
                self.poll(side, usize::MAX);
                self.pairs[at].end(side).ledger.send_failed = false;
            }
            _ => {}
        }
    }

    fn destroy(&mut self, end: End) {
        let Some(at) = self.pair(end.pair) else { return };
        let pair = &mut self.pairs[at];
        let endpoint = &mut pair.ends[end.side.index()];
        if !endpoint.is_alive {
            return;
        }
        let result = self.peers[end.side.index()].nic.destroy_qp(endpoint.qpn);
        if endpoint.is_member {
            assert_eq!(result, Err(DestroyError::Busy));
            return;
        }
        assert_eq!(result, Ok(()));
        endpoint.is_alive = false;
        endpoint.ledger.clear();
        pair.is_honest = false;
    }

    fn resize_queue(&mut self, side: Side, receive: bool, more: u16) {
        let peer = self.peer(side);
        let queue = if receive { &peer.recv_cq } else { &peer.send_cq };
        let capacity = peer.entries + u32::from(more);
        assert_eq!(peer.nic.resize_cq(queue.cq, capacity), Ok(capacity));
        // Not even a queue that is full loses anything by a refusal.
        assert_eq!(peer.nic.resize_cq(queue.cq, 0), Err(CqError::InvalidSize));
    }

    /// Posts a send request that need not make sense. What memory holds is open from here on.
    fn post_wild(&mut self, wild: &Wild) {
        let Some(at) = self.pair(wild.end.pair) else { return };
        let side = wild.end.side;
        if !self.pairs[at].end(side).is_alive {
            return;
        }
        self.is_hostile = true;
        let (wr_id, now) = (self.wr_id(), self.now);
        let far_key = self.peer(side.other()).key(wild.other_key);
        let peer = self.peer(side);
        let lkey = peer.key(wild.key);
        let sges = [Sge { address: place(wild.address), length: wild.length % 5000, lkey }];
        let window = usize::from(wild.window).checked_rem(peer.windows.len()).map(|at| peer.windows[at]);
        let operation = wild_operation(wild, far_key, lkey, window);
        let ah = peer.ah;
        let pair = &mut self.pairs[at];
        let destination = DatagramDestination { ah, qpn: pair.end(side.other()).qpn, qkey: QKEY };
        let request = SendRequest {
            wr_id,
            operation,
            data: if wild.flags & 8 == 0 { SendData::Gather(&sges) } else { SendData::Gather(&[]) },
            flags: SendFlags {
                signaled: wild.flags & 1 != 0,
                solicited: wild.flags & 2 != 0,
                fence: wild.flags & 4 != 0,
            },
            destination: (wild.flags & 16 == 0).then_some(destination),
        };
        let signaled = request.flags.signaled || pair.signal_all;
        let endpoint = pair.end(side);
        let peer = &mut self.peers[side.index()];
        if peer.nic.post_send(now, endpoint.qpn, &request).is_ok() {
            let send =
                Send { wr_id, signaled, effect: Effect::Unknown, slots: Vec::new(), through_window: false };
            endpoint.ledger.sends.push_back(send);
            if let SendOperation::BindWindow { rkey, .. } = operation {
                peer.keys.push(rkey);
            }
        }
    }

    fn receive_wild(&mut self, end: End, key: u8, address: Address, length: u32) {
        let Some(at) = self.pair(end.pair) else { return };
        let (wr_id, now) = (self.wr_id(), self.now);
        let pair = &mut self.pairs[at];
        let endpoint = &mut pair.ends[end.side.index()];
        if !endpoint.is_alive || endpoint.is_shared {
            return;
        }
        pair.is_honest = false;
        self.is_hostile = true;
        let peer = &mut self.peers[end.side.index()];
        let scatter = [Sge { address: place(address), length: length % 5000, lkey: peer.key(key) }];
        if peer.nic.post_recv(now, endpoint.qpn, &RecvRequest { wr_id, scatter: &scatter }).is_ok() {
            endpoint.ledger.receives.push_back(Receive { wr_id, slot: None });
        }
    }

    /// Sends a packet that nobody sent.
    fn forge(&mut self, forgery: &Forgery) {
        let Some(at) = self.pair(forgery.to.pair) else { return };
        let side = forgery.to.side;
        let endpoint = self.pairs[at].end(side);
        let qpn = endpoint.qpn;
        let Some(attributes) = self.peer(side).nic.query_qp(qpn) else { return };
        self.is_hostile = true;
        let opcode = Opcode::from_byte(forgery.opcode);
        let ahead = |psn: Psn| psn + (i32::from(forgery.ahead) as u32 & 0xFF_FFFF);
        let is_response = opcode.is_response();
        let bth = Bth {
            opcode,
            migrated: true,
            pkey: 0xFFFF,
            dest_qp: qpn,
            ack_request: forgery.ack_request,
            psn: ahead(if is_response { attributes.sq_psn } else { attributes.rq_psn }),
            pad_count: forgery.length.wrapping_neg() as u8 & 3,
            ..Bth::default()
        };
        let mut bytes = vec![0; Bth::LEN];
        bth.emit(&mut bytes);
        bytes.extend(forgery.headers);
        let Ok((mut headers, _)) = Headers::parse(&bytes) else { return };
        let rkey = self.peer(side).key(forgery.key);
        aim(&mut headers, rkey, place(forgery.address), forgery.length);
        let mut bytes = vec![0; headers.len()];
        headers.emit(&mut bytes);
        bytes.resize(headers.len() + usize::from(forgery.length % 1025).next_multiple_of(4), 0xAB);
        let arrival = Arrival {
            source: self.addresses.gid(side.other()),
            destination: self.addresses.gid(side),
            traffic_class: forgery.headers[0],
            hop_limit: 64,
        };
        self.network.send(Packet { to: side, arrival, bytes });
    }
}

/// Points a request at memory.
fn aim(headers: &mut Headers, rkey: u32, address: u64, length: u16) {
    match &mut headers.extended {
        Extended::Reth(reth) => {
            (reth.rkey, reth.va, reth.length) = (rkey, address, u32::from(length));
        }
        Extended::Atomic(atomic) => (atomic.rkey, atomic.va) = (rkey, address),
        Extended::Deth(deth) => deth.qkey = QKEY,
        _ => {}
    }
}

fn wild_operation(wild: &Wild, far_key: u32, lkey: u32, window: Option<(Mw, u32)>) -> SendOperation {
    let remote = Remote { address: place(wild.remote_address), rkey: far_key };
    match (wild.operation % 10, window) {
        (0, _) => SendOperation::Send,
        (1, _) => SendOperation::SendWithImmediate(wild.length),
        (2, _) => SendOperation::SendWithInvalidate(far_key),
        (3, _) => SendOperation::Write(remote),
        (4, _) => SendOperation::WriteWithImmediate(remote, wild.length),
        (5, _) => SendOperation::Read(remote),
        (6, _) => SendOperation::CompareSwap { remote, compare: 0, swap: 1 },
        (7, _) => SendOperation::FetchAdd { remote, add: 1 },
        (8, Some((window, key))) => SendOperation::BindWindow {
            window,
            rkey: key & !0xFF | wild.length & 0xFF,
            binding: Binding {
                lkey,
                address: place(wild.address),
                length: u64::from(wild.length % 300),
                access: access(wild.rights),
            },
        },
        _ => SendOperation::LocalInvalidate(lkey),
    }
}

fn qp_change(change: &Change, path: AddressVector, before: &QpAttributes) -> QpChange {
    let mtus = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096];
    let is_ud = before.init.qp_type == QpType::Ud;
    QpChange {
        state: change.state.map(state),
        current_state: change.claims_state.then_some(before.state),
        sqd_notify: change.sqd_notify,
        access: change.access.map(access),
        pkey_index: change.init.then_some(0),
        port: change.init.then_some(1),
        qkey: (change.init && is_ud).then_some(QKEY),
        path: change.path.then_some(path),
        dest_qp: change.path.then_some(before.dest_qp),
        path_mtu: change.path_mtu.map(|pick| mtus[usize::from(pick) % mtus.len()]),
        timeout: change.timers,
        min_rnr_timer: change.timers,
        retry_count: change.retries,
        rnr_retry: change.retries,
        rq_psn: change.psn.map(Psn::new),
        sq_psn: change.psn.map(Psn::new),
        max_rd_atomic: change.rd_atomic,
        max_dest_rd_atomic: change.max_dest_rd_atomic,
        ..QpChange::default()
    }
}

fn state(state: State) -> QpState {
    match state {
        State::Reset => QpState::Reset,
        State::Init => QpState::Init,
        State::Rtr => QpState::Rtr,
        State::Rts => QpState::Rts,
        State::Sqd => QpState::Sqd,
        State::Sqe => QpState::Sqe,
        State::Error => QpState::Error,
    }
}

fn access(Rights(bits): Rights) -> Access {
    Access {
        local_write: bits & 1 != 0,
        remote_write: bits & 2 != 0,
        remote_read: bits & 4 != 0,
        remote_atomic: bits & 8 != 0,
        window_bind: bits & 16 != 0,
        zero_based: bits & 32 != 0,
        on_demand: bits & 64 != 0,
        relaxed_ordering: bits & 128 != 0,
    }
}

fn place(address: Address) -> u64 {
    match address {
        Address::Inside(offset) => BASE + u64::from(offset) * LENGTH as u64 / u64::from(u16::MAX),
        Address::Top(below) => u64::MAX - u64::from(below),
        Address::Small(address) => u64::from(address),
    }
}
