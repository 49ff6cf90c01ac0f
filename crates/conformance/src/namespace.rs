//! Network namespaces: networks that reach nothing but what the test put there.

use std::{
    fs,
    path::Path,
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use anyhow::{Context, Result};

use crate::program::Program;

/// Names start with this, then the process id of the test, so that what a killed test left is recognised.
const PREFIX: &str = "svt";

/// A network namespace, removed with everything in it on drop.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A new namespace, with nothing in it but `lo`, up.
    ///
    /// # Errors
    /// When not root, or `ip` is missing.
    pub fn new() -> Result<Self> {
        let namespace = Self::reserve();
        ip(&format!("netns add {}", namespace.name))?;
        namespace.ip("link set lo up")?;
        Ok(namespace)
    }

    /// A namespace that somebody else makes under this name, and that goes like one of ours.
    pub(crate) fn reserve() -> Self {
        static SWEEP: Once = Once::new();
        SWEEP.call_once(sweep);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { name: format!("{PREFIX}{}x{number}", std::process::id()) }
    }

    /// Two namespaces joined by a pair of virtual Ethernet interfaces `eth0`, 10.77.0.1 and 10.77.0.2 (fd77::1, fd77::2).
    ///
    /// # Errors
    /// When not root, or `ip` is missing.
    pub fn joined(mtu: u32) -> Result<(Self, Self)> {
        let (first, second) = (Self::new()?, Self::new()?);
        first.ip(&format!(
            "link add eth0 mtu {mtu} type veth peer name eth0 mtu {mtu} netns {}",
            second.name
        ))?;
        for (number, side) in [(1, &first), (2, &second)] {
            side.ip(&format!("addr add 10.77.0.{number}/24 dev eth0"))?;
            side.ip(&format!("-6 addr add fd77::{number}/64 dev eth0 nodad"))?;
            side.ip("link set eth0 up")?;
        }
        Ok((first, second))
    }

    /// The name that `ip netns` knows it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `ip` in it.
    ///
    /// # Errors
    /// With what `ip` says, when it refuses.
    pub fn ip(&self, words: &str) -> Result<String> {
        ip(&format!("-n {} {words}", self.name))
    }

    /// The processes in it.
    ///
    /// # Errors
    /// When `ip` does not say.
    pub fn processes(&self) -> Result<Vec<u32>> {
        let pids = ip(&format!("netns pids {}", self.name))?;
        pids.lines().map(|pid| pid.trim().parse().context("a process id")).collect()
    }

    /// `program`, to be run in here.
    pub fn place(&self, program: Program) -> Program {
        program.through(["ip", "netns", "exec", &self.name])
    }

    /// Makes the kernel cut large UDP sends before a capture on `device` sees them, as a real adapter would have.
    ///
    /// Without it a capture holds datagrams of up to 64 KiB that exist on no wire, and no dissector understands them.
    ///
    /// # Errors
    /// With what `ethtool` says, when it refuses.
    pub fn segment_before_capture(&self, device: &str) -> Result<()> {
        self.place(Program::new("ethtool").args(&format!("-K {device} tx-udp-segmentation off"))).output()?;
        Ok(())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove(&self.name);
    }
}

fn ip(words: &str) -> Result<String> {
    Program::new("ip").args(words).output()
}

/// Ends what still runs in a namespace and removes it. Everything in it was started by the test that made it.
fn remove(name: &str) {
    let pids = ip(&format!("netns pids {name}")).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| rustix::process::Pid::from_raw(line.trim().parse().ok()?)) {
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    }
    let _ = ip(&format!("netns del {name}"));
}

/// Removes the namespaces of tests that did not live to do so.
fn sweep() {
    let Ok(entries) = fs::read_dir("/run/netns") else { return };
    for name in entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()) {
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('x').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            remove(&name);
        }
    }
}

/// Whether some socket of the process's network listens on a TCP port. No, when the process is gone.
pub fn listens(pid: u32, port: u16) -> bool {
    // Columns of proc(5) net/tcp: slot, local address:port in hexadecimal, remote, state (0A is LISTEN).
    let wanted = format!(":{port:04X}");
    ["tcp", "tcp6"].iter().any(|table| {
        let text = fs::read_to_string(format!("/proc/{pid}/net/{table}")).unwrap_or_default();
        text.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(1);
            columns.next().is_some_and(|local| local.ends_with(&wanted)) && columns.nth(1) == Some("0A")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_namespaces_reach_each_other_and_nobody_else() {
        let (first, second) = Namespace::joined(9000).unwrap();
        let ping = |to: &str| first.place(Program::new("ping").args("-c1 -W2 -q").arg(to)).run().unwrap();
        ping("10.77.0.2").succeeded().unwrap();
        ping("fd77::2").succeeded().unwrap();
        assert!(!ping("10.99.0.1").status.success());
        assert!(second.ip("link show eth0").unwrap().contains("mtu 9000"));
    }

    #[test]
    fn a_namespace_goes_with_what_runs_in_it() {
        let namespace = Namespace::new().unwrap();
        let name = namespace.name().to_owned();
        let mut sleeper = namespace.place(Program::new("sleep").arg(60)).start().unwrap();
        sleeper
            .wait_until("a process there", |_| Ok(!ip(&format!("netns pids {name}"))?.is_empty()))
            .unwrap();
        drop(namespace);
        assert!(!sleeper.finish().unwrap().status.success());
        assert!(!ip("netns list").unwrap().lines().any(|line| line.starts_with(&name)));
    }

    #[test]
    fn a_listener_is_seen() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        drop(listener);
        assert!(!listens(std::process::id(), port));
    }
}
