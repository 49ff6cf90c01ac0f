//! Arbitrary bytes as a frame and as a packet.
#![no_main]

#[path = "../checks/packet.rs"]
mod packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| packet::check(bytes));
