//! What programs say to each other while they connect.

use core::fmt;
use core::ops::Deref;

/// An area of `N` bytes that a message carries for the program. Its length is fixed and not told on the
/// wire: what is shorter is filled up with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PrivateData<const N: usize>([u8; N]);

impl<const N: usize> PrivateData<N> {
    /// Nothing but zeros.
    pub const EMPTY: Self = PrivateData([0; N]);

    /// `bytes`, followed by zeros; nothing if they are too many.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let mut data = [0; N];
        data.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(PrivateData(data))
    }

    /// The area at `at`, which must lie within `bytes`.
    pub(super) fn at(bytes: &[u8], at: usize) -> Self {
        PrivateData(crate::bytes::array(bytes, at))
    }

    pub(super) fn put(&self, out: &mut [u8], at: usize) {
        crate::bytes::put(out, at, self.0);
    }
}

impl<const N: usize> Default for PrivateData<N> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const N: usize> Deref for PrivateData<N> {
    type Target = [u8; N];

    fn deref(&self) -> &[u8; N] {
        &self.0
    }
}

impl<const N: usize> fmt::Debug for PrivateData<N> {
    /// In hexadecimal, up to the last byte that is not zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
        self.0[..used].iter().try_for_each(|byte| write!(f, "{byte:02x}"))?;
        write!(f, "({used} of {N})")
    }
}
