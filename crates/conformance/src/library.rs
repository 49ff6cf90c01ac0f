//! The library under test, laid out where the loader looks for `libibverbs.so.1`.

use std::{
    env, fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::program::Program;

/// Names a directory with a library and a program that were built already, to be tested in place of a fresh build.
const BUILT: &str = "SOFTVERBS_TEST_BUILT";

/// What the one shared object stands in for.
const SONAMES: [&str; 1] = ["libibverbs.so.1"];

/// What a build makes.
const FILES: [&str; 2] = ["libsoftverbs.so", "softverbs"];

/// A directory that any user can read, holding the release build of the library and of the `softverbs` program.
#[derive(Debug)]
pub struct Library {
    directory: TempDir,
}

impl Library {
    /// Builds what is tested (nothing to do when it is fresh) and copies it, so that a later build does not change it
    /// under a running test, and so that a checkout in a private home is no hindrance to unprivileged users.
    ///
    /// # Errors
    /// When it does not build.
    pub fn build() -> Result<Self> {
        let files = match env::var_os(BUILT) {
            Some(built) => FILES.map(|name| Path::new(&built).join(name)).to_vec(),
            None => build_release()?,
        };
        let directory = tempfile::Builder::new().prefix("softverbs-test.").tempdir()?;
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        for name in FILES {
            let built = files.iter().find(|path| path.file_name().is_some_and(|file| file == name));
            let built = built.with_context(|| format!("the release build made no {name}"))?;
            fs::copy(built, directory.path().join(name))?;
        }
        for soname in SONAMES {
            symlink("libsoftverbs.so", directory.path().join(soname))?;
        }
        Ok(Self { directory })
    }

    /// Where it lies.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Compiles a C program of this project against the system's headers and library, beside the library under test.
    ///
    /// # Errors
    /// With what the compiler says.
    pub fn compile(&self, source: &Path) -> Result<Program> {
        let name = source.file_stem().context("a file of C")?;
        let program = self.directory().join(name).display().to_string();
        let compiler = Program::new("cc").args("-std=gnu17 -O2 -Wall -Wno-unused -o").arg(&program);
        compiler.arg(project_root().join(source).display()).arg("-libverbs").output()?;
        Ok(Program::new(program))
    }

    /// `program`, with this library in front of the system's.
    pub fn in_front_of(&self, program: Program) -> Program {
        program.env("LD_LIBRARY_PATH", self.directory())
    }

    /// The same, done by `softverbs run` with some options.
    pub fn run(&self, options: &[String], program: Program) -> Program {
        let softverbs = self.directory().join("softverbs").display().to_string();
        let words = [softverbs.as_str(), "run"].into_iter().chain(options.iter().map(String::as_str));
        program.through(words.chain(["--"]))
    }

    /// The `softverbs` program.
    pub fn softverbs(&self) -> Program {
        Program::new(self.directory().join("softverbs").display().to_string())
    }
}

/// The files that `cargo build --release` of the root package makes.
fn build_release() -> Result<Vec<PathBuf>> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args([
            "build",
            "--release",
            "--locked",
            "-p",
            "softverbs",
            "--message-format",
            "json-render-diagnostics",
        ])
        .current_dir(project_root())
        .output()
        .context("cannot run cargo")?;
    ensure!(built.status.success(), "the release build failed:\n{}", String::from_utf8_lossy(&built.stderr));
    let mut files = Vec::new();
    for line in String::from_utf8(built.stdout)?.lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let names = message["filenames"].as_array().into_iter().flatten().chain([&message["executable"]]);
        files.extend(names.filter_map(|name| name.as_str()).map(PathBuf::from));
    }
    Ok(files)
}

/// The root of this checkout.
pub fn project_root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}
