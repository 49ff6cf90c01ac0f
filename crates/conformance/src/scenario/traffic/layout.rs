//! What is where in an end's memory.

/// Requests in flight, and receives posted, at most.
pub const SLOTS: u64 = 32;

/// Bytes of the longest message.
pub const SLOT: u64 = 8 * 1024;

/// Where an end's payload comes from, and READs and atomics go to.
pub const LOCAL: u64 = 0;

/// Where receives go to.
pub const RECEIVE: u64 = LOCAL + SLOTS * SLOT;

/// Where the peer's WRITEs go to and its READs come from.
pub const TARGET: u64 = RECEIVE + SLOTS * SLOT;

/// Bytes of that.
pub const TARGET_LENGTH: u64 = 128 * 1024;

/// Words that the peer's atomics change.
pub const COUNTERS: u64 = TARGET + TARGET_LENGTH;

/// How many of them.
pub const COUNTER_COUNT: u64 = 16;

const _: () = assert!(COUNTERS + 8 * COUNTER_COUNT <= crate::arm::MEMORY);
