//! What ends or delays a connection: REJ, MRA, DREQ and DREP.

use alloc::vec::Vec;

use wire::cm::{CmMad, CmMessage, Drep, Dreq, Mra, Rej, RejReason, RejectedMessage};

use super::connections::RequestKey;
use super::passive::mtu_of_code;
use super::receive::Origin;
use super::state::Input;
use super::{Cm, CmEvent, CmId, State, cm_timeout, stateless};
use crate::time::Instant;
use crate::verbs::Mtu;

impl Cm {
    pub(super) fn handle_rej(&mut self, now: Instant, origin: Origin, rej: &Rej) {
        let Some(id) = self.find_rejected(origin, rej) else {
            self.counters.unmatched += 1;
            return;
        };
        let Some(state) = self.state(id) else { return };
        if rej.reason == RejReason::INVALID_MTU && self.ask_for_less(now, id, state, rej) {
            return;
        }
        if !self.advance(now, id, Input::Rej) {
            self.counters.duplicates += 1;
            return;
        }
        self.report(match state {
            State::Established | State::DreqSent => CmEvent::Disconnected { id },
            _ => CmEvent::Rejected {
                id,
                reason: rej.reason,
                message: rej.message,
                info: rej.info().to_vec(),
                private_data: rej.private_data.to_vec(),
            },
        });
    }

    pub(super) fn handle_mra(&mut self, now: Instant, origin: Origin, mra: &Mra) {
        let found = self.find_ours(origin, mra.remote_id).filter(|(_, connection)| match connection.state {
            State::ReqSent | State::MraReqRcvd => mra.message == RejectedMessage::Req,
            State::RepSent | State::MraRepRcvd => {
                mra.message == RejectedMessage::Rep && connection.remote_id == mra.local_id
            }
            _ => false,
        });
        let Some((id, connection)) = found else {
            self.counters.unmatched += 1;
            return;
        };
        let patience = cm_timeout(mra.service_timeout) + connection.round_trip();
        self.advance(now, id, Input::Mra);
        self.connections.set_deadline(id, Some(now + patience.min(self.config.longest_patience)));
    }

    pub(super) fn handle_dreq(&mut self, now: Instant, origin: Origin, mad: &CmMad, dreq: &Dreq) {
        let Some(id) = self.find(origin, dreq.remote_id, dreq.local_id) else {
            // Whoever waits for the end of a connection that is not there should not wait longer.
            self.counters.unmatched += 1;
            return self.transmit(origin.path(), stateless::confirmation(mad, dreq).emit());
        };
        let Some(connection) = self.connections.get(id) else { return };
        if connection.local.qpn != dreq.remote_qpn {
            self.counters.malformed += 1;
            return;
        }
        // Who ends a connection has had our REP: only the RTU was lost.
        if matches!(connection.state, State::RepSent | State::MraRepRcvd) {
            self.report(CmEvent::Established { id, private_data: Vec::new() });
        }
        if self.advance(now, id, Input::Dreq) {
            self.report(CmEvent::Disconnected { id });
        } else {
            self.counters.duplicates += 1;
        }
        self.transmit(origin.path(), stateless::confirmation(mad, dreq).emit());
    }

    pub(super) fn handle_drep(&mut self, now: Instant, origin: Origin, drep: &Drep) {
        match self.find(origin, drep.remote_id, drep.local_id) {
            Some(id) if self.advance(now, id, Input::Drep) => self.report(CmEvent::Disconnected { id }),
            Some(_) => self.counters.duplicates += 1,
            None => self.counters.unmatched += 1,
        }
    }

    /// What a REJ refuses. Its sender may not know our number, or not have one of its own.
    fn find_rejected(&self, origin: Origin, rej: &Rej) -> Option<CmId> {
        if rej.remote_id == 0 {
            let key = RequestKey { peer: origin.peer, number: rej.local_id, datagram: false };
            return self.connections.by_request(key).filter(|_| rej.reason == RejReason::TIMEOUT);
        }
        let (id, connection) = self.find_ours(origin, rej.remote_id)?;
        let has_names = rej.local_id != 0 && connection.remote_id != 0;
        (!has_names || rej.local_id == connection.remote_id).then_some(id)
    }

    /// The path MTU was too large for the peer: asks again with the one it named, if that is smaller.
    fn ask_for_less(&mut self, now: Instant, id: CmId, state: State, rej: &Rej) -> bool {
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let acceptable = rej.info().first().copied().and_then(mtu_of_code);
        let (Some(mtu), State::ReqSent) = (acceptable.filter(|&mtu| mtu < connection.path.mtu), state) else {
            return false;
        };
        let request = connection.last.as_ref().and_then(|bytes| CmMad::parse(&**bytes).ok());
        let Some(CmMad { message: CmMessage::Req(mut req), transaction_id, attribute_modifier }) = request
        else {
            return false;
        };
        connection.path.mtu = mtu;
        req.path_mtu = super::passive::mtu_code(mtu);
        let message = CmMessage::Req(req);
        self.send_reliably(now, id, &CmMad { transaction_id, attribute_modifier, message });
        true
    }

    /// The path MTU that a connection came to.
    pub fn path_mtu(&self, id: CmId) -> Option<Mtu> {
        self.connections.get(id).map(|connection| connection.path.mtu)
    }
}
