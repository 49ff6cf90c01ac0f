//! One queue pair: its attributes, its queues and its protocol machines.

mod modify;
mod state;
mod table;

pub(crate) use modify::modified;
pub(crate) use table::QpTable;

use wire::Qpn;

use crate::receive::ReceiveQueue;
use crate::verbs::{QpAttributes, QpInit, QpState};

/// A queue pair.
#[derive(Debug)]
pub(crate) struct QueuePair {
    /// Its number.
    pub qpn: Qpn,
    /// What `modify_qp` set, checked; the protocol machines take their parameters from here. PSNs are
    /// those it was set to, not those it has come to.
    pub attributes: QpAttributes,
    /// Its own receive queue; empty and unused with a shared one.
    pub receives: ReceiveQueue,
}

impl QueuePair {
    /// A queue pair in RESET, of objects that exist and sizes that were checked.
    pub fn new(qpn: Qpn, init: QpInit) -> Self {
        let sizes = init.capabilities;
        Self {
            qpn,
            attributes: QpAttributes::in_reset(init),
            receives: ReceiveQueue::new(sizes.max_recv_wr, sizes.max_recv_sge),
        }
    }

    /// Its state.
    pub fn state(&self) -> QpState {
        self.attributes.state
    }
}
