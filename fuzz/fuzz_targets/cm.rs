//! Arbitrary bytes as a datagram of communication management.
#![no_main]

#[path = "../checks/cm.rs"]
mod cm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| cm::check(bytes));
