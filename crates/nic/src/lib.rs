//! One RDMA adapter as a sans-IO state machine.
#![no_std]
#![forbid(unsafe_code)]
