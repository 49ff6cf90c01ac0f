//! What the program asks for.

use alloc::vec::Vec;

use wire::Psn;
use wire::Qpn;
use wire::cm::{
    CmMad, CmMessage, CmPath, Dreq, IpCmHeader, PrivateData, Rej, RejReason, RejectedMessage, Rep, Req, Rtu,
    SidrRep, SidrReq, SidrStatus,
};

use super::active::ack_timeout;
use super::connections::Connection;
use super::passive::{mtu_code, rep_qpns};
use super::state::Input;
use super::stateless::with_info;
use super::{Cm, CmError, CmEvent, CmId, Listen, ListenerId, RepParams, ReqParams, SidrParams, State};
use crate::time::Instant;

/// The permissive LID, which RoCE puts where InfiniBand has LIDs (annex A16).
const PERMISSIVE_LID: u16 = 0xFFFF;

impl Cm {
    /// Takes requests for a service, at most `backlog` of them unanswered; 0 is the most there is room
    /// for.
    pub fn listen(&mut self, listen: Listen, backlog: u32) -> Result<ListenerId, CmError> {
        self.listeners.insert(listen, backlog)
    }

    /// Takes no more. Requests that the program has heard of stay; others are refused.
    pub fn unlisten(&mut self, now: Instant, listener: ListenerId) -> Result<(), CmError> {
        self.listeners.remove(listener)?;
        let of_listener = |event: &CmEvent| match event {
            CmEvent::Request(request) => request.listener == listener,
            CmEvent::SidrRequest(request) => request.listener == listener,
            _ => false,
        };
        let unheard: Vec<CmId> =
            self.events.iter().filter(|event| of_listener(event)).map(CmEvent::id).collect();
        unheard.into_iter().try_for_each(|id| self.destroy(now, id).or(Ok(())))
    }

    /// Asks for a connection.
    pub fn connect(&mut self, now: Instant, params: &ReqParams<'_>) -> Result<CmId, CmError> {
        check_connect(params)?;
        let private_data = with_addresses(params.addresses, params.private_data)?;
        let connection = Connection {
            transport: params.transport,
            local: params.local,
            retry_count: params.retry_count,
            receive_psn: self.fresh_psn(),
            ..Connection::new(State::ReqSent, params.path, params.patience)
        };
        let receive_psn = connection.receive_psn;
        let id = self.add(connection)?;
        let req = Req { starting_psn: receive_psn, private_data, ..self.request(id, params) };
        let mut mad = self.in_exchange(id, CmMessage::Req(req));
        mad.attribute_modifier = params.local.ece.options;
        self.send_reliably(now, id, &mad);
        Ok(id)
    }

    /// Accepts a request for a connection. The queue pair should be ready to receive.
    pub fn accept(&mut self, now: Instant, id: CmId, params: &RepParams<'_>) -> Result<(), CmError> {
        let private_data = private_data(params.private_data)?;
        self.expect(id, &[State::ReqRcvd])?;
        let Some(connection) = self.connections.get_mut(id) else { return Err(CmError::UnknownId) };
        connection.local = params.local;
        let local = params.local;
        let (qpn, ee_context) = rep_qpns(connection.transport, local.qpn);
        let rep = Rep {
            local_id: id.0,
            remote_id: connection.remote_id,
            qkey: local.qkey,
            qpn,
            vendor_id: local.ece.vendor_id,
            ee_context,
            starting_psn: connection.receive_psn,
            responder_resources: local.responder_resources,
            initiator_depth: local.initiator_depth,
            target_ack_delay: self.config.target_ack_delay,
            failover: 0,
            flow_control: local.flow_control,
            rnr_retry_count: local.rnr_retry_count,
            srq: local.srq,
            ca_guid: self.config.ca_guid,
            private_data,
        };
        let mut mad = self.in_exchange(id, CmMessage::Rep(rep));
        mad.attribute_modifier = local.ece.options;
        self.settle(id);
        self.advance(now, id, Input::Accept);
        self.connections.bind_local_qpn(id);
        self.send_reliably(now, id, &mad);
        Ok(())
    }

    /// Concludes: the queue pair is ready to send.
    pub fn establish(&mut self, now: Instant, id: CmId, data: &[u8]) -> Result<(), CmError> {
        let private_data = private_data(data)?;
        let remote_id = self.expect(id, &[State::RepRcvd])?;
        self.advance(now, id, Input::Establish);
        let rtu = Rtu { local_id: id.0, remote_id, private_data };
        self.send_remembered(id, &self.in_exchange(id, CmMessage::Rtu(rtu)));
        Ok(())
    }

    /// Refuses a request, or a reply; `info` says more about the reason.
    pub fn reject(
        &mut self,
        now: Instant,
        id: CmId,
        reason: RejReason,
        info: &[u8],
        data: &[u8],
    ) -> Result<(), CmError> {
        let private_data = private_data(data)?;
        if info.len() > Rej::INFO_LEN {
            return Err(CmError::InvalidValue("info"));
        }
        let refusable = [State::ReqRcvd, State::RepRcvd, State::RepSent, State::MraRepRcvd];
        let remote_id = self.expect(id, &refusable)?;
        let message = match self.state(id) {
            Some(State::ReqRcvd) => RejectedMessage::Req,
            Some(State::RepRcvd) => RejectedMessage::Rep,
            _ => RejectedMessage::Other,
        };
        self.settle(id);
        self.advance(now, id, Input::Reject);
        let rej = Rej { local_id: id.0, remote_id, message, reason, private_data, ..Rej::default() };
        self.send_remembered(id, &self.in_exchange(id, CmMessage::Rej(with_info(rej, info))));
        Ok(())
    }

    /// Ends a connection.
    pub fn disconnect(&mut self, now: Instant, id: CmId, data: &[u8]) -> Result<(), CmError> {
        let private_data = private_data(data)?;
        let remote_id = self.expect(id, &[State::Established])?;
        let Some(connection) = self.connections.get(id) else { return Err(CmError::UnknownId) };
        let remote_qpn = connection.remote.qpn;
        let dreq = Dreq { local_id: id.0, remote_id, remote_qpn, private_data };
        let transaction_id = self.transaction_id(id);
        self.advance(now, id, Input::Disconnect);
        let mad = CmMad { transaction_id, attribute_modifier: 0, message: CmMessage::Dreq(dreq) };
        self.send_reliably(now, id, &mad);
        Ok(())
    }

    /// A packet arrived on the queue pair of a connection whose RTU is awaited, so the peer is ready.
    /// Nothing happens if it is not awaited.
    pub fn notify_established(&mut self, now: Instant, id: CmId) {
        if self.advance(now, id, Input::Traffic) {
            self.report(CmEvent::Established { id, private_data: Vec::new() });
        }
    }

    /// The same, for who knows the queue pair only.
    pub fn notify_traffic(&mut self, now: Instant, qpn: Qpn) {
        if let Some(id) = self.connections.by_local_qpn(qpn) {
            self.notify_established(now, id);
        }
    }

    /// Asks for the queue pair of a datagram service.
    pub fn resolve(&mut self, now: Instant, params: &SidrParams<'_>) -> Result<CmId, CmError> {
        check_patience(params.patience.max_retries)?;
        let private_data = with_addresses(params.addresses, params.private_data)?;
        let id = self.add(Connection::new(State::SidrReqSent, params.path, params.patience))?;
        let (pkey, service) = (params.path.pkey, params.service);
        let req = SidrReq { request_id: id.0, pkey, service, private_data };
        self.send_reliably(now, id, &self.in_exchange(id, CmMessage::SidrReq(req)));
        Ok(id)
    }

    /// Answers a question for a datagram service; queue pair and key count if the status is good.
    pub fn answer(
        &mut self,
        now: Instant,
        id: CmId,
        answer: Result<(Qpn, u32), SidrStatus>,
        data: &[u8],
    ) -> Result<(), CmError> {
        let private_data = private_data(data)?;
        let request_id = self.expect(id, &[State::SidrReqRcvd])?;
        let service = self.connections.get(id).map(|connection| connection.service).unwrap_or_default();
        let (status, (qpn, qkey), input) = match answer {
            Ok(queue_pair) => (SidrStatus::VALID, queue_pair, Input::Accept),
            Err(status) => (status, (Qpn::default(), 0), Input::Reject),
        };
        let rep = SidrRep { request_id, status, qpn, service, qkey, private_data, ..SidrRep::default() };
        self.settle(id);
        self.advance(now, id, input);
        self.send_remembered(id, &self.in_exchange(id, CmMessage::SidrRep(rep)));
        Ok(())
    }

    /// Gives a name back. What is not over is ended, and the peer is told.
    pub fn destroy(&mut self, now: Instant, id: CmId) -> Result<(), CmError> {
        let Some(connection) = self.connections.get_mut(id).filter(|connection| connection.is_owned) else {
            return Err(CmError::UnknownId);
        };
        let state = connection.state;
        connection.is_owned = false;
        self.settle(id);
        match state {
            State::ReqSent | State::MraReqRcvd => {
                self.send_timeout(id);
                self.advance(now, id, Input::Reject);
            }
            State::SidrReqSent => {
                self.advance(now, id, Input::Reject);
            }
            State::ReqRcvd | State::RepRcvd | State::RepSent | State::MraRepRcvd => {
                self.reject(now, id, RejReason::CONSUMER, &[], &[])?;
            }
            State::SidrReqRcvd => {
                self.answer(now, id, Err(SidrStatus::REJECTED), &[])?;
            }
            State::Established => self.disconnect(now, id, &[])?,
            State::DreqSent => {}
            State::Timewait => self.connections.fade(id),
            State::Closed => self.connections.remove(id),
        }
        Ok(())
    }

    /// A PSN to start with, which nobody guesses.
    pub(super) fn fresh_psn(&mut self) -> Psn {
        Psn::new(self.random.next() as u32)
    }

    // ---- helpers

    /// Adds a connection that begins an exchange.
    fn add(&mut self, connection: Connection) -> Result<CmId, CmError> {
        let id = self.connections.insert(connection).ok_or(CmError::TooMany)?;
        let transaction_id = self.transaction_id(id);
        if let Some(connection) = self.connections.get_mut(id) {
            connection.transaction_id = transaction_id;
        }
        Ok(id)
    }

    /// Checks where a connection stands; returns the peer's name for it.
    fn expect(&self, id: CmId, states: &[State]) -> Result<u32, CmError> {
        let connection = self.connections.get(id).ok_or(CmError::UnknownId)?;
        if !states.contains(&connection.state) {
            return Err(CmError::WrongState(connection.state));
        }
        Ok(connection.remote_id)
    }

    /// A request, but for what differs between requests with the same parameters.
    fn request(&self, id: CmId, params: &ReqParams<'_>) -> Req {
        let (path, local, patience) = (&params.path, &params.local, &params.patience);
        Req {
            local_id: id.0,
            vendor_id: local.ece.vendor_id,
            service: params.service,
            ca_guid: self.config.ca_guid,
            qkey: local.qkey,
            qpn: local.qpn,
            responder_resources: local.responder_resources,
            initiator_depth: local.initiator_depth,
            remote_response_timeout: patience.remote_response_timeout,
            transport: params.transport,
            flow_control: local.flow_control,
            local_response_timeout: patience.local_response_timeout,
            retry_count: params.retry_count,
            pkey: path.pkey,
            path_mtu: mtu_code(path.mtu),
            rnr_retry_count: local.rnr_retry_count,
            max_cm_retries: patience.max_retries,
            srq: local.srq,
            primary: CmPath {
                local_lid: PERMISSIVE_LID,
                remote_lid: PERMISSIVE_LID,
                local_gid: path.source,
                remote_gid: path.destination,
                flow_label: path.flow_label,
                packet_rate: 0,
                traffic_class: path.traffic_class,
                hop_limit: path.hop_limit,
                service_level: path.service_level,
                subnet_local: false,
                local_ack_timeout: ack_timeout(path.packet_life_time, self.config.target_ack_delay),
            },
            ..Req::default()
        }
    }
}

fn check_connect(params: &ReqParams<'_>) -> Result<(), CmError> {
    check_patience(params.patience.max_retries)?;
    let timeouts = [
        params.patience.remote_response_timeout,
        params.patience.local_response_timeout,
        params.path.packet_life_time,
    ];
    let ranges = [
        (timeouts.iter().all(|&exponent| exponent < 32), "timeouts"),
        (params.retry_count < 8, "retry_count"),
        (params.local.rnr_retry_count < 8, "rnr_retry_count"),
        (params.path.service_level < 16, "service_level"),
        (params.path.flow_label < 1 << 20, "flow_label"),
    ];
    match ranges.iter().find(|(is_within, _)| !is_within) {
        Some((_, name)) => Err(CmError::InvalidValue(name)),
        None => Ok(()),
    }
}

fn check_patience(max_retries: u8) -> Result<(), CmError> {
    if max_retries < 16 { Ok(()) } else { Err(CmError::InvalidValue("max_retries")) }
}

fn private_data<const N: usize>(data: &[u8]) -> Result<PrivateData<N>, CmError> {
    PrivateData::new(data).ok_or(CmError::PrivateDataTooLong { most: N })
}

/// Private data that begins with the addresses, if there are any.
fn with_addresses<const N: usize>(
    addresses: Option<IpCmHeader>,
    data: &[u8],
) -> Result<PrivateData<N>, CmError> {
    let Some(addresses) = addresses else { return private_data(data) };
    let most = N.saturating_sub(IpCmHeader::LEN);
    let mut area = [0; N];
    let Some(room) = area.get_mut(IpCmHeader::LEN..).and_then(|rest| rest.get_mut(..data.len())) else {
        return Err(CmError::PrivateDataTooLong { most });
    };
    room.copy_from_slice(data);
    addresses.emit(&mut area);
    private_data(&area)
}
