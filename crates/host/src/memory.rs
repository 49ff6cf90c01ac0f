//! Registered memory of this process, as the adapter reads and writes it.
//!
//! This is where the trust of verbs lies: whoever registers a region promises that its memory stays
//! mapped, and may be written by peers, until it is deregistered. The `nic` checks each access against
//! the region; what reaches this module lies inside one.

use std::sync::atomic::{AtomicU64, Ordering};

use io::udp::Piece;
use nic::{Memory, Payload};

/// The memory of this process.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostMemory(());

impl HostMemory {
    /// The memory of this process, for an adapter whose regions are only registered through `unsafe`
    /// calls that carry the promise above.
    pub(crate) fn new() -> Self {
        Self(())
    }
}

impl Memory for HostMemory {
    fn write(&mut self, address: u64, payload: Payload<'_>) {
        let Payload::Bytes(bytes) = payload else { return };
        // SAFETY: the adapter hands over only ranges inside a registered region, which its owner keeps
        // mapped and writable for peers. `bytes` is a receive buffer, so the two do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64 {
        match word(address).compare_exchange(compare, swap, Ordering::AcqRel, Ordering::Acquire) {
            Ok(original) | Err(original) => original,
        }
    }

    fn fetch_add(&mut self, address: u64, add: u64) -> u64 {
        word(address).fetch_add(add, Ordering::AcqRel)
    }
}

/// The word at an address that the adapter found to be aligned and inside a registered region.
fn word(address: u64) -> &'static AtomicU64 {
    debug_assert_eq!(address % 8, 0);
    // SAFETY: aligned and registered, so valid for the time of one access; nobody keeps the reference.
    unsafe { AtomicU64::from_ptr(address as *mut u64) }
}

/// `length` bytes at `address` as something to send.
///
/// The caller has checked them: they lie in a registered region, or in a buffer that it keeps. Either
/// stays until the piece was used up, for the engine's lock is held all the while, and regions are only
/// deregistered under it.
pub(crate) fn piece(address: u64, length: u32) -> Piece<'static> {
    // SAFETY: mapped and readable, as said above. Peers may write to it meanwhile; then the ICRC is
    // likely wrong and the packet is sent again.
    unsafe { Piece::from_raw_parts(address as *const u8, length as usize) }
}

/// The bytes of a piece, for the checksum.
pub(crate) fn piece_bytes<'a>(piece: &'a Piece<'static>) -> &'a [u8] {
    // SAFETY: as for `piece`. The bytes are read once, by code for which any value will do.
    unsafe { std::slice::from_raw_parts(piece.as_ptr(), piece.len()) }
}
