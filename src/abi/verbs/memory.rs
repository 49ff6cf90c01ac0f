//! Protection domains, memory regions and memory windows.

use std::ffi::{c_int, c_uint, c_void};

use nic::verbs::{self, DestroyError, MrChange, MwType};

use super::context::ContextRef;
use crate::abi::{
    convert::{Flags, access},
    errno::{Errno, pointer, status},
    object::{Object, Visible},
    types::{
        constants::*,
        context::ibv_context,
        memory::{ibv_mr, ibv_mw, ibv_pd},
    },
};

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    c: Visible<ibv_pd>,
    pub(super) context: ContextRef,
    pub(super) handle: verbs::Pd,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Pd {
    type C = ibv_pd;
}

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    c: Visible<ibv_mr>,
    context: ContextRef,
    handle: verbs::Mr,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Mr {
    type C = ibv_mr;
}

impl Mr {
    /// The region's local key, as the program sees it.
    pub(crate) fn lkey(&self) -> u32 {
        // SAFETY: the program promises not to change a region while it uses it.
        unsafe { (*self.c.get()).lkey }
    }
}

/// A memory window.
#[repr(C)]
pub(crate) struct Mw {
    c: Visible<ibv_mw>,
    context: ContextRef,
    handle: verbs::Mw,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Mw {
    type C = ibv_mw;
}

impl Mw {
    /// The adapter's name for it.
    pub(crate) fn handle(&self) -> verbs::Mw {
        self.handle
    }
}

/// `ibv_alloc_pd(3)`.
///
/// # Safety
///
/// `context` is an open device.
pub(in crate::abi) unsafe extern "C" fn alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    // SAFETY: the caller passes an open device.
    let device = unsafe { ContextRef::of(context) };
    let pd = device.adapter.alloc_pd().map(|handle| {
        let c = Visible::new(ibv_pd { context, handle: handle.0 });
        Pd { c, context: device, handle }.hand_out()
    });
    pointer(pd.map_err(Errno::from))
}

/// `ibv_dealloc_pd(3)`.
///
/// # Safety
///
/// `pd` is a protection domain.
pub(super) unsafe extern "C" fn dealloc_pd(pd: *mut ibv_pd) -> c_int {
    // SAFETY: the caller passes a protection domain.
    let domain = unsafe { Pd::of(pd) };
    let result = domain.context.adapter.dealloc_pd(domain.handle);
    if result.is_ok() {
        // SAFETY: the adapter knows no user of it.
        unsafe { Pd::take_back(pd) };
    }
    status(result.map_err(Errno::from))
}

/// `ibv_reg_mr(3)`.
///
/// # Safety
///
/// `pd` is a protection domain; the memory stays mapped while the region lives.
pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promises are passed on.
    unsafe { reg_mr_iova2(pd, address, length, address as u64, access.cast_unsigned()) }
}

/// `ibv_reg_mr_iova(3)`.
///
/// # Safety
///
/// As for [`reg_mr`].
pub(super) unsafe extern "C" fn reg_mr_iova(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the caller's promises are passed on.
    unsafe { reg_mr_iova2(pd, address, length, iova, access.cast_unsigned()) }
}

/// `ibv_reg_mr_iova2`: what `verbs.h` calls where optional rights may be asked for.
///
/// # Safety
///
/// As for [`reg_mr`].
pub(super) unsafe extern "C" fn reg_mr_iova2(
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    iova: u64,
    flags: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the caller passes a protection domain.
    let domain = unsafe { Pd::of(pd) };
    let register = || -> Result<*mut ibv_mr, Errno> {
        let rights = access(flags)?;
        check_mapped(address as usize, length)?;
        // SAFETY: the caller keeps the memory mapped and lets peers access it, as the rights say.
        let info = unsafe {
            domain.context.adapter.reg_mr(domain.handle, address as u64, length as u64, iova, rights)
        }?;
        let c = ibv_mr {
            context: domain.context.c(),
            pd,
            addr: address,
            length,
            handle: info.mr.0,
            lkey: info.lkey,
            rkey: info.rkey,
        };
        Ok(Mr { c: Visible::new(c), context: domain.context, handle: info.mr }.hand_out())
    };
    pointer(register())
}

/// An error if any page of the range is not mapped: found here, it costs a look at the address space; found when a packet
/// arrives, it would end the process.
fn check_mapped(address: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: the call has no preconditions.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
    let start = address - address % page;
    let Some(end) = address.checked_add(length) else { return Err(Errno::INVALID) };
    // SAFETY: with MS_ASYNC the call changes nothing: it reports whether the range is mapped.
    let mapped =
        length == 0 || unsafe { libc::msync(start as *mut c_void, end - start, libc::MS_ASYNC) } == 0;
    if mapped { Ok(()) } else { Err(Errno(libc::EFAULT)) }
}

/// `ibv_rereg_mr(3)`.
///
/// # Safety
///
/// `mr` is a memory region, `pd` a protection domain if that is to change, and the memory stays mapped as for [`reg_mr`].
pub(super) unsafe extern "C" fn rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    address: *mut c_void,
    length: usize,
    access_flags: c_int,
) -> c_int {
    let known = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
    let translates = flags.has(IBV_REREG_MR_CHANGE_TRANSLATION);
    let changes_rights = flags.has(IBV_REREG_MR_CHANGE_ACCESS);
    let changes_pd = flags.has(IBV_REREG_MR_CHANGE_PD);
    let valid = flags.only(known, Errno::INVALID).is_ok()
        && !(translates && (length == 0 || address.is_null()))
        && !(changes_pd && pd.is_null())
        && (access_flags == 0 || changes_rights);
    if !valid {
        Errno::INVALID.set();
        return IBV_REREG_MR_ERR_INPUT;
    }
    // SAFETY: the caller passes a region, and a protection domain if that is to change.
    let (region, domain) = unsafe { (Mr::of(mr), changes_pd.then(|| Pd::of(pd))) };
    let change = || -> Result<(), Errno> {
        if translates {
            check_mapped(address as usize, length)?;
        }
        let change = MrChange {
            pd: domain.map(|domain| domain.handle),
            translation: translates.then_some((address as u64, length as u64, address as u64)),
            access: changes_rights.then(|| access(access_flags.cast_unsigned())).transpose()?,
        };
        // SAFETY: the caller keeps the memory mapped and lets peers access it, as the rights say.
        let info = unsafe { region.context.adapter.rereg_mr(region.handle, change) }?;
        // SAFETY: the region is the program's, which does not use it elsewhere during this call.
        let c = unsafe { &mut *region.c.get() };
        (c.lkey, c.rkey) = (info.lkey, info.rkey);
        if changes_pd {
            c.pd = pd;
        }
        if translates {
            (c.addr, c.length) = (address, length);
        }
        Ok(())
    };
    match change() {
        Ok(()) => 0,
        Err(error) => {
            error.set();
            // The region is as it was, but the manual page has no other word for a refusal by the device.
            IBV_REREG_MR_ERR_CMD
        }
    }
}

/// `ibv_dereg_mr(3)`.
///
/// # Safety
///
/// `mr` is a memory region.
pub(super) unsafe extern "C" fn dereg_mr(mr: *mut ibv_mr) -> c_int {
    // SAFETY: the caller passes a region.
    let region = unsafe { Mr::of(mr) };
    let result = region.context.adapter.dereg_mr(region.handle);
    if result.is_ok() {
        // SAFETY: its keys are dead.
        unsafe { Mr::take_back(mr) };
    }
    status(result.map_err(|error| match error {
        DestroyError::Busy => Errno::INVALID, // a window is bound to it; Linux does not say EBUSY here
        error => error.into(),
    }))
}

/// `ibv_alloc_mw(3)`.
///
/// # Safety
///
/// `pd` is a protection domain.
pub(super) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, mw_type: c_uint) -> *mut ibv_mw {
    // SAFETY: the caller passes a protection domain.
    let domain = unsafe { Pd::of(pd) };
    let allocate = || -> Result<*mut ibv_mw, Errno> {
        let kind = match mw_type {
            IBV_MW_TYPE_1 => MwType::Type1,
            IBV_MW_TYPE_2 => MwType::Type2,
            _ => return Err(Errno::INVALID),
        };
        let (handle, rkey) = domain.context.adapter.alloc_mw(domain.handle, kind)?;
        let c = ibv_mw { context: domain.context.c(), pd, rkey, handle: handle.0, r#type: mw_type };
        Ok(Mw { c: Visible::new(c), context: domain.context, handle }.hand_out())
    };
    pointer(allocate())
}

/// `ibv_dealloc_mw(3)`.
///
/// # Safety
///
/// `mw` is a memory window.
pub(super) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    // SAFETY: the caller passes a window.
    let window = unsafe { Mw::of(mw) };
    let result = window.context.adapter.dealloc_mw(window.handle);
    if result.is_ok() {
        // SAFETY: the adapter has forgotten it.
        unsafe { Mw::take_back(mw) };
    }
    status(result.map_err(Errno::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_mapped_is_found_out() {
        let bytes = [0_u8; 100];
        let address = bytes.as_ptr() as usize;
        assert_eq!(check_mapped(address, bytes.len()), Ok(()));
        assert_eq!(check_mapped(address + 1, 0), Ok(()));
        assert_eq!(check_mapped(0, 4096), Err(Errno(libc::EFAULT)));
        assert_eq!(check_mapped(usize::MAX - 10, 20), Err(Errno::INVALID));
    }
}
