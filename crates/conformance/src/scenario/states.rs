//! What a queue pair takes in which state.

use nic::verbs::*;
use wire::Psn;

use super::{
    Scenario,
    pair::{ALL, Pair, Setup, content, request},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Need, Refusal, Verb};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("posting_in_every_state", posting),
    scenario("transitions", transitions),
    scenario("missing_attributes", missing_attributes),
    scenario("wrong_attributes", wrong_attributes),
    scenario("wrong_current_state", wrong_current_state),
    scenario("requests_that_are_refused", refused_requests),
    scenario("requests_in_the_wrong_kind_of_queue_pair", wrong_kind),
    scenario("drained", drained).needing(&[Need::Drain]),
    scenario("drained_queue_waits", drained_queue_waits).needing(&[Need::Drain]),
    scenario("attributes_are_told", attributes_are_told),
];

const REFUSED: Verb<()> = Err(Refusal::Invalid);

const STATES: [QpState; 5] = [QpState::Reset, QpState::Init, QpState::Rtr, QpState::Rts, QpState::Error];

/// Brings end 0 from RESET to a state.
fn bring_to(pair: &mut Pair<'_>, to: QpState) {
    let way: &[QpState] = match to {
        QpState::Reset => &[],
        QpState::Init => &[QpState::Init],
        QpState::Rtr => &[QpState::Init, QpState::Rtr],
        QpState::Rts => &[QpState::Init, QpState::Rtr, QpState::Rts],
        QpState::Sqd => &[QpState::Init, QpState::Rtr, QpState::Rts, QpState::Sqd],
        QpState::Sqe | QpState::Error => &[QpState::Init, QpState::Error],
    };
    for &state in way {
        let change = pair.change_to(0, state);
        pair.modify(0, &change).unwrap_or_else(|error| panic!("to {state:?}: {error:?}"));
    }
}

/// Receives are taken from INIT on, sends from RTS on; ERROR takes both.
fn posting(arm: &mut dyn Arm) {
    for state in STATES {
        let mut pair = Pair::unconnected(arm, Setup::default());
        bring_to(&mut pair, state);
        let (sge, qpn) = (pair.sge(0, SOURCE, 8), pair.ends[0].qpn);
        let received = pair.side(0).post_recv(qpn, &RecvRequest { wr_id: 1, scatter: &[sge] });
        let sent = pair.post(0, &request(2, SendOperation::Send, &[sge]));
        let takes_receives = state != QpState::Reset;
        let takes_sends = matches!(state, QpState::Rts | QpState::Error);
        assert_eq!(received, if takes_receives { Ok(()) } else { REFUSED }, "receive in {state:?}");
        assert_eq!(sent, if takes_sends { Ok(()) } else { REFUSED }, "send in {state:?}");
        pair.close();
    }
}

/// Every way between two states that there is, and that there is not.
fn transitions(arm: &mut dyn Arm) {
    use QpState::{Error, Init, Reset, Rtr, Rts};
    let legal = |from, to| {
        matches!(
            (from, to),
            (_, Reset)
                | (Reset, Init)
                | (Init, Init | Rtr | Error)
                | (Rtr, Rts | Error)
                | (Rts, Rts | Error)
                | (Error, Error)
        )
    };
    for (from, to) in STATES.iter().flat_map(|&from| STATES.map(|to| (from, to))) {
        let mut pair = Pair::unconnected(arm, Setup::default());
        bring_to(&mut pair, from);
        let change = match (from, to) {
            // Needs nothing, and takes no path or PSN.
            (Rts, Rts) => QpChange { state: Some(Rts), ..QpChange::default() },
            _ => pair.change_to(0, to),
        };
        let expected = if legal(from, to) { Ok(()) } else { REFUSED };
        assert_eq!(pair.modify(0, &change), expected, "from {from:?} to {to:?}");
        let state = if expected.is_ok() { to } else { from };
        assert_eq!(pair.state(0), state, "after {from:?} to {to:?}");
        pair.close();
    }
}

/// A way that lacks what it needs is refused, and the state stays.
fn missing_attributes(arm: &mut dyn Arm) {
    type Forget = fn(&mut QpChange);
    let needed: &[(QpType, QpState, &[Forget])] = &[
        (
            QpType::Rc,
            QpState::Init,
            &[|change| change.pkey_index = None, |change| change.port = None, |change| change.access = None],
        ),
        (
            QpType::Rc,
            QpState::Rtr,
            &[
                |change| change.path = None,
                |change| change.path_mtu = None,
                |change| change.dest_qp = None,
                |change| change.rq_psn = None,
                |change| change.max_dest_rd_atomic = None,
                |change| change.min_rnr_timer = None,
            ],
        ),
        (
            QpType::Rc,
            QpState::Rts,
            &[
                |change| change.sq_psn = None,
                |change| change.timeout = None,
                |change| change.retry_count = None,
                |change| change.rnr_retry = None,
                |change| change.max_rd_atomic = None,
            ],
        ),
        (QpType::Uc, QpState::Rtr, &[|change| change.path = None, |change| change.dest_qp = None]),
        (QpType::Ud, QpState::Init, &[|change| change.qkey = None, |change| change.port = None]),
        (QpType::Ud, QpState::Rts, &[|change| change.sq_psn = None]),
    ];
    for &(qp_type, to, attributes) in needed {
        for (number, forget) in attributes.iter().enumerate() {
            let before = match to {
                QpState::Init => QpState::Reset,
                QpState::Rtr => QpState::Init,
                _ => QpState::Rtr,
            };
            let mut pair = Pair::unconnected(arm, Setup { qp_type, ..Setup::default() });
            bring_to(&mut pair, before);
            let complete = pair.change_to(0, to);
            let mut change = complete;
            forget(&mut change);
            assert_eq!(pair.modify(0, &change), REFUSED, "{qp_type:?} to {to:?} without number {number}");
            assert_eq!(pair.state(0), before);
            assert_eq!(pair.modify(0, &complete), Ok(()), "{qp_type:?} to {to:?}");
            pair.close();
        }
    }
}

/// Values that are out of range, and attributes that a way does not take.
fn wrong_attributes(arm: &mut dyn Arm) {
    type Spoil = fn(&mut QpChange);
    let wrong: &[(QpState, Spoil)] = &[
        (QpState::Init, |change| change.port = Some(2)),
        (QpState::Init, |change| change.pkey_index = Some(999)),
        (QpState::Init, |change| change.qkey = Some(5)),
        (QpState::Init, |change| change.sq_psn = Some(Psn::new(5))),
        (QpState::Rtr, |change| change.sq_psn = Some(Psn::new(5))),
        (QpState::Rtr, |change| change.path.as_mut().expect("a path").source_gid_index = 255),
        (QpState::Rts, |change| change.rq_psn = Some(Psn::new(5))),
        (QpState::Rts, |change| change.path_mtu = Some(Mtu::Mtu256)),
    ];
    for (number, &(to, spoil)) in wrong.iter().enumerate() {
        let before = match to {
            QpState::Init => QpState::Reset,
            QpState::Rtr => QpState::Init,
            _ => QpState::Rtr,
        };
        let mut pair = Pair::unconnected(arm, Setup::default());
        bring_to(&mut pair, before);
        let mut change = pair.change_to(0, to);
        spoil(&mut change);
        assert_eq!(pair.modify(0, &change), REFUSED, "to {to:?}, number {number}");
        assert_eq!(pair.state(0), before, "to {to:?}, number {number}");
        pair.close();
    }
}

/// Whoever says which state the queue pair is in must be right.
fn wrong_current_state(arm: &mut dyn Arm) {
    let mut pair = Pair::unconnected(arm, Setup::default());
    bring_to(&mut pair, QpState::Rtr);
    let change = pair.change_to(0, QpState::Rts);
    let wrong = QpChange { current_state: Some(QpState::Rts), ..change };
    assert_eq!(pair.modify(0, &wrong), REFUSED);
    let right = QpChange { current_state: Some(QpState::Rtr), ..change };
    assert_eq!(pair.modify(0, &right), Ok(()));
    pair.close();
}

/// What the queue was not made for is refused when it is posted, and costs nothing.
fn refused_requests(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let sge = pair.sge(0, SOURCE, 8);
    // More than any arm gives when it is asked for four.
    let many = vec![sge; 200];
    assert_eq!(pair.post(0, &request(1, SendOperation::Send, &many)), REFUSED, "too many pieces");
    let qpn = pair.ends[0].qpn;
    let receive = RecvRequest { wr_id: 1, scatter: &many };
    assert_eq!(pair.side(0).post_recv(qpn, &receive), REFUSED, "too many pieces of a receive");
    let long = vec![0; 16_384];
    let parts = [long.as_slice()];
    let inline = SendRequest { data: SendData::Inline(&parts), ..request(1, SendOperation::Send, &[]) };
    assert_eq!(pair.post(0, &inline), REFUSED, "too much inline");
    // It is as if they had not been posted.
    let scatter = pair.sge(1, TARGET, 8);
    pair.recv(1, 2, &[scatter]);
    pair.send(0, 2, SendOperation::Send, &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(2, Status::Success)]);
    assert_eq!(pair.all_received(1, 1), [(2, Status::Success)]);
    pair.assert_nothing_more();
    pair.close();
}

/// Operations that a kind of queue pair does not do (IBTA 9.2.1).
fn wrong_kind(arm: &mut dyn Arm) {
    let remote = Remote { address: 0, rkey: 0 };
    let of_unreliable: &[SendOperation] = &[
        SendOperation::Read(remote),
        SendOperation::FetchAdd { remote, add: 1 },
        SendOperation::CompareSwap { remote, compare: 0, swap: 1 },
        SendOperation::SendWithInvalidate(7),
    ];
    for &operation in of_unreliable {
        let mut pair = Pair::new(arm, Setup { qp_type: QpType::Uc, ..Setup::default() });
        let sge = pair.sge(0, SOURCE, 8);
        assert_eq!(pair.post(0, &request(1, operation, &[sge])), REFUSED, "{operation:?}");
        pair.assert_nothing_more();
        pair.close();
    }
}

const TO_SQD: QpChange = QpChange { state: Some(QpState::Sqd), sqd_notify: Some(true), ..NO_CHANGE };

const NO_CHANGE: QpChange = QpChange {
    state: None,
    current_state: None,
    sqd_notify: None,
    access: None,
    pkey_index: None,
    port: None,
    qkey: None,
    path: None,
    path_mtu: None,
    timeout: None,
    retry_count: None,
    rnr_retry: None,
    rq_psn: None,
    max_rd_atomic: None,
    alternate: None,
    min_rnr_timer: None,
    sq_psn: None,
    max_dest_rd_atomic: None,
    path_mig_state: None,
    capabilities: None,
    dest_qp: None,
    rate_limit: None,
};

/// What was begun is finished, and then an event tells; attributes may change, and the queue goes on.
fn drained(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let qpn = pair.ends[0].qpn;
    pair.store(0, SOURCE, &content(1, 100_000));
    let (sge, remote) = (pair.sge(0, SOURCE, 100_000), pair.remote(0, TARGET));
    for _ in 0..2 {
        pair.send(0, 1, SendOperation::Write(remote), &[sge]);
        assert_eq!(pair.modify(0, &TO_SQD), Ok(()));
        assert_eq!(pair.event(0), AsyncEvent::SqDrained(qpn));
        let sent = pair.ends[0].send_cq;
        if let Some(done) = pair.poll(0, sent) {
            assert_eq!((done.wr_id, done.status), (1, Status::Success), "begun, so finished");
            assert_eq!(pair.load(1, TARGET, 100_000), content(1, 100_000));
        } else {
            pair.set_state(0, QpState::Rts);
            assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)], "not begun, so done now");
            assert_eq!(pair.modify(0, &TO_SQD), Ok(()));
            assert_eq!(pair.event(0), AsyncEvent::SqDrained(qpn));
        }
        let patience = QpChange { state: Some(QpState::Sqd), retry_count: Some(5), ..NO_CHANGE };
        assert_eq!(pair.modify(0, &patience), Ok(()), "the queue stands still");
        pair.set_state(0, QpState::Rts);
    }
    pair.send(0, 2, SendOperation::Write(remote), &[sge]);
    assert_eq!(pair.all_sent(0, 1), [(2, Status::Success)]);
    assert_eq!(pair.event_now(0), None, "one event a drain");
    pair.close();
}

/// What is posted while the queue stands still waits until it goes on; receives are served all the while.
fn drained_queue_waits(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let qpn = pair.ends[0].qpn;
    assert_eq!(pair.modify(0, &TO_SQD), Ok(()));
    assert_eq!(pair.event(0), AsyncEvent::SqDrained(qpn));
    let (sge, scatter) = (pair.sge(0, SOURCE, 8), pair.sge(1, TARGET, 8));
    pair.recv(1, 3, &[scatter]);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    pair.recv(0, 4, &[sge]);
    pair.send(1, 2, SendOperation::Send, &[scatter]);
    assert_eq!(pair.all_sent(1, 1), [(2, Status::Success)]);
    assert_eq!(pair.all_received(0, 1), [(4, Status::Success)]);
    pair.settle();
    pair.assert_nothing_more();
    pair.set_state(0, QpState::Rts);
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.all_received(1, 1), [(3, Status::Success)]);
    pair.close();
}

/// What was set is told.
fn attributes_are_told(arm: &mut dyn Arm) {
    let setup = Setup { psns: [Psn::new(0x12_3456), Psn::new(0x65_4321)], ..Setup::default() };
    let mut pair = Pair::new(arm, setup);
    let (qpn, peer) = (pair.ends[0].qpn, pair.ends[1].qpn);
    let told = pair.side(0).query_qp(qpn).expect("a queue pair");
    assert_eq!(told.state, QpState::Rts);
    assert_eq!((told.dest_qp, told.path_mtu), (peer, setup.mtu));
    assert_eq!((told.sq_psn, told.rq_psn), (setup.psns[0], setup.psns[1]));
    assert_eq!((told.retry_count, told.rnr_retry), (setup.retry_count, setup.rnr_retry));
    assert_eq!((told.max_rd_atomic, told.max_dest_rd_atomic), (setup.rd_atomic, setup.rd_atomic));
    assert_eq!(told.min_rnr_timer, setup.min_rnr_timer);
    let rights = Access { local_write: false, window_bind: false, ..ALL };
    let told = Access { local_write: false, window_bind: false, ..told.access };
    assert_eq!(told, rights);
    pair.close();
}
