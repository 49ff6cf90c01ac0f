//! A lossless network in virtual time.
#![forbid(unsafe_code)]

pub mod engine;
mod random;

pub use random::Random;
mod framing;
mod rate;
pub use framing::Framing;
pub use rate::{QuantityError, Rate, parse_duration};
