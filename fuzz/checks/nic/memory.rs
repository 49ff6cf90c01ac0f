//! Memory that may only be touched where a live region lies.

use std::ops::Range;

use nic::{Memory, Payload};

/// Where the memory of an adapter begins.
pub const BASE: u64 = 0x4000_0000;
/// Its length. The first part is for traffic that must succeed, in slots.
pub const LENGTH: usize = SLOTS * SLOT + WILD;
/// Slots of each memory.
pub const SLOTS: usize = 64;
/// Bytes of a slot.
pub const SLOT: usize = 1280;
/// Bytes after the slots, for requests that need not make sense.
pub const WILD: usize = 4096;

/// Bytes, and what of them is registered.
#[derive(Debug)]
pub struct GuardedMemory {
    bytes: Vec<u8>,
    regions: Vec<Region>,
}

#[derive(Debug)]
struct Region {
    name: u32,
    range: Range<u64>,
    is_writable: bool,
}

impl GuardedMemory {
    pub fn new() -> Self {
        Self { bytes: vec![0; LENGTH], regions: Vec::new() }
    }

    /// A region was registered, or changed.
    pub fn open(&mut self, name: u32, address: u64, length: u64, is_writable: bool) {
        self.close(name);
        self.regions.push(Region { name, range: address..address + length, is_writable });
    }

    /// A region was deregistered.
    pub fn close(&mut self, name: u32) {
        self.regions.retain(|region| region.name != name);
    }

    /// What the adapter reads when it sends.
    pub fn gather(&self, address: u64, length: u32) -> &[u8] {
        self.check(address, u64::from(length), false);
        self.at(address, length as usize)
    }

    /// The owner looks.
    pub fn at(&self, address: u64, length: usize) -> &[u8] {
        let start = (address.wrapping_sub(BASE)) as usize;
        // A region may name memory that does not exist; it reads as nothing.
        self.bytes.get(start..start.saturating_add(length)).unwrap_or(&[])
    }

    /// The owner writes.
    pub fn set(&mut self, address: u64, bytes: &[u8]) {
        let start = (address.wrapping_sub(BASE)) as usize;
        if let Some(place) = self.bytes.get_mut(start..start.saturating_add(bytes.len())) {
            place.copy_from_slice(bytes);
        }
    }

    fn check(&self, address: u64, length: u64, write: bool) {
        let inside = self.regions.iter().any(|region| {
            region.range.start <= address
                && length <= region.range.end - address.min(region.range.end)
                && (region.is_writable || !write)
        });
        assert!(
            inside || length == 0,
            "{length} bytes at {address:#x}, write: {write}, {:#x?}",
            self.regions
        );
    }

    fn word(&self, address: u64) -> u64 {
        self.check(address, 8, true);
        assert_eq!(address % 8, 0);
        self.at(address, 8).try_into().map_or(0, u64::from_ne_bytes)
    }
}

impl Memory for GuardedMemory {
    fn write(&mut self, address: u64, payload: Payload<'_>) {
        let Payload::Bytes(bytes) = payload else { panic!("nobody sends phantoms here") };
        self.check(address, bytes.len() as u64, true);
        self.set(address, bytes);
    }

    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64 {
        let old = self.word(address);
        if old == compare {
            self.set(address, &swap.to_ne_bytes());
        }
        old
    }

    fn fetch_add(&mut self, address: u64, add: u64) -> u64 {
        let old = self.word(address);
        self.set(address, &old.wrapping_add(add).to_ne_bytes());
        old
    }
}
