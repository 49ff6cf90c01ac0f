//! A program's side: obtaining a slot, and starting the service if there is none.

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ::io::channel::{Channel, Received};
use ::io::udp::UdpSocket;

use super::lease::Lease;
use super::protocol::{self, Answer, MAX_MESSAGE};
use super::{MANAGEMENT, SERVICE_COMMAND, address};
use crate::config::variable;

/// How long the service may take to come up and answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Pause between two attempts to reach it.
const PAUSE: Duration = Duration::from_millis(5);

/// The service's program.
const PROGRAM: &str = "softverbs";

/// A slot: the right to the QPNs that end in its number, and the socket on which they arrive. It is
/// given back when this is dropped, or when the process ends in whatever way.
#[derive(Debug)]
pub struct Slot {
    number: u8,
    socket: Arc<UdpSocket>,
    /// Open for as long as the slot is ours; none for the service's own.
    lease: Option<Arc<Lease>>,
}

/// Why there is no slot.
#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    /// The service says no.
    #[error("{0}")]
    Refused(String),
    /// The service's program was not found.
    #[error(
        "cannot find the program `{PROGRAM}`, which shares the RoCE v2 port among programs: put it beside the \
         library, into the PATH, or name it in {}",
        variable::PROGRAM
    )]
    NoProgram,
    /// The service was started, but does not answer.
    #[error("the slot service ({}) does not answer within {PATIENCE:?}: try `{PROGRAM} {SERVICE_COMMAND}` to see why", .0.display())]
    Silent(PathBuf),
    /// The service answers in another version's way.
    #[error(
        "the slot service that runs in this network namespace is of another version: end it, or the programs that use it"
    )]
    OtherVersion,
    /// The system refused something.
    #[error("cannot obtain a place on the RoCE v2 port: {0}")]
    System(#[from] io::Error),
}

impl Slot {
    /// Obtains a slot from the service of this network namespace, starting it if need be.
    pub fn obtain() -> Result<Self, SlotError> {
        let deadline = Instant::now() + PATIENCE;
        let mut started: Option<PathBuf> = None;
        loop {
            match Channel::connect(&address()) {
                Ok(channel) => match Self::ask(channel, deadline) {
                    // The service had decided to go just when we came.
                    Err(SlotError::System(error)) if error.kind() == ErrorKind::ConnectionReset => {}
                    result => return result,
                },
                Err(error) if is_absent(&error) => {
                    if started.is_none() {
                        started = Some(start_service()?);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() > deadline {
                return Err(SlotError::Silent(started.unwrap_or_else(|| PROGRAM.into())));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Its number, from 2.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Its socket.
    pub fn socket(&self) -> &Arc<UdpSocket> {
        &self.socket
    }

    /// The connection to the service.
    pub(crate) fn lease(&self) -> Option<&Arc<Lease>> {
        self.lease.as_ref()
    }

    /// The service's own slot, to which QP 1 belongs.
    pub(super) fn management(socket: UdpSocket) -> Self {
        Self { number: MANAGEMENT, socket: Arc::new(socket), lease: None }
    }

    fn ask(channel: Channel, deadline: Instant) -> Result<Self, SlotError> {
        let gone = |error: io::Error| match error.kind() {
            ErrorKind::BrokenPipe => io::Error::from(ErrorKind::ConnectionReset),
            _ => error,
        };
        channel.send(&protocol::request(), &[]).map_err(gone)?;
        let mut buffer = [0; MAX_MESSAGE];
        let patience = deadline.saturating_duration_since(Instant::now()).as_nanos() as u64;
        let (length, fds) = match channel.receive_within(&mut buffer, patience)? {
            Received::Message(length, fds) => (length, fds),
            Received::Closed => return Err(io::Error::from(ErrorKind::ConnectionReset).into()),
            Received::Nothing => return Err(SlotError::Silent(PROGRAM.into())),
        };
        match (Answer::parse(&buffer[..length]), fds.into_iter().next()) {
            (Some(Answer::Granted(number)), Some(fd)) => {
                let lease = Some(Arc::new(Lease::new(number, channel)));
                Ok(Self { number, socket: Arc::new(UdpSocket::from_fd(fd)?), lease })
            }
            (Some(Answer::Refused(reason)), _) => Err(SlotError::Refused(reason)),
            _ => Err(SlotError::OtherVersion),
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound)
}

/// Starts the service as a process of its own. If another program does so at the same time, one of the
/// two services finds the address taken and goes.
fn start_service() -> Result<PathBuf, SlotError> {
    let program = find_program().ok_or(SlotError::NoProgram)?;
    ::io::detached::spawn(&program, &[SERVICE_COMMAND.as_ref(), super::QUIET_FLAG.as_ref()], &[], &[])?;
    Ok(program)
}

/// The service's program: named in the environment, beside this library or program, or in the PATH.
fn find_program() -> Option<PathBuf> {
    let named = env::var_os(variable::PROGRAM).filter(|name| !name.is_empty()).map(PathBuf::from);
    let beside =
        [own_object(), env::current_exe().ok()].into_iter().flatten().flat_map(|object| neighbours(&object));
    let in_path = env::var_os("PATH").unwrap_or_default();
    let in_path = env::split_paths(&in_path).map(|directory| directory.join(PROGRAM)).collect::<Vec<_>>();
    named.into_iter().chain(beside).chain(in_path).find(|candidate| is_program(candidate))
}

/// Where the program lies if the library or another program of ours is `object`: in the same directory,
/// in the one above (`target/<profile>/deps` and `examples`), or in `bin` beside `lib`.
fn neighbours(object: &Path) -> Vec<PathBuf> {
    let real = object.canonicalize().unwrap_or_else(|_| object.to_owned());
    let Some(directory) = real.parent() else { return Vec::new() };
    let above = directory.parent().map(|above| [above.join(PROGRAM), above.join("bin").join(PROGRAM)]);
    [directory.join(PROGRAM)].into_iter().chain(above.into_iter().flatten()).collect()
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The file that this code was loaded from: the shared library, in a program that uses it.
fn own_object() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = own_object as *const () as *const libc::c_void;
    // SAFETY: an address to look up, and a place for the answer.
    if unsafe { libc::dladdr(here, info.as_mut_ptr()) } == 0 {
        return None;
    }
    // SAFETY: zeroed, then filled by dladdr.
    let name = unsafe { info.assume_init() }.dli_fname;
    if name.is_null() {
        return None;
    }
    // SAFETY: the loader's own name of the object, which stays loaded.
    let name = unsafe { std::ffi::CStr::from_ptr(name) };
    Some(PathBuf::from(OsString::from(std::ffi::OsStr::from_bytes(name.to_bytes()))))
}
