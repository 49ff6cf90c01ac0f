//! Verbs of queue pairs.

use wire::Qpn;

use super::Nic;
use crate::memory::Memory;
use crate::qp::{QueuePair, modified};
use crate::time::Instant;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Makes a queue pair in RESET; returns its number and the sizes granted. With a shared receive
    /// queue, the sizes of its own are ignored.
    pub fn create_qp(&mut self, init: &QpInit) -> Result<(Qpn, QpCapabilities), CreateError> {
        let known = self.pds.contains(init.pd.0)
            && self.cqs.contains(init.send_cq)
            && self.cqs.contains(init.recv_cq)
            && init.srq.is_none_or(|srq| self.srqs.pd(srq).is_some());
        if !known {
            return Err(CreateError::UnknownHandle);
        }
        let capabilities = granted(init, &self.config.limits).ok_or(CreateError::InvalidSize)?;
        let init = QpInit { capabilities, ..*init };
        let made = self.qps.insert_with(|qpn| QueuePair::new(qpn, init, &self.config));
        let qpn = made.map_err(|_| CreateError::TooMany)?;
        self.retain_parts(&init);
        Ok((qpn, capabilities))
    }

    /// Changes its attributes or moves it to another state, or changes nothing at all.
    ///
    /// RESET forgets everything but what it was created with, and its completions leave the completion
    /// queues. ERROR completes every request of both queues as flushed.
    pub fn modify_qp(&mut self, now: Instant, qpn: Qpn, change: &QpChange) -> Result<(), ModifyQpError> {
        let qp = self.qps.get_mut(qpn).ok_or(ModifyQpError::UnknownHandle)?;
        let attributes = modified(&qp.attributes, change, &self.config.limits, &self.port)?;
        let from = qp.state();
        if attributes.state == QpState::Reset {
            *qp = QueuePair::new(qpn, attributes.init, &self.config);
            self.purge_completions(qpn, &attributes.init);
        } else {
            qp.attributes = attributes;
            self.on_modified(now, qpn, from);
        }
        Ok(())
    }

    /// All its attributes.
    pub fn query_qp(&self, qpn: Qpn) -> Option<QpAttributes> {
        self.qps.get(qpn).map(QueuePair::query)
    }

    /// Unmakes one that is in no multicast group. Its completions leave the completion queues, its
    /// events are forgotten, and windows bound to it are unbound.
    pub fn destroy_qp(&mut self, qpn: Qpn) -> Result<(), DestroyError> {
        let init = self.qps.remove(qpn)?.attributes.init;
        self.purge_completions(qpn, &init);
        self.events.retain(|event| event.queue_pair() != Some(qpn));
        self.keys.unbind_all(qpn);
        self.release_parts(&init);
        Ok(())
    }

    fn purge_completions(&mut self, qpn: Qpn, init: &QpInit) {
        self.cqs.purge(init.send_cq, qpn);
        if init.recv_cq != init.send_cq {
            self.cqs.purge(init.recv_cq, qpn);
        }
    }

    fn retain_parts(&mut self, init: &QpInit) {
        self.pds.retain(init.pd.0);
        self.cqs.retain(init.send_cq);
        self.cqs.retain(init.recv_cq);
        if let Some(srq) = init.srq {
            self.srqs.retain(srq);
        }
    }

    fn release_parts(&mut self, init: &QpInit) {
        self.pds.release(init.pd.0);
        self.cqs.release(init.send_cq);
        self.cqs.release(init.recv_cq);
        if let Some(srq) = init.srq {
            self.srqs.release(srq);
        }
    }
}

/// The sizes a queue pair is given: those asked for, if the adapter has them.
fn granted(init: &QpInit, limits: &Limits) -> Option<QpCapabilities> {
    let asked = match init.srq {
        Some(_) => QpCapabilities { max_recv_wr: 0, max_recv_sge: 0, ..init.capabilities },
        None => init.capabilities,
    };
    let fits = asked.max_send_wr <= limits.max_qp_wr
        && asked.max_recv_wr <= limits.max_qp_wr
        && asked.max_send_sge <= limits.max_sge
        && asked.max_recv_sge <= limits.max_sge
        && asked.max_inline_data <= limits.max_inline_data;
    fits.then_some(asked)
}
