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
