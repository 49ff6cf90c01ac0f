//! Control messages (cmsg(3)), written and read as plain bytes.
//!
//! A message is a header of a length (as wide as a pointer), a level and a type (32 bits each), then its data; each
//! starts at a multiple of the pointer width.

use crate::bytes::read;

/// Room for all that a send attaches: packet information (40), traffic class, hop limit and segment size (24 each).
const SEND_CAPACITY: usize = 128;
/// Room for all that a receive may bring: packet information (40) and up to five single values (24 each), and to spare for
/// options that another process may have set on a socket adopted.
const RECEIVE_CAPACITY: usize = 256;

const ALIGNMENT: usize = size_of::<usize>();
const HEADER: usize = size_of::<usize>() + 8;

/// Control messages to send.
#[repr(C, align(8))]
pub(super) struct SendControl {
    bytes: [u8; SEND_CAPACITY],
    length: usize,
}

impl SendControl {
    pub(super) const fn new() -> Self {
        Self { bytes: [0; SEND_CAPACITY], length: 0 }
    }

    /// Appends a message. The capacity covers every combination this module sends.
    pub(super) fn push(&mut self, level: i32, kind: i32, data: &[u8]) {
        let length = HEADER + data.len();
        let room = &mut self.bytes[self.length..self.length + length.next_multiple_of(ALIGNMENT)];
        room[..ALIGNMENT].copy_from_slice(&length.to_ne_bytes());
        room[ALIGNMENT..ALIGNMENT + 4].copy_from_slice(&level.to_ne_bytes());
        room[ALIGNMENT + 4..HEADER].copy_from_slice(&kind.to_ne_bytes());
        room[HEADER..length].copy_from_slice(data);
        self.length += room.len();
    }

    pub(super) fn push_int(&mut self, level: i32, kind: i32, value: i32) {
        self.push(level, kind, &value.to_ne_bytes());
    }

    pub(super) fn as_ptr(&self) -> *const u8 {
        self.bytes.as_ptr()
    }

    pub(super) fn len(&self) -> usize {
        self.length
    }
}

/// Room for control messages that a receive brings.
#[derive(Clone)]
#[repr(C, align(8))]
pub(super) struct ReceiveControl {
    bytes: [u8; RECEIVE_CAPACITY],
}

impl ReceiveControl {
    pub(super) const EMPTY: Self = Self { bytes: [0; RECEIVE_CAPACITY] };

    pub(super) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.bytes.as_mut_ptr()
    }

    pub(super) const fn capacity() -> usize {
        RECEIVE_CAPACITY
    }

    /// The messages in the first `length` bytes, as (level, type, data).
    pub(super) fn messages(&self, length: usize) -> Messages<'_> {
        Messages { rest: &self.bytes[..length.min(RECEIVE_CAPACITY)] }
    }
}

/// Iterator over received control messages; ends at the first that does not hold together.
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Messages<'a> {
    type Item = (i32, i32, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from_ne_bytes(read(self.rest, 0)?);
        let level = i32::from_ne_bytes(read(self.rest, ALIGNMENT)?);
        let kind = i32::from_ne_bytes(read(self.rest, ALIGNMENT + 4)?);
        let data = self.rest.get(HEADER..length)?;
        let consumed = length.checked_next_multiple_of(ALIGNMENT)?.min(self.rest.len());
        self.rest = &self.rest[consumed..];
        Some((level, kind, data))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_read_back() {
        let mut sent = SendControl::new();
        sent.push_int(1, 2, 3);
        sent.push(4, 5, &[7; 20]);
        sent.push(6, 7, &[9]);
        let mut received = ReceiveControl::EMPTY;
        received.bytes[..SEND_CAPACITY].copy_from_slice(&sent.bytes);
        let messages: Vec<_> = received.messages(sent.len()).collect();
        assert_eq!(messages, [(1, 2, &3i32.to_ne_bytes()[..]), (4, 5, &[7; 20]), (6, 7, &[9])]);
    }

    #[test]
    fn the_layout_is_that_of_the_c_library() {
        // SAFETY: these macros only compute.
        let (space, length) = unsafe { (libc::CMSG_SPACE(20) as usize, libc::CMSG_LEN(20) as usize) };
        let mut control = SendControl::new();
        control.push(0, 0, &[0; 20]);
        assert_eq!(control.len(), space);
        assert_eq!(read(&control.bytes, 0), Some(length.to_ne_bytes()));
    }

    #[test]
    fn a_length_that_lies_ends_the_iteration() {
        for length in [0usize, 3, HEADER - 1, RECEIVE_CAPACITY + 1, usize::MAX] {
            let mut control = ReceiveControl::EMPTY;
            control.bytes[..ALIGNMENT].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(control.messages(RECEIVE_CAPACITY).count(), 0, "length {length}");
        }
    }
}
