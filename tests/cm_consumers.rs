//! The programs of librdmacm that most people know, as they are, on the shared object under test: two of each on one host.

mod common;

use std::{
    fs::File,
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long a program may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where both sides run, and what they print.
struct Scene {
    libraries: TempDir,
}

impl Scene {
    /// A scene with a network of its own, since some of the programs have but one port. Who may not make one has the
    /// host's.
    fn new() -> Self {
        // SAFETY: it concerns this thread, and what it starts.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0 {
            let up =
                Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip (Debian: iproute2)");
            assert!(up.success());
        }
        Self { libraries: common::library_dir() }
    }

    /// Starts a program.
    fn start(&self, name: &str, arguments: &str, output: &Path) -> Child {
        let output = File::create(output).expect("a file");
        Command::new(name)
            .args(arguments.split_whitespace())
            .env("LD_LIBRARY_PATH", self.libraries.path())
            .env("SOFTVERBS_PROGRAM", env!("CARGO_BIN_EXE_softverbs"))
            .stdin(Stdio::null())
            .stderr(output.try_clone().expect("a file"))
            .stdout(output)
            .spawn()
            .unwrap_or_else(|error| panic!("{name} (Debian: rdmacm-utils): {error}"))
    }

    /// Runs a server, and clients until one of them gets through: nothing tells when the server listens.
    fn meet(&self, server: (&str, &str), client: (&str, &str)) {
        let [server_text, client_text] = ["server", "client"].map(|name| self.libraries.path().join(name));
        let mut serving = self.start(server.0, server.1, &server_text);
        let deadline = Instant::now() + PATIENCE;
        let mut served = None;
        while served.is_none() && Instant::now() < deadline {
            let mut asking = self.start(client.0, client.1, &client_text);
            let answered = wait(&mut asking, deadline).is_some_and(|status| status.success());
            // A sender of datagrams does well without anybody who receives them.
            let patience = Instant::now() + if answered { Duration::from_secs(2) } else { Duration::ZERO };
            served = wait(&mut serving, patience);
            thread::sleep(Duration::from_millis(100));
        }
        let texts = [&server_text, &client_text].map(|file| std::fs::read_to_string(file).expect("text"));
        // Does nothing if it has ended.
        serving.kill().expect("a process of ours");
        serving.wait().expect("a process of ours");
        let done = served.is_some_and(|status| status.success());
        assert!(done, "{served:?}\nserver: {}\nclient: {}", texts[0], texts[1]);
    }
}

impl Scene {
    /// Runs clients until one of them gets through to a server that goes on for ever.
    fn call(&self, server: (&str, &str), client: (&str, &str)) {
        let [server_text, client_text] = ["server", "client"].map(|name| self.libraries.path().join(name));
        let mut serving = self.start(server.0, server.1, &server_text);
        let deadline = Instant::now() + PATIENCE;
        let mut is_answered = false;
        while !is_answered && Instant::now() < deadline {
            // Nobody may tell a client of datagrams that nobody is there.
            let patience = deadline.min(Instant::now() + PATIENCE / 4);
            let mut asking = self.start(client.0, client.1, &client_text);
            is_answered = wait(&mut asking, patience).is_some_and(|status| status.success());
            asking.kill().expect("a process of ours");
            asking.wait().expect("a process of ours");
        }
        serving.kill().expect("a process of ours");
        serving.wait().expect("a process of ours");
        let text = std::fs::read_to_string(&client_text).expect("text");
        assert!(is_answered, "{} {}: {text}", client.0, client.1);
    }
}

/// Waits for the end of a process.
fn wait(child: &mut Child, deadline: Instant) -> Option<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().expect("a process of ours") {
            return Some(status);
        }
        if Instant::now() >= deadline {
            return None;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn rping() {
    Scene::new().meet(("rping", "-s -a 127.0.0.1 -C 5 -V"), ("rping", "-c -a 127.0.0.1 -C 5 -V"));
}

#[test]
fn rping_by_ipv6() {
    Scene::new().meet(("rping", "-s -a ::1 -C 5 -V"), ("rping", "-c -a ::1 -C 5 -V"));
}

#[test]
fn ucmatose_with_many_connections() {
    Scene::new().meet(("ucmatose", "-b 127.0.0.1 -c 20 -C 3"), ("ucmatose", "-s 127.0.0.1 -c 20 -C 3"));
}

#[test]
fn udaddy() {
    Scene::new().meet(("udaddy", "-b 127.0.0.1 -c 4"), ("udaddy", "-s 127.0.0.1 -c 4"));
}

#[test]
fn mckey() {
    let receiver = "-m 239.77.1.1 -b 127.0.0.1";
    Scene::new().meet(("mckey", receiver), ("mckey", &format!("{receiver} -s")));
}

#[test]
fn endpoints() {
    Scene::new().meet(("rdma_server", "-s 127.0.0.1"), ("rdma_client", "-s 127.0.0.1"));
}

#[test]
fn rstream() {
    let sizes = "-S 70000 -I 20 -C 10";
    Scene::new()
        .meet(("rstream", &format!("-b 127.0.0.1 {sizes}")), ("rstream", &format!("-s 127.0.0.1 {sizes}")));
}

#[test]
fn rstream_without_waiting() {
    let sizes = "-S 3000 -I 50 -C 10 -T n";
    Scene::new().meet(("rstream", &format!("-b ::1 {sizes}")), ("rstream", &format!("-s ::1 {sizes}")));
}

#[test]
fn riostream() {
    let sizes = "-S 70000 -I 20 -C 10";
    Scene::new().meet(
        ("riostream", &format!("-b 127.0.0.1 {sizes}")),
        ("riostream", &format!("-s 127.0.0.1 {sizes}")),
    );
}

#[test]
fn rcopy() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let [from, to] = ["from", "to"].map(|name| dir.path().join(name));
    let bytes: Vec<u8> = (0..1_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(&from, &bytes).expect("a file");
    // The server goes on after a copy.
    let destination = format!("{} 127.0.0.1:{}", from.display(), to.display());
    Scene::new().call(("rcopy", ""), ("rcopy", &destination));
    assert_eq!(std::fs::read(&to).expect("a copy"), bytes);
}

#[test]
fn udpong() {
    let sizes = "-S 500 -C 100 -T e";
    Scene::new()
        .call(("udpong", &format!("-b 127.0.0.1 {sizes}")), ("udpong", &format!("-s 127.0.0.1 {sizes}")));
}

#[test]
fn cmtime() {
    Scene::new().call(("cmtime", "-b 127.0.0.1 -c 100"), ("cmtime", "-s 127.0.0.1 -c 100"));
}
