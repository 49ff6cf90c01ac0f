//! Connection management between programs in virtual time.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod attributes;
mod crowds;
mod datagrams;
mod endings;
mod faults;
mod handshake;
mod hostile;
mod kernel;
mod refusals;
mod shared;
mod world;
