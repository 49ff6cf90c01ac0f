//! Verbs of queue pairs.

use wire::Qpn;

use super::Nic;
use crate::memory::Memory;
use crate::time::Instant;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Makes a queue pair in RESET; returns its number and the sizes granted.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<(Qpn, QpCapabilities), CreateError> {
        let _ = init;
        todo!()
    }

    /// Changes its attributes or moves it to another state, or changes nothing at all.
    pub fn modify_qp(&mut self, now: Instant, qpn: Qpn, change: &QpChange) -> Result<(), ModifyQpError> {
        let _ = (now, qpn, change);
        todo!()
    }

    /// All its attributes.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpAttributes> {
        self.qps.get(qpn).map(|qp| qp.attributes)
    }

    /// Unmakes it; its completions leave the completion queues.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DestroyError> {
        let _ = qpn;
        todo!()
    }
}
