//! Memory windows that pairs use, and draining: what must succeed and takes more than one request.

use nic::verbs::*;
use wire::{Immediate, Qpn};

use super::ledger::{Effect, Send, Window};
use super::memory::SLOT;
use super::operation::{End, Message as Kind, Side, Transport};
use super::pair::Message;
use super::peer::slot_address;
use super::world::World;

impl World {
    /// The key and slot of the peer's window, if a request of this kind can go through it.
    pub fn usable_window(&mut self, at: usize, side: Side, kind: Kind) -> Option<(u32, usize)> {
        let pair = &mut self.pairs[at];
        let is_possible = matches!(kind, Kind::Write | Kind::WriteWithImmediate | Kind::Read);
        let target = pair.end(side.other());
        match target.window {
            Window::Bound { key, slot } if is_possible && !target.window_in_use => Some((key, slot)),
            _ => None,
        }
    }

    /// Binds the window of a queue pair to a slot, with the next key.
    pub fn bind(&mut self, end: End) {
        let Some(at) = self.quiet_pair(end) else { return };
        if self.pairs[at].end(end.side).window != Window::Unbound {
            return;
        }
        let Some(slot) = self.peer(end.side).take_slot() else { return };
        let lkey = self.peer(end.side).arena.lkey;
        let endpoint = self.pairs[at].end(end.side);
        let key = endpoint.mw_key & !0xFF | endpoint.mw_key.wrapping_add(1) & 0xFF;
        let access = Access { remote_write: true, remote_read: true, ..Access::default() };
        let binding = Binding { lkey, address: slot_address(slot), length: SLOT as u64, access };
        let operation = SendOperation::BindWindow { window: endpoint.mw, rkey: key, binding };
        let to = Window::Bound { key, slot };
        if self.post_change(at, end.side, end.side, operation, to, Vec::new()) {
            self.pairs[at].end(end.side).mw_key = key;
        } else {
            self.peer(end.side).give_slot(slot);
        }
    }

    /// Takes the window's rights back, ourselves or by a message of the peer.
    pub fn invalidate(&mut self, end: End, by_peer: bool) {
        let Some(at) = self.quiet_pair(end) else { return };
        let endpoint = self.pairs[at].end(end.side);
        let Window::Bound { key, slot } = endpoint.window else { return };
        let slots = vec![(end.side, slot)];
        if !by_peer {
            let operation = SendOperation::LocalInvalidate(key);
            self.post_change(at, end.side, end.side, operation, Window::Unbound, slots);
            return;
        }
        let operation = SendOperation::SendWithInvalidate(key);
        if self.post_change(at, end.side.other(), end.side, operation, Window::Unbound, slots) {
            let immediate = Immediate::Invalidate(key);
            let message = Message { bytes: Vec::new(), immediate, is_write: false };
            self.pairs[at].end(end.side).expected.push_back(message);
        }
    }

    /// A reliable pair of which neither side has anything outstanding.
    fn quiet_pair(&mut self, end: End) -> Option<usize> {
        let at = self.pair(end.pair)?;
        let both_work = Side::BOTH.into_iter().all(|side| self.state(at, side) == Some(QpState::Rts));
        let pair = &self.pairs[at];
        let is_quiet = pair.ends.iter().all(|end| end.ledger.sends.is_empty() && end.expected.is_empty());
        let is_good = pair.transport == Transport::Rc && pair.is_honest;
        (both_work && is_quiet && is_good).then_some(at)
    }

    /// Posts on `side` what changes the window of the queue pair on side `of`. True if it was taken.
    fn post_change(
        &mut self,
        at: usize,
        side: Side,
        of: Side,
        operation: SendOperation,
        to: Window,
        slots: Vec<(Side, usize)>,
    ) -> bool {
        let (wr_id, now) = (self.wr_id(), self.now);
        let request = SendRequest {
            wr_id,
            operation,
            data: SendData::Gather(&[]),
            flags: SendFlags { signaled: true, ..SendFlags::default() },
            destination: None,
        };
        let qpn = self.pairs[at].end(side).qpn;
        if let Err(error) = self.peer(side).nic.post_send(now, qpn, &request) {
            assert_eq!(error, PostError::QueueFull);
            return false;
        }
        let pair = &mut self.pairs[at];
        pair.end(of).window = Window::Changing;
        let send = Send { slots, ..Send::new(wr_id, Effect::Window { of, to }) };
        pair.end(side).ledger.sends.push_back(send);
        true
    }

    /// Lets a send queue drain.
    pub fn drain(&mut self, end: End, notify: bool) {
        let Some(at) = self.pair(end.pair) else { return };
        if self.state(at, end.side) != Some(QpState::Rts) {
            return;
        }
        let now = self.now;
        let endpoint = &mut self.pairs[at].ends[end.side.index()];
        endpoint.owes_drain_event = notify;
        let change = QpChange { state: Some(QpState::Sqd), sqd_notify: Some(notify), ..QpChange::default() };
        assert_eq!(self.peers[end.side.index()].nic.modify_qp(now, endpoint.qpn, &change), Ok(()));
    }

    /// Sends again, unless the queue still drains.
    pub fn resume(&mut self, end: End) {
        let Some(at) = self.pair(end.pair) else { return };
        if self.state(at, end.side) != Some(QpState::Sqd) {
            return;
        }
        let now = self.now;
        let endpoint = &mut self.pairs[at].ends[end.side.index()];
        let nic = &mut self.peers[end.side.index()].nic;
        let is_draining = nic.query_qp(endpoint.qpn).is_some_and(|attributes| attributes.sq_draining);
        let change = QpChange { state: Some(QpState::Rts), ..QpChange::default() };
        let expected = if is_draining { Err(ModifyQpError::StillDraining) } else { Ok(()) };
        assert_eq!(nic.modify_qp(now, endpoint.qpn, &change), expected);
        assert!(is_draining || !endpoint.owes_drain_event, "it is drained and did not tell");
    }

    pub fn on_drained(&mut self, side: Side, qpn: Qpn) {
        let at = self.pair_of(side, qpn);
        let endpoint = &mut self.pairs[at].ends[side.index()];
        let told = std::mem::take(&mut endpoint.owes_drain_event);
        assert!(told || !self.pairs[at].is_honest, "nobody asked for an event");
    }

    /// In the end no send queue drains any more, and all send again.
    pub fn finish_draining(&mut self) {
        for (at, side) in (0..self.pairs.len()).flat_map(|at| Side::BOTH.map(|side| (at, side))) {
            let qpn = self.pairs[at].end(side).qpn;
            let Some(attributes) = self.peer(side).nic.query_qp(qpn) else { continue };
            let must_be_drained = self.must_progress(at, side, QpState::Sqd);
            assert!(!must_be_drained || !attributes.sq_draining, "{attributes:?}");
            if self.pairs[at].is_honest {
                self.resume(End { pair: at as u8, side });
            }
        }
    }
}
