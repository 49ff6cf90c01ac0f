//! Why a verb was refused, in the numbers of the C library.
//!
//! The `nic` refuses with an error that says what was expected; programs in C get a number. Scenarios speak of the number,
//! so that they hold on every arm.

use nic::verbs::{
    CqError, CreateError, DestroyError, ModifyQpError, ModifySrqError, MulticastError, PostError,
    RegisterError,
};

/// See the module. The numbers are those of `errno(3)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `EINVAL`: an argument is wrong.
    Invalid,
    /// `ENOMEM`: there is no room.
    NoRoom,
    /// `EBUSY`: something else uses the object.
    Busy,
    /// `EOPNOTSUPP`: the device does not do this.
    Unsupported,
    /// `EIO`: the object is broken.
    Broken,
    /// Any other number.
    Other(i32),
}

impl Refusal {
    /// What an error number means.
    pub fn from_errno(number: i32) -> Self {
        match number {
            libc::EINVAL => Self::Invalid,
            libc::ENOMEM => Self::NoRoom,
            libc::EBUSY => Self::Busy,
            libc::EOPNOTSUPP => Self::Unsupported,
            libc::EIO => Self::Broken,
            number => Self::Other(number),
        }
    }

    /// Why a region was not deregistered: of one under a window, Linux says `EINVAL`.
    pub fn of_region(error: DestroyError) -> Self {
        match error {
            DestroyError::UnknownHandle | DestroyError::Busy => Self::Invalid,
        }
    }
}

impl From<CreateError> for Refusal {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::TooMany => Self::NoRoom,
            CreateError::Unsupported => Self::Unsupported,
            CreateError::UnknownHandle
            | CreateError::InvalidSize
            | CreateError::WrongPd
            | CreateError::InvalidAttribute => Self::Invalid,
        }
    }
}

impl From<DestroyError> for Refusal {
    fn from(error: DestroyError) -> Self {
        match error {
            DestroyError::UnknownHandle => Self::Invalid,
            DestroyError::Busy => Self::Busy,
        }
    }
}

impl From<RegisterError> for Refusal {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::TooMany => Self::NoRoom,
            RegisterError::WindowBound => Self::Busy,
            RegisterError::UnknownHandle
            | RegisterError::AccessNeedsLocalWrite
            | RegisterError::RangeWraps
            | RegisterError::InvalidAttribute => Self::Invalid,
        }
    }
}

impl From<PostError> for Refusal {
    fn from(error: PostError) -> Self {
        match error {
            PostError::QueueFull => Self::NoRoom,
            _ => Self::Invalid,
        }
    }
}

impl From<CqError> for Refusal {
    fn from(error: CqError) -> Self {
        match error {
            CqError::Overrun => Self::Broken,
            CqError::UnknownHandle | CqError::InvalidSize => Self::Invalid,
        }
    }
}

impl From<ModifySrqError> for Refusal {
    fn from(_: ModifySrqError) -> Self {
        Self::Invalid
    }
}

impl From<MulticastError> for Refusal {
    fn from(error: MulticastError) -> Self {
        match error {
            MulticastError::TooMany => Self::NoRoom,
            _ => Self::Invalid,
        }
    }
}

impl From<ModifyQpError> for Refusal {
    fn from(_: ModifyQpError) -> Self {
        Self::Invalid
    }
}
