//! What a caller did wrong, one small enum per kind of verb.

use core::fmt;

use super::QpState;

macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident { $($(#[doc = $text:literal])* $variant:ident,)* })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[doc = $text])* $variant,)* }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self { $(Self::$variant => concat!($($text),*).trim_ascii_start(),)* })
            }
        }

        impl core::error::Error for $name {}
    )* };
}

errors! {
    /// Why an object could not be made.
    CreateError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// the adapter holds as many objects of this kind as it can: destroy some first
        TooMany,
        /// a size is zero or above the adapter's limit: see query_device
        InvalidSize,
        /// the objects named belong to different protection domains
        WrongPd,
        /// the attributes contradict each other or the adapter's abilities
        InvalidAttribute,
        /// the adapter does not do this
        Unsupported,
    }

    /// Why an object could not be destroyed.
    DestroyError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// another object still uses it: destroy that first
        Busy,
    }

    /// Why memory could not be registered or changed.
    RegisterError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// the adapter holds as many regions as it can: deregister some first
        TooMany,
        /// remote write and remote atomic access need local write access too
        AccessNeedsLocalWrite,
        /// address plus length does not fit in 64 bits
        RangeWraps,
        /// a window is bound to the region: invalidate or deallocate the window first
        WindowBound,
        /// the change named nothing to change or something unknown
        InvalidAttribute,
    }

    /// Why a request was not posted.
    PostError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// the queue pair's state takes no such request: sends need RTS or later, receives INIT or later
        InvalidState,
        /// the queue is full: poll completions first
        QueueFull,
        /// more scatter/gather elements than the queue was created with
        TooManySges,
        /// more inline data than the queue was created with
        InlineTooLong,
        /// the message is longer than the transport carries
        MessageTooLong,
        /// this kind of queue pair does not do this operation
        InvalidOperation,
        /// a datagram needs a valid address handle of the same protection domain
        InvalidDestination,
        /// the window, region or rights named do not allow the binding
        InvalidBinding,
    }

    /// Why a completion queue call was refused.
    CqError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// the new size is zero, above the limit, or below the number of entries held
        InvalidSize,
        /// the queue overran and is dead: destroy it
        Overrun,
    }

    /// Why a shared receive queue was not changed.
    ModifySrqError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// the new size is zero, above the adapter's limit, or below the number of requests held
        InvalidSize,
        /// the limit is above the queue's size
        InvalidLimit,
    }

    /// Why a queue pair was not attached to or detached from a multicast group.
    MulticastError {
        /// a handle names no object: expected one that was created and not destroyed
        UnknownHandle,
        /// only UD queue pairs join multicast groups
        NotUd,
        /// the GID is no multicast address
        NotMulticast,
        /// the group or its list of members is full
        TooMany,
        /// the queue pair is not a member
        NotAttached,
    }
}

/// Why a queue pair was not modified. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModifyQpError {
    /// The handle names no queue pair.
    UnknownHandle,
    /// There is no such transition.
    InvalidTransition {
        /// From here.
        from: QpState,
        /// To there.
        to: QpState,
    },
    /// The caller believed it in another state.
    WrongCurrentState {
        /// The state it is in.
        actual: QpState,
    },
    /// The send queue drains: what is not a move to RESET or ERROR has to wait for the end of that.
    StillDraining,
    /// The transition needs an attribute that was not given.
    MissingAttribute(&'static str),
    /// The transition does not take this attribute.
    UnexpectedAttribute(&'static str),
    /// The attribute's value is out of its range.
    InvalidValue(&'static str),
}

impl fmt::Display for ModifyQpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownHandle => write!(f, "the queue pair does not exist"),
            Self::InvalidTransition { from, to } => {
                write!(f, "there is no transition from {from:?} to {to:?}")
            }
            Self::WrongCurrentState { actual } => write!(f, "the queue pair is in state {actual:?}"),
            Self::StillDraining => write!(f, "the send queue is still draining"),
            Self::MissingAttribute(name) => write!(f, "this transition needs the attribute {name}"),
            Self::UnexpectedAttribute(name) => {
                write!(f, "this transition does not take the attribute {name}")
            }
            Self::InvalidValue(name) => write!(f, "the attribute {name} is out of its range"),
        }
    }
}

impl core::error::Error for ModifyQpError {}
