//! Datagram services: SIDR REQ and SIDR REP.

use alloc::boxed::Box;

use wire::cm::{CmMad, SidrRep, SidrReq};

use super::connections::{Connection, RequestKey};
use super::passive::{addresses, after_addresses};
use super::receive::Origin;
use super::state::Input;
use super::{Cm, CmEvent, Path, Patience, SidrReply, SidrRequest, State, stateless};
use crate::time::Instant;

impl Cm {
    pub(super) fn handle_sidr_req(&mut self, origin: Origin, mad: &CmMad, req: &SidrReq) {
        let key = RequestKey { peer: origin.peer, number: req.request_id, datagram: true };
        if let Some(id) = self.connections.by_request(key) {
            let known = self.connections.get(id).map(|connection| connection.transaction_id);
            if known == Some(mad.transaction_id) {
                self.counters.duplicates += 1;
                self.send_again(id);
                return;
            }
            self.connections.forget_request(key);
        }
        let addresses = addresses(req.service, &*req.private_data);
        let has_addresses = addresses.is_some() || req.service.port().is_none();
        let listener = self.listeners.find(req.service, true, addresses).filter(|_| has_addresses);
        let Some(listener) = listener else {
            self.counters.no_listener += 1;
            return self.transmit(origin.path(), stateless::no_service(mad, req).emit());
        };
        let path = Path { pkey: req.pkey, ..origin.path() };
        let connection = Connection {
            transaction_id: mad.transaction_id,
            remote_id: req.request_id,
            service: req.service,
            ..Connection::new(State::SidrReqRcvd, path, Patience::default())
        };
        let Some(id) = self.admit(listener, connection) else { return };
        self.connections.index_request(key, id);
        let private_data = after_addresses(addresses, &*req.private_data);
        let service = req.service;
        let request = SidrRequest { id, listener, path, service, addresses, private_data };
        self.report(CmEvent::SidrRequest(Box::new(request)));
    }

    pub(super) fn handle_sidr_rep(&mut self, now: Instant, origin: Origin, mad: &CmMad, rep: &SidrRep) {
        let found = self
            .find_ours(origin, rep.request_id)
            .filter(|(_, connection)| connection.transaction_id == mad.transaction_id)
            .map(|(id, _)| id);
        let Some(id) = found else {
            self.counters.unmatched += 1;
            return;
        };
        if !self.advance(now, id, Input::SidrRep) {
            self.counters.duplicates += 1;
            return;
        }
        let info_len = usize::from(rep.info_len).min(SidrRep::INFO_LEN);
        self.report(CmEvent::SidrReply(Box::new(SidrReply {
            id,
            status: rep.status,
            qpn: rep.qpn,
            qkey: rep.qkey,
            info: rep.info[..info_len].to_vec(),
            private_data: rep.private_data.to_vec(),
        })));
    }
}
