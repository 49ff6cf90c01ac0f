//! The side that is asked: REQ and RTU.

use alloc::boxed::Box;
use alloc::vec::Vec;

use wire::Qpn;
use wire::cm::{
    CmMad, CmMessage, IpCmHeader, Mra, RejReason, RejectedMessage, Req, Rtu, ServiceId, TransportService,
};

use super::connections::{Connection, RequestKey};
use super::receive::Origin;
use super::state::Input;
use super::{Cm, CmEvent, CmId, ConnectRequest, Ece, Endpoint, ListenerId, Path, Patience, State, stateless};
use crate::time::Instant;
use crate::verbs::Mtu;

impl Cm {
    pub(super) fn handle_req(&mut self, now: Instant, origin: Origin, mad: &CmMad, req: &Req) {
        let key = RequestKey { peer: origin.peer, number: req.local_id, datagram: false };
        if let Some(id) = self.connections.by_request(key) {
            if self.is_repetition(id, mad, req) {
                return self.on_repeated_request(id);
            }
            // Another request of the same name: the peer started anew.
            self.supersede(now, id);
            self.connections.forget_request(key);
        }
        let addresses = addresses(req.service, &*req.private_data);
        let Some(listener) = self.listeners.find(req.service, false, addresses) else {
            self.counters.no_listener += 1;
            let refusal = stateless::refusal(mad, req, RejReason::INVALID_SERVICE_ID, &[]);
            return self.transmit(origin.path(), refusal.emit());
        };
        if let Some((reason, info)) = self.objection(req, addresses) {
            self.counters.unacceptable += 1;
            return self.transmit(origin.path(), stateless::refusal(mad, req, reason, &info).emit());
        }
        let Some(id) = self.admit(listener, request_of(origin, mad, req)) else { return };
        self.connections.index_request(key, id);
        if let Some(other) = self.connections.bind_remote_qpn(id) {
            self.supersede(now, other);
        }
        self.report_request(id, listener, req, addresses);
    }

    pub(super) fn handle_rtu(&mut self, now: Instant, origin: Origin, rtu: &Rtu) {
        let Some(id) = self.find(origin, rtu.remote_id, rtu.local_id) else {
            self.counters.unmatched += 1;
            return;
        };
        if self.advance(now, id, Input::Rtu) {
            return self.report(CmEvent::Established { id, private_data: rtu.private_data.to_vec() });
        }
        self.counters.duplicates += 1;
        if self.state(id) == Some(State::Timewait) {
            self.send_again(id);
        }
    }

    /// Adds what a listener is asked, if there is room for it.
    pub(super) fn admit(&mut self, listener: ListenerId, connection: Connection) -> Option<CmId> {
        // To answer would not spare us anything, and the peer asks again.
        if !self.listeners.admit(listener) {
            self.counters.backlog_full += 1;
            return None;
        }
        let receive_psn = self.fresh_psn();
        let connection = Connection { backlog_of: Some(listener), receive_psn, ..connection };
        let id = self.connections.insert(connection);
        if id.is_none() {
            self.listeners.answered(listener);
            self.counters.no_room += 1;
        }
        id
    }

    /// The peer has forgotten a connection.
    pub(super) fn supersede(&mut self, now: Instant, id: CmId) {
        let Some(state) = self.state(id) else { return };
        if !self.advance(now, id, Input::Superseded) {
            return;
        }
        self.counters.superseded += 1;
        self.report(match state {
            State::Established | State::DreqSent => CmEvent::Disconnected { id },
            _ => CmEvent::Rejected {
                id,
                reason: RejReason::STALE_CONNECTION,
                message: RejectedMessage::Other,
                info: Vec::new(),
                private_data: Vec::new(),
            },
        });
    }

    /// Whether a request is the one that made this connection.
    fn is_repetition(&self, id: CmId, mad: &CmMad, req: &Req) -> bool {
        self.connections.get(id).is_some_and(|connection| {
            connection.transaction_id == mad.transaction_id
                && connection.remote.qpn == req.qpn
                && connection.send_psn == req.starting_psn
        })
    }

    /// Our answer was lost, or there is none yet.
    fn on_repeated_request(&mut self, id: CmId) {
        self.counters.duplicates += 1;
        match self.state(id) {
            Some(State::ReqRcvd) => self.ask_for_patience(id, RejectedMessage::Req),
            Some(State::RepSent | State::MraRepRcvd | State::Timewait) => {
                self.send_again(id);
            }
            _ => {}
        }
    }

    /// Sends an MRA: our program has the message, and will take its time.
    pub(super) fn ask_for_patience(&mut self, id: CmId, message: RejectedMessage) {
        let Some(connection) = self.connections.get(id) else { return };
        let mra = Mra {
            local_id: id.0,
            remote_id: connection.remote_id,
            message,
            service_timeout: self.config.service_timeout,
            ..Mra::default()
        };
        self.send(id, &self.in_exchange(id, CmMessage::Mra(mra)));
    }

    /// What is wrong with a request that somebody listens for, and what would be acceptable.
    fn objection(&self, req: &Req, addresses: Option<IpCmHeader>) -> Option<(RejReason, Vec<u8>)> {
        let is_known =
            matches!(req.transport, TransportService::Rc | TransportService::Uc | TransportService::Xrc);
        if !is_known {
            return Some((RejReason::INVALID_TRANSPORT, Vec::new()));
        }
        // There is one partition, and a port cannot do without addresses.
        let is_partition = req.pkey & 0x7FFF == 0x7FFF;
        if !is_partition || (req.service.port().is_some() && addresses.is_none()) {
            return Some((RejReason::UNSUPPORTED, Vec::new()));
        }
        let mtu = mtu_of_code(req.path_mtu);
        if mtu.is_none_or(|mtu| mtu > self.config.mtu) {
            return Some((RejReason::INVALID_MTU, alloc::vec![mtu_code(self.config.mtu)]));
        }
        None
    }

    fn report_request(&mut self, id: CmId, listener: ListenerId, req: &Req, addresses: Option<IpCmHeader>) {
        let Some(connection) = self.connections.get(id) else { return };
        let request = ConnectRequest {
            id,
            listener,
            path: connection.path,
            service: req.service,
            addresses,
            transport: req.transport,
            remote: connection.remote,
            send_psn: connection.send_psn,
            remote_ca_guid: req.ca_guid,
            ack_timeout: connection.ack_timeout,
            retry_count: connection.retry_count,
            patience: connection.patience,
            private_data: after_addresses(addresses, &*req.private_data),
        };
        self.report(CmEvent::Request(Box::new(request)));
    }
}

/// The connection that a request asks for.
fn request_of(origin: Origin, mad: &CmMad, req: &Req) -> Connection {
    let primary = &req.primary;
    // The addresses are those of the datagram: what a request says of its sender proves nothing.
    let path = Path {
        traffic_class: primary.traffic_class,
        hop_limit: primary.hop_limit,
        flow_label: primary.flow_label,
        service_level: primary.service_level,
        pkey: req.pkey,
        mtu: mtu_of_code(req.path_mtu).unwrap_or_default(),
        packet_life_time: primary.local_ack_timeout.saturating_sub(1),
        ..origin.path()
    };
    let patience = Patience {
        remote_response_timeout: req.local_response_timeout,
        local_response_timeout: req.remote_response_timeout,
        max_retries: req.max_cm_retries,
    };
    Connection {
        transaction_id: mad.transaction_id,
        remote_id: req.local_id,
        service: req.service,
        transport: req.transport,
        remote: Endpoint {
            qpn: req.qpn,
            responder_resources: req.responder_resources,
            initiator_depth: req.initiator_depth,
            flow_control: req.flow_control,
            rnr_retry_count: req.rnr_retry_count,
            srq: req.srq,
            qkey: req.qkey,
            ece: Ece { vendor_id: req.vendor_id, options: mad.attribute_modifier },
        },
        // The most that the peer's limits allow, until our program says how much it wants.
        local: Endpoint {
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            ..Endpoint::default()
        },
        send_psn: req.starting_psn,
        ack_timeout: primary.local_ack_timeout,
        retry_count: req.retry_count,
        ..Connection::new(State::ReqRcvd, path, patience)
    }
}

/// The addresses at the start of a request's private data.
pub(super) fn addresses(service: ServiceId, private_data: &[u8]) -> Option<IpCmHeader> {
    service.port().and_then(|_| IpCmHeader::parse(private_data))
}

/// The private data behind the addresses, if there are any.
pub(super) fn after_addresses(addresses: Option<IpCmHeader>, private_data: &[u8]) -> Vec<u8> {
    private_data[addresses.map_or(0, |_| IpCmHeader::LEN)..].to_vec()
}

/// A path MTU by its code (IBTA 12.7).
pub(super) const fn mtu_of_code(code: u8) -> Option<Mtu> {
    Some(match code {
        1 => Mtu::Mtu256,
        2 => Mtu::Mtu512,
        3 => Mtu::Mtu1024,
        4 => Mtu::Mtu2048,
        5 => Mtu::Mtu4096,
        _ => return None,
    })
}

/// The code of a path MTU.
pub(super) const fn mtu_code(mtu: Mtu) -> u8 {
    match mtu {
        Mtu::Mtu256 => 1,
        Mtu::Mtu512 => 2,
        Mtu::Mtu1024 => 3,
        Mtu::Mtu2048 => 4,
        Mtu::Mtu4096 => 5,
    }
}

/// The queue pair that a REP names, and back: of an XRC connection it stands elsewhere.
pub(super) const fn rep_qpns(transport: TransportService, qpn: Qpn) -> (Qpn, Qpn) {
    match transport {
        TransportService::Xrc => (Qpn::new(0), qpn),
        _ => (qpn, Qpn::new(0)),
    }
}
