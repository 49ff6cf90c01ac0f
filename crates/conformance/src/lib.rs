//! What every stack must do alike, and Softverbs beside what is not Softverbs: the programs that people run on verbs, and
//! the Linux kernel's own RoCE stack.
//!
//! A [`scenario`] is written once and played on every [`arm`]: in virtual time, on real sockets, through the C interface,
//! against the kernel's stack.
//!
//! - [`arm`]: two connected sides with verbs, whatever runs underneath.
//! - [`scenario`]: what is done with them, and what must come of it.
//! - [`playbill`]: scenarios played by the `scenarios` program somewhere else, and what was expected of each.
//! - [`chance`]: seeded random numbers.
//!
//! For the programs of others, a test says which [`Scene`] it plays in and which [`Dialogue`] of two programs it plays there; this library makes the
//! network, runs the programs with the library under test in front, ends what hangs, and keeps what they printed for the
//! message of a failing test. The modules, bottom up:
//!
//! - [`program`]: one outside program, its output and its time limit.
//! - [`namespace`]: a network of our own, in which nothing reaches another machine.
//! - [`library`]: the library under test, built and laid out as `libibverbs.so.1`.
//! - [`peer_vm`]: a host whose RDMA stack is the kernel's.
//! - [`node`]: a place where verbs programs run, ours or the kernel's.
//! - [`scene`]: two nodes that reach each other.
//! - [`dialogue`]: a server and a client program, run in a scene.
//! - [`capture`]: what went over the wire, judged by programs that are not ours.
//! - [`perftest`], [`pingpong`]: the tables of what is run.
//! - [`suite`]: a list of named checks as a `cargo test` target.
//!
//! Everything here needs root (namespaces) and the packages that `scripts/test` installs. A program that is missing fails
//! the test that needs it.

pub mod arm;
pub mod capture;
pub mod chance;
pub mod dialogue;
pub mod library;
pub mod namespace;
pub mod node;
pub mod peer_vm;
pub mod perftest;
pub mod pingpong;
pub mod playbill;
pub mod program;
pub mod scenario;
pub mod scene;
pub mod suite;

pub use capture::{Capture, Recording};
pub use dialogue::Dialogue;
pub use library::Library;
pub use namespace::Namespace;
pub use node::{Family, Node};
pub use peer_vm::PeerVm;
pub use program::{Finished, Program, Running};
pub use scene::Scene;
