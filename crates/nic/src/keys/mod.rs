//! Memory keys: which memory a local or remote key gives access to (IBTA 10.6).
//!
//! Regions and windows share one table. A key is an index into it and a tag: 24 and 8 bits. The index
//! finds the object at once and the tag must match. A region's local and remote keys are equal, its
//! rights differ. Registering costs the same whatever the length: nothing is pinned or copied.

#[cfg(test)]
mod tests;
mod window;

use crate::memory::Segment;
use crate::random::Random;
use crate::table::Table;
use crate::verbs::{
    Access, CreateError, DestroyError, Limits, Mr, MrChange, MrInfo, Mw, MwType, Pd, RegisterError, Sge,
};
use wire::Qpn;

use window::Window;

/// Why a key gives no access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// It names no region or bound window.
    Unknown,
    /// What it names belongs to another protection domain.
    WrongPd,
    /// The window it names is bound to another queue pair.
    WrongQp,
    /// What it names does not give this right.
    NoRight,
    /// The range is not inside what it names.
    OutOfBounds,
    /// An atomic's word is not aligned to its 8 bytes.
    Misaligned,
    /// What it names cannot be invalidated by a work request.
    NotInvalidatable,
}

/// What a peer wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RemoteNeed {
    /// RDMA READ.
    Read,
    /// RDMA WRITE.
    Write,
    /// An atomic operation.
    Atomic,
}

impl RemoteNeed {
    /// Whether `access` allows it; of a region, a window, or a queue pair's peer.
    pub fn is_allowed_by(self, access: Access) -> bool {
        match self {
            Self::Read => access.remote_read,
            Self::Write => access.remote_write,
            Self::Atomic => access.remote_atomic,
        }
    }
}

/// All memory regions and windows of an adapter.
#[derive(Debug)]
pub(crate) struct KeyTable {
    table: Table<Entry>,
    tags: Random,
    regions: Room,
    windows: Room,
    /// Windows bound to some queue pair.
    bound_to_qps: usize,
    max_region: u64,
}

/// How many objects of a kind exist and may exist.
#[derive(Debug)]
struct Room {
    taken: u32,
    limit: u32,
}

#[derive(Debug)]
struct Entry {
    tag: u8,
    pd: Pd,
    object: Object,
}

#[derive(Debug)]
enum Object {
    Region(Region),
    Window(Window),
}

#[derive(Clone, Debug)]
struct Region {
    span: Span,
    access: Access,
    /// Windows bound to it.
    windows: u32,
}

/// Memory as requests name it, and where it really is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    /// The address by which requests name its first byte.
    iova: u64,
    /// Where that byte is in the owner's address space.
    address: u64,
    length: u64,
}

const TAG_BITS: u32 = 8;
const INDICES: core::ops::RangeInclusive<u32> = 1..=(u32::MAX >> TAG_BITS);
/// A quarter of the indices, so that one is free in a few steps ([`Table::new`]).
const MOST_KEYS: u32 = (u32::MAX >> TAG_BITS) / 4;

impl KeyTable {
    /// An empty table whose first index and tags follow from `seed`.
    pub fn new(limits: &Limits, seed: u64) -> Self {
        let mut tags = Random::new(seed);
        let most = limits.max_mr.saturating_add(limits.max_mw).min(MOST_KEYS);
        Self {
            table: Table::new(most, INDICES, tags.next() as u32),
            tags,
            regions: Room { taken: 0, limit: limits.max_mr },
            windows: Room { taken: 0, limit: limits.max_mw },
            bound_to_qps: 0,
            max_region: limits.max_mr_size,
        }
    }

    /// Registers `length` bytes at `address` in a protection domain that exists.
    pub fn register(
        &mut self,
        pd: Pd,
        address: u64,
        length: u64,
        iova: u64,
        access: Access,
    ) -> Result<MrInfo, RegisterError> {
        check_rights(access)?;
        let span = self.span(address, length, iova, access)?;
        if self.regions.is_full() {
            return Err(RegisterError::TooMany);
        }
        let region = Region { span, access, windows: 0 };
        let index = self.insert(pd, Object::Region(region)).ok_or(RegisterError::TooMany)?;
        self.regions.taken += 1;
        self.info(Mr(index)).ok_or(RegisterError::UnknownHandle)
    }

    /// Changes a region in place, or changes nothing at all. Its keys stay. Returns the protection
    /// domain it had.
    pub fn reregister(&mut self, mr: Mr, change: MrChange) -> Result<Pd, RegisterError> {
        let (pd, region) = self.region(mr).ok_or(RegisterError::UnknownHandle)?;
        if region.windows > 0 {
            return Err(RegisterError::WindowBound);
        }
        let access = change.access.unwrap_or(region.access);
        check_rights(access)?;
        let Span { iova, address, length } = region.span;
        let (address, length, iova) = change.translation.unwrap_or((address, length, iova));
        let span = self.span(address, length, iova, access)?;
        let entry = self.table.get_mut(mr.0).ok_or(RegisterError::UnknownHandle)?;
        entry.pd = change.pd.unwrap_or(pd);
        entry.object = Object::Region(Region { span, access, windows: 0 });
        Ok(pd)
    }

    /// Ends a region without windows; returns its protection domain.
    pub fn deregister(&mut self, mr: Mr) -> Result<Pd, DestroyError> {
        let (pd, region) = self.region(mr).ok_or(DestroyError::UnknownHandle)?;
        if region.windows > 0 {
            return Err(DestroyError::Busy);
        }
        self.table.remove(mr.0)?;
        self.regions.taken -= 1;
        Ok(pd)
    }

    /// A region's keys.
    pub fn info(&self, mr: Mr) -> Option<MrInfo> {
        let entry = self.table.get(mr.0).filter(|entry| matches!(entry.object, Object::Region(_)))?;
        let key = entry.key(mr.0);
        Some(MrInfo { mr, lkey: key, rkey: key })
    }

    /// Makes an unbound window in a protection domain that exists; returns it and its first key.
    pub fn allocate_window(&mut self, pd: Pd, mw_type: MwType) -> Result<(Mw, u32), CreateError> {
        if self.windows.is_full() {
            return Err(CreateError::TooMany);
        }
        let window = Window { mw_type, bound: None };
        let index = self.insert(pd, Object::Window(window)).ok_or(CreateError::TooMany)?;
        self.windows.taken += 1;
        let key = self.table.get(index).map_or(0, |entry| entry.key(index));
        Ok((Mw(index), key))
    }

    /// Where a local element lies, if its region lets the adapter read it, or write it with `write`. An
    /// element of no length needs no valid key.
    pub fn local(&self, pd: Pd, sge: &Sge, write: bool) -> Result<Segment, KeyError> {
        if sge.length == 0 {
            return Ok(Segment { address: sge.address, length: 0 });
        }
        let (_, entry) = self.find(sge.lkey)?;
        let Object::Region(region) = &entry.object else { return Err(KeyError::Unknown) };
        if entry.pd != pd {
            return Err(KeyError::WrongPd);
        }
        if write && !region.access.local_write {
            return Err(KeyError::NoRight);
        }
        let address = region.span.translate(sge.address, u64::from(sge.length))?;
        Ok(Segment { address, length: sge.length })
    }

    /// Where memory that a peer of queue pair `qpn` names lies, if the key gives it the right it needs.
    /// A range of no length needs no valid key (IBTA 9.7.4.1.5).
    pub fn remote(
        &self,
        pd: Pd,
        qpn: Qpn,
        rkey: u32,
        address: u64,
        length: u64,
        need: RemoteNeed,
    ) -> Result<u64, KeyError> {
        if length == 0 {
            return Ok(address);
        }
        let (_, entry) = self.find(rkey)?;
        let (span, access) = match &entry.object {
            Object::Region(region) => {
                check_pd(entry.pd, pd)?;
                (region.span, region.access)
            }
            Object::Window(window) => window.reach(entry.pd, pd, qpn)?,
        };
        if !need.is_allowed_by(access) {
            return Err(KeyError::NoRight);
        }
        let address = span.translate(address, length)?;
        if need == RemoteNeed::Atomic && !address.is_multiple_of(8) {
            return Err(KeyError::Misaligned);
        }
        Ok(address)
    }

    fn insert(&mut self, pd: Pd, object: Object) -> Option<u32> {
        let tag = self.tags.next() as u8;
        self.table.insert(Entry { tag, pd, object }).ok()
    }

    /// The object that a key names.
    fn find(&self, key: u32) -> Result<(u32, &Entry), KeyError> {
        let index = key >> TAG_BITS;
        match self.table.get(index) {
            Some(entry) if entry.key(index) == key => Ok((index, entry)),
            _ => Err(KeyError::Unknown),
        }
    }

    fn region(&self, mr: Mr) -> Option<(Pd, Region)> {
        let entry = self.table.get(mr.0)?;
        match &entry.object {
            Object::Region(region) => Some((entry.pd, region.clone())),
            Object::Window(_) => None,
        }
    }

    /// The span of a region. An end of 2^64 is refused too, so that the end is always a number.
    fn span(&self, address: u64, length: u64, iova: u64, access: Access) -> Result<Span, RegisterError> {
        let iova = if access.zero_based { 0 } else { iova };
        if length > self.max_region {
            return Err(RegisterError::InvalidAttribute);
        }
        if address.checked_add(length).is_none() || iova.checked_add(length).is_none() {
            return Err(RegisterError::RangeWraps);
        }
        Ok(Span { iova, address, length })
    }
}

impl Room {
    fn is_full(&self) -> bool {
        self.taken >= self.limit
    }
}

impl Entry {
    fn key(&self, index: u32) -> u32 {
        index << TAG_BITS | u32::from(self.tag)
    }
}

impl Span {
    /// Where `length` bytes named by `address` are. No sum is formed that could wrap.
    fn translate(&self, address: u64, length: u64) -> Result<u64, KeyError> {
        let offset = address.checked_sub(self.iova).ok_or(KeyError::OutOfBounds)?;
        let rest = self.length.checked_sub(offset).ok_or(KeyError::OutOfBounds)?;
        if length > rest {
            return Err(KeyError::OutOfBounds);
        }
        Ok(self.address + offset)
    }
}

/// What peers may write, the adapter may write (IBTA 10.6.3.1).
fn check_rights(access: Access) -> Result<(), RegisterError> {
    if (access.remote_write || access.remote_atomic) && !access.local_write {
        return Err(RegisterError::AccessNeedsLocalWrite);
    }
    Ok(())
}

fn check_pd(actual: Pd, expected: Pd) -> Result<(), KeyError> {
    if actual == expected { Ok(()) } else { Err(KeyError::WrongPd) }
}
