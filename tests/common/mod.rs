//! What the tests of the C face share.
#![allow(dead_code)] // not every test uses all of it

use std::{
    env,
    ffi::OsStr,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use tempfile::TempDir;

/// The shared object under test: `cargo test` leaves it beside the test.
pub fn shared_object() -> PathBuf {
    let path = env::current_exe().expect("this test").with_file_name("libsoftverbs.so");
    assert!(path.exists(), "{} was not built", path.display());
    path
}

/// A directory in which the shared object has the names that programs look for.
pub fn library_dir() -> TempDir {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        symlink(shared_object(), dir.path().join(name)).expect("a symbolic link");
    }
    dir
}

/// Runs a program of the system on the shared object under test.
pub fn run(program: impl AsRef<OsStr>, arguments: &[&str]) -> Output {
    let program = program.as_ref();
    let dir = library_dir();
    Command::new(program)
        .args(arguments)
        .env("LD_LIBRARY_PATH", dir.path())
        .env("SOFTVERBS_PROGRAM", env!("CARGO_BIN_EXE_softverbs"))
        .output()
        .unwrap_or_else(|error| panic!("{}: {error}", program.display()))
}

/// Compiles `tests/c/NAME.c` against the headers of libibverbs and librdmacm; the program is `dir/NAME`.
pub fn compile(name: &str, dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name).with_extension("c");
    let program = dir.join(name);
    let compiled = Command::new("cc")
        .args(["-Wall", "-Werror", "-O1"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .args(["-lrdmacm", "-libverbs", "-lpthread"])
        .output()
        .expect("a C compiler");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    program
}

/// What a program printed, if it ended well.
pub fn text(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {errors}", output.status);
    String::from_utf8(output.stdout).expect("text")
}
