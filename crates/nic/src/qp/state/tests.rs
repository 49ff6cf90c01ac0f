use std::fmt::Write;
use std::string::String;
use std::vec::Vec;

use super::*;
use crate::verbs::*;
use wire::{Psn, Qpn};

const TYPES: [QpType; 3] = [QpType::Rc, QpType::Uc, QpType::Ud];
const STATES: [QpState; 7] = [Reset, Init, Rtr, Rts, Sqd, Sqe, Error];

/// A change that names every attribute but the states.
fn everything() -> QpChange {
    QpChange {
        state: None,
        current_state: None,
        sqd_notify: Some(true),
        access: Some(Access::default()),
        pkey_index: Some(0),
        port: Some(1),
        qkey: Some(0),
        path: Some(AddressVector::default()),
        path_mtu: Some(Mtu::Mtu1024),
        timeout: Some(0),
        retry_count: Some(0),
        rnr_retry: Some(0),
        rq_psn: Some(Psn::ZERO),
        max_rd_atomic: Some(0),
        alternate: Some(AlternatePath::default()),
        min_rnr_timer: Some(0),
        sq_psn: Some(Psn::ZERO),
        max_dest_rd_atomic: Some(0),
        path_mig_state: Some(PathMigState::Migrated),
        capabilities: Some(QpCapabilities::default()),
        dest_qp: Some(Qpn::new(2)),
        rate_limit: Some(0),
    }
}

/// A change that names exactly the attributes of `set`.
fn naming(set: Set, from: QpState, to: QpState) -> QpChange {
    let all = everything();
    let mut change = QpChange { state: Some(to), ..QpChange::default() };
    for attribute in set.iter() {
        match attribute {
            Attribute::CurrentState => change.current_state = Some(from),
            Attribute::SqdNotify => change.sqd_notify = all.sqd_notify,
            Attribute::Access => change.access = all.access,
            Attribute::PkeyIndex => change.pkey_index = all.pkey_index,
            Attribute::Port => change.port = all.port,
            Attribute::Qkey => change.qkey = all.qkey,
            Attribute::Path => change.path = all.path,
            Attribute::PathMtu => change.path_mtu = all.path_mtu,
            Attribute::Timeout => change.timeout = all.timeout,
            Attribute::RetryCount => change.retry_count = all.retry_count,
            Attribute::RnrRetry => change.rnr_retry = all.rnr_retry,
            Attribute::RqPsn => change.rq_psn = all.rq_psn,
            Attribute::MaxRdAtomic => change.max_rd_atomic = all.max_rd_atomic,
            Attribute::Alternate => change.alternate = all.alternate,
            Attribute::MinRnrTimer => change.min_rnr_timer = all.min_rnr_timer,
            Attribute::SqPsn => change.sq_psn = all.sq_psn,
            Attribute::MaxDestRdAtomic => change.max_dest_rd_atomic = all.max_dest_rd_atomic,
            Attribute::PathMigState => change.path_mig_state = all.path_mig_state,
            Attribute::Capabilities => change.capabilities = all.capabilities,
            Attribute::DestQp => change.dest_qp = all.dest_qp,
            Attribute::RateLimit => change.rate_limit = all.rate_limit,
        }
    }
    change
}

fn names(set: Set) -> String {
    let names: Vec<&str> = set.iter().map(Attribute::name).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}

/// The picture of `RULES` that is committed as `state.md`.
fn picture() -> String {
    let mut out = String::from("\n```mermaid\nstateDiagram-v2\n    [*] --> Reset\n");
    for Rule { from, to, .. } in RULES {
        writeln!(out, "    {from:?} --> {to:?}").unwrap();
    }
    out.push_str("    Rts --> Sqe: a send fails (UC, UD)\n```\n");
    out.push_str("\n| from | to | type | needs | takes besides |\n|---|---|---|---|---|\n");
    for rule in RULES.iter().filter(|rule| !matches!(rule.to, Reset | Error)) {
        for qp_type in TYPES {
            let Attributes { required, optional } = rule.attributes(qp_type);
            let (needs, takes) = (names(required), names(optional));
            writeln!(out, "| {:?} | {:?} | {qp_type:?} | {needs} | {takes} |", rule.from, rule.to).unwrap();
        }
    }
    out
}

#[test]
fn the_picture_shows_the_rules() {
    let picture = picture();
    assert_eq!(include_str!("../state.md"), picture, "replace qp/state.md by:\n{picture}");
}

#[test]
fn a_way_that_is_not_in_the_table_is_refused() {
    for (from, to) in STATES.iter().flat_map(|&from| STATES.map(|to| (from, to))) {
        let known = RULES.iter().any(|rule| (rule.from, rule.to) == (from, to));
        for qp_type in TYPES {
            let change = QpChange { state: Some(to), ..QpChange::default() };
            let refused =
                check(qp_type, from, false, &change) == Err(ModifyQpError::InvalidTransition { from, to });
            assert_eq!(refused, !known, "{qp_type:?} {from:?} to {to:?}");
        }
    }
}

#[test]
fn every_required_attribute_is_missed_and_every_other_refused() {
    for (rule, qp_type) in RULES.iter().flat_map(|rule| TYPES.map(|qp_type| (rule, qp_type))) {
        let Attributes { required, optional } = rule.attributes(qp_type);
        let try_with = |set| check(qp_type, rule.from, false, &naming(set, rule.from, rule.to));
        assert_eq!(try_with(required), Ok(rule.to));
        assert_eq!(try_with(required.and(optional)), Ok(rule.to));
        for attribute in Attribute::ALL {
            let one = Set::of(&[attribute]);
            if required.without(one) != required {
                assert_eq!(
                    try_with(required.without(one)),
                    Err(ModifyQpError::MissingAttribute(attribute.name()))
                );
            } else if optional.without(one) == optional {
                assert_eq!(
                    try_with(required.and(one)),
                    Err(ModifyQpError::UnexpectedAttribute(attribute.name()))
                );
            }
        }
    }
}

#[test]
fn no_way_is_listed_twice_and_every_state_can_be_left_for_reset() {
    for (at, rule) in RULES.iter().enumerate() {
        let twice = RULES[..at].iter().any(|other| (other.from, other.to) == (rule.from, rule.to));
        assert!(!twice, "{rule:?}");
    }
    for state in STATES {
        assert!(RULES.iter().any(|rule| rule.from == state && rule.to == Reset), "{state:?}");
    }
}

#[test]
fn without_a_state_it_stays() {
    let change = QpChange { qkey: Some(1), ..QpChange::default() };
    assert_eq!(check(QpType::Ud, Rts, false, &change), Ok(Rts));
    let stay = ModifyQpError::InvalidTransition { from: Rtr, to: Rtr };
    assert_eq!(check(QpType::Ud, Rtr, false, &change), Err(stay));
}

#[test]
fn a_wrong_belief_about_the_state_is_refused() {
    let change = QpChange { state: Some(Rts), current_state: Some(Rtr), ..QpChange::default() };
    let wrong = ModifyQpError::WrongCurrentState { actual: Rts };
    assert_eq!(check(QpType::Rc, Rts, false, &change), Err(wrong));
}

#[test]
fn while_draining_it_can_only_be_given_up() {
    let to = |state| check(QpType::Rc, Sqd, true, &QpChange { state: Some(state), ..QpChange::default() });
    assert_eq!(to(Rts), Err(ModifyQpError::StillDraining));
    assert_eq!(to(Sqd), Err(ModifyQpError::StillDraining));
    assert_eq!(to(Error), Ok(Error));
    assert_eq!(to(Reset), Ok(Reset));
}
