//! Which queue pairs want to send, and when the others want to be woken.

use alloc::collections::{BinaryHeap, VecDeque};
use core::cmp::Reverse;

use wire::Qpn;

use crate::qp::{QueuePair, Scheduled};
use crate::time::Instant;

/// Queue pairs that want to send take turns, one run each; single packets that answer a peer go first.
///
/// Wake-ups are lazy: a deadline that moves away, as the retransmit timer does with every answer, leaves
/// the old wake-up in place, and the queue pair is looked at once too early instead of the heap being
/// updated with every packet.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    urgent: VecDeque<Qpn>,
    ready: VecDeque<Qpn>,
    wakeups: BinaryHeap<Reverse<(Instant, Qpn)>>,
}

impl Schedule {
    /// Takes note of what a queue pair wants.
    pub fn note(&mut self, qp: &mut QueuePair) {
        let Scheduled { is_ready, is_urgent, .. } = qp.scheduled;
        if !is_urgent && qp.is_urgent() {
            qp.scheduled.is_urgent = true;
            self.urgent.push_back(qp.qpn);
        }
        if !is_ready && qp.wants_transmit() {
            qp.scheduled.is_ready = true;
            self.ready.push_back(qp.qpn);
        }
        self.note_timeout(qp);
    }

    /// Takes note of when a queue pair wants to be woken.
    pub fn note_timeout(&mut self, qp: &mut QueuePair) {
        let Some(timeout) = qp.next_timeout() else { return };
        if qp.scheduled.wakeup.is_none_or(|wakeup| timeout < wakeup) {
            qp.scheduled.wakeup = Some(timeout);
            self.wakeups.push(Reverse((timeout, qp.qpn)));
        }
    }

    /// Removes the queue pair whose turn it is to send from its list; it is noted again if it goes on.
    /// True if it was in the urgent list.
    pub fn next_ready(&mut self) -> Option<(Qpn, bool)> {
        let urgent = self.urgent.pop_front().map(|qpn| (qpn, true));
        urgent.or_else(|| self.ready.pop_front().map(|qpn| (qpn, false)))
    }

    /// The earliest wake-up.
    pub fn next_wakeup(&self) -> Option<Instant> {
        self.wakeups.peek().map(|Reverse((time, _))| *time)
    }

    /// Removes a wake-up that is due. Its queue pair may be gone, or have another by now.
    pub fn pop_wakeup(&mut self, now: Instant) -> Option<(Instant, Qpn)> {
        if self.next_wakeup()? > now {
            return None;
        }
        self.wakeups.pop().map(|Reverse(wakeup)| wakeup)
    }
}
