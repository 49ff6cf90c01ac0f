//! The same C programs on the genuine library and on ours: what they print is the same.
//!
//! `tests/golden` holds what each program of `tests/c` printed on libibverbs 44 with the rxe driver of Linux 6.1.

mod common;

/// Runs a program on the shared object under test, and compares.
fn prints_the_same(name: &str, genuine: &str) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let program = common::compile(name, dir.path());
    let ours = common::text(common::run(program, &[]));
    for (number, (ours, genuine)) in ours.lines().zip(genuine.lines()).enumerate() {
        assert_eq!(ours, genuine, "{name}, line {}: left ours, right the genuine library's", number + 1);
    }
    assert_eq!(ours, genuine, "{name}");
}

macro_rules! programs {
    ($($name:ident)*) => { $(
        #[test]
        fn $name() {
            prints_the_same(stringify!($name), include_str!(concat!("golden/", stringify!($name), ".txt")));
        }
    )* };
}

programs! {
    connected
    datagram
    events
    extended
    fork
    kernel
    multicast
    names
    objects
    port
    query
    shared
    threads
    transitions
    unsupported
    values
    windows
}

/// Compares by itself what comes with what the genuine library does.
#[test]
fn cm() {
    prints_the_same("cm", "0 failures\n");
}

/// Likewise for sockets.
#[test]
fn sockets() {
    prints_the_same("sockets", "0 failures\n");
}

/// Where rxe does otherwise than IBTA and the manual pages say, there is nothing to compare with.
#[test]
fn strict() {
    prints_the_same("strict", "0 failures\n");
}
