//! Our library: where it is, and the directory in which it has the system's name.

use std::env;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, bail};

/// The file's own name.
const FILE: &str = "libsoftverbs.so";

/// The names under which programs look for it.
pub const NAMES: [&str; 2] = ["libibverbs.so.1", "librdmacm.so.1"];

/// Our library.
#[derive(Debug)]
pub struct Library {
    path: PathBuf,
}

impl Library {
    /// The one that came with this program.
    pub fn find() -> anyhow::Result<Self> {
        let program = env::current_exe().context("cannot find the path of this program")?;
        let program = program.canonicalize().unwrap_or(program);
        let directory = program.parent().unwrap_or(Path::new("/"));
        // Where cargo leaves it depends on what it was asked to build; the newer one counts.
        let built = [directory.join(FILE), directory.join("deps").join(FILE)];
        let installed = ["../lib", "../lib/softverbs", "../lib64"].map(|lib| directory.join(lib).join(FILE));
        let newest = built.iter().filter(|path| path.is_file()).max_by_key(|path| modified(path));
        match newest.or_else(|| installed.iter().find(|path| path.is_file())) {
            Some(path) => Self::at(path),
            None => bail!(
                "cannot find {FILE} beside {} or in ../lib: build it with `cargo build --release`, or name it \
                 with --library",
                program.display()
            ),
        }
    }

    /// The one at `path`.
    pub fn at(path: &Path) -> anyhow::Result<Self> {
        let path = path.canonicalize().with_context(|| format!("cannot find {}", path.display()))?;
        Ok(Self { path })
    }

    /// A directory in which it has the system's name: always the same one for one library and user, so that
    /// nothing has to be removed after the program has ended.
    pub fn directory(&self) -> anyhow::Result<PathBuf> {
        let directory = own_directory().context("cannot make a directory for the library's names")?;
        let directory = directory.join(self.digest());
        self.fill(&directory)
            .with_context(|| format!("cannot put the library's names into {}", directory.display()))?;
        Ok(directory)
    }

    /// A name for the library's path.
    fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.path.hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }

    fn fill(&self, directory: &Path) -> io::Result<()> {
        make_directory(directory)?;
        for name in NAMES {
            let link = directory.join(name);
            if fs::read_link(&link).is_ok_and(|target| target == self.path) {
                continue;
            }
            // Renamed into place, since a program may be looking for it just now.
            let new = directory.join(format!("{name}.{}", std::process::id()));
            symlink(&self.path, &new)?;
            fs::rename(&new, &link)?;
        }
        Ok(())
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

/// A directory that nobody else can change. Others may read it: a program may go on as another user.
fn own_directory() -> anyhow::Result<PathBuf> {
    // SAFETY: has no preconditions.
    let user = unsafe { libc::geteuid() };
    let directory = env::temp_dir().join(format!("softverbs-{user}"));
    make_directory(&directory).with_context(|| directory.display().to_string())?;
    let found = directory.symlink_metadata().with_context(|| directory.display().to_string())?;
    if !found.is_dir() || found.uid() != user || found.mode() & 0o022 != 0 {
        bail!(
            "{} is not a directory that only this user can change: remove it, or set TMPDIR",
            directory.display()
        );
    }
    Ok(directory)
}

fn make_directory(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o755).create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        result => result,
    }
}
