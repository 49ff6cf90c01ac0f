//! What a program did wrong.

use core::fmt;

use super::State;

/// Why a verb of connection management was refused. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CmError {
    /// The name is nobody's.
    UnknownId,
    /// The connection stands where this makes no sense.
    WrongState(State),
    /// There are as many connections or listeners as there may be.
    TooMany,
    /// More private data than the message carries.
    PrivateDataTooLong {
        /// So many bytes fit.
        most: usize,
    },
    /// Somebody listens for this already.
    InUse,
    /// An argument is out of its range.
    InvalidValue(&'static str),
}

impl fmt::Display for CmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownId => write!(f, "the name is no connection's or listener's"),
            Self::WrongState(state) => write!(f, "the connection is in state {state:?}"),
            Self::TooMany => write!(f, "there are too many: destroy some first"),
            Self::PrivateDataTooLong { most } => {
                write!(f, "the message carries at most {most} bytes of private data")
            }
            Self::InUse => write!(f, "somebody listens for this already"),
            Self::InvalidValue(name) => write!(f, "the argument {name} is out of its range"),
        }
    }
}

impl core::error::Error for CmError {}
