//! The C face: what libibverbs and librdmacm are to programs, on top of [`host`].
//!
//! | module | idea |
//! |---|---|
//! | `export` | versioned symbols |
//! | `layout` | C structures listed once, for Rust and for the C compiler to check |
//! | `types` | the structures and constants of `verbs.h` |
//! | `convert` | between the values of `verbs.h` and those of the adapter |
//! | `errno`, `output` | errors and results as C programs get them |
//! | `object`, `held` | what programs hold by pointer, and what they hold between two calls |
//! | `verbs` | libibverbs: its symbols and its tables of functions |
//! | `rdmacm` | librdmacm: connection management, on top of [`host::cm`] and `verbs` |
//! | `rsocket` | its sockets: streams, on top of [`host`] |
//!
//! There is no logic here: a function converts its arguments, calls, and converts what it got back. A panic ends the
//! process at the `extern "C"` boundary.

mod convert;
mod errno;
mod export;
mod held;
mod layout;
mod object;
mod output;
mod rdmacm;
mod rsocket;
mod types;
mod verbs;
