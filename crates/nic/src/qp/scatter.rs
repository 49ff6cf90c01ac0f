//! Between a stream of payload bytes and the scattered elements of a work request.

use smallvec::SmallVec;

use crate::keys::{KeyError, KeyTable};
use crate::memory::{Memory, Payload, Segment};
use crate::verbs::{Pd, Sge, Status};

/// Why payload could not be placed in, or taken from, a request's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScatterError {
    /// The elements are too short.
    TooShort,
    /// A local key does not give access.
    Key(KeyError),
}

impl ScatterError {
    /// How the request completes.
    pub fn status(self) -> Status {
        match self {
            Self::TooShort => Status::LocalLengthError,
            Self::Key(_) => Status::LocalProtectionError,
        }
    }
}

/// The elements' total length.
pub(crate) fn total_length(sges: &[Sge]) -> u64 {
    sges.iter().map(|sge| u64::from(sge.length)).sum()
}

/// Whether every element may be read, or written with `write`.
pub(crate) fn check(keys: &KeyTable, pd: Pd, sges: &[Sge], write: bool) -> Result<(), ScatterError> {
    for sge in sges {
        keys.local(pd, sge, write).map_err(ScatterError::Key)?;
    }
    Ok(())
}

/// Places `payload` at `offset` of the elements. What was placed before an error stays.
pub(crate) fn scatter<M: Memory>(
    keys: &KeyTable,
    memory: &mut M,
    pd: Pd,
    sges: &[Sge],
    offset: u32,
    payload: Payload<'_>,
) -> Result<(), ScatterError> {
    let mut rest = payload;
    for piece in pieces(sges, offset, payload.len() as u32) {
        let segment = keys.local(pd, &piece, true).map_err(ScatterError::Key)?;
        let (head, tail) = rest.split_at(segment.length as usize).ok_or(ScatterError::TooShort)?;
        memory.write(segment.address, head);
        rest = tail;
    }
    if rest.is_empty() { Ok(()) } else { Err(ScatterError::TooShort) }
}

/// Where the `length` bytes at `offset` of the elements are.
pub(crate) fn gather(
    keys: &KeyTable,
    pd: Pd,
    sges: &[Sge],
    offset: u32,
    length: u32,
) -> Result<SmallVec<[Segment; 4]>, ScatterError> {
    let mut segments = SmallVec::new();
    let mut rest = length;
    for piece in pieces(sges, offset, length) {
        segments.push(keys.local(pd, &piece, false).map_err(ScatterError::Key)?);
        rest -= piece.length;
    }
    if rest == 0 { Ok(segments) } else { Err(ScatterError::TooShort) }
}

/// The non-empty parts of the elements that hold `length` bytes from `offset` on; fewer bytes if the
/// elements end before.
fn pieces(sges: &[Sge], offset: u32, length: u32) -> impl Iterator<Item = Sge> {
    let (mut skip, mut rest) = (offset, length);
    sges.iter().filter_map(move |sge| {
        let skipped = skip.min(sge.length);
        skip -= skipped;
        let taken = (sge.length - skipped).min(rest);
        rest -= taken;
        let address = sge.address.wrapping_add(u64::from(skipped));
        (taken > 0).then_some(Sge { address, length: taken, lkey: sge.lkey })
    })
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn sge(address: u64, length: u32) -> Sge {
        Sge { address, length, lkey: 0 }
    }

    #[test]
    fn pieces_skip_and_stop_inside_elements() {
        let sges = [sge(100, 10), sge(500, 0), sge(200, 10), sge(300, 10)];
        let cut = |offset, length| pieces(&sges, offset, length).collect::<Vec<_>>();
        assert_eq!(cut(0, 30), [sge(100, 10), sge(200, 10), sge(300, 10)]);
        assert_eq!(cut(5, 10), [sge(105, 5), sge(200, 5)]);
        assert_eq!(cut(10, 10), [sge(200, 10)]);
        assert_eq!(cut(25, 100), [sge(305, 5)]);
        assert_eq!(cut(30, 1), []);
        assert_eq!(cut(3, 0), []);
    }
}
