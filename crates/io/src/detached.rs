//! Starting a service from inside somebody else's program, without that program noticing.
//!
//! The service must not be a child of the program: that would get a `SIGCHLD` it does not expect, or a stranger's status
//! out of `wait`. So a middle process starts the service and ends at once, which leaves the service to the init process.
//! The middle process itself raises no signal when it ends (its exit signal is 0), and `wait` does not see such a child
//! unless asked to with `__WALL`, which is how it is reaped here.
//!
//! Both processes run in the memory of the program (`CLONE_VM`), on stacks of their own, while the calling thread waits
//! (`CLONE_VFORK`), as posix_spawn(3) does it: copying the page tables of a program with gigabytes of registered memory
//! would take milliseconds, and other threads may hold any lock, the allocator's for one. Between clone and exec there are
//! therefore only system calls, on values prepared beforehand.
//!
//! If the program is itself a subreaper or the init process of a container, the service becomes its child nevertheless.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The number of the first file descriptor that is passed on; 0 to 2 are /dev/null.
pub const FIRST_FD: RawFd = 3;

/// Most file descriptors passed on.
pub const MAX_FDS: usize = 8;

/// Bytes of stack for each of the two processes, which run a few shallow functions.
const STACK: usize = 64 * 1024;

/// Starts `program` as a process with no ties to this one, and returns its process id.
///
/// It gets `arguments` (beside its own name), exactly the variables of `environment`, and `fds` as file descriptors
/// [`FIRST_FD`] and on. It runs in a session of its own in `/`, with no other files open, all signals in their default state and
/// none blocked. The error is that of executing it, if the program does not exist for instance.
pub fn spawn(
    program: &Path,
    arguments: &[&OsStr],
    environment: &[(&OsStr, &OsStr)],
    fds: &[BorrowedFd<'_>],
) -> io::Result<u32> {
    let plan = Plan::new(program, arguments, environment, fds)?;
    let mut stacks = Stacks::new();
    let mut shared = Shared { plan: &plan.raw(), service_stack: stacks.service_top(), service: 0, error: 0 };
    let signals = block_all_signals();
    let cloned = run_in_clone(middle, stacks.middle_top(), &mut shared);
    if let Ok(middle) = cloned {
        reap(middle);
    }
    restore_signals(&signals);
    cloned?;
    match shared.error {
        0 => Ok(shared.service as u32),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// What to execute, owned.
struct Plan {
    program: CString,
    arguments: Vec<CString>,
    environment: Vec<CString>,
    fds: Vec<RawFd>,
}

impl Plan {
    fn new(
        program: &Path,
        arguments: &[&OsStr],
        environment: &[(&OsStr, &OsStr)],
        fds: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        if fds.len() > MAX_FDS {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many file descriptors to pass on"));
        }
        let program = CString::new(program.as_os_str().as_bytes())?;
        let arguments = arguments.iter().map(|argument| CString::new(argument.as_bytes()));
        let variable = |&(name, value): &(&OsStr, &OsStr)| {
            CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())
        };
        Ok(Self {
            arguments: std::iter::once(Ok(program.clone())).chain(arguments).collect::<Result<_, _>>()?,
            environment: environment.iter().map(variable).collect::<Result<_, _>>()?,
            program,
            fds: fds.iter().map(AsRawFd::as_raw_fd).collect(),
        })
    }

    /// The same as the kernel wants it.
    fn raw(&self) -> RawPlan<'_> {
        RawPlan {
            program: &self.program,
            arguments: pointers(&self.arguments),
            environment: pointers(&self.environment),
            fds: &self.fds,
        }
    }
}

/// Pointers to `strings`, ended by a null pointer.
fn pointers(strings: &[CString]) -> Vec<*const c_char> {
    strings.iter().map(|s| s.as_ptr()).chain([std::ptr::null()]).collect()
}

struct RawPlan<'a> {
    program: &'a CStr,
    arguments: Vec<*const c_char>,
    environment: Vec<*const c_char>,
    fds: &'a [RawFd],
}

/// What the three processes share, one of which runs at a time.
struct Shared<'a> {
    plan: &'a RawPlan<'a>,
    service_stack: *mut c_void,
    /// Process id of the service.
    service: c_int,
    /// Why it could not be executed, or 0.
    error: c_int,
}

/// Memory for two stacks, which the kernel fills from the top.
struct Stacks(Box<[MaybeUninit<u128>]>);

impl Stacks {
    const WORDS: usize = STACK / size_of::<u128>();

    fn new() -> Self {
        Self(Box::new_uninit_slice(2 * Self::WORDS))
    }

    fn middle_top(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }

    fn service_top(&mut self) -> *mut c_void {
        self.0[..Self::WORDS].as_mut_ptr_range().end.cast()
    }
}

/// Runs `function` in a new process which shares our memory, and returns its process id when it has ended or executed
/// something else. It raises no signal when it ends.
fn run_in_clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack_top: *mut c_void,
    shared: &mut Shared<'_>,
) -> io::Result<c_int> {
    let exit_signal = 0;
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | exit_signal;
    // SAFETY: `stack_top` is the aligned end of memory that outlives the call, and nobody else uses. The kernel suspends this
    // thread until the new process is done with our memory, so `shared` is used by one process at a time.
    let pid = unsafe { libc::clone(function, stack_top, flags, std::ptr::from_mut(shared).cast()) };
    if pid < 0 { Err(io::Error::last_os_error()) } else { Ok(pid) }
}

/// The middle process: leaves the session of the program, starts the service and ends.
extern "C" fn middle(shared: *mut c_void) -> c_int {
    // SAFETY: `run_in_clone` passes the `Shared` of a thread that is suspended meanwhile.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    // SAFETY: a system call without arguments.
    unsafe { libc::setsid() };
    match run_in_clone(service, shared.service_stack, shared) {
        Ok(pid) => shared.service = pid,
        Err(error) => shared.error = error.raw_os_error().unwrap_or(libc::EAGAIN),
    }
    0
}

/// The service, up to executing it.
extern "C" fn service(shared: *mut c_void) -> c_int {
    // SAFETY: as in `middle`, which is suspended now as well.
    let shared = unsafe { &mut *shared.cast::<Shared<'_>>() };
    shared.error = match arrange_files(shared.plan.fds) {
        Ok(()) => execute(shared.plan),
        Err(errno) => errno,
    };
    // What comes after exec has failed; the exit status is seen by nobody.
    127
}

/// Puts the file descriptors to be passed on where they belong, /dev/null before them, and closes all others.
fn arrange_files(fds: &[RawFd]) -> Result<(), c_int> {
    let end = FIRST_FD + fds.len() as RawFd;
    let mut moved = [-1; MAX_FDS];
    // SAFETY: system calls on plain numbers and on a C string constant.
    unsafe {
        // First out of the way, as one may have the number where another belongs.
        for (moved, &fd) in moved.iter_mut().zip(fds) {
            *moved = check(libc::fcntl(fd, libc::F_DUPFD, end))?;
        }
        for (target, &moved) in (FIRST_FD..end).zip(&moved) {
            check(libc::dup2(moved, target))?;
        }
        let null = check(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR))?;
        for standard in 0..FIRST_FD {
            check(libc::dup2(null, standard))?;
        }
        if libc::syscall(libc::SYS_close_range, end, c_int::MAX, 0) != 0 {
            close_one_by_one(end);
        }
        check(libc::chdir(c"/".as_ptr()))?;
    }
    Ok(())
}

/// Linux before 5.9 has no `close_range`.
fn close_one_by_one(start: RawFd) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` lives for the call; closing a number that is not open does no harm.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        let end = limit.rlim_cur.min(1 << 20) as RawFd;
        (start..end).for_each(|fd| {
            libc::close(fd);
        });
    }
}

/// Executes the program; returns only if that fails, and why.
fn execute(plan: &RawPlan<'_>) -> c_int {
    // SAFETY: the signal table and mask are this process's own; the pointers are to C strings in lists that end with null, all
    // of which the suspended caller owns.
    unsafe {
        // Exec resets the signals that are handled, but not those that are ignored. The C library keeps two for itself, so ask
        // the kernel: for its `struct sigaction`, zeroes are the default action, and the last argument is the size of a mask.
        let default = [0u64; 4];
        for signal in 1..=libc::SIGRTMAX() {
            libc::syscall(
                libc::SYS_rt_sigaction,
                signal,
                default.as_ptr(),
                std::ptr::null_mut::<u64>(),
                8usize,
            );
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::execve(plan.program.as_ptr(), plan.arguments.as_ptr(), plan.environment.as_ptr());
        *libc::__errno_location()
    }
}

fn check(result: c_int) -> Result<c_int, c_int> {
    // SAFETY: the address is that of this thread's own error number.
    if result < 0 { Err(unsafe { *libc::__errno_location() }) } else { Ok(result) }
}

/// Collects the middle process, which has ended.
fn reap(middle: c_int) {
    // SAFETY: no status is asked for.
    let reap = || unsafe { libc::waitpid(middle, std::ptr::null_mut(), libc::__WALL) };
    // All signals are blocked, so nothing interrupts. If the program itself waits for everything with __WALL, it may have been
    // faster.
    reap();
}

/// Blocks every signal in this thread, and so in its clones, whose handlers would run in our memory. Returns the old mask.
fn block_all_signals() -> libc::sigset_t {
    let mut all = MaybeUninit::uninit();
    let mut old = MaybeUninit::uninit();
    // SAFETY: the first call initialises `all`, the second `old`.
    unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), old.as_mut_ptr());
        old.assume_init()
    }
}

fn restore_signals(mask: &libc::sigset_t) {
    // SAFETY: `mask` is what the system gave us.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut()) };
}
