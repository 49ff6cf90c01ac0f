//! Errors as C programs get them: what each error of the adapter is in `errno(3)`.
//!
//! The numbers are those of the manual pages, section 3, and where these are silent those of Linux's own stack.

use std::{ffi::c_int, io, ptr::null_mut};

use host::{
    OpenError,
    cm::{ManagerError, PortError, RouteError},
    slot::SlotError,
};
use nic::cm::CmError;
use nic::verbs::{
    CqError, CreateError, DestroyError, ModifyQpError, ModifySrqError, MulticastError, PostError,
    RegisterError,
};

/// An error number, never 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub c_int);

impl Errno {
    /// An argument is wrong.
    pub const INVALID: Self = Self(libc::EINVAL);
    /// The adapter does not do this. Programs probe for features by this number alone.
    pub const UNSUPPORTED: Self = Self(libc::EOPNOTSUPP);
    /// Something else still uses the object.
    pub const BUSY: Self = Self(libc::EBUSY);
    /// Nothing is there.
    pub const NO_ENTRY: Self = Self(libc::ENOENT);
    /// An entry of the GID table is empty.
    pub const NO_GID: Self = Self(libc::ENODATA);

    /// What the last call of this thread that failed has left.
    pub fn last() -> Self {
        io::Error::last_os_error().into()
    }

    /// Leaves the number in the calling thread's `errno`.
    pub fn set(self) {
        // SAFETY: the C library returns the address of a variable of this thread.
        unsafe { *libc::__errno_location() = self.0 };
    }
}

impl From<io::Error> for Errno {
    fn from(error: io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

impl From<OpenError> for Errno {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Slot(SlotError::Refused(_)) => Self(libc::EADDRINUSE),
            OpenError::Slot(SlotError::NoProgram) => Self::NO_ENTRY,
            OpenError::Slot(SlotError::Silent(_)) => Self(libc::ETIMEDOUT),
            OpenError::Slot(SlotError::OtherVersion) => Self(libc::EPROTO),
            OpenError::Slot(SlotError::System(error))
            | OpenError::Capture { error, .. }
            | OpenError::System(error) => error.into(),
        }
    }
}

impl From<CreateError> for Errno {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::UnknownHandle
            | CreateError::InvalidSize
            | CreateError::WrongPd
            | CreateError::InvalidAttribute => Self::INVALID,
            CreateError::TooMany => Self(libc::ENOMEM),
            CreateError::Unsupported => Self::UNSUPPORTED,
        }
    }
}

impl From<DestroyError> for Errno {
    fn from(error: DestroyError) -> Self {
        match error {
            DestroyError::UnknownHandle => Self::INVALID,
            DestroyError::Busy => Self::BUSY,
        }
    }
}

impl From<RegisterError> for Errno {
    fn from(error: RegisterError) -> Self {
        match error {
            RegisterError::UnknownHandle
            | RegisterError::AccessNeedsLocalWrite
            | RegisterError::RangeWraps
            | RegisterError::InvalidAttribute => Self::INVALID,
            RegisterError::TooMany => Self(libc::ENOMEM),
            RegisterError::WindowBound => Self::BUSY,
        }
    }
}

impl From<PostError> for Errno {
    fn from(error: PostError) -> Self {
        match error {
            PostError::UnknownHandle
            | PostError::InvalidState
            | PostError::TooManySges
            | PostError::InlineTooLong
            | PostError::MessageTooLong
            | PostError::InvalidOperation
            | PostError::InvalidDestination
            | PostError::InvalidBinding => Self::INVALID,
            PostError::QueueFull => Self(libc::ENOMEM),
        }
    }
}

impl From<CqError> for Errno {
    fn from(error: CqError) -> Self {
        match error {
            CqError::UnknownHandle | CqError::InvalidSize => Self::INVALID,
            CqError::Overrun => Self(libc::EIO),
        }
    }
}

impl From<ModifySrqError> for Errno {
    fn from(error: ModifySrqError) -> Self {
        match error {
            ModifySrqError::UnknownHandle | ModifySrqError::InvalidSize | ModifySrqError::InvalidLimit => {
                Self::INVALID
            }
        }
    }
}

impl From<MulticastError> for Errno {
    fn from(error: MulticastError) -> Self {
        match error {
            MulticastError::UnknownHandle
            | MulticastError::NotUd
            | MulticastError::NotMulticast
            | MulticastError::NotAttached => Self::INVALID,
            MulticastError::TooMany => Self(libc::ENOMEM),
        }
    }
}

impl From<ModifyQpError> for Errno {
    fn from(error: ModifyQpError) -> Self {
        match error {
            ModifyQpError::UnknownHandle
            | ModifyQpError::InvalidTransition { .. }
            | ModifyQpError::WrongCurrentState { .. }
            | ModifyQpError::MissingAttribute(_)
            | ModifyQpError::UnexpectedAttribute(_)
            | ModifyQpError::InvalidValue(_)
            | ModifyQpError::StillDraining => Self::INVALID,
        }
    }
}

impl From<CmError> for Errno {
    fn from(error: CmError) -> Self {
        match error {
            CmError::UnknownId
            | CmError::WrongState(_)
            | CmError::PrivateDataTooLong { .. }
            | CmError::InvalidValue(_) => Self::INVALID,
            CmError::TooMany => Self(libc::ENOMEM),
            CmError::InUse => Self(libc::EADDRINUSE),
        }
    }
}

impl From<ManagerError> for Errno {
    fn from(error: ManagerError) -> Self {
        match error {
            ManagerError::Refused(error) => error.into(),
            ManagerError::Service(error) => error.into(),
        }
    }
}

impl From<PortError> for Errno {
    fn from(error: PortError) -> Self {
        match error {
            PortError::InUse => Self(libc::EADDRINUSE),
            PortError::Exhausted => Self(libc::EADDRNOTAVAIL),
            PortError::NotPermitted => Self(libc::EACCES),
            PortError::Service(error) => error.into(),
        }
    }
}

impl From<RouteError> for Errno {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::NoRoute { error, .. } => error.into(),
            RouteError::NoSuchSource(_) => Self(libc::EADDRNOTAVAIL),
            RouteError::FamilyMismatch => Self::INVALID,
        }
    }
}

/// For functions that return 0 or an error number.
pub(crate) fn status(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => error.0,
    }
}

/// For functions that return 0, or -1 and leave the number in `errno`.
pub(crate) fn zero_or_minus_one(result: Result<(), Errno>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// For functions that return a pointer, or null and leave the number in `errno`.
pub(crate) fn pointer<T>(result: Result<*mut T, Errno>) -> *mut T {
    result.unwrap_or_else(|error| {
        error.set();
        null_mut()
    })
}
