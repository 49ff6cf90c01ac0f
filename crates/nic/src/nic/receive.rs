//! Verbs of shared receive queues.

use super::Nic;
use crate::memory::Memory;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Makes a shared receive queue; returns it and its real attributes.
    pub fn create_srq(
        &mut self,
        pd: Pd,
        attributes: SrqAttributes,
    ) -> Result<(Srq, SrqAttributes), CreateError> {
        if !self.pds.contains(pd.0) {
            return Err(CreateError::UnknownHandle);
        }
        let created = self.srqs.create(pd, attributes)?;
        self.pds.retain(pd.0);
        Ok(created)
    }

    /// Changes it, or changes nothing at all; returns its real attributes.
    pub fn modify_srq(&mut self, srq: Srq, change: SrqChange) -> Result<SrqAttributes, ModifySrqError> {
        self.srqs.modify(srq, change)
    }

    /// Its attributes. The limit is zero once its event was raised.
    pub fn query_srq(&self, srq: Srq) -> Option<SrqAttributes> {
        self.srqs.query(srq)
    }

    /// Unmakes one that no queue pair takes receives from. Its events are forgotten.
    pub fn destroy_srq(&mut self, srq: Srq) -> Result<(), DestroyError> {
        let pd = self.srqs.destroy(srq)?;
        self.events.retain(|event| event.shared_receive_queue() != Some(srq));
        self.pds.release(pd.0);
        Ok(())
    }

    /// Posts a receive on it.
    pub fn post_srq_recv(&mut self, srq: Srq, request: &RecvRequest<'_>) -> Result<(), PostError> {
        self.srqs.post(srq, request)
    }
}
