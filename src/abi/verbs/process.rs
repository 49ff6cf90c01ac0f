//! What concerns the whole process rather than a device: forking, and the file system that describes devices.

use std::{
    env,
    ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void},
    fs::File,
    io::{self, Read},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
    sync::OnceLock,
};

use crate::abi::{errno::Errno, types::constants::IBV_FORK_UNNEEDED};

/// `ibv_fork_init(3)`: nothing to do, since registered memory is reached by its address, not by its pages.
pub(super) extern "C" fn fork_init() -> c_int {
    0
}

/// `ibv_is_fork_initialized(3)`.
pub(super) extern "C" fn is_fork_initialized() -> c_uint {
    IBV_FORK_UNNEEDED
}

/// `ibv_dontfork_range`: nothing to do, as for [`fork_init`].
pub(super) extern "C" fn dontfork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// `ibv_dofork_range`: nothing to do, as for [`fork_init`].
pub(super) extern "C" fn dofork_range(_base: *mut c_void, _size: usize) -> c_int {
    0
}

/// `ibv_get_sysfs_path`: where sysfs is mounted, which the environment may say unless privileges were raised.
pub(super) extern "C" fn sysfs_path() -> *const c_char {
    static PATH: OnceLock<CString> = OnceLock::new();
    PATH.get_or_init(|| {
        // SAFETY: these calls have no preconditions.
        let unprivileged = unsafe { libc::getuid() == libc::geteuid() };
        let named = env::var_os("SYSFS_PATH").filter(|_| unprivileged).map(OsStringExt::into_vec);
        let mut path = named.unwrap_or_else(|| b"/sys".to_vec());
        path.truncate(path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1));
        CString::new(path).unwrap_or_default()
    })
    .as_ptr()
}

/// `ibv_read_sysfs_file`: reads a small file without its last newline; returns its length, or -1 with `errno`.
///
/// # Safety
///
/// `dir` and `file` are C strings and `buffer` has room for `size` bytes.
pub(super) unsafe extern "C" fn read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    // SAFETY: the caller passes C strings and a buffer of `size` bytes.
    let (path, buffer) = unsafe {
        (path_of(dir).join(path_of(file)), std::slice::from_raw_parts_mut(buffer.cast::<u8>(), size))
    };
    match read_line(&path, buffer) {
        Ok(length) => length as c_int,
        Err(error) => {
            Errno::from(error).set();
            -1
        }
    }
}

/// A path that C names.
///
/// # Safety
///
/// `path` is a C string.
unsafe fn path_of(path: *const c_char) -> PathBuf {
    // SAFETY: the caller passes a C string.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Path::new(OsStr::from_bytes(bytes)).to_path_buf()
}

/// Reads a file into `buffer`, ended by a zero byte in place of its newline. A file that does not fit is an error.
fn read_line(path: &Path, buffer: &mut [u8]) -> io::Result<usize> {
    let length = File::open(path)?.read(buffer)?;
    let end = match buffer[..length].strip_suffix(b"\n") {
        Some(line) => line.len(),
        None => length,
    };
    *buffer.get_mut(end).ok_or_else(|| io::Error::from_raw_os_error(libc::ENOBUFS))? = 0;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_file_is_read_without_its_newline_if_it_fits() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("value");
        let mut buffer = [0xff_u8; 6];
        for (text, expected) in [("", 0), ("abc\n", 3), ("abcde", 5), ("abcde\n", 5)] {
            fs::write(&path, text).unwrap();
            assert_eq!(read_line(&path, &mut buffer).unwrap(), expected, "{text:?}");
            assert_eq!(&buffer[..=expected], [&text.as_bytes()[..expected], &[0]].concat());
        }
        fs::write(&path, "abcdef").unwrap();
        assert_eq!(read_line(&path, &mut buffer).unwrap_err().raw_os_error(), Some(libc::ENOBUFS));
    }

    #[test]
    fn a_missing_file_sets_errno() {
        let mut buffer = [0; 8];
        // SAFETY: C strings and a buffer of eight bytes.
        let read =
            unsafe { read_sysfs_file(c"/nowhere".as_ptr(), c"value".as_ptr(), buffer.as_mut_ptr(), 8) };
        assert_eq!((read, io::Error::last_os_error().raw_os_error()), (-1, Some(libc::ENOENT)));
    }
}
