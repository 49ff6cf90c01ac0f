//! The service as a child of whoever has not got the program at hand: examples and tests.

use std::io;
use std::time::{Duration, Instant};

use ::io::channel::Channel;

use super::address;
use super::service::serve;

/// How long it may take to come up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the service in a process forked from this one, unless there is one, and waits until it answers.
/// It stays for as long as it is needed, also if this process ends before.
///
/// Programs need not call this: opening a device starts `softverbs service`.
#[doc(hidden)]
pub fn start_in_child() -> io::Result<()> {
    if is_there() {
        return Ok(());
    }
    // SAFETY: the child only runs `detach`, which does not return.
    let child = unsafe { libc::fork() };
    match child {
        -1 => return Err(io::Error::last_os_error()),
        0 => detach(),
        // SAFETY: our child, whose status nobody wants.
        child => unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
    };
    let deadline = Instant::now() + PATIENCE;
    while !is_there() {
        if Instant::now() > deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the slot service does not answer"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn is_there() -> bool {
    Channel::connect(&address()).is_ok()
}

/// Leaves the parent, with none of its files, and serves.
fn detach() -> ! {
    // SAFETY: the only thread of a forked process, which from here on uses nothing of the parent's but its
    // memory, whose allocator outlives a fork.
    unsafe {
        if libc::fork() == 0 {
            libc::setsid();
            libc::close_range(0, libc::c_uint::MAX, 0);
            for _ in 0..3 {
                libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
            }
            let _ = serve(false);
        }
        libc::_exit(0)
    }
}
