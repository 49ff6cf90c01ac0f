//! Typed headers and checksums of RoCE and what carries it.
#![no_std]
#![forbid(unsafe_code)]
