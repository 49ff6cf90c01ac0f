//! The seam to memory: where payload lies, and how arriving payload is placed.
//!
//! The adapter checks keys, protection domains, access rights and bounds; only what has passed is
//! handed to [`Memory`], as addresses in the owner's address space.

/// A contiguous piece of registered memory, already checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Address in the owner's address space (after the translation from iova).
    pub address: u64,
    /// Length in bytes.
    pub length: u32,
}

/// The payload of a packet: bytes on a real wire, only their number in a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// The bytes themselves.
    Bytes(&'a [u8]),
    /// So many bytes that nobody carries.
    Phantom(usize),
}

impl<'a> Payload<'a> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::Phantom(length) => *length,
        }
    }

    /// Whether there is no payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The payload cut in two at `at`, or `None` if it is shorter.
    pub fn split_at(self, at: usize) -> Option<(Self, Self)> {
        match self {
            Self::Bytes(bytes) => {
                bytes.split_at_checked(at).map(|(head, tail)| (Self::Bytes(head), Self::Bytes(tail)))
            }
            Self::Phantom(length) => {
                length.checked_sub(at).map(|rest| (Self::Phantom(at), Self::Phantom(rest)))
            }
        }
    }
}

/// The memory that an adapter reads and writes.
///
/// Every address range was registered with the adapter and checked against the key that named it.
/// Payload to transmit is never read through this trait: a [`Transmit`](crate::Transmit) only says
/// where it lies.
pub trait Memory {
    /// Places arriving payload at `address`.
    fn write(&mut self, address: u64, payload: Payload<'_>);

    /// Atomically replaces the aligned 8-byte word at `address` by `swap` if it equals `compare`;
    /// returns what it held before.
    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64;

    /// Atomically adds `add` to the aligned 8-byte word at `address`; returns what it held before.
    fn fetch_add(&mut self, address: u64, add: u64) -> u64;
}

/// Memory that is not there, for simulations: writes vanish and words read as zero.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhantomMemory;

impl Memory for PhantomMemory {
    fn write(&mut self, _address: u64, _payload: Payload<'_>) {}

    fn compare_swap(&mut self, _address: u64, _compare: u64, _swap: u64) -> u64 {
        0
    }

    fn fetch_add(&mut self, _address: u64, _add: u64) -> u64 {
        0
    }
}
