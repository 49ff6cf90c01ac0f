//! What the tests share: network namespaces of their own, and a wire to look at.

#![allow(dead_code, reason = "each test program uses its own part of this")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsRawFd, FromRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

const INSIDE: &str = "IO_TEST_INSIDE_NAMESPACE";

/// Runs `body` in a fresh network namespace whose loopback is up.
///
/// The calling test, named `test`, is run once more in a process of its own under unshare(1), for an unprivileged user with
/// a user namespace around it. Where that is impossible the test fails.
pub fn in_namespace(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some_and(|inside| inside == test) {
        ip("link set lo up");
        return body();
    }
    let user_namespace: &[&str] = if is_root() { &[] } else { &["--user", "--map-root-user"] };
    let test_program = std::env::current_exe().expect("the test program has a path");
    let output = Command::new("unshare")
        .args(user_namespace)
        .args(["--net", "--"])
        .arg(test_program)
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(INSIDE, test)
        .output()
        .expect("this test needs unshare(1) to make a network namespace");
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && text.contains("1 passed"),
        "in a network namespace (needs root, or user namespaces for everybody): {text}"
    );
    println!("{text}");
}

pub fn is_root() -> bool {
    // SAFETY: no arguments, cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Gives up all privileges in this thread, for good.
pub fn become_nobody() {
    if !is_root() {
        return;
    }
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: plain system calls, which (other than the functions of the C library) change this thread alone.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
    }
    assert!(!is_root());
}

/// Runs `ip` with the words of `arguments`.
pub fn ip(arguments: &str) {
    run("ip", arguments);
}

/// Runs many `ip` commands in one go.
pub fn ip_batch(commands: &[String]) {
    let mut process = Command::new("ip")
        .args(["-batch", "-"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("this test needs ip(8)");
    let mut input = process.stdin.take().unwrap();
    std::io::Write::write_all(&mut input, commands.join("\n").as_bytes()).unwrap();
    drop(input);
    assert!(process.wait().unwrap().success());
}

/// Runs `tc` with the words of `arguments`.
pub fn tc(arguments: &str) {
    run("tc", arguments);
}

fn run(program: &str, arguments: &str) {
    let output = Command::new(program)
        .args(arguments.split_whitespace())
        .output()
        .unwrap_or_else(|error| panic!("this test needs {program}(8): {error}"));
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Makes the system call `number` fail with `errno` in this thread from now on; if `argument` is given, only where the
/// first argument equals it.
pub fn fail_system_call(number: libc::c_long, argument: Option<i32>, errno: i32) {
    let load = |offset| libc::sock_filter { code: 0x20, jt: 0, jf: 0, k: offset };
    let skip_unless = |value, jf| libc::sock_filter { code: 0x15, jt: 0, jf, k: value };
    let answer = |value| libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: value };
    const NUMBER_AT: u32 = 0;
    const FIRST_ARGUMENT_AT: u32 = 16;
    let fail = answer(libc::SECCOMP_RET_ERRNO | errno as u32);
    let allow = answer(libc::SECCOMP_RET_ALLOW);
    let mut program = match argument {
        None => vec![load(NUMBER_AT), skip_unless(number as u32, 1), fail, allow],
        Some(argument) => vec![
            load(NUMBER_AT),
            skip_unless(number as u32, 3),
            load(FIRST_ARGUMENT_AT),
            skip_unless(argument as u32, 1),
            fail,
            allow,
        ],
    };
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the filter is well-formed and lives for the calls, which affect this thread alone.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        assert_eq!(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &filter), 0);
    }
}

/// Index of the interface called `name`.
pub fn interface_index(name: &str) -> u32 {
    let name = std::ffi::CString::new(name).unwrap();
    // SAFETY: a C string that lives for the call.
    let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
    assert_ne!(index, 0, "no interface {name:?}");
    index
}

/// A tun device: what the machine sends through it are the packets as they would be on a wire.
pub struct Tun {
    file: File,
    /// Bytes before each packet.
    header: usize,
}

impl Tun {
    /// Makes the device, up, with `addresses` (`ip addr` syntax). It computes checksums, as adapters do.
    pub fn new(name: &str, mtu: u32, addresses: &[&str]) -> Self {
        Self::with_checksums(name, mtu, addresses, true)
    }

    /// The same, with or without checksums computed by the device.
    pub fn with_checksums(name: &str, mtu: u32, addresses: &[&str], checksums: bool) -> Self {
        let flags = libc::IFF_TUN | libc::IFF_NO_PI | if checksums { libc::IFF_VNET_HDR } else { 0 };
        // SAFETY: plain calls; `request` is a zeroed C struct with the name copied in and lives for the ioctl.
        let file = unsafe {
            let fd = libc::open(c"/dev/net/tun".as_ptr(), libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC);
            assert!(fd >= 0, "this test needs /dev/net/tun: {}", std::io::Error::last_os_error());
            let mut request: libc::ifreq = std::mem::zeroed();
            for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
                *to = from as libc::c_char;
            }
            request.ifr_ifru.ifru_flags = flags as i16;
            let made = libc::ioctl(fd, libc::TUNSETIFF as _, &request);
            assert_eq!(made, 0, "cannot make a tun device: {}", std::io::Error::last_os_error());
            if checksums {
                assert_eq!(libc::ioctl(fd, libc::TUNSETOFFLOAD as _, libc::TUN_F_CSUM), 0);
            }
            File::from_raw_fd(fd)
        };
        addresses.iter().for_each(|address| ip(&format!("addr add {address} dev {name} nodad")));
        ip(&format!("link set {name} mtu {mtu} up"));
        // `struct virtio_net_hdr`
        Self { file, header: if checksums { 10 } else { 0 } }
    }

    /// The UDP packets that leave, in order, until there are `count`.
    pub fn udp_packets(&mut self, count: usize) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        let mut buffer = vec![0; 65_536];
        let patience = Instant::now() + Duration::from_secs(5);
        while packets.len() < count {
            match self.file.read(&mut buffer) {
                Ok(length) if is_udp(&buffer[self.header..length]) => {
                    packets.push(buffer[self.header..length].to_vec());
                }
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    assert!(Instant::now() < patience, "only {} of {count} packets left", packets.len());
                    wait_readable(&self.file);
                }
                Err(error) => panic!("tun: {error}"),
            }
        }
        packets
    }
}

fn is_udp(packet: &[u8]) -> bool {
    match packet[0] >> 4 {
        4 => packet[9] == 17,
        6 => packet[6] == 17,
        _ => false,
    }
}

/// Waits up to 100 ms.
pub fn wait_readable(file: &impl AsRawFd) {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one valid pollfd.
    unsafe { libc::poll(&mut poll, 1, 100) };
}
