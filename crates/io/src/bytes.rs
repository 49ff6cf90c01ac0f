//! Reading numbers out of what the kernel wrote.

/// The `N` bytes at `offset`, if there are as many.
pub(crate) fn read<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..)?.first_chunk().copied()
}
