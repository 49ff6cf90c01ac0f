//! What to modify queue pairs to: the content of `rdma_init_qp_attr`.

use wire::Psn;
use wire::cm::TransportService;

use super::connections::Connection;
use super::{Cm, CmError, CmId, State};
use crate::port::PORT;
use crate::verbs::{Access, QpChange, QpState};

/// The partition key's index: there is one.
const PKEY_INDEX: u16 = 0;

/// To INIT before anything is known of the peer: it has no rights yet.
pub fn connection_init() -> QpChange {
    QpChange {
        state: Some(QpState::Init),
        pkey_index: Some(PKEY_INDEX),
        port: Some(PORT),
        access: Some(Access::default()),
        ..QpChange::default()
    }
}

/// To INIT, RTR or RTS, of a datagram queue pair.
pub fn datagram_change(state: QpState, qkey: u32) -> Result<QpChange, CmError> {
    let change = QpChange { state: Some(state), ..QpChange::default() };
    match state {
        QpState::Init => {
            Ok(QpChange { pkey_index: Some(PKEY_INDEX), port: Some(PORT), qkey: Some(qkey), ..change })
        }
        QpState::Rtr => Ok(change),
        QpState::Rts => Ok(QpChange { sq_psn: Some(Psn::ZERO), ..change }),
        _ => Err(CmError::InvalidValue("state")),
    }
}

impl Cm {
    /// To INIT, RTR or RTS, of the queue pair of a connection. Before RTR the other side must be known:
    /// from its request, or from its reply. Before it is accepted, a request yields the most READs and atomics
    /// that the peer's limits allow; the program may lower them.
    pub fn qp_change(&self, id: CmId, state: QpState) -> Result<QpChange, CmError> {
        let connection = self.connections.get(id).ok_or(CmError::UnknownId)?;
        match state {
            QpState::Init => Ok(init(connection)),
            _ if !knows_peer(connection.state) => Err(CmError::WrongState(connection.state)),
            QpState::Rtr => Ok(self.ready_to_receive(connection)),
            QpState::Rts => Ok(ready_to_send(connection)),
            _ => Err(CmError::InvalidValue("state")),
        }
    }

    fn ready_to_receive(&self, connection: &Connection) -> QpChange {
        let (local, remote) = (&connection.local, &connection.remote);
        let change = QpChange {
            state: Some(QpState::Rtr),
            path: Some(connection.path.address_vector()),
            path_mtu: Some(connection.path.mtu),
            dest_qp: Some(remote.qpn),
            rq_psn: Some(connection.receive_psn),
            ..QpChange::default()
        };
        if !is_reliable(connection) {
            return change;
        }
        QpChange {
            max_dest_rd_atomic: Some(local.responder_resources.min(remote.initiator_depth)),
            min_rnr_timer: Some(self.config.min_rnr_timer),
            ..change
        }
    }
}

/// The peer may write, and do the rest if it may have anything outstanding.
fn init(connection: &Connection) -> QpChange {
    let may_read = connection.local.responder_resources > 0;
    let access =
        Access { remote_write: true, remote_read: may_read, remote_atomic: may_read, ..Access::default() };
    QpChange { access: Some(access), ..connection_init() }
}

fn ready_to_send(connection: &Connection) -> QpChange {
    let (local, remote) = (&connection.local, &connection.remote);
    let change =
        QpChange { state: Some(QpState::Rts), sq_psn: Some(connection.send_psn), ..QpChange::default() };
    if !is_reliable(connection) {
        return change;
    }
    QpChange {
        timeout: Some(connection.ack_timeout),
        retry_count: Some(connection.retry_count),
        rnr_retry: Some(remote.rnr_retry_count),
        max_rd_atomic: Some(local.initiator_depth.min(remote.responder_resources)),
        ..change
    }
}

fn is_reliable(connection: &Connection) -> bool {
    connection.transport != TransportService::Uc
}

fn knows_peer(state: State) -> bool {
    matches!(state, State::RepRcvd | State::ReqRcvd | State::RepSent | State::MraRepRcvd | State::Established)
}
