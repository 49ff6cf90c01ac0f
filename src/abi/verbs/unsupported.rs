//! What symbols answer that exist for the loader's sake: the adapter does not have what they ask for.
//!
//! They take no arguments, so that one function serves callers with any: C leaves arguments to the caller.

use std::{
    ffi::{c_int, c_void},
    ptr::null_mut,
};

use crate::abi::errno::Errno;

/// For functions that return 0 or an error.
pub(super) extern "C" fn status() -> c_int {
    libc::EOPNOTSUPP
}

/// For functions that return -1 and set `errno`, whatever the width of their result.
pub(super) extern "C" fn minus_one() -> i64 {
    Errno::UNSUPPORTED.set();
    -1
}

/// For functions that return a pointer, null on error.
pub(super) extern "C" fn object() -> *mut c_void {
    Errno::UNSUPPORTED.set();
    null_mut()
}

/// For functions that return nothing, or a number that is 0 when there is nothing.
pub(super) extern "C" fn nothing() -> u64 {
    0
}
