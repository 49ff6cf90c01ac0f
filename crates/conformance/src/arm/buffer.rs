//! Memory of this process that an adapter may write at any time.

use std::{
    alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error},
    ptr::NonNull,
};

/// Bytes that are only reached by copying, so that nobody holds a reference while an adapter writes.
#[derive(Debug)]
pub struct Buffer {
    start: NonNull<u8>,
    layout: Layout,
}

/// Regions of programs begin on pages.
const PAGE: usize = 4096;

impl Buffer {
    /// So many zeros.
    ///
    /// # Panics
    /// If `length` is zero or too long.
    pub fn new(length: usize) -> Self {
        assert!(length > 0, "a buffer has bytes");
        let layout = Layout::from_size_align(length, PAGE).expect("a size that fits");
        // SAFETY: the layout has a size.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        Self { start, layout }
    }

    /// Where it is.
    pub fn address(&self) -> u64 {
        self.start.as_ptr() as u64
    }

    /// Copies `bytes` to `offset`.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        let to = self.at(offset, bytes.len());
        // SAFETY: inside the buffer, as was checked. An adapter may access it meanwhile, as other hardware may.
        unsafe { to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// A copy of `length` bytes at `offset`.
    ///
    /// # Panics
    /// If there are not so many.
    pub fn load(&self, offset: u64, length: usize) -> Vec<u8> {
        let from = self.at(offset, length);
        let mut bytes = vec![0; length];
        // SAFETY: as for `store`.
        unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), length) };
        bytes
    }

    fn at(&self, offset: u64, length: usize) -> *mut u8 {
        let offset = usize::try_from(offset).expect("an offset in memory");
        let end = offset.checked_add(length).filter(|end| *end <= self.layout.size());
        assert!(end.is_some(), "{length} bytes at {offset} of {}", self.layout.size());
        // SAFETY: inside the allocation, as was checked.
        unsafe { self.start.as_ptr().add(offset) }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and freed once.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}
