//! Errors as C programs get them.

use std::ffi::c_int;

/// Sets the calling thread's `errno`.
pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the C library returns the address of a variable of this thread.
    unsafe { *libc::__errno_location() = error };
}
