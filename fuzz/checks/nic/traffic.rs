//! Requests between pairs, which must succeed as far as the network lets them.

use nic::verbs::*;
use wire::{Immediate, Psn, Qpn};

use super::ledger::{Effect, Ledger, Receive, Send, Window};
use super::memory::SLOT;
use super::operation::{Connect, End, Message as Kind, Post, Side, Transport};
use super::pair::{Endpoint, Message, Pair};
use super::peer::slot_address;
use super::world::World;

pub const QKEY: u32 = 0x1111_1111;
/// More than that are not made.
const MOST_PAIRS: usize = 6;
const MOST_INLINE: u32 = 64;
const LONGEST: usize = 1200;
/// IBTA 11.2.5.2: 4.096 us times two to this power, which is a millisecond.
const TIMEOUT: u8 = 8;
/// IBTA table 45: 2.56 ms.
const RNR_TIMER: u8 = 16;

impl World {
    /// Makes a pair of queue pairs, ready to send.
    pub fn connect(&mut self, connect: &Connect) {
        if self.pairs.len() >= MOST_PAIRS {
            return;
        }
        let (Some(left), Some(right)) = (self.slots_for_pair(Side::Left), self.slots_for_pair(Side::Right))
        else {
            return;
        };
        for side in Side::BOTH {
            let entry = self.addresses.entry(side);
            self.peer(side).nic.set_gid(0, Some(entry));
        }
        let ends = [self.endpoint(Side::Left, connect, left), self.endpoint(Side::Right, connect, right)];
        let qpns = [ends[0].qpn, ends[1].qpn];
        let mtu = [Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024][usize::from(connect.mtu % 3)];
        for side in Side::BOTH {
            let path = self.addresses.path_from(side);
            for change in changes(side, path, connect, mtu, qpns[side.other().index()]) {
                let now = self.now;
                let done = self.peer(side).nic.modify_qp(now, qpns[side.index()], &change);
                assert_eq!(done, Ok(()), "{change:?}");
            }
        }
        self.pairs.push(Pair {
            transport: connect.transport,
            ends,
            is_honest: true,
            may_run_out_of_receives: connect.finite_rnr_retry,
            signal_all: connect.signal_all,
        });
    }

    /// A slot for the word of atomics and one for unreliable writes.
    fn slots_for_pair(&mut self, side: Side) -> Option<(usize, usize)> {
        let peer = self.peer(side);
        Some((peer.take_slot()?, peer.take_slot()?))
    }

    fn endpoint(&mut self, side: Side, connect: &Connect, slots: (usize, usize)) -> Endpoint {
        let peer = self.peer(side);
        let shared = connect.shared_receive_queue;
        let capabilities = QpCapabilities {
            max_send_wr: 32,
            max_recv_wr: 32,
            max_send_sge: 4,
            max_recv_sge: 2,
            max_inline_data: MOST_INLINE,
        };
        let init = QpInit {
            pd: peer.pd,
            qp_type: match connect.transport {
                Transport::Rc => QpType::Rc,
                Transport::Uc => QpType::Uc,
                Transport::Ud => QpType::Ud,
            },
            send_cq: peer.send_cq.cq,
            recv_cq: peer.recv_cq.cq,
            srq: shared.then_some(peer.srq),
            capabilities,
            signal_all: connect.signal_all,
        };
        let (qpn, _) = peer.nic.create_qp(&init).expect("there is room");
        let (mw, mw_key) = peer.nic.alloc_mw(peer.pd, MwType::Type2).expect("there is room");
        let word = slot_address(slots.0);
        peer.nic.memory().set(word, &[0; 8]);
        Endpoint {
            qpn,
            is_alive: true,
            is_shared: shared,
            ledger: Ledger::default(),
            expected: Default::default(),
            word,
            word_value: 0,
            dump: slot_address(slots.1),
            is_member: false,
            mw,
            mw_key,
            window: Window::Unbound,
            window_in_use: false,
            owes_drain_event: false,
        }
    }

    /// Posts a request that must succeed.
    pub fn post(&mut self, post: &Post) {
        let Some(at) = self.pair(post.end.pair) else { return };
        let side = post.end.side;
        let transport = self.pairs[at].transport;
        if !self.pairs[at].end(side).is_alive {
            return;
        }
        let kind = possible(transport, post.message);
        let length = match kind {
            Kind::CompareSwap { .. } | Kind::FetchAdd => 8,
            _ if transport == Transport::Ud => usize::from(post.length) % 1025,
            _ => usize::from(post.length) % (LONGEST + 1),
        };
        let Some(slot) = self.peer(side).take_slot() else { return };
        let Some(far) = self.peer(side.other()).take_slot() else {
            self.peer(side).give_slot(slot);
            return;
        };
        let window = self.usable_window(at, side, kind).filter(|_| post.through_window);
        let prepared = Prepared { at, side, kind, length, slot, far, window };
        if !self.submit(post, &prepared) {
            self.peer(side).give_slot(slot);
            self.peer(side.other()).give_slot(far);
        }
    }

    /// True if the request was taken.
    fn submit(&mut self, post: &Post, prepared: &Prepared) -> bool {
        let &Prepared { at, side, kind, length, slot, .. } = prepared;
        let wr_id = self.wr_id();
        let bytes = pattern(wr_id, length);
        let is_write = !matches!(kind, Kind::Read | Kind::CompareSwap { .. } | Kind::FetchAdd);
        if is_write {
            self.peer(side).nic.memory().set(slot_address(slot), &bytes);
        } else {
            self.peer(side.other()).nic.memory().set(prepared.far_address(), &bytes);
        }
        let operation = self.operation(prepared, wr_id);
        let sges = self.peer(side).elements(slot, length, post.cuts % 3 + 1);
        let inline = post.inline && is_write && length <= MOST_INLINE as usize;
        let parts = [bytes.as_slice()];
        let request = SendRequest {
            wr_id,
            operation,
            data: if inline { SendData::Inline(&parts) } else { SendData::Gather(&sges) },
            flags: SendFlags {
                signaled: post.flags & 1 != 0,
                solicited: post.flags & 2 != 0,
                fence: post.flags & 4 != 0,
            },
            destination: self.destination(at, side, kind),
        };
        let (now, qpn) = (self.now, self.pairs[at].end(side).qpn);
        let nic = &mut self.peer(side).nic;
        let state = nic.query_qp(qpn).expect("it lives").state;
        let result = nic.post_send(now, qpn, &request);
        if inline {
            // What was posted inline is the adapter's.
            nic.memory().set(slot_address(slot), &vec![0xDD; length]);
        }
        match result {
            Ok(()) => {
                assert!(Endpoint::takes_sends(state), "taken in {state:?}");
                self.record(post, prepared, wr_id, bytes);
                true
            }
            Err(PostError::QueueFull) => false,
            Err(PostError::InvalidDestination) => {
                assert!(self.peer(side).nic.gid(0).is_none(), "the path is usable");
                false
            }
            Err(error) => {
                assert_eq!(error, PostError::InvalidState, "{request:?}");
                assert!(!Endpoint::takes_sends(state), "refused in {state:?}");
                false
            }
        }
    }

    fn operation(&mut self, prepared: &Prepared, wr_id: u64) -> SendOperation {
        let &Prepared { at, side, kind, window, .. } = prepared;
        let arena = self.peer(side.other()).arena.rkey;
        let transport = self.pairs[at].transport;
        let target = self.pairs[at].end(side.other());
        let address = if transport == Transport::Rc { prepared.far_address() } else { target.dump };
        let remote = Remote { address, rkey: window.map_or(arena, |(key, _)| key) };
        let word = Remote { address: target.word, rkey: arena };
        match kind {
            Kind::Send | Kind::SendToGroup => SendOperation::Send,
            Kind::SendWithImmediate => SendOperation::SendWithImmediate(wr_id as u32),
            Kind::Write => SendOperation::Write(remote),
            Kind::WriteWithImmediate => SendOperation::WriteWithImmediate(remote, wr_id as u32),
            Kind::Read => SendOperation::Read(remote),
            Kind::CompareSwap { hit } => SendOperation::CompareSwap {
                remote: word,
                compare: target.word_value ^ u64::from(!hit),
                swap: wr_id,
            },
            Kind::FetchAdd => SendOperation::FetchAdd { remote: word, add: wr_id },
        }
    }

    fn destination(&mut self, at: usize, side: Side, kind: Kind) -> Option<DatagramDestination> {
        let (ah, group_ah) = (self.peer(side).ah, self.peer(side).group_ah);
        let pair = &mut self.pairs[at];
        let (ah, qpn) = match kind {
            Kind::SendToGroup => (group_ah, Qpn::MULTICAST),
            _ => (ah, pair.end(side.other()).qpn),
        };
        (pair.transport == Transport::Ud).then_some(DatagramDestination { ah, qpn, qkey: QKEY })
    }

    /// Notes what the request must do.
    fn record(&mut self, post: &Post, prepared: &Prepared, wr_id: u64, bytes: Vec<u8>) {
        let &Prepared { at, side, kind, slot, far, window, .. } = prepared;
        if kind == Kind::SendToGroup && self.pairs[at].transport == Transport::Ud {
            self.expect_from_group(side, &bytes);
        }
        let pair = &mut self.pairs[at];
        let signaled = post.flags & 1 != 0 || pair.signal_all;
        let target = pair.end(side.other());
        let message = |immediate, is_write| Message { bytes: bytes.clone(), immediate, is_write };
        let immediate = Immediate::Data(wr_id as u32);
        match kind {
            Kind::Send | Kind::SendToGroup => target.expected.push_back(message(Immediate::None, false)),
            Kind::SendWithImmediate => target.expected.push_back(message(immediate, false)),
            Kind::WriteWithImmediate => target.expected.push_back(message(immediate, true)),
            _ => {}
        }
        let effect = match kind {
            Kind::Write | Kind::WriteWithImmediate => {
                Effect::Written { address: prepared.far_address(), bytes }
            }
            Kind::Read => Effect::Fetched { address: slot_address(slot), bytes },
            Kind::CompareSwap { .. } | Kind::FetchAdd => {
                let original = target.word_value;
                target.word_value = match kind {
                    Kind::CompareSwap { hit: true } => wr_id,
                    Kind::CompareSwap { hit: false } => original,
                    _ => original.wrapping_add(wr_id),
                };
                let bytes = original.to_ne_bytes().to_vec();
                Effect::Fetched { address: slot_address(slot), bytes }
            }
            Kind::Send | Kind::SendToGroup | Kind::SendWithImmediate => Effect::Unknown,
        };
        target.window_in_use |= window.is_some();
        let slots = vec![(side, slot), (side.other(), far)];
        let through_window = window.is_some();
        pair.end(side).ledger.sends.push_back(Send { wr_id, signaled, effect, slots, through_window });
    }

    /// All datagram queue pairs of the other side may have joined the group when the message arrives.
    fn expect_from_group(&mut self, side: Side, bytes: &[u8]) {
        let message = Message { bytes: bytes.to_vec(), immediate: Immediate::None, is_write: false };
        for pair in self.pairs.iter_mut().filter(|pair| pair.transport == Transport::Ud) {
            pair.end(side.other()).expected.push_back(message.clone());
        }
    }

    /// Joins the multicast group, or leaves it.
    pub fn join(&mut self, end: End, leave: bool) {
        let Some(at) = self.pair(end.pair) else { return };
        let endpoint = &mut self.pairs[at].ends[end.side.index()];
        if !endpoint.is_alive {
            return;
        }
        let group = self.addresses.group();
        let nic = &mut self.peers[end.side.index()].nic;
        if leave {
            let left = nic.detach_mcast(endpoint.qpn, group);
            assert_eq!(left.is_ok(), endpoint.is_member, "{left:?}");
            endpoint.is_member = false;
        } else {
            endpoint.is_member |= nic.attach_mcast(endpoint.qpn, group).is_ok();
        }
    }

    /// Checks what a successful send of a reliable connection must have done.
    pub fn check_effect(&mut self, side: Side, effect: &Effect) {
        let (owner, address, bytes) = match effect {
            Effect::Unknown | Effect::Window { .. } => return,
            Effect::Written { address, bytes } => (side.other(), *address, bytes),
            Effect::Fetched { address, bytes } => (side, *address, bytes),
        };
        let found = self.peer(owner).nic.memory().at(address, bytes.len());
        assert_eq!(found, bytes, "at {address:#x}");
    }

    /// Posts receives that hold every message.
    pub fn receive(&mut self, end: End, count: u8) {
        let Some(at) = self.pair(end.pair) else { return };
        let endpoint = self.pairs[at].end(end.side);
        if !endpoint.is_alive || endpoint.is_shared {
            return;
        }
        let qpn = endpoint.qpn;
        for _ in 0..count % 8 {
            let Some(slot) = self.peer(end.side).take_slot() else { return };
            let wr_id = self.wr_id();
            let now = self.now;
            let peer = self.peer(end.side);
            let scatter = peer.elements(slot, SLOT, 1 + (wr_id % 2) as u8);
            let state = peer.nic.query_qp(qpn).expect("it lives").state;
            match peer.nic.post_recv(now, qpn, &RecvRequest { wr_id, scatter: &scatter }) {
                Ok(()) => {
                    assert_ne!(state, QpState::Reset);
                    let receive = Receive { wr_id, slot: Some(slot) };
                    self.pairs[at].end(end.side).ledger.receives.push_back(receive);
                }
                Err(error) => {
                    peer.give_slot(slot);
                    assert!(error == PostError::QueueFull || state == QpState::Reset, "{error:?}");
                    return;
                }
            }
        }
    }

    /// Posts receives on the shared queue that hold every message.
    pub fn receive_shared(&mut self, side: Side, count: u8) {
        for _ in 0..count % 8 {
            let Some(slot) = self.peer(side).take_slot() else { return };
            let wr_id = self.wr_id();
            let peer = self.peer(side);
            let scatter = peer.elements(slot, SLOT, 2);
            match peer.nic.post_srq_recv(peer.srq, &RecvRequest { wr_id, scatter: &scatter }) {
                Ok(()) => {
                    peer.shared.insert(wr_id, Receive { wr_id, slot: Some(slot) });
                }
                Err(error) => {
                    assert_eq!(error, PostError::QueueFull);
                    peer.give_slot(slot);
                    return;
                }
            }
        }
    }
}

/// A request about to be posted.
struct Prepared {
    at: usize,
    side: Side,
    kind: Kind,
    length: usize,
    /// Here.
    slot: usize,
    /// At the peer.
    far: usize,
    /// The peer's window, if it goes through that: its key and slot.
    window: Option<(u32, usize)>,
}

impl Prepared {
    /// Where it goes at the peer, or comes from.
    fn far_address(&self) -> u64 {
        slot_address(self.window.map_or(self.far, |(_, slot)| slot))
    }
}

/// What the transport does instead of what it does not do.
fn possible(transport: Transport, kind: Kind) -> Kind {
    match (transport, kind) {
        (Transport::Rc, _) => kind,
        (Transport::Uc, Kind::Read | Kind::CompareSwap { .. } | Kind::FetchAdd) => Kind::Send,
        (Transport::Uc, _) => kind,
        (Transport::Ud, Kind::SendToGroup) => kind,
        (Transport::Ud, Kind::SendWithImmediate | Kind::WriteWithImmediate) => Kind::SendWithImmediate,
        (Transport::Ud, _) => Kind::Send,
    }
}

/// Bytes that no other request has.
pub fn pattern(wr_id: u64, length: usize) -> Vec<u8> {
    let mut word = wr_id.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut next = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        (word >> 32) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The way from RESET to RTS.
fn changes(side: Side, path: AddressVector, connect: &Connect, mtu: Mtu, peer: Qpn) -> [QpChange; 3] {
    let access = Access {
        local_write: true,
        remote_write: true,
        remote_read: true,
        remote_atomic: true,
        ..Access::default()
    };
    let is_ud = connect.transport == Transport::Ud;
    let is_rc = connect.transport == Transport::Rc;
    // Both directions, and both ends of a wrap.
    let first_psn = |side: Side| Psn::new(connect.first_psn.rotate_left(12 * side.index() as u32));
    let init = QpChange {
        state: Some(QpState::Init),
        pkey_index: Some(0),
        port: Some(1),
        qkey: is_ud.then_some(QKEY),
        access: (!is_ud).then_some(access),
        ..QpChange::default()
    };
    let rtr = QpChange {
        state: Some(QpState::Rtr),
        path: (!is_ud).then_some(path),
        path_mtu: (!is_ud).then_some(mtu),
        dest_qp: (!is_ud).then_some(peer),
        rq_psn: (!is_ud).then(|| first_psn(side.other())),
        max_dest_rd_atomic: is_rc.then_some(connect.rd_atomic % 4 + 1),
        min_rnr_timer: is_rc.then_some(RNR_TIMER),
        ..QpChange::default()
    };
    let rts = QpChange {
        state: Some(QpState::Rts),
        sq_psn: Some(first_psn(side)),
        timeout: is_rc.then_some(TIMEOUT),
        retry_count: is_rc.then_some(7),
        rnr_retry: is_rc.then_some(if connect.finite_rnr_retry { 3 } else { 7 }),
        max_rd_atomic: is_rc.then_some(connect.rd_atomic % 4 + 1),
        ..QpChange::default()
    };
    [init, rtr, rts]
}
