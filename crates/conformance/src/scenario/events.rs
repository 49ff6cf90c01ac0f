//! Completion events: when they come, and when they do not.

use nic::verbs::*;

use super::{
    Scenario,
    pair::{Pair, Setup, request},
    scenario,
    transfer::{SOURCE, TARGET},
};
use crate::arm::{Arm, Need};

pub(super) const SCENARIOS: &[Scenario] = &[
    scenario("completion_events", completion_events),
    scenario("solicited_events", solicited_events),
    scenario("failures_are_solicited", failures_are_solicited),
    scenario("communication_established", communication_established).needing(&[Need::QueuePairEvents]),
];

/// A message from end 0 to end 1, received and polled.
fn message(pair: &mut Pair<'_>, solicited: bool) {
    let scatter = pair.sge(1, TARGET, 8);
    pair.recv(1, 1, &[scatter]);
    let sge = pair.sge(0, SOURCE, 8);
    let flags = SendFlags { solicited, ..SendFlags::default() };
    let send = request(1, SendOperation::Send, std::slice::from_ref(&sge));
    pair.post(0, &SendRequest { flags, ..send }).expect("a request");
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.all_received(1, 1), [(1, Status::Success)]);
}

/// The next completion event of end 1, for which it waits.
fn event(pair: &mut Pair<'_>) -> Cq {
    pair.until("a completion event", |pair| pair.side(1).cq_event())
}

/// A queue that was not armed is silent; one that was tells once.
fn completion_events(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let cq = pair.ends[1].recv_cq;
    message(&mut pair, false);
    assert_eq!(pair.side(1).cq_event(), None, "not armed");
    for _ in 0..3 {
        pair.side(1).req_notify_cq(cq, false).expect("a completion queue");
        assert_eq!(pair.side(1).cq_event(), None, "armed, and nothing has come");
        message(&mut pair, false);
        assert_eq!(event(&mut pair), cq);
        message(&mut pair, false);
        message(&mut pair, true);
        pair.settle();
        assert_eq!(pair.side(1).cq_event(), None, "once only");
    }
    pair.close();
}

/// Armed for solicited messages only, a queue is silent about others.
fn solicited_events(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let cq = pair.ends[1].recv_cq;
    for _ in 0..2 {
        pair.side(1).req_notify_cq(cq, true).expect("a completion queue");
        message(&mut pair, false);
        pair.settle();
        assert_eq!(pair.side(1).cq_event(), None, "not solicited");
        message(&mut pair, true);
        assert_eq!(event(&mut pair), cq);
    }
    // Whoever asks for any completion is not held back by having asked for less before.
    pair.side(1).req_notify_cq(cq, true).expect("a completion queue");
    pair.side(1).req_notify_cq(cq, false).expect("a completion queue");
    message(&mut pair, false);
    assert_eq!(event(&mut pair), cq);
    pair.close();
}

/// A failure is told of though only solicited messages were asked for.
fn failures_are_solicited(arm: &mut dyn Arm) {
    let mut pair = Pair::new(arm, Setup::default());
    let cq = pair.ends[1].recv_cq;
    let scatter = pair.sge(1, TARGET, 8);
    pair.recv(1, 1, &[scatter]);
    pair.side(1).req_notify_cq(cq, true).expect("a completion queue");
    pair.set_state(1, QpState::Error);
    assert_eq!(event(&mut pair), cq);
    assert_eq!(pair.all_received(1, 1), [(1, Status::WorkRequestFlushed)]);
    pair.close();
}

/// A message that arrives in RTR tells that the connection came alive (IBTA 11.6.3.2).
fn communication_established(arm: &mut dyn Arm) {
    let mut pair = Pair::unconnected(arm, Setup::default());
    for (index, last) in [(1, QpState::Rtr), (0, QpState::Rts)] {
        for state in [QpState::Init, QpState::Rtr, QpState::Rts] {
            let change = pair.change_to(index, state);
            pair.modify(index, &change).expect("a step towards RTS");
            if state == last {
                break;
            }
        }
    }
    let scatter = pair.sge(1, TARGET, 8);
    pair.recv(1, 1, &[scatter]);
    let sge = pair.sge(0, SOURCE, 8);
    pair.send(0, 1, SendOperation::Send, &[sge]);
    let qpn = pair.ends[1].qpn;
    let event = pair.until("an asynchronous event", |pair| pair.side(1).async_event());
    assert_eq!(event, AsyncEvent::CommunicationEstablished(qpn));
    assert_eq!(pair.all_sent(0, 1), [(1, Status::Success)]);
    assert_eq!(pair.all_received(1, 1), [(1, Status::Success)]);
    pair.close();
}
