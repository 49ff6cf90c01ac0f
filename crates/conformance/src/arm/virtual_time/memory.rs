//! Memory that is there.

use nic::{Memory, Payload, Segment};

/// One array of bytes at an address. What lies outside is a bug of the adapter, and a panic.
#[derive(Debug)]
pub(super) struct VecMemory {
    base: u64,
    bytes: Vec<u8>,
}

impl VecMemory {
    pub fn new(base: u64, length: u64) -> Self {
        Self { base, bytes: vec![0; length as usize] }
    }

    pub fn read(&self, segment: Segment) -> &[u8] {
        let start = (segment.address - self.base) as usize;
        &self.bytes[start..start + segment.length as usize]
    }

    pub fn store(&mut self, offset: u64, bytes: &[u8]) {
        self.bytes[offset as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn load(&self, offset: u64, length: usize) -> Vec<u8> {
        self.bytes[offset as usize..][..length].to_vec()
    }

    fn word(&mut self, address: u64) -> &mut [u8; 8] {
        assert!(address.is_multiple_of(8));
        let start = (address - self.base) as usize;
        self.bytes[start..].first_chunk_mut().expect("a word in memory")
    }
}

impl Memory for VecMemory {
    fn write(&mut self, address: u64, payload: Payload<'_>) {
        let Payload::Bytes(bytes) = payload else { panic!("bytes were sent") };
        self.store(address - self.base, bytes);
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
