//! Runs an adapter in real time on real memory; the safe Rust API.
