//! Attributes of queue pairs.

use std::ffi::{c_int, c_uint};

use nic::verbs::{AlternatePath, Mtu, PathMigState, QpAttributes, QpCapabilities, QpChange, QpState, QpType};
use wire::{Psn, Qpn};

use super::{Flags, access, access_flags, address_vector, ah_attr};
use crate::abi::{
    errno::Errno,
    layout::Zeroed,
    types::{
        address::ibv_ah_attr,
        constants::*,
        queue_pair::{ibv_qp_attr, ibv_qp_cap},
    },
};

/// Every attribute that `ibv_modify_qp(3)` knows, but for the rate limit, which the adapter does not have.
const KNOWN: c_int = (IBV_QP_DEST_QPN << 1) - 1;

/// The attributes that `mask` names.
pub(crate) fn qp_change(attr: &ibv_qp_attr, mask: c_int) -> Result<QpChange, Errno> {
    mask.only(KNOWN, Errno::UNSUPPORTED)?;
    let named = |flag| mask.has(flag).then_some(attr);
    let alternate = |attr: &ibv_qp_attr| AlternatePath {
        path: address_vector(&attr.alt_ah_attr),
        pkey_index: attr.alt_pkey_index,
        port: attr.alt_port_num,
        timeout: attr.alt_timeout,
    };
    Ok(QpChange {
        state: named(IBV_QP_STATE).map(|attr| qp_state(attr.qp_state)).transpose()?,
        current_state: named(IBV_QP_CUR_STATE).map(|attr| qp_state(attr.cur_qp_state)).transpose()?,
        sqd_notify: named(IBV_QP_EN_SQD_ASYNC_NOTIFY).map(|attr| attr.en_sqd_async_notify != 0),
        access: named(IBV_QP_ACCESS_FLAGS).map(|attr| access(attr.qp_access_flags)).transpose()?,
        pkey_index: named(IBV_QP_PKEY_INDEX).map(|attr| attr.pkey_index),
        port: named(IBV_QP_PORT).map(|attr| attr.port_num),
        qkey: named(IBV_QP_QKEY).map(|attr| attr.qkey),
        path: named(IBV_QP_AV).map(|attr| address_vector(&attr.ah_attr)),
        path_mtu: named(IBV_QP_PATH_MTU).map(|attr| mtu(attr.path_mtu)).transpose()?,
        timeout: named(IBV_QP_TIMEOUT).map(|attr| attr.timeout),
        retry_count: named(IBV_QP_RETRY_CNT).map(|attr| attr.retry_cnt),
        rnr_retry: named(IBV_QP_RNR_RETRY).map(|attr| attr.rnr_retry),
        rq_psn: named(IBV_QP_RQ_PSN).map(|attr| Psn::new(attr.rq_psn)),
        max_rd_atomic: named(IBV_QP_MAX_QP_RD_ATOMIC).map(|attr| attr.max_rd_atomic),
        alternate: named(IBV_QP_ALT_PATH).map(alternate),
        min_rnr_timer: named(IBV_QP_MIN_RNR_TIMER).map(|attr| attr.min_rnr_timer),
        sq_psn: named(IBV_QP_SQ_PSN).map(|attr| Psn::new(attr.sq_psn)),
        max_dest_rd_atomic: named(IBV_QP_MAX_DEST_RD_ATOMIC).map(|attr| attr.max_dest_rd_atomic),
        path_mig_state: named(IBV_QP_PATH_MIG_STATE)
            .map(|attr| mig_state(attr.path_mig_state))
            .transpose()?,
        capabilities: named(IBV_QP_CAP).map(|attr| capabilities(&attr.cap)),
        dest_qp: named(IBV_QP_DEST_QPN).map(|attr| Qpn::new(attr.dest_qp_num)),
        rate_limit: None,
    })
}

/// The attributes that a change names, and the mask that names them.
pub(crate) fn qp_change_attr(change: &QpChange) -> (ibv_qp_attr, c_int) {
    /// Takes a value if there is one, and says so in the mask.
    fn take<T: Copy>(value: Option<T>, flag: c_int, mask: &mut c_int, zero: T) -> T {
        *mask |= if value.is_some() { flag } else { 0 };
        value.unwrap_or(zero)
    }
    let mut mask = 0;
    let mask_ref = &mut mask;
    let attr = ibv_qp_attr {
        qp_state: take(change.state.map(state_code), IBV_QP_STATE, mask_ref, 0),
        path_mtu: take(change.path_mtu.map(mtu_code), IBV_QP_PATH_MTU, mask_ref, 0),
        qkey: take(change.qkey, IBV_QP_QKEY, mask_ref, 0),
        rq_psn: take(change.rq_psn.map(Psn::value), IBV_QP_RQ_PSN, mask_ref, 0),
        sq_psn: take(change.sq_psn.map(Psn::value), IBV_QP_SQ_PSN, mask_ref, 0),
        dest_qp_num: take(change.dest_qp.map(Qpn::value), IBV_QP_DEST_QPN, mask_ref, 0),
        qp_access_flags: take(change.access.map(access_flags), IBV_QP_ACCESS_FLAGS, mask_ref, 0),
        ah_attr: take(change.path.as_ref().map(ah_attr), IBV_QP_AV, mask_ref, ibv_ah_attr::zeroed()),
        pkey_index: take(change.pkey_index, IBV_QP_PKEY_INDEX, mask_ref, 0),
        max_rd_atomic: take(change.max_rd_atomic, IBV_QP_MAX_QP_RD_ATOMIC, mask_ref, 0),
        max_dest_rd_atomic: take(change.max_dest_rd_atomic, IBV_QP_MAX_DEST_RD_ATOMIC, mask_ref, 0),
        min_rnr_timer: take(change.min_rnr_timer, IBV_QP_MIN_RNR_TIMER, mask_ref, 0),
        port_num: take(change.port, IBV_QP_PORT, mask_ref, 0),
        timeout: take(change.timeout, IBV_QP_TIMEOUT, mask_ref, 0),
        retry_cnt: take(change.retry_count, IBV_QP_RETRY_CNT, mask_ref, 0),
        rnr_retry: take(change.rnr_retry, IBV_QP_RNR_RETRY, mask_ref, 0),
        ..ibv_qp_attr::zeroed()
    };
    (attr, mask)
}

/// All attributes, as `ibv_query_qp(3)` gives them.
pub(crate) fn qp_attr(qp: &QpAttributes) -> ibv_qp_attr {
    ibv_qp_attr {
        qp_state: state_code(qp.state),
        cur_qp_state: state_code(qp.state),
        path_mtu: mtu_code(qp.path_mtu),
        path_mig_state: mig_state_code(qp.path_mig_state),
        qkey: qp.qkey,
        rq_psn: qp.rq_psn.value(),
        sq_psn: qp.sq_psn.value(),
        dest_qp_num: qp.dest_qp.value(),
        qp_access_flags: access_flags(qp.access),
        cap: qp_cap(&qp.init.capabilities),
        ah_attr: ah_attr(&qp.path),
        alt_ah_attr: ah_attr(&qp.alternate.path),
        pkey_index: qp.pkey_index,
        alt_pkey_index: qp.alternate.pkey_index,
        en_sqd_async_notify: 0,
        sq_draining: qp.sq_draining.into(),
        max_rd_atomic: qp.max_rd_atomic,
        max_dest_rd_atomic: qp.max_dest_rd_atomic,
        min_rnr_timer: qp.min_rnr_timer,
        port_num: qp.port,
        timeout: qp.timeout,
        retry_cnt: qp.retry_count,
        rnr_retry: qp.rnr_retry,
        alt_port_num: qp.alternate.port,
        alt_timeout: qp.alternate.timeout,
        rate_limit: qp.rate_limit,
    }
}

/// Sizes of queues.
pub(crate) fn capabilities(cap: &ibv_qp_cap) -> QpCapabilities {
    QpCapabilities {
        max_send_wr: cap.max_send_wr,
        max_recv_wr: cap.max_recv_wr,
        max_send_sge: cap.max_send_sge,
        max_recv_sge: cap.max_recv_sge,
        max_inline_data: cap.max_inline_data,
    }
}

/// Sizes of queues, the other way.
pub(crate) fn qp_cap(capabilities: &QpCapabilities) -> ibv_qp_cap {
    ibv_qp_cap {
        max_send_wr: capabilities.max_send_wr,
        max_recv_wr: capabilities.max_recv_wr,
        max_send_sge: capabilities.max_send_sge,
        max_recv_sge: capabilities.max_recv_sge,
        max_inline_data: capabilities.max_inline_data,
    }
}

/// A kind of queue pair, if the adapter has it.
pub(crate) fn qp_type(code: c_uint) -> Result<QpType, Errno> {
    match code {
        IBV_QPT_RC => Ok(QpType::Rc),
        IBV_QPT_UC => Ok(QpType::Uc),
        IBV_QPT_UD => Ok(QpType::Ud),
        IBV_QPT_RAW_PACKET | IBV_QPT_XRC_SEND | IBV_QPT_XRC_RECV | IBV_QPT_DRIVER => Err(Errno::UNSUPPORTED),
        _ => Err(Errno::INVALID),
    }
}

/// `enum ibv_qp_type`.
pub(crate) fn qp_type_code(qp_type: QpType) -> c_uint {
    match qp_type {
        QpType::Rc => IBV_QPT_RC,
        QpType::Uc => IBV_QPT_UC,
        QpType::Ud => IBV_QPT_UD,
    }
}

/// A state of queue pairs.
pub(crate) fn qp_state(code: c_uint) -> Result<QpState, Errno> {
    match code {
        IBV_QPS_RESET => Ok(QpState::Reset),
        IBV_QPS_INIT => Ok(QpState::Init),
        IBV_QPS_RTR => Ok(QpState::Rtr),
        IBV_QPS_RTS => Ok(QpState::Rts),
        IBV_QPS_SQD => Ok(QpState::Sqd),
        IBV_QPS_SQE => Ok(QpState::Sqe),
        IBV_QPS_ERR => Ok(QpState::Error),
        _ => Err(Errno::INVALID),
    }
}

/// `enum ibv_qp_state`.
pub(crate) fn state_code(state: QpState) -> c_uint {
    match state {
        QpState::Reset => IBV_QPS_RESET,
        QpState::Init => IBV_QPS_INIT,
        QpState::Rtr => IBV_QPS_RTR,
        QpState::Rts => IBV_QPS_RTS,
        QpState::Sqd => IBV_QPS_SQD,
        QpState::Sqe => IBV_QPS_SQE,
        QpState::Error => IBV_QPS_ERR,
    }
}

fn mig_state(code: c_uint) -> Result<PathMigState, Errno> {
    match code {
        IBV_MIG_MIGRATED => Ok(PathMigState::Migrated),
        IBV_MIG_REARM => Ok(PathMigState::Rearm),
        IBV_MIG_ARMED => Ok(PathMigState::Armed),
        _ => Err(Errno::INVALID),
    }
}

fn mig_state_code(state: PathMigState) -> c_uint {
    match state {
        PathMigState::Migrated => IBV_MIG_MIGRATED,
        PathMigState::Rearm => IBV_MIG_REARM,
        PathMigState::Armed => IBV_MIG_ARMED,
    }
}

fn mtu(code: c_uint) -> Result<Mtu, Errno> {
    match code {
        IBV_MTU_256 => Ok(Mtu::Mtu256),
        IBV_MTU_512 => Ok(Mtu::Mtu512),
        IBV_MTU_1024 => Ok(Mtu::Mtu1024),
        IBV_MTU_2048 => Ok(Mtu::Mtu2048),
        IBV_MTU_4096 => Ok(Mtu::Mtu4096),
        _ => Err(Errno::INVALID),
    }
}

/// `enum ibv_mtu`.
pub(crate) fn mtu_code(mtu: Mtu) -> c_uint {
    match mtu {
        Mtu::Mtu256 => IBV_MTU_256,
        Mtu::Mtu512 => IBV_MTU_512,
        Mtu::Mtu1024 => IBV_MTU_1024,
        Mtu::Mtu2048 => IBV_MTU_2048,
        Mtu::Mtu4096 => IBV_MTU_4096,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_attributes_are_taken() {
        let mut attr = ibv_qp_attr::zeroed();
        attr.qp_state = IBV_QPS_RTR;
        attr.dest_qp_num = 0x1234;
        attr.retry_cnt = 7;
        let change = qp_change(&attr, IBV_QP_STATE | IBV_QP_DEST_QPN).unwrap();
        let expected =
            QpChange { state: Some(QpState::Rtr), dest_qp: Some(Qpn::new(0x1234)), ..QpChange::default() };
        assert_eq!(change, expected);
    }

    #[test]
    fn a_change_survives_the_way_there_and_back() {
        let to_rtr = QpChange {
            state: Some(QpState::Rtr),
            path: Some(nic::verbs::AddressVector { is_global: true, port: 1, ..Default::default() }),
            path_mtu: Some(Mtu::Mtu2048),
            dest_qp: Some(Qpn::new(7)),
            rq_psn: Some(Psn::new(9)),
            max_dest_rd_atomic: Some(0),
            min_rnr_timer: Some(12),
            ..QpChange::default()
        };
        let to_rts = QpChange {
            state: Some(QpState::Rts),
            sq_psn: Some(Psn::new(5)),
            timeout: Some(14),
            retry_count: Some(7),
            rnr_retry: Some(6),
            max_rd_atomic: Some(16),
            ..QpChange::default()
        };
        for change in [QpChange::default(), to_rtr, to_rts, nic::cm::connection_init()] {
            let (attr, mask) = qp_change_attr(&change);
            assert_eq!(qp_change(&attr, mask), Ok(change));
        }
    }

    #[test]
    fn values_without_a_meaning_are_refused_if_named() {
        let mut attr = ibv_qp_attr::zeroed();
        (attr.qp_state, attr.cur_qp_state, attr.path_mtu, attr.path_mig_state) = (9, 9, 0, 9);
        for mask in [IBV_QP_STATE, IBV_QP_CUR_STATE, IBV_QP_PATH_MTU, IBV_QP_PATH_MIG_STATE] {
            assert_eq!(qp_change(&attr, mask), Err(Errno::INVALID), "{mask:#x}");
        }
        assert_eq!(qp_change(&attr, 1 << 21), Err(Errno::UNSUPPORTED));
        assert_eq!(qp_change(&attr, IBV_QP_PORT), Ok(QpChange { port: Some(0), ..QpChange::default() }));
    }
}
