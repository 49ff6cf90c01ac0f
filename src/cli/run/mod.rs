//! `softverbs run`: a program with our library in place of the system's.
//!
//! The program is not watched over: `run` renders a directory in which our library has the system's name,
//! puts that in front of the loader's search path, and becomes the program. So the program has the process
//! id, the files and the exit status that it would have without us.
//!
//! | module | idea |
//! |---|---|
//! | `library` | finding our library, and the directory in which it has the system's name |
//! | `program` | finding the program |
//! | `obstacle` | why a program would not load our library |

mod library;
mod obstacle;
mod program;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};
use host::config::{checked_name, variable};
use host::{Capture, FaultPlan};

use library::Library;
use program::Program;

/// Where the loader looks first.
const SEARCH_PATH: &str = "LD_LIBRARY_PATH";

/// The exit status if the program was not started, as env(1) and others have it.
const NOT_STARTED: u8 = 125;

/// Runs a program on software RDMA.
///
/// The program finds one device, reachable by all addresses of this machine. No adapter, kernel module or
/// root is needed. Several programs, here and elsewhere, reach each other by RoCE v2.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// The device's name, softverbs0 if it is not given.
    #[arg(long, value_name = "NAME", value_parser = |name: &str| checked_name(name.to_owned()))]
    device_name: Option<String>,
    /// Writes the packets that are sent and received to a capture file.
    #[arg(long, value_name = "FILE")]
    pcap: Option<PathBuf>,
    /// Adds to the capture file what is there already, so that several programs can share one.
    #[arg(long, requires = "pcap")]
    pcap_append: bool,
    /// Loses, duplicates, reorders or corrupts packets that arrive: loss=1%,reorder=0.5%,seed=7
    #[arg(long, value_name = "PLAN", value_parser = checked_plan)]
    fault: Option<String>,
    /// The library to use, if it is not the one that came with this program.
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    library: Option<PathBuf>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// A fault plan, which stays text: the program's library reads it.
fn checked_plan(text: &str) -> Result<String, host::FaultPlanError> {
    text.parse::<FaultPlan>().map(|_| text.to_owned())
}

impl RunArgs {
    /// Becomes the program; returns only if that is not possible.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let (name, arguments) = self.command.split_first().context("no program is given")?;
        let program = match program::find(name) {
            Ok(program) => program,
            Err(error) => return Ok(fail(error.status(), &error.into())),
        };
        match self.prepare(&program, arguments) {
            // If this returns, it failed.
            Ok(mut command) => {
                let error = command.exec();
                let status = program::exec_failure_status(&error);
                let context = format!("cannot execute {}", program.path.display());
                Ok(fail(status, &anyhow::Error::new(error).context(context)))
            }
            Err(error) => Ok(fail(NOT_STARTED, &error)),
        }
    }

    fn prepare(&self, program: &Program, arguments: &[OsString]) -> anyhow::Result<Command> {
        let library = match &self.library {
            Some(path) => Library::at(path)?,
            None => Library::find()?,
        };
        for obstacle in obstacle::obstacles(program) {
            eprintln!("softverbs: warning: {} {obstacle}", program.path.display());
        }
        let mut command = Command::new(&program.path);
        command.arg0(&self.command[0]).args(arguments);
        command.env(SEARCH_PATH, search_path(&library.directory()?)?);
        let own = env::current_exe().context("cannot find the path of this program")?;
        command.env(variable::PROGRAM, own);
        if let Some(name) = &self.device_name {
            command.env(variable::DEVICE_NAME, name);
        }
        if let Some(plan) = &self.fault {
            command.env(variable::FAULT, plan);
        }
        if let Some(path) = &self.pcap {
            command.env(variable::PCAP, self.capture(path)?);
        }
        Ok(command)
    }

    /// Makes the capture file, or sees that it can be added to; returns its path from anywhere.
    fn capture(&self, path: &Path) -> anyhow::Result<PathBuf> {
        let usable = if self.pcap_append && path.exists() {
            OpenOptions::new().append(true).open(path).map(drop)
        } else {
            Capture::create(path)
        };
        usable.with_context(|| format!("cannot write the capture file {}", path.display()))?;
        path.canonicalize().with_context(|| format!("cannot find {} again", path.display()))
    }
}

/// The loader's search path with `directory` in front.
fn search_path(directory: &Path) -> anyhow::Result<OsString> {
    let bytes = directory.as_os_str().as_encoded_bytes();
    if bytes.iter().any(|byte| b":;".contains(byte)) {
        bail!("the directory {} has a name that the loader cannot search: set TMPDIR", directory.display());
    }
    let mut path = directory.as_os_str().to_owned();
    if let Some(rest) = env::var_os(SEARCH_PATH).filter(|rest| !rest.is_empty()) {
        path.push(OsStr::new(":"));
        path.push(rest);
    }
    Ok(path)
}

fn fail(status: u8, error: &anyhow::Error) -> ExitCode {
    eprintln!("softverbs: {error:#}");
    ExitCode::from(status)
}
