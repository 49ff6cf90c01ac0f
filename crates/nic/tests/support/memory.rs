//! Memory that is there.

use nic::{Memory, Payload, Segment};

/// One array of bytes at an address. What lies outside is a bug of the adapter, and a panic.
pub struct VecMemory {
    base: u64,
    pub bytes: Vec<u8>,
}

impl VecMemory {
    pub fn new(base: u64, length: usize) -> Self {
        Self { base, bytes: vec![0; length] }
    }

    pub fn read(&self, segment: Segment) -> &[u8] {
        let start = (segment.address - self.base) as usize;
        &self.bytes[start..start + segment.length as usize]
    }

    fn word(&mut self, address: u64) -> &mut [u8; 8] {
        assert!(address.is_multiple_of(8));
        let start = (address - self.base) as usize;
        (&mut self.bytes[start..start + 8]).try_into().unwrap()
    }
}

impl Memory for VecMemory {
    fn write(&mut self, address: u64, payload: Payload<'_>) {
        let Payload::Bytes(bytes) = payload else { panic!("bytes were sent") };
        let start = (address - self.base) as usize;
        self.bytes[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn compare_swap(&mut self, address: u64, compare: u64, swap: u64) -> u64 {
        let word = self.word(address);
        let original = u64::from_ne_bytes(*word);
        if original == compare {
            *word = swap.to_ne_bytes();
        }
        original
    }

    fn fetch_add(&mut self, address: u64, add: u64) -> u64 {
        let word = self.word(address);
        let original = u64::from_ne_bytes(*word);
        *word = original.wrapping_add(add).to_ne_bytes();
        original
    }
}
