//! The C face: what libibverbs is to programs, on top of [`host`].
//!
//! | module | idea |
//! |---|---|
//! | `export` | versioned symbols |
//! | `layout` | C structures listed once, for Rust and for the C compiler to check |
//! | `types` | the structures and constants of `verbs.h` |
//! | `errno` | errors as C programs get them |
//! | `verbs` | libibverbs: its symbols and its tables of functions |
//!
//! There is no logic here: a function converts its arguments, calls, and converts what it got back. A panic ends the
//! process at the `extern "C"` boundary.

mod errno;
mod export;
mod layout;
mod types;
mod verbs;
