//! Verbs of memory regions and windows.

use super::Nic;
use crate::memory::Memory;
use crate::verbs::*;

impl<M: Memory> Nic<M> {
    /// Registers memory: `length` bytes at `address`, which requests name by addresses from `iova` on.
    pub fn reg_mr(
        &mut self,
        pd: Pd,
        address: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<MrInfo, RegisterError> {
        if !self.pds.contains(pd.0) {
            return Err(RegisterError::UnknownHandle);
        }
        let info = self.keys.register(pd, address, length, iova, access)?;
        self.pds.retain(pd.0);
        Ok(info)
    }

    /// Changes a region in place, or changes nothing at all. Its keys stay as they were.
    pub fn rereg_mr(&mut self, mr: Mr, change: MrChange) -> Result<MrInfo, RegisterError> {
        if change == MrChange::default() {
            return Err(RegisterError::InvalidAttribute);
        }
        if change.pd.is_some_and(|pd| !self.pds.contains(pd.0)) {
            return Err(RegisterError::UnknownHandle);
        }
        let old = self.keys.reregister(mr, change)?;
        if let Some(new) = change.pd {
            self.pds.retain(new.0);
            self.pds.release(old.0);
        }
        self.keys.info(mr).ok_or(RegisterError::UnknownHandle)
    }

    /// Ends a region that no window is bound to. Its keys are dead when this returns.
    pub fn dereg_mr(&mut self, mr: Mr) -> Result<(), DestroyError> {
        let pd = self.keys.deregister(mr)?;
        self.pds.release(pd.0);
        Ok(())
    }

    /// Makes a window; returns it and its first remote key.
    pub fn alloc_mw(&mut self, pd: Pd, mw_type: MwType) -> Result<(Mw, u32), CreateError> {
        if !self.pds.contains(pd.0) {
            return Err(CreateError::UnknownHandle);
        }
        let window = self.keys.allocate_window(pd, mw_type)?;
        self.pds.retain(pd.0);
        Ok(window)
    }

    /// Unmakes it, unbinding it first.
    pub fn dealloc_mw(&mut self, mw: Mw) -> Result<(), DestroyError> {
        let pd = self.keys.deallocate_window(mw)?;
        self.pds.release(pd.0);
        Ok(())
    }
}
