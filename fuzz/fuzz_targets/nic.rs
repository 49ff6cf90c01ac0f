//! Arbitrary verbs and packets on two adapters beside a naive model.
#![no_main]

#[path = "../checks/nic/mod.rs"]
mod nic_checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| nic_checks::check(bytes));
