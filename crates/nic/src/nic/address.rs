//! Verbs of address handles and multicast groups.

use wire::{Gid, Qpn};

use super::Nic;
use crate::memory::Memory;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Makes an address handle.
    pub fn create_ah(&mut self, pd: Pd, path: AddressVector) -> Result<Ah, CreateError> {
        if !self.pds.contains(pd.0) {
            return Err(CreateError::UnknownHandle);
        }
        let ah = self.ahs.create(pd, path, &self.port)?;
        self.pds.retain(pd.0);
        Ok(ah)
    }

    /// Unmakes it. Sends posted with it still go where it pointed.
    pub fn destroy_ah(&mut self, ah: Ah) -> Result<(), DestroyError> {
        let pd = self.ahs.destroy(ah)?;
        self.pds.release(pd.0);
        Ok(())
    }

    /// Delivers a multicast group's datagrams to a queue pair; once, however often it is attached. True
    /// if it is the group's first here.
    pub fn attach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<bool, MulticastError> {
        let qp = self.qps.get(qpn).ok_or(MulticastError::UnknownHandle)?;
        if qp.attributes.init.qp_type != QpType::Ud {
            return Err(MulticastError::NotUd);
        }
        if self.groups.contains(group, qpn) {
            return Ok(false);
        }
        let first = self.groups.attach(group, qpn)?;
        self.qps.retain(qpn);
        Ok(first)
    }

    /// Ends that. True if it was the group's last here.
    pub fn detach_mcast(&mut self, qpn: Qpn, group: Gid) -> Result<bool, MulticastError> {
        if self.qps.get(qpn).is_none() {
            return Err(MulticastError::UnknownHandle);
        }
        let last = self.groups.detach(group, qpn)?;
        self.qps.release(qpn);
        Ok(last)
    }
}
