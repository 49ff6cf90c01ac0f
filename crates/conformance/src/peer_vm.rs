//! A host whose RDMA stack is the Linux kernel's, run by `scripts/peer-vm`.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result};

use crate::{
    library::project_root,
    namespace::Namespace,
    program::{Program, Running},
};

/// The kernel boots in 7 s on an idle machine; a busy one gets its time too.
const BOOT_LIMIT: Duration = Duration::from_secs(180);

/// How long a host may live: longer than any test target runs.
const LIFE: Duration = Duration::from_secs(3600);

/// What a host is like.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// How many processors it has.
    pub processors: u8,
    /// Which RDMA stack its kernel runs.
    pub stack: Stack,
}

impl Default for Machine {
    fn default() -> Self {
        Self { processors: 1, stack: Stack::Kernel }
    }
}

/// Which RDMA stack a host's kernel runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stack {
    /// rxe and siw.
    Kernel,
    /// None, so that the RoCE port is free for ours.
    None,
}

/// A running host.
#[derive(Debug)]
pub struct PeerVm {
    namespace: String,
    number: u8,
    machine: Running,
}

impl PeerVm {
    /// A namespace with a bridge for hosts; a program in it is 10.77.0.1 and fd77::1.
    ///
    /// # Errors
    /// When not root, or `ip` is missing.
    pub fn network() -> Result<Namespace> {
        let namespace = Namespace::reserve();
        tool().args("net").arg(namespace.name()).output()?;
        Ok(namespace)
    }

    /// Boots host `number` (10.77.0.`number`, fd77::`number`) on the bridge of `namespace`.
    ///
    /// # Errors
    /// With its console, when it does not come up.
    pub fn boot(namespace: &Namespace, number: u8, machine: Machine) -> Result<Self> {
        tool().arg("build").limit(Duration::from_secs(900)).output().context("making the peer's kernel")?;
        let stack = match machine.stack {
            Stack::Kernel => "kernel",
            Stack::None => "none",
        };
        let machine = tool()
            .arg("boot")
            .arg(namespace.name())
            .arg(number)
            .arg(machine.processors)
            .arg(stack)
            .limit(LIFE);
        let mut machine = machine.start()?;
        let started = std::time::Instant::now();
        machine.wait_until("the peer was ready", |machine| {
            anyhow::ensure!(
                started.elapsed() < BOOT_LIMIT,
                "not up in {BOOT_LIMIT:?}: {}",
                machine.stdout_so_far()
            );
            Ok(machine.stdout_so_far().contains("peer-vm: ready"))
        })?;
        Ok(Self { namespace: namespace.name().to_owned(), number, machine })
    }

    /// Its number, the last part of its addresses.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// `program`, to be run there.
    pub fn place(&self, program: Program) -> Program {
        let path = tool_path().display().to_string();
        program.through([path.as_str(), "exec", &self.namespace, &self.number.to_string()])
    }

    /// A program that ends when something there listens on a TCP port.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn wait_for_listener(&self, port: u16) -> Result<Running> {
        tool().arg("wait-listen").arg(&self.namespace).arg(self.number).arg(port).start()
    }

    /// The counters of `rxe0`, by name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>> {
        let directory = "/sys/class/infiniband/rxe0/ports/1/hw_counters";
        let text = self.place(Program::new("grep").args("-r . --").arg(directory)).output()?;
        let mut counters = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty()) {
            let (path, value) = line.split_once(':').with_context(|| format!("a counter, not {line:?}"))?;
            let name = path.rsplit('/').next().unwrap_or(path);
            counters.insert(name.to_owned(), value.parse()?);
        }
        Ok(counters)
    }
}

impl Drop for PeerVm {
    /// Shows what the kernel complained about: the reason of a failing test may be on its side.
    fn drop(&mut self) {
        let console = self.machine.stdout_so_far();
        if let Some((_, complaint)) =
            console.split_once("peer-vm: ready").filter(|(_, rest)| !rest.trim().is_empty())
        {
            eprintln!("console of host {}:{complaint}", self.number);
        }
    }
}

fn tool() -> Program {
    Program::new(tool_path().display().to_string())
}

fn tool_path() -> PathBuf {
    project_root().join("scripts/peer-vm")
}
