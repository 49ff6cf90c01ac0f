//! What time does to connections.

use wire::cm::{CmMessage, PrivateData, Rej, RejReason, RejectedMessage};

use super::state::Input;
use super::stateless::with_info;
use super::{Cm, CmEvent, CmId, State};
use crate::time::Instant;

impl Cm {
    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(id) = self.connections.pop_due(now) {
            match self.state(id) {
                Some(State::Timewait) => self.end_lingering(now, id),
                Some(_) => self.retry(now, id),
                None => {}
            }
        }
    }

    fn end_lingering(&mut self, now: Instant, id: CmId) {
        if self.connections.get(id).is_some_and(|connection| connection.was_established) {
            self.report(CmEvent::TimewaitExit { id });
        }
        self.advance(now, id, Input::Expired);
    }

    fn retry(&mut self, now: Instant, id: CmId) {
        let Some(connection) = self.connections.get_mut(id) else { return };
        if !connection.backoff.retry() {
            return self.give_up(now, id);
        }
        let deadline = connection.backoff.deadline(now, self.random.next() as u16);
        self.connections.set_deadline(id, Some(deadline));
        self.counters.retransmitted += 1;
        self.send_again(id);
    }

    fn give_up(&mut self, now: Instant, id: CmId) {
        let Some(state) = self.state(id) else { return };
        self.counters.timeouts += 1;
        if matches!(state, State::ReqSent | State::MraReqRcvd | State::RepSent | State::MraRepRcvd) {
            self.send_timeout(id);
        }
        self.report(match state {
            State::DreqSent => CmEvent::Disconnected { id },
            _ => CmEvent::Unreachable { id },
        });
        self.advance(now, id, Input::Expired);
    }

    /// Tells the peer, should it be there after all, that we do not wait any more. It may only know its
    /// own number, so our adapter is named too (IBTA 12.6.7).
    pub(super) fn send_timeout(&mut self, id: CmId) {
        let Some(connection) = self.connections.get(id) else { return };
        let rej = Rej {
            local_id: id.0,
            remote_id: connection.remote_id,
            message: RejectedMessage::Other,
            reason: RejReason::TIMEOUT,
            private_data: PrivateData::EMPTY,
            ..Rej::default()
        };
        let rej = with_info(rej, &self.config.ca_guid.to_be_bytes());
        self.send(id, &self.in_exchange(id, CmMessage::Rej(rej)));
    }
}
