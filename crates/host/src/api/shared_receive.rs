//! Shared receive queues.

use std::sync::Arc;

use nic::verbs::{CreateError, ModifySrqError, PostError, Srq, SrqAttributes, SrqChange};

use super::context::Context;
use super::domain::ProtectionDomain;
use super::region::RegionSlice;
use super::work::Receive;

/// Receives for any number of queue pairs. Clones are the same one.
#[derive(Clone, Debug)]
pub struct SharedReceiveQueue {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    pd: ProtectionDomain,
    srq: Srq,
}

impl SharedReceiveQueue {
    pub(super) fn new(pd: ProtectionDomain, attributes: SrqAttributes) -> Result<Self, CreateError> {
        let (srq, _) = pd.adapter().create_srq(pd.handle(), attributes)?;
        Ok(Self { inner: Arc::new(Inner { pd, srq }) })
    }

    /// The name by which asynchronous events tell of it.
    pub fn handle(&self) -> Srq {
        self.inner.srq
    }

    /// Posts a receive: what arrives goes to `scatter`, and the completion bears `wr_id`.
    pub fn receive(&self, wr_id: u64, scatter: &[RegionSlice<'_>]) -> Result<(), PostError> {
        Receive { wr_id, scatter }.as_request(self.context(), |request| {
            self.inner.pd.adapter().post(|poster| poster.srq_recv(self.inner.srq, request))
        })
    }

    /// Its size, and its limit unless that was reached.
    pub fn attributes(&self) -> SrqAttributes {
        self.inner.pd.adapter().query_srq(self.inner.srq).unwrap_or_default()
    }

    /// Changes its size; returns the real one. A refused change leaves it as it was.
    pub fn resize(&self, max_wr: u32) -> Result<u32, ModifySrqError> {
        let change = SrqChange { max_wr: Some(max_wr), ..SrqChange::default() };
        Ok(self.inner.pd.adapter().modify_srq(self.inner.srq, change)?.max_wr)
    }

    /// Asks for one event when fewer than `limit` receives are left.
    pub fn arm_limit(&self, limit: u32) -> Result<(), ModifySrqError> {
        let change = SrqChange { limit: Some(limit), ..SrqChange::default() };
        self.inner.pd.adapter().modify_srq(self.inner.srq, change).map(drop)
    }

    pub(super) fn context(&self) -> &Context {
        self.inner.pd.context()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Its queue pairs held a clone, so it is unused.
        let _ = self.pd.adapter().destroy_srq(self.srq);
    }
}
