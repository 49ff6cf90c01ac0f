//! Which attributes a queue pair takes on which way between states.
//!
//! [`RULES`] is the whole truth (IBTA 11.2.5.2 and 10.3.1; where the kernel's `ib_modify_qp_is_ok` is
//! stricter or laxer, the kernel). The picture below is rendered from it and compared with it by a test.
#![doc = include_str!("state.md")]

use crate::verbs::{ModifyQpError, QpChange, QpState, QpType};

use QpState::{Error, Init, Reset, Rtr, Rts, Sqd, Sqe};

/// What `modify_qp` can be told beside the state to go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Attribute {
    CurrentState,
    SqdNotify,
    Access,
    PkeyIndex,
    Port,
    Qkey,
    Path,
    PathMtu,
    Timeout,
    RetryCount,
    RnrRetry,
    RqPsn,
    MaxRdAtomic,
    Alternate,
    MinRnrTimer,
    SqPsn,
    MaxDestRdAtomic,
    PathMigState,
    Capabilities,
    DestQp,
    RateLimit,
}

/// A set of attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set(u32);

/// A way between two states, or back to the same, and what it takes per kind of queue pair.
#[derive(Debug)]
struct Rule {
    from: QpState,
    to: QpState,
    rc: Attributes,
    uc: Attributes,
    ud: Attributes,
}

/// What a way needs, and what it allows besides.
#[derive(Clone, Copy, Debug, Default)]
struct Attributes {
    required: Set,
    optional: Set,
}

const INIT: Set = Set::of(&[Attribute::PkeyIndex, Attribute::Port]);
const ACCESS: Set = Set::of(&[Attribute::Access]);
const QKEY: Set = Set::of(&[Attribute::Qkey]);
const PKEY: Set = Set::of(&[Attribute::PkeyIndex]);
const CONNECT: Set = Set::of(&[Attribute::Path, Attribute::PathMtu, Attribute::DestQp, Attribute::RqPsn]);
const ACCEPT: Set = Set::of(&[Attribute::MaxDestRdAtomic, Attribute::MinRnrTimer]);
const SEND: Set = Set::of(&[Attribute::SqPsn]);
const RELY: Set =
    Set::of(&[Attribute::Timeout, Attribute::RetryCount, Attribute::RnrRetry, Attribute::MaxRdAtomic]);
const CURRENT: Set = Set::of(&[Attribute::CurrentState]);
const ALTERNATE: Set = Set::of(&[Attribute::Alternate]);
const MIGRATE: Set = Set::of(&[Attribute::Alternate, Attribute::PathMigState]);
const RNR_TIMER: Set = Set::of(&[Attribute::MinRnrTimer]);
const NOTIFY: Set = Set::of(&[Attribute::SqdNotify]);
const PATH: Set = Set::of(&[Attribute::Path]);
const PORT: Set = Set::of(&[Attribute::Port]);

/// Every legal way. Ways to RESET and ERROR take nothing.
const RULES: &[Rule] = &[
    rule(Reset, Reset),
    rule(Reset, Init).connected(INIT.and(ACCESS), Set::EMPTY).ud(INIT.and(QKEY), Set::EMPTY),
    rule(Init, Reset),
    rule(Init, Error),
    rule(Init, Init).connected(Set::EMPTY, INIT.and(ACCESS)).ud(Set::EMPTY, INIT.and(QKEY)),
    rule(Init, Rtr)
        .rc(CONNECT.and(ACCEPT), ALTERNATE.and(ACCESS).and(PKEY))
        .uc(CONNECT, ALTERNATE.and(ACCESS).and(PKEY))
        .ud(Set::EMPTY, PKEY.and(QKEY)),
    rule(Rtr, Reset),
    rule(Rtr, Error),
    rule(Rtr, Rts)
        .rc(SEND.and(RELY), CURRENT.and(MIGRATE).and(ACCESS).and(RNR_TIMER))
        .uc(SEND, CURRENT.and(MIGRATE).and(ACCESS))
        .ud(SEND, CURRENT.and(QKEY)),
    rule(Rts, Reset),
    rule(Rts, Error),
    rule(Rts, Rts)
        .rc(Set::EMPTY, CURRENT.and(MIGRATE).and(ACCESS).and(RNR_TIMER))
        .uc(Set::EMPTY, CURRENT.and(MIGRATE).and(ACCESS))
        .ud(Set::EMPTY, CURRENT.and(QKEY)),
    rule(Rts, Sqd).connected(Set::EMPTY, NOTIFY).ud(Set::EMPTY, NOTIFY),
    rule(Sqd, Reset),
    rule(Sqd, Error),
    rule(Sqd, Rts)
        .rc(Set::EMPTY, CURRENT.and(MIGRATE).and(ACCESS).and(RNR_TIMER))
        .uc(Set::EMPTY, CURRENT.and(MIGRATE).and(ACCESS))
        .ud(Set::EMPTY, CURRENT.and(QKEY)),
    rule(Sqd, Sqd)
        .rc(Set::EMPTY, PATH.and(PORT).and(RELY).and(ACCEPT).and(MIGRATE).and(ACCESS).and(PKEY))
        .uc(Set::EMPTY, PATH.and(MIGRATE).and(ACCESS).and(PKEY))
        .ud(Set::EMPTY, PKEY.and(QKEY)),
    rule(Sqe, Reset),
    rule(Sqe, Error),
    rule(Sqe, Rts).uc(Set::EMPTY, CURRENT.and(ACCESS)).ud(Set::EMPTY, CURRENT.and(QKEY)),
    rule(Error, Reset),
    rule(Error, Error),
];

/// Checks that a queue pair may change so; returns the state it comes to.
pub(crate) fn check(
    qp_type: QpType,
    actual: QpState,
    draining: bool,
    change: &QpChange,
) -> Result<QpState, ModifyQpError> {
    if change.current_state.is_some_and(|believed| believed != actual) {
        return Err(ModifyQpError::WrongCurrentState { actual });
    }
    let to = change.state.unwrap_or(actual);
    let rule = RULES
        .iter()
        .find(|rule| rule.from == actual && rule.to == to)
        .ok_or(ModifyQpError::InvalidTransition { from: actual, to })?;
    // Attributes of the send queue may only change once it stands still (IBTA 10.3.1.5).
    if draining && !matches!(to, Reset | Error) {
        return Err(ModifyQpError::StillDraining);
    }
    let Attributes { required, optional } = rule.attributes(qp_type);
    let given = Set::given(change);
    if let Some(missing) = required.without(given).first() {
        return Err(ModifyQpError::MissingAttribute(missing.name()));
    }
    if let Some(unexpected) = given.without(required.and(optional)).first() {
        return Err(ModifyQpError::UnexpectedAttribute(unexpected.name()));
    }
    Ok(to)
}

const fn rule(from: QpState, to: QpState) -> Rule {
    let nothing = Attributes { required: Set::EMPTY, optional: Set::EMPTY };
    Rule { from, to, rc: nothing, uc: nothing, ud: nothing }
}

impl Rule {
    const fn rc(self, required: Set, optional: Set) -> Self {
        Self { rc: Attributes { required, optional }, ..self }
    }

    const fn uc(self, required: Set, optional: Set) -> Self {
        Self { uc: Attributes { required, optional }, ..self }
    }

    const fn ud(self, required: Set, optional: Set) -> Self {
        Self { ud: Attributes { required, optional }, ..self }
    }

    const fn connected(self, required: Set, optional: Set) -> Self {
        self.rc(required, optional).uc(required, optional)
    }

    const fn attributes(&self, qp_type: QpType) -> Attributes {
        match qp_type {
            QpType::Rc => self.rc,
            QpType::Uc => self.uc,
            QpType::Ud => self.ud,
        }
    }
}

impl Attribute {
    const ALL: [Self; 21] = [
        Self::CurrentState,
        Self::SqdNotify,
        Self::Access,
        Self::PkeyIndex,
        Self::Port,
        Self::Qkey,
        Self::Path,
        Self::PathMtu,
        Self::Timeout,
        Self::RetryCount,
        Self::RnrRetry,
        Self::RqPsn,
        Self::MaxRdAtomic,
        Self::Alternate,
        Self::MinRnrTimer,
        Self::SqPsn,
        Self::MaxDestRdAtomic,
        Self::PathMigState,
        Self::Capabilities,
        Self::DestQp,
        Self::RateLimit,
    ];

    /// Its field in [`QpChange`].
    const fn name(self) -> &'static str {
        match self {
            Self::CurrentState => "current_state",
            Self::SqdNotify => "sqd_notify",
            Self::Access => "access",
            Self::PkeyIndex => "pkey_index",
            Self::Port => "port",
            Self::Qkey => "qkey",
            Self::Path => "path",
            Self::PathMtu => "path_mtu",
            Self::Timeout => "timeout",
            Self::RetryCount => "retry_count",
            Self::RnrRetry => "rnr_retry",
            Self::RqPsn => "rq_psn",
            Self::MaxRdAtomic => "max_rd_atomic",
            Self::Alternate => "alternate",
            Self::MinRnrTimer => "min_rnr_timer",
            Self::SqPsn => "sq_psn",
            Self::MaxDestRdAtomic => "max_dest_rd_atomic",
            Self::PathMigState => "path_mig_state",
            Self::Capabilities => "capabilities",
            Self::DestQp => "dest_qp",
            Self::RateLimit => "rate_limit",
        }
    }

    const fn is_given(self, change: &QpChange) -> bool {
        match self {
            Self::CurrentState => change.current_state.is_some(),
            Self::SqdNotify => change.sqd_notify.is_some(),
            Self::Access => change.access.is_some(),
            Self::PkeyIndex => change.pkey_index.is_some(),
            Self::Port => change.port.is_some(),
            Self::Qkey => change.qkey.is_some(),
            Self::Path => change.path.is_some(),
            Self::PathMtu => change.path_mtu.is_some(),
            Self::Timeout => change.timeout.is_some(),
            Self::RetryCount => change.retry_count.is_some(),
            Self::RnrRetry => change.rnr_retry.is_some(),
            Self::RqPsn => change.rq_psn.is_some(),
            Self::MaxRdAtomic => change.max_rd_atomic.is_some(),
            Self::Alternate => change.alternate.is_some(),
            Self::MinRnrTimer => change.min_rnr_timer.is_some(),
            Self::SqPsn => change.sq_psn.is_some(),
            Self::MaxDestRdAtomic => change.max_dest_rd_atomic.is_some(),
            Self::PathMigState => change.path_mig_state.is_some(),
            Self::Capabilities => change.capabilities.is_some(),
            Self::DestQp => change.dest_qp.is_some(),
            Self::RateLimit => change.rate_limit.is_some(),
        }
    }
}

impl Set {
    const EMPTY: Self = Self(0);

    const fn of(attributes: &[Attribute]) -> Self {
        let (mut set, mut at) = (Self::EMPTY, 0);
        while at < attributes.len() {
            set = set.and(Self(1 << attributes[at] as u8));
            at += 1;
        }
        set
    }

    fn given(change: &QpChange) -> Self {
        let given = Attribute::ALL.into_iter().filter(|attribute| attribute.is_given(change));
        given.fold(Self::EMPTY, |set, attribute| set.and(Self::of(&[attribute])))
    }

    /// Both.
    const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    fn iter(self) -> impl Iterator<Item = Attribute> {
        Attribute::ALL.into_iter().filter(move |&attribute| self.0 & Self::of(&[attribute]).0 != 0)
    }

    fn first(self) -> Option<Attribute> {
        self.iter().next()
    }
}

#[cfg(test)]
mod tests;
