//! What a fence is for: data that is read from the peer and sent on at once.

use nic::verbs::*;
use wire::Qpn;

use super::ledger::{Effect, Send};
use super::operation::{End, Side, Transport};
use super::peer::slot_address;
use super::traffic::pattern;
use super::world::World;

impl World {
    /// Reads from the peer and writes what was read to another place there, without waiting between.
    pub fn relay(&mut self, end: End) {
        let (side, far) = (end.side, end.side.other());
        let Some(at) = self.pair(end.pair) else { return };
        let pair = &self.pairs[at];
        if pair.transport != Transport::Rc || !pair.is_honest || self.state(at, side) != Some(QpState::Rts) {
            return;
        }
        let (Some(middle), Some(from), Some(to)) =
            (self.peer(side).take_slot(), self.peer(far).take_slot(), self.peer(far).take_slot())
        else {
            return;
        };
        let (read, write) = (self.wr_id(), self.wr_id());
        let bytes = pattern(read, 600);
        self.peer(far).nic.memory().set(slot_address(from), &bytes);
        let rkey = self.peer(far).arena.rkey;
        let remote = |slot| Remote { address: slot_address(slot), rkey };
        let sges = self.peer(side).elements(middle, bytes.len(), 1);
        let qpn = self.pairs[at].end(side).qpn;

        let operation = SendOperation::Read(remote(from));
        let fetched = Effect::Fetched { address: slot_address(middle), bytes: bytes.clone() };
        if self.try_post(side, qpn, read, operation, &sges) {
            let slots = vec![(far, from)];
            self.note(at, side, Send { slots, ..Send::new(read, fetched) });
        }
        let operation = SendOperation::Write(remote(to));
        let written = Effect::Written { address: slot_address(to), bytes };
        if self.pairs[at].end(side).ledger.sends.back().is_some_and(|last| last.wr_id == read)
            && self.try_post(side, qpn, write, operation, &sges)
        {
            let slots = vec![(side, middle), (far, to)];
            self.note(at, side, Send { slots, ..Send::new(write, written) });
        }
    }

    fn try_post(&mut self, side: Side, qpn: Qpn, wr_id: u64, operation: SendOperation, sges: &[Sge]) -> bool {
        let request = SendRequest {
            wr_id,
            operation,
            data: SendData::Gather(sges),
            flags: SendFlags { signaled: true, fence: true, ..SendFlags::default() },
            destination: None,
        };
        let now = self.now;
        let result = self.peer(side).nic.post_send(now, qpn, &request);
        assert!(matches!(result, Ok(()) | Err(PostError::QueueFull)), "{result:?}");
        result.is_ok()
    }

    fn note(&mut self, at: usize, side: Side, send: Send) {
        self.pairs[at].end(side).ledger.sends.push_back(send);
    }
}
