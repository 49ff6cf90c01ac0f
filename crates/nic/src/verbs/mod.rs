//! The vocabulary of verbs: what callers name, ask for and are told.

mod attributes;
mod completion;
mod error;
mod event;
mod handle;
mod work;

pub use attributes::*;
pub use completion::*;
pub use error::*;
pub use event::*;
pub use handle::*;
pub use work::*;
