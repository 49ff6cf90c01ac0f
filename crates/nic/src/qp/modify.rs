//! Checking and setting the attributes of a queue pair.

use crate::ah::is_usable;
use crate::port::{PORT, Port};
use crate::verbs::{AlternatePath, Limits, ModifyQpError, QpAttributes, QpChange, QpState};

use super::state;

/// Checks that a queue pair with these attributes may change so; returns those it comes to.
pub(crate) fn modified(
    attributes: &QpAttributes,
    change: &QpChange,
    limits: &Limits,
    port: &Port,
) -> Result<QpAttributes, ModifyQpError> {
    let QpAttributes { state, sq_draining, .. } = *attributes;
    let to = state::check(attributes.init.qp_type, state, sq_draining, change)?;
    check_values(change, limits, port)?;
    if to == QpState::Reset {
        return Ok(QpAttributes::in_reset(attributes.init));
    }
    Ok(QpAttributes { state: to, ..apply(*attributes, change) })
}

/// Checks each attribute by itself.
fn check_values(change: &QpChange, limits: &Limits, port: &Port) -> Result<(), ModifyQpError> {
    within("retry_count", change.retry_count, 7)?;
    within("rnr_retry", change.rnr_retry, 7)?;
    within("timeout", change.timeout, 31)?;
    within("min_rnr_timer", change.min_rnr_timer, 31)?;
    within("max_rd_atomic", change.max_rd_atomic, limits.max_qp_init_rd_atom)?;
    within("max_dest_rd_atomic", change.max_dest_rd_atomic, limits.max_qp_rd_atom)?;
    within("path_mtu", change.path_mtu, port.mtu())?;
    check("port", change.port, |&number| number == PORT)?;
    check("pkey_index", change.pkey_index, |&index| port.pkey(index).is_some())?;
    check("path", change.path, |path| is_usable(path, port))?;
    check("alternate", change.alternate, |alternate| is_alternate_usable(alternate, port))
}

fn is_alternate_usable(alternate: &AlternatePath, port: &Port) -> bool {
    is_usable(&alternate.path, port)
        && alternate.port == PORT
        && alternate.timeout <= 31
        && port.pkey(alternate.pkey_index).is_some()
}

fn within<T: Ord>(name: &'static str, value: Option<T>, most: T) -> Result<(), ModifyQpError> {
    check(name, value, |value| *value <= most)
}

fn check<T>(
    name: &'static str,
    value: Option<T>,
    is_valid: impl FnOnce(&T) -> bool,
) -> Result<(), ModifyQpError> {
    match value {
        Some(value) if !is_valid(&value) => Err(ModifyQpError::InvalidValue(name)),
        _ => Ok(()),
    }
}

/// Sets what was given.
fn apply(old: QpAttributes, change: &QpChange) -> QpAttributes {
    QpAttributes {
        init: old.init,
        state: old.state,
        sq_draining: old.sq_draining,
        sqd_notify: change.sqd_notify.unwrap_or(old.sqd_notify),
        access: change.access.unwrap_or(old.access),
        pkey_index: change.pkey_index.unwrap_or(old.pkey_index),
        port: change.port.unwrap_or(old.port),
        qkey: change.qkey.unwrap_or(old.qkey),
        path: change.path.unwrap_or(old.path),
        path_mtu: change.path_mtu.unwrap_or(old.path_mtu),
        timeout: change.timeout.unwrap_or(old.timeout),
        retry_count: change.retry_count.unwrap_or(old.retry_count),
        rnr_retry: change.rnr_retry.unwrap_or(old.rnr_retry),
        rq_psn: change.rq_psn.unwrap_or(old.rq_psn),
        sq_psn: change.sq_psn.unwrap_or(old.sq_psn),
        max_rd_atomic: change.max_rd_atomic.unwrap_or(old.max_rd_atomic),
        max_dest_rd_atomic: change.max_dest_rd_atomic.unwrap_or(old.max_dest_rd_atomic),
        min_rnr_timer: change.min_rnr_timer.unwrap_or(old.min_rnr_timer),
        alternate: change.alternate.unwrap_or(old.alternate),
        path_mig_state: change.path_mig_state.unwrap_or(old.path_mig_state),
        dest_qp: change.dest_qp.unwrap_or(old.dest_qp),
        rate_limit: old.rate_limit,
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::VecDeque;
    use core::net::Ipv4Addr;

    use wire::{Gid, Psn, Qpn};

    use super::*;
    use crate::verbs::*;

    const INIT: QpInit = QpInit {
        pd: Pd(1),
        qp_type: QpType::Rc,
        send_cq: Cq(1),
        recv_cq: Cq(1),
        srq: None,
        capabilities: QpCapabilities {
            max_send_wr: 1,
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: 0,
        },
        signal_all: false,
    };

    fn port() -> Port {
        let (mut port, mut events) = (Port::default(), VecDeque::new());
        port.set(PortState::Active, Mtu::Mtu2048, &mut events);
        let gid = Gid::from(Ipv4Addr::new(10, 0, 0, 1));
        let entry = GidEntry { gid, gid_type: GidType::RoceV2, interface_index: 2 };
        port.set_gid(0, Some(entry), &mut events);
        port
    }

    fn limits() -> Limits {
        Limits { max_qp_rd_atom: 16, max_qp_init_rd_atom: 8, ..Limits::default() }
    }

    fn path() -> AddressVector {
        AddressVector { destination: Gid([1; 16]), is_global: true, port: 1, ..AddressVector::default() }
    }

    fn to_init() -> QpChange {
        QpChange {
            state: Some(QpState::Init),
            pkey_index: Some(0),
            port: Some(1),
            access: Some(Access { remote_read: true, ..Access::default() }),
            ..QpChange::default()
        }
    }

    fn to_rtr() -> QpChange {
        QpChange {
            state: Some(QpState::Rtr),
            path: Some(path()),
            path_mtu: Some(Mtu::Mtu2048),
            dest_qp: Some(Qpn::new(77)),
            rq_psn: Some(Psn::new(5)),
            max_dest_rd_atomic: Some(16),
            min_rnr_timer: Some(31),
            ..QpChange::default()
        }
    }

    fn to_rts() -> QpChange {
        QpChange {
            state: Some(QpState::Rts),
            timeout: Some(31),
            retry_count: Some(7),
            rnr_retry: Some(7),
            sq_psn: Some(Psn::MAX),
            max_rd_atomic: Some(8),
            ..QpChange::default()
        }
    }

    fn after(changes: &[QpChange]) -> QpAttributes {
        changes.iter().fold(QpAttributes::in_reset(INIT), |attributes, change| {
            modified(&attributes, change, &limits(), &port()).unwrap()
        })
    }

    #[test]
    fn what_was_set_stays_until_reset() {
        let rts = after(&[to_init(), to_rtr(), to_rts()]);
        let expected = QpAttributes {
            state: QpState::Rts,
            access: Access { remote_read: true, ..Access::default() },
            port: 1,
            path: path(),
            path_mtu: Mtu::Mtu2048,
            dest_qp: Qpn::new(77),
            rq_psn: Psn::new(5),
            max_dest_rd_atomic: 16,
            min_rnr_timer: 31,
            timeout: 31,
            retry_count: 7,
            rnr_retry: 7,
            sq_psn: Psn::MAX,
            max_rd_atomic: 8,
            ..QpAttributes::in_reset(INIT)
        };
        assert_eq!(rts, expected);
        let reset = QpChange { state: Some(QpState::Reset), ..QpChange::default() };
        assert_eq!(modified(&rts, &reset, &limits(), &port()), Ok(QpAttributes::in_reset(INIT)));
    }

    #[test]
    fn no_reads_at_all_is_legal() {
        let none = QpChange { max_dest_rd_atomic: Some(0), ..to_rtr() };
        let none_out = QpChange { max_rd_atomic: Some(0), ..to_rts() };
        let rts = after(&[to_init(), none, none_out]);
        assert_eq!((rts.max_rd_atomic, rts.max_dest_rd_atomic), (0, 0));
    }

    #[test]
    fn every_value_is_checked() {
        let reset = QpAttributes::in_reset(INIT);
        let init = after(&[to_init()]);
        let rtr = after(&[to_init(), to_rtr()]);
        let sqd = after(&[
            to_init(),
            to_rtr(),
            to_rts(),
            QpChange { state: Some(QpState::Sqd), ..QpChange::default() },
        ]);
        let sideways = AddressVector { source_gid_index: 9, ..path() };
        let alternate = AlternatePath { path: path(), pkey_index: 0, port: 1, timeout: 31 };
        let alternates = [
            AlternatePath { path: sideways, ..alternate },
            AlternatePath { pkey_index: 1, ..alternate },
            AlternatePath { port: 2, ..alternate },
            AlternatePath { timeout: 32, ..alternate },
        ];
        let refused = [
            (reset, QpChange { pkey_index: Some(1), ..to_init() }, "pkey_index"),
            (reset, QpChange { port: Some(0), ..to_init() }, "port"),
            (reset, QpChange { port: Some(2), ..to_init() }, "port"),
            (init, QpChange { path: Some(sideways), ..to_rtr() }, "path"),
            (init, QpChange { path_mtu: Some(Mtu::Mtu4096), ..to_rtr() }, "path_mtu"),
            (init, QpChange { max_dest_rd_atomic: Some(17), ..to_rtr() }, "max_dest_rd_atomic"),
            (init, QpChange { min_rnr_timer: Some(32), ..to_rtr() }, "min_rnr_timer"),
            (rtr, QpChange { timeout: Some(32), ..to_rts() }, "timeout"),
            (rtr, QpChange { retry_count: Some(8), ..to_rts() }, "retry_count"),
            (rtr, QpChange { rnr_retry: Some(8), ..to_rts() }, "rnr_retry"),
            (rtr, QpChange { max_rd_atomic: Some(9), ..to_rts() }, "max_rd_atomic"),
            (sqd, QpChange { timeout: Some(32), ..QpChange::default() }, "timeout"),
        ];
        let refused_alternates =
            alternates.map(|bad| (rtr, QpChange { alternate: Some(bad), ..to_rts() }, "alternate"));
        for (attributes, change, name) in refused.into_iter().chain(refused_alternates) {
            let result = modified(&attributes, &change, &limits(), &port());
            assert_eq!(result, Err(ModifyQpError::InvalidValue(name)), "{change:?}");
        }
        let good = QpChange { alternate: Some(alternate), ..to_rts() };
        assert_eq!(modified(&rtr, &good, &limits(), &port()).map(|rts| rts.alternate), Ok(alternate));
    }
}
