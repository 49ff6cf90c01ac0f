//! Services started from a program that knows nothing of them. No test here may have children of its own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use io::detached::{MAX_FDS, spawn};

/// One test at a time: they look at signals and children, which belong to the whole process.
static ALONE: Mutex<()> = Mutex::new(());

static CHILD_SIGNALS: AtomicU32 = AtomicU32::new(0);

extern "C" fn count_signal(_: libc::c_int) {
    CHILD_SIGNALS.fetch_add(1, Ordering::SeqCst);
}

fn shell(script: &str, fds: &[BorrowedFd<'_>]) -> std::io::Result<u32> {
    let arguments = ["-c", script].map(OsStr::new);
    let environment =
        [("NAME", "a value"), ("PATH", "/usr/bin:/bin")].map(|(n, v)| (OsStr::new(n), OsStr::new(v)));
    spawn(Path::new("/bin/sh"), &arguments, &environment, fds)
}

fn read_all(mut reader: PipeReader) -> String {
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    text
}

/// Fails if this process has a child that wait(2) would see, or has got a `SIGCHLD`.
fn assert_nothing_to_wait_for() {
    // SAFETY: no status is asked for.
    let (result, error) =
        unsafe { (libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG), std::io::Error::last_os_error()) };
    assert_eq!((result, error.raw_os_error()), (-1, Some(libc::ECHILD)));
    // SAFETY: as above; this includes children without an exit signal.
    let (result, error) = unsafe {
        (
            libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG | libc::__WALL),
            std::io::Error::last_os_error(),
        )
    };
    assert_eq!((result, error.raw_os_error()), (-1, Some(libc::ECHILD)));
    assert_eq!(CHILD_SIGNALS.load(Ordering::SeqCst), 0);
}

fn watch_child_signals() {
    // SAFETY: the handler only adds to an atomic.
    unsafe { libc::signal(libc::SIGCHLD, count_signal as *const () as libc::sighandler_t) };
}

#[test]
fn the_service_has_what_it_was_given_and_nothing_else() {
    let _alone = ALONE.lock();
    watch_child_signals();
    // What a program may have set up, none of which is to reach the service.
    // SAFETY: a plain call.
    unsafe {
        assert!(libc::open(c"/dev/zero".as_ptr(), libc::O_RDONLY) >= 0);
    }
    let (reader, writer) = std::io::pipe().unwrap();
    let (request, mut requester) = std::io::pipe().unwrap();
    requester.write_all(b"ping\n").unwrap();
    let script = r#"
        read -r word <&3
        standard=$(readlink /proc/$$/fd/0),$(readlink /proc/$$/fd/1),$(readlink /proc/$$/fd/2)
        files=; i=0
        while [ $i -lt 200 ]; do [ -e /proc/$$/fd/$i ] && files=$files$i,; i=$((i + 1)); done
        {
            echo word=$word name=$NAME variables=$(env | grep -c '^NAME\|^PATH\|^HOME')
            echo cwd=$(pwd) pid=$$
            echo files=$files
            echo standard=$standard
            echo parent=$(cut -d' ' -f4 /proc/$$/stat) session=$(cut -d' ' -f6 /proc/$$/stat)
        } >&4
    "#;
    let pid = shell(script, &[request.as_fd(), writer.as_fd()]).unwrap();
    drop(writer);
    let text = read_all(reader);
    let facts: BTreeMap<_, _> =
        text.split_ascii_whitespace().filter_map(|fact| fact.split_once('=')).collect();
    assert_eq!(facts["word"], "ping", "{text}");
    assert_eq!((facts["name"], facts["variables"]), ("a", "2"), "{text}");
    assert_eq!(facts["cwd"], "/");
    assert_eq!(facts["pid"], pid.to_string());
    assert_eq!(facts["standard"], "/dev/null,/dev/null,/dev/null");
    assert_eq!(facts["files"], "0,1,2,3,4,");
    assert_ne!(facts["parent"], std::process::id().to_string());
    // SAFETY: a query.
    assert_ne!(facts["session"], unsafe { libc::getsid(0) }.to_string());
    assert_nothing_to_wait_for();
}

#[test]
fn no_signal_is_blocked_or_ignored() {
    let _alone = ALONE.lock();
    watch_child_signals();
    // SAFETY: plain calls.
    unsafe {
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGUSR1);
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
    let (reader, writer) = std::io::pipe().unwrap();
    let arguments = ["/proc/self/status", "/proc/self/fd/3"].map(OsStr::new);
    spawn(Path::new("/bin/cp"), &arguments, &[], &[writer.as_fd()]).unwrap();
    drop(writer);
    let status = read_all(reader);
    for set in ["SigBlk:", "SigIgn:"] {
        let line = status.lines().find_map(|line| line.strip_prefix(set)).unwrap();
        assert_eq!(u64::from_str_radix(line.trim(), 16), Ok(0), "{set}{line}");
    }
    assert_nothing_to_wait_for();
}

#[test]
fn file_descriptors_may_lie_anywhere() {
    let _alone = ALONE.lock();
    watch_child_signals();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut pipes: Vec<_> = (0..3).map(|_| std::io::pipe().unwrap()).collect();
    for (i, (_, writer)) in pipes.iter_mut().enumerate() {
        writeln!(writer, "pipe{i}").unwrap();
    }
    // In descending order, so that they cross.
    let fds: Vec<_> = pipes.iter().rev().map(|(reader, _)| reader.as_fd()).chain([writer.as_fd()]).collect();
    shell("for i in 3 4 5; do read -r line <&$i; echo $line >&6; done", &fds).unwrap();
    drop(writer);
    assert_eq!(read_all(reader), "pipe2\npipe1\npipe0\n");
    assert_nothing_to_wait_for();
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error() {
    let _alone = ALONE.lock();
    watch_child_signals();
    let error = |path| spawn(Path::new(path), &[], &[], &[]).unwrap_err();
    assert_eq!(error("/no/such/program").kind(), std::io::ErrorKind::NotFound);
    assert_eq!(error("/dev/null").kind(), std::io::ErrorKind::PermissionDenied);
    assert_eq!(error("/bad\0path").kind(), std::io::ErrorKind::InvalidInput);
    let (reader, _writer) = std::io::pipe().unwrap();
    let too_many = vec![reader.as_fd(); MAX_FDS + 1];
    assert_eq!(shell("", &too_many).unwrap_err().kind(), std::io::ErrorKind::InvalidInput);
    assert_nothing_to_wait_for();
}

#[test]
fn it_can_be_done_from_a_busy_program() {
    let _alone = ALONE.lock();
    watch_child_signals();
    let busy = std::sync::atomic::AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while busy.load(Ordering::Relaxed) {
                std::hint::black_box(vec![1u8; 100_000]);
            }
        });
        let spawners: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..25 {
                        let (reader, writer) = std::io::pipe().unwrap();
                        shell("echo up >&3", &[writer.as_fd()]).unwrap();
                        drop(writer);
                        assert_eq!(read_all(reader), "up\n");
                    }
                })
            })
            .collect();
        let results: Vec<_> = spawners.into_iter().map(|spawner| spawner.join()).collect();
        busy.store(false, Ordering::Relaxed);
        assert!(results.iter().all(Result::is_ok));
    });
    assert_nothing_to_wait_for();
}
