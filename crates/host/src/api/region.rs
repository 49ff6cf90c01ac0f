//! Memory that the adapter and peers may access.
//!
//! A peer can write to a region at any time, so there are no references into it: safe code copies in and
//! out. Within this process all accesses take turns. The adapter reads and writes regions only under its
//! lock, and so do the copies here, with which no access is a data race; what a copy sees of a message that
//! is only half there is up to the protocol of the program, as with any adapter.
//!
//! Memory is freed after its region was deregistered. From then on its keys are dead: work that names them
//! and has not been carried out ends in an error, and what has been handed to the kernel was copied. So work
//! requests need not keep their regions alive, and no order of drops lets the adapter touch freed memory.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Bound, RangeBounds};
use std::ptr::NonNull;
use std::str::FromStr;

use nic::verbs::{Access, DestroyError, MrChange, MrInfo, RegisterError, Remote};

use super::context::Context;
use super::domain::ProtectionDomain;
use super::endpoint::{Fields, ParseEndpointError};
use crate::adapter::Adapter;

/// Most bytes copied at once, so that packets do not wait long for the lock.
const COPY: usize = 64 << 10;

/// Registered memory, which it owns. Dropping it deregisters the memory and frees it.
pub struct MemoryRegion {
    pd: ProtectionDomain,
    info: MrInfo,
    access: Access,
    /// What the first byte is called in work requests and by peers.
    iova: u64,
    /// Taken only when this is dropped.
    buffer: Buffer,
}

/// Why memory cannot be copied: the range is not inside the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    /// Where the range begins.
    pub offset: usize,
    /// How long it is.
    pub length: usize,
    /// How long the region is.
    pub region: usize,
}

impl fmt::Display for OutOfBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, length, region } = self;
        write!(f, "{length} bytes at offset {offset} are not in a region of {region} bytes, or not aligned")
    }
}

impl std::error::Error for OutOfBounds {}

impl MemoryRegion {
    pub(super) fn new(
        pd: ProtectionDomain,
        buffer: Buffer,
        iova: Option<u64>,
        access: Access,
    ) -> Result<Self, RegisterError> {
        let address = buffer.address();
        let iova = if access.zero_based { 0 } else { iova.unwrap_or(address) };
        pd.context().clear_graves();
        // SAFETY: the buffer is readable and writable, and stays until the region is deregistered. Nobody
        // else accesses it, but for `MemoryRegion::read` and `write`.
        let info = unsafe { pd.adapter().reg_mr(pd.handle(), address, buffer.length as u64, iova, access) }?;
        Ok(Self { pd, info, access, iova, buffer })
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "an empty region is of no use")]
    pub fn len(&self) -> usize {
        self.buffer.length
    }

    /// The rights on it.
    pub fn access(&self) -> Access {
        self.access
    }

    /// The key that names it in local work requests.
    pub fn lkey(&self) -> u32 {
        self.info.lkey
    }

    /// What a peer needs to access it.
    pub fn remote(&self) -> RemoteRegion {
        RemoteRegion { address: self.iova, rkey: self.info.rkey, length: self.len() as u64 }
    }

    /// A part of it, for a work request.
    pub fn slice(&self, range: impl RangeBounds<usize>) -> Result<RegionSlice<'_>, OutOfBounds> {
        let offset = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        let length = end.saturating_sub(offset);
        self.check(offset, length, 1)?;
        Ok(RegionSlice { region: self, offset, length })
    }

    /// Copies from the region.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), OutOfBounds> {
        self.check(offset, into.len(), 1)?;
        for (index, chunk) in into.chunks_mut(COPY).enumerate() {
            let from = self.buffer.at(offset + index * COPY);
            // SAFETY: checked to be inside the buffer, which `chunk` cannot overlap: nobody else has
            // references into it. No other access takes place meanwhile.
            let copy =
                || unsafe { from.copy_to_nonoverlapping(NonNull::from(&mut *chunk).cast(), chunk.len()) };
            self.pd.adapter().exclusively(copy);
        }
        Ok(())
    }

    /// Copies into the region.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), OutOfBounds> {
        self.check(offset, from.len(), 1)?;
        for (index, chunk) in from.chunks(COPY).enumerate() {
            let into = self.buffer.at(offset + index * COPY);
            // SAFETY: as for `read`.
            let copy = || unsafe { into.copy_from_nonoverlapping(NonNull::from(chunk).cast(), chunk.len()) };
            self.pd.adapter().exclusively(copy);
        }
        Ok(())
    }

    /// Copies from the region into a vector.
    pub fn to_vec(&self, range: impl RangeBounds<usize>) -> Result<Vec<u8>, OutOfBounds> {
        let RegionSlice { offset, length, .. } = self.slice(range)?;
        let mut bytes = vec![0; length];
        self.read(offset, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes the same byte everywhere in a range.
    pub fn fill(&self, range: impl RangeBounds<usize>, byte: u8) -> Result<(), OutOfBounds> {
        let RegionSlice { offset, length, .. } = self.slice(range)?;
        for start in (0..length).step_by(COPY) {
            let into = self.buffer.at(offset + start);
            // SAFETY: as for `read`.
            let fill = || unsafe { into.write_bytes(byte, COPY.min(length - start)) };
            self.pd.adapter().exclusively(fill);
        }
        Ok(())
    }

    /// Reads a word, aligned to 8 bytes, of this machine's byte order.
    ///
    /// To wait for a word that a peer writes, call [`Context::progress`](super::Context::progress) between
    /// two looks: it receives what has arrived.
    pub fn load_u64(&self, offset: usize) -> Result<u64, OutOfBounds> {
        let word = self.word(offset)?;
        // SAFETY: checked to be inside and aligned, and no other access takes place meanwhile.
        Ok(self.pd.adapter().exclusively(|| unsafe { word.read() }))
    }

    /// Writes a word, aligned to 8 bytes, of this machine's byte order.
    pub fn store_u64(&self, offset: usize, value: u64) -> Result<(), OutOfBounds> {
        let word = self.word(offset)?;
        // SAFETY: as for `load_u64`.
        self.pd.adapter().exclusively(|| unsafe { word.write(value) });
        Ok(())
    }

    /// Changes the rights on it; its keys stay.
    pub fn set_access(&mut self, access: Access) -> Result<(), RegisterError> {
        self.change(MrChange { access: Some(access), ..MrChange::default() })?;
        self.access = access;
        Ok(())
    }

    /// Moves it to another protection domain of the same device; its keys stay.
    pub fn move_to(&mut self, pd: &ProtectionDomain) -> Result<(), RegisterError> {
        if !pd.context().is(self.pd.context()) {
            return Err(RegisterError::UnknownHandle);
        }
        self.change(MrChange { pd: Some(pd.handle()), ..MrChange::default() })?;
        self.pd = pd.clone();
        Ok(())
    }

    /// Exchanges its memory for new, zeroed memory of another length, which peers find where the old one
    /// began; its keys stay.
    pub fn renew(&mut self, length: usize) -> Result<(), RegisterError> {
        let buffer = Buffer::zeroed(length);
        let address = buffer.address();
        let translation = Some((address, length as u64, self.iova));
        self.change(MrChange { translation, ..MrChange::default() })?;
        // The adapter has let go of the old one.
        self.buffer = buffer;
        Ok(())
    }

    fn change(&mut self, change: MrChange) -> Result<(), RegisterError> {
        // SAFETY: as for `MemoryRegion::new`, if the change names memory at all.
        self.info = unsafe { self.pd.adapter().rereg_mr(self.info.mr, change) }?;
        Ok(())
    }

    fn word(&self, offset: usize) -> Result<NonNull<u64>, OutOfBounds> {
        self.check(offset, size_of::<u64>(), align_of::<u64>())?;
        Ok(self.buffer.at(offset).cast())
    }

    fn check(&self, offset: usize, length: usize, alignment: usize) -> Result<(), OutOfBounds> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.len());
        let aligned = self.buffer.address().wrapping_add(offset as u64).is_multiple_of(alignment as u64);
        if inside && aligned { Ok(()) } else { Err(OutOfBounds { offset, length, region: self.len() }) }
    }
}

impl Drop for MemoryRegion {
    fn drop(&mut self) {
        let mut grave = Grave { info: self.info, buffer: ManuallyDrop::new(self.buffer.take()) };
        if !grave.release(self.pd.adapter()) {
            self.pd.context().bury(grave);
        }
    }
}

impl fmt::Debug for MemoryRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryRegion").field("info", &self.info).field("length", &self.len()).finish()
    }
}

/// A region without an owner. Peers still reach it through a window, so it is only freed once that is gone.
pub(super) struct Grave {
    info: MrInfo,
    buffer: ManuallyDrop<Buffer>,
}

impl Grave {
    /// Deregisters and frees it, if that is possible by now.
    pub(super) fn release(&mut self, adapter: &Adapter) -> bool {
        match adapter.dereg_mr(self.info.mr) {
            Err(DestroyError::Busy) => false,
            Ok(()) | Err(DestroyError::UnknownHandle) => {
                drop(self.buffer.take());
                true
            }
        }
    }
}

/// The memory of a region.
pub(super) struct Buffer {
    start: NonNull<u8>,
    length: usize,
    /// How it was allocated, if it was allocated here.
    layout: Option<Layout>,
}

// SAFETY: it owns its memory, or has the promise of whoever registered it.
unsafe impl Send for Buffer {}
// SAFETY: all accesses to it take turns.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// Zeroed memory. Large buffers cost nothing before they are touched.
    ///
    /// # Panics
    /// If `length` is more than an address space holds.
    pub(super) fn zeroed(length: usize) -> Self {
        // The system's allocator hands out untouched zero pages for small alignments only.
        let layout = Layout::from_size_align(length.max(1), 16);
        let layout = layout.unwrap_or_else(|_| panic!("a region of {length} bytes cannot be"));
        // SAFETY: the size is not zero.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, length, layout: Some(layout) }
    }

    /// Memory that somebody else owns.
    pub(super) fn foreign(start: NonNull<u8>, length: usize) -> Self {
        Self { start, length, layout: None }
    }

    fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// A place in it; the caller checks that it is inside.
    fn at(&self, offset: usize) -> NonNull<u8> {
        // SAFETY: inside the allocation, or just behind it.
        unsafe { self.start.add(offset) }
    }

    fn take(&mut self) -> Self {
        std::mem::replace(self, Self::foreign(NonNull::dangling(), 0))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: allocated by `zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// A part of a region, for a work request.
#[derive(Clone, Copy, Debug)]
pub struct RegionSlice<'a> {
    region: &'a MemoryRegion,
    offset: usize,
    length: usize,
}

impl RegionSlice<'_> {
    pub(super) fn context(&self) -> &Context {
        self.region.pd.context()
    }

    /// The key of its region.
    pub(super) fn lkey(&self) -> u32 {
        self.region.lkey()
    }

    /// Its first address, as the region calls it.
    pub(super) fn address(&self) -> u64 {
        self.region.iova + self.offset as u64
    }

    /// Its length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "its emptiness is of no interest")]
    pub fn len(&self) -> usize {
        self.length
    }
}

/// What a peer needs to access a region or window: to be sent to it, as one line of text for instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteRegion {
    /// What its first byte is called.
    pub address: u64,
    /// Its key.
    pub rkey: u32,
    /// Its length in bytes.
    pub length: u64,
}

impl RemoteRegion {
    /// A place in it. Whether that lies inside is checked by the peer's adapter.
    pub fn at(&self, offset: u64) -> Remote {
        Remote { address: self.address.wrapping_add(offset), rkey: self.rkey }
    }
}

impl fmt::Display for RemoteRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address={:#x} rkey={:#x} length={}", self.address, self.rkey, self.length)
    }
}

impl FromStr for RemoteRegion {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, ParseEndpointError> {
        let fields = Fields::parse(text)?;
        Ok(Self {
            address: fields.number("address")?,
            rkey: fields.number("rkey")?,
            length: fields.number("length")?,
        })
    }
}
