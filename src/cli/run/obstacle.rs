//! Why a program would not load our library, as far as its file tells.

use std::ffi::CString;
use std::fmt;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::StringTable;
use object::elf::{self, FileHeader64};
use object::endian::Endianness;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};

use super::library::NAMES;
use super::program::Program;

/// The machine that this program, and so our library, is built for.
#[cfg(target_arch = "x86_64")]
const OUR_MACHINE: u16 = elf::EM_X86_64;
#[cfg(target_arch = "aarch64")]
const OUR_MACHINE: u16 = elf::EM_AARCH64;

/// Something that keeps our library out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The loader ignores the search path for programs with more rights than their user.
    MoreRights,
    /// There is no loader.
    Static,
    /// The loader is that of another C library.
    OtherLibc(String),
    /// The program is for another machine, or 32-bit.
    OtherMachine,
    /// The program prefers a library of its own.
    OwnLibrary(PathBuf),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MoreRights => write!(
                f,
                "runs with more rights than its user (setuid, setgid or capabilities), for which the loader \
                 ignores the search path: it will not use Softverbs; start it as the user whose rights it takes"
            ),
            Self::Static => {
                write!(
                    f,
                    "is statically linked and loads no library: it will not use Softverbs, unless it \
                           starts other programs that do"
                )
            }
            Self::OtherLibc(loader) => {
                write!(f, "is loaded by {loader}, but Softverbs is built for the GNU C library")
            }
            Self::OtherMachine => {
                write!(f, "is built for another kind of machine than Softverbs, and cannot load its library")
            }
            Self::OwnLibrary(path) => write!(
                f,
                "has a fixed search path (DT_RPATH) that leads to {}: it will use that and not Softverbs; \
                 `patchelf --remove-rpath` or `chrpath -c` changes it",
                path.display()
            ),
        }
    }
}

/// Everything that keeps our library out of a program. Of what cannot be read, nothing is said.
pub fn obstacles(program: &Program) -> Vec<Obstacle> {
    let mut found = Vec::new();
    if gains_rights(program) {
        found.push(Obstacle::MoreRights);
    }
    if let Ok(bytes) = fs::read(&program.path) {
        found.extend(in_file(&program.path, &bytes));
    }
    found
}

/// Whether the kernel gives the program rights that its user does not have.
fn gains_rights(program: &Program) -> bool {
    let mode = program.metadata.mode();
    // SAFETY: have no preconditions.
    let (user, group) = unsafe { (libc::getuid(), libc::getgid()) };
    mode & libc::S_ISUID != 0 && program.metadata.uid() != user
        || mode & libc::S_ISGID != 0 && program.metadata.gid() != group
        || user != 0 && has_capabilities(&program.path)
}

fn has_capabilities(path: &Path) -> bool {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: two terminated strings, and no buffer: only the size is asked for.
    let size =
        unsafe { libc::getxattr(path.as_ptr(), c"security.capability".as_ptr(), std::ptr::null_mut(), 0) };
    size > 0
}

/// What the file itself tells. Scripts are as their interpreters are, of which nothing is said.
fn in_file(path: &Path, bytes: &[u8]) -> Option<Obstacle> {
    if !bytes.starts_with(&elf::ELFMAG) {
        return None;
    }
    let Ok(header) = FileHeader64::<Endianness>::parse(bytes) else { return Some(Obstacle::OtherMachine) };
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != OUR_MACHINE {
        return Some(Obstacle::OtherMachine);
    }
    let segments = header.program_headers(endian, bytes).ok()?;
    let loader = segments.iter().find_map(|segment| segment.interpreter(endian, bytes).ok().flatten());
    let Some(loader) = loader else { return Some(Obstacle::Static) };
    let loader = String::from_utf8_lossy(loader);
    if loader.contains("ld-musl") {
        return Some(Obstacle::OtherLibc(loader.into_owned()));
    }
    fixed_search_path(endian, segments, bytes)
        .iter()
        .map(|directory| directory.replace("$ORIGIN", &origin(path)).replace("${ORIGIN}", &origin(path)))
        .flat_map(|directory| NAMES.map(|name| Path::new(&directory).join(name)))
        .find(|library| library.exists())
        .map(Obstacle::OwnLibrary)
}

fn origin(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    real.parent().unwrap_or(Path::new("/")).display().to_string()
}

/// The directories that the loader searches before those it is told: DT_RPATH, unless there is a DT_RUNPATH.
fn fixed_search_path<P: ProgramHeader<Endian = Endianness>>(
    endian: Endianness,
    segments: &[P],
    bytes: &[u8],
) -> Vec<String> {
    let dynamic = segments.iter().find_map(|segment| segment.dynamic(endian, bytes).ok().flatten());
    let entries = dynamic.unwrap_or_default();
    let value = |tag: u32| {
        let entry = entries.iter().find(|entry| entry.tag32(endian) == Some(tag));
        entry.map(|entry| entry.d_val(endian).into())
    };
    let (Some(path), None, Some(strings), Some(size)) =
        (value(elf::DT_RPATH), value(elf::DT_RUNPATH), value(elf::DT_STRTAB), value(elf::DT_STRSZ))
    else {
        return Vec::new();
    };
    let table =
        segments.iter().find_map(|segment| segment.data_range(endian, bytes, strings, size).ok().flatten());
    let table = table.unwrap_or_default();
    let table = StringTable::new(table, 0, table.len() as u64);
    let text = u32::try_from(path).ok().and_then(|path| table.get(path).ok()).unwrap_or_default();
    String::from_utf8_lossy(text).split(':').map(str::to_owned).collect()
}
