//! What becomes of open adapters when the program forks.

#![allow(clippy::unwrap_used)]

mod common;

use std::time::{Duration, Instant};

use common::{Side, connected};
use nic::verbs::*;

/// Forks; the child does its part and exits, which must go well and not take long.
fn in_child(part: impl FnOnce()) {
    // SAFETY: the child uses the adapters, which are made to survive this, and exits at once.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0);
    if pid == 0 {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(result.is_err())) };
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut status = 0;
    // SAFETY: a child of ours, and a place for its status.
    while unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == 0 {
        if Instant::now() > deadline {
            // SAFETY: a child of ours.
            unsafe { libc::kill(pid, libc::SIGKILL) };
            panic!("the child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(status, 0, "the child failed");
}

fn write_works(a: &Side, b: &Side, byte: u8) {
    a.fill(byte);
    a.send(SendOperation::Write(b.remote(0)), 0, 10_000);
    assert_eq!(a.wait().status, Status::Success);
    assert_eq!(b.bytes(0, 10_000), vec![byte; 10_000]);
}

#[test]
fn a_parent_goes_on_beside_a_child_that_does_nothing() {
    let (a, b) = connected(QpType::Rc);
    write_works(&a, &b, 1);
    in_child(|| {});
    write_works(&a, &b, 2);
}

#[test]
fn a_child_takes_over_from_a_parent_that_waits() {
    let (a, b) = connected(QpType::Rc);
    write_works(&a, &b, 1);
    in_child(|| {
        b.adapter.progress();
        write_works(&a, &b, 2);
    });
    // The parent finds itself cut off: its requests go nowhere, but it neither hangs nor crashes.
    a.adapter.progress();
    assert_eq!(b.bytes(0, 1), [1], "the child wrote to its own memory");
}

#[test]
fn a_child_can_open_adapters_of_its_own() {
    let (a, b) = connected(QpType::Rc);
    in_child(|| {
        let (c, d) = connected(QpType::Rc);
        write_works(&c, &d, 3);
    });
    write_works(&a, &b, 2);
}

#[test]
fn a_grandchild_does_not_claim_what_the_parent_has_used_since() {
    let (a, b) = connected(QpType::Rc);
    in_child(|| {
        in_child(|| {});
        b.adapter.progress();
        write_works(&a, &b, 4);
    });
}
