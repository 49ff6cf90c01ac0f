//! The program to run: finding it as a shell would.

use std::env;
use std::ffi::OsStr;
use std::fmt;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A program that was found.
#[derive(Debug)]
pub struct Program {
    /// Where.
    pub path: PathBuf,
    /// What the file system says of it.
    pub metadata: Metadata,
}

/// Why there is no program.
#[derive(Debug)]
pub enum FindError {
    /// It is not in the PATH.
    Unknown(String),
    /// It is not where it should be.
    Missing(PathBuf, io::Error),
    /// It is no file that may be executed.
    Unusable(PathBuf),
}

impl FindError {
    /// The exit status that tells it, as shells have it.
    pub fn status(&self) -> u8 {
        match self {
            Self::Unknown(_) => 127,
            Self::Missing(_, error) => exec_failure_status(error),
            Self::Unusable(_) => 126,
        }
    }
}

impl fmt::Display for FindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "program not found in the PATH: {name}"),
            Self::Missing(path, error) => write!(f, "program not found: {}: {error}", path.display()),
            Self::Unusable(path) => write!(f, "not an executable file: {}", path.display()),
        }
    }
}

impl std::error::Error for FindError {}

/// The exit status for a program that cannot be executed.
pub fn exec_failure_status(error: &io::Error) -> u8 {
    if error.kind() == ErrorKind::NotFound { 127 } else { 126 }
}

/// Finds the program that a shell would run.
pub fn find(name: &OsStr) -> Result<Program, FindError> {
    if name.as_encoded_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            Ok(metadata) if is_executable(&metadata) => Ok(Program { path, metadata }),
            Ok(_) => Err(FindError::Unusable(path)),
            Err(error) => Err(FindError::Missing(path, error)),
        };
    }
    let mut unusable = None;
    let search = env::var_os("PATH").unwrap_or_default();
    // An empty name would be a directory's.
    for directory in env::split_paths(&search).filter(|_| !name.is_empty()) {
        let path =
            if directory.as_os_str().is_empty() { Path::new(".").join(name) } else { directory.join(name) };
        match path.metadata() {
            Ok(metadata) if is_executable(&metadata) => return Ok(Program { path, metadata }),
            Ok(_) => unusable = unusable.or(Some(path)),
            Err(_) => {}
        }
    }
    Err(match unusable {
        Some(path) => FindError::Unusable(path),
        None => FindError::Unknown(name.to_string_lossy().into_owned()),
    })
}

fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o111 != 0
}
