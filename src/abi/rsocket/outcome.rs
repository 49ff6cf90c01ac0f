//! Results as the calls of sockets give them.

use libc::ssize_t;

use crate::abi::errno::Errno;

/// For calls that return a number, or -1 and leave the error in `errno`.
pub(super) fn number<N: Into<i64>>(result: Result<N, Errno>) -> ssize_t {
    match result {
        Ok(number) => number.into() as ssize_t,
        Err(error) => {
            error.set();
            -1
        }
    }
}

/// For calls that return a number of bytes, or -1 and leave the error in `errno`.
pub(super) fn count(result: Result<usize, Errno>) -> ssize_t {
    number(result.map(|count| count as i64))
}
