//! Memory windows: rights on a part of a region, given and taken back by work requests (IBTA 10.6.7).

use wire::Qpn;

use super::{Entry, KeyError, KeyTable, Object, Region, Span, check_pd};
use crate::verbs::{Access, Binding, DestroyError, Mr, Mw, MwType, Pd};

/// Why a window is not bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BindError {
    /// The window does not exist.
    UnknownWindow,
    /// The local key names no region.
    UnknownRegion,
    /// Window, region and queue pair do not belong to one protection domain.
    WrongPd,
    /// A type 2 window is bound already: invalidate it first.
    AlreadyBound,
    /// Only a type 1 window can be bound to nothing.
    NoLength,
    /// A type 1 window has no zero-based addresses.
    ZeroBasedWindow,
    /// The region has zero-based addresses.
    ZeroBasedRegion,
    /// The region was not registered for binding.
    NoBindRight,
    /// What peers may write through the window, the adapter must be allowed to write.
    NeedsLocalWrite,
    /// The range is not inside the region.
    OutOfBounds,
}

#[derive(Debug)]
pub(super) struct Window {
    pub mw_type: MwType,
    pub bound: Option<Bound>,
}

/// What a window is bound to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    /// The region underneath.
    region: Mr,
    span: Span,
    access: Access,
    /// The queue pair whose peer may use it, if not all of the protection domain (type 2).
    qpn: Option<Qpn>,
}

impl Window {
    /// What a peer of queue pair `qpn` reaches through the window.
    pub fn reach(&self, own_pd: Pd, pd: Pd, qpn: Qpn) -> Result<(Span, Access), KeyError> {
        let bound = self.bound.as_ref().ok_or(KeyError::Unknown)?;
        check_pd(own_pd, pd)?;
        if bound.qpn.is_some_and(|owner| owner != qpn) {
            return Err(KeyError::WrongQp);
        }
        Ok((bound.span, bound.access))
    }
}

impl KeyTable {
    /// Unmakes a window, unbinding it first; returns its protection domain.
    pub fn deallocate_window(&mut self, mw: Mw) -> Result<Pd, DestroyError> {
        let (pd, _) = self.window(mw).ok_or(DestroyError::UnknownHandle)?;
        self.unbind(mw);
        self.table.remove(mw.0)?;
        self.windows.taken -= 1;
        Ok(pd)
    }

    /// Carries out a bind request of queue pair `qpn`, or changes nothing at all. The low byte of `rkey`
    /// becomes that of the window's key, and may be what it was. A type 1 window is moved from what it
    /// was bound to, or unbound by a length of zero; a type 2 window must be unbound.
    pub fn bind(&mut self, pd: Pd, qpn: Qpn, mw: Mw, rkey: u32, binding: &Binding) -> Result<(), BindError> {
        let (window_pd, window) = self.window(mw).ok_or(BindError::UnknownWindow)?;
        if window_pd != pd {
            return Err(BindError::WrongPd);
        }
        let owner = match window.mw_type {
            MwType::Type1 if binding.access.zero_based => return Err(BindError::ZeroBasedWindow),
            MwType::Type1 => None,
            MwType::Type2 if window.bound.is_some() => return Err(BindError::AlreadyBound),
            MwType::Type2 if binding.length == 0 => return Err(BindError::NoLength),
            MwType::Type2 => Some(qpn),
        };
        let bound = if binding.length == 0 { None } else { Some(self.check_binding(pd, owner, binding)?) };
        self.unbind(mw);
        self.set_bound(mw, rkey as u8, bound);
        Ok(())
    }

    /// Takes a type 2 window's rights back at the request of queue pair `qpn` or its peer. Regions made
    /// by `reg_mr` and type 1 windows stay (IBTA 10.6.5.4, 10.6.7.2.6).
    pub fn invalidate(&mut self, pd: Pd, qpn: Qpn, key: u32) -> Result<(), KeyError> {
        let (index, entry) = self.find(key)?;
        check_pd(entry.pd, pd)?;
        let Object::Window(Window { mw_type: MwType::Type2, bound }) = &entry.object else {
            return Err(KeyError::NotInvalidatable);
        };
        match bound {
            None => Err(KeyError::Unknown),
            Some(bound) if bound.qpn != Some(qpn) => Err(KeyError::WrongQp),
            Some(_) => {
                self.unbind(Mw(index));
                Ok(())
            }
        }
    }

    /// Unbinds the windows bound to a queue pair that is going away.
    pub fn unbind_all(&mut self, qpn: Qpn) {
        if self.bound_to_qps == 0 {
            return;
        }
        let is_bound = |entry: &Entry| match &entry.object {
            Object::Window(window) => window.bound.is_some_and(|bound| bound.qpn == Some(qpn)),
            Object::Region(_) => false,
        };
        let bound: alloc::vec::Vec<u32> =
            self.table.iter_mut().filter(|(_, entry)| is_bound(entry)).map(|(index, _)| index).collect();
        for index in bound {
            self.unbind(Mw(index));
        }
    }

    /// The checks of IBTA 10.6.7.2.5 on the region underneath.
    fn check_binding(&self, pd: Pd, qpn: Option<Qpn>, binding: &Binding) -> Result<Bound, BindError> {
        let (index, entry) = self.find(binding.lkey).map_err(|_| BindError::UnknownRegion)?;
        let Object::Region(region) = &entry.object else { return Err(BindError::UnknownRegion) };
        if entry.pd != pd {
            return Err(BindError::WrongPd);
        }
        if region.access.zero_based {
            return Err(BindError::ZeroBasedRegion);
        }
        if !region.access.window_bind {
            return Err(BindError::NoBindRight);
        }
        let access = binding.access;
        if (access.remote_write || access.remote_atomic) && !region.access.local_write {
            return Err(BindError::NeedsLocalWrite);
        }
        let Ok(address) = region.span.translate(binding.address, binding.length) else {
            return Err(BindError::OutOfBounds);
        };
        let iova = if access.zero_based { 0 } else { binding.address };
        Ok(Bound { region: Mr(index), span: Span { iova, address, length: binding.length }, access, qpn })
    }

    fn set_bound(&mut self, mw: Mw, tag: u8, bound: Option<Bound>) {
        if let Some(bound) = bound {
            if let Some(region) = self.region_mut(bound.region) {
                region.windows += 1;
            }
            self.bound_to_qps += usize::from(bound.qpn.is_some());
        }
        if let Some(entry) = self.table.get_mut(mw.0) {
            entry.tag = tag;
            if let Object::Window(window) = &mut entry.object {
                window.bound = bound;
            }
        }
    }

    fn unbind(&mut self, mw: Mw) {
        let bound = match self.table.get_mut(mw.0) {
            Some(Entry { object: Object::Window(window), .. }) => window.bound.take(),
            _ => None,
        };
        if let Some(bound) = bound {
            self.bound_to_qps -= usize::from(bound.qpn.is_some());
            if let Some(region) = self.region_mut(bound.region) {
                region.windows -= 1;
            }
        }
    }

    fn window(&self, mw: Mw) -> Option<(Pd, &Window)> {
        let entry = self.table.get(mw.0)?;
        match &entry.object {
            Object::Window(window) => Some((entry.pd, window)),
            Object::Region(_) => None,
        }
    }

    fn region_mut(&mut self, mr: Mr) -> Option<&mut Region> {
        match self.table.get_mut(mr.0) {
            Some(Entry { object: Object::Region(region), .. }) => Some(region),
            _ => None,
        }
    }
}
