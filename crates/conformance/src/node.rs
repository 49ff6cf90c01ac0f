//! A place where verbs programs run: a namespace with our library in front, or a host on the kernel's stack.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use anyhow::{Context, Result};

use crate::{
    library::Library,
    namespace::{self, Namespace},
    peer_vm::PeerVm,
    program::{Program, Running},
};

/// The user and group that owns nothing (`nobody` on Debian).
const NOBODY: &str = "65534";

/// The IP version of the addresses that two nodes use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4; the GID is the IPv4-mapped address.
    V4,
    /// IPv6; the GID is the address.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Node {
    place: Place,
    user: User,
    /// Options of `softverbs run`, through which programs are run if there are any.
    run_options: Vec<String>,
    ipv4: String,
    ipv6: String,
    device: Arc<OnceLock<Device>>,
}

#[derive(Clone, Debug)]
struct Place {
    host: Host,
    /// Our library, if it stands in front of the system's.
    library: Option<Arc<Library>>,
}

#[derive(Clone, Debug)]
enum Host {
    Namespace(Arc<Namespace>),
    Machine(Arc<PeerVm>),
}

#[derive(Clone, Copy, Debug)]
enum User {
    Root,
    Nobody,
}

/// What `ibv_devinfo` shows of the device that the node's programs use.
#[derive(Debug)]
struct Device {
    name: String,
    gids: Vec<(u32, String)>,
}

impl Node {
    /// Programs run in `namespace` on our library; others reach them at these addresses.
    pub fn ours(namespace: &Arc<Namespace>, library: &Arc<Library>, ipv4: &str, ipv6: &str) -> Self {
        let place =
            Place { host: Host::Namespace(Arc::clone(namespace)), library: Some(Arc::clone(library)) };
        Self::new(place, ipv4.to_owned(), ipv6.to_owned())
    }

    /// Programs run on the kernel's stack.
    pub fn kernel(machine: &Arc<PeerVm>) -> Self {
        Self::on_machine(machine, None)
    }

    /// Programs run on an emulated host, on our library.
    pub fn ours_on(machine: &Arc<PeerVm>, library: &Arc<Library>) -> Self {
        Self::on_machine(machine, Some(Arc::clone(library)))
    }

    fn on_machine(machine: &Arc<PeerVm>, library: Option<Arc<Library>>) -> Self {
        let number = machine.number();
        let place = Place { host: Host::Machine(Arc::clone(machine)), library };
        Self::new(place, format!("10.77.0.{number}"), format!("fd77::{number}"))
    }

    fn new(place: Place, ipv4: String, ipv6: String) -> Self {
        Self { place, user: User::Root, run_options: Vec::new(), ipv4, ipv6, device: Arc::default() }
    }

    /// The same node, with programs run by a user that has no privilege at all.
    #[must_use]
    pub fn unprivileged(&self) -> Self {
        Self { user: User::Nobody, ..self.clone() }
    }

    /// The same node, whose programs are run by `softverbs run` with one more option, as in `--fault=loss=1%`.
    ///
    /// # Panics
    /// When the node is not on our library.
    #[must_use]
    pub fn run_with(&self, option: impl Into<String>) -> Self {
        assert!(self.place.library.is_some(), "softverbs runs programs on our library only");
        let mut node = self.clone();
        node.run_options.push(option.into());
        node
    }

    /// The address at which other nodes reach it.
    pub fn address(&self, family: Family) -> &str {
        match family {
            Family::V4 => &self.ipv4,
            Family::V6 => &self.ipv6,
        }
    }

    /// `program`, to be run here.
    pub fn place(&self, program: Program) -> Program {
        // Lines leave the program as they are printed, so that one that is ended for hanging shows how far it came.
        let program = program.through(["stdbuf", "-oL"]);
        let program = match &self.place.library {
            None => program,
            Some(library) if self.run_options.is_empty() => library.in_front_of(program),
            Some(library) => library.run(&self.run_options, program),
        };
        let program = match self.user {
            User::Root => program,
            User::Nobody => program.through([
                "setpriv",
                &format!("--reuid={NOBODY}"),
                &format!("--regid={NOBODY}"),
                "--clear-groups",
                "--inh-caps=-all",
                "--bounding-set=-all",
                "--no-new-privs",
                "--",
            ]),
        };
        match &self.place.host {
            Host::Namespace(namespace) => namespace.place(program),
            Host::Machine(machine) => machine.place(program),
        }
    }

    /// The host, if it is one on the kernel's stack.
    pub fn kernel_machine(&self) -> Option<&PeerVm> {
        match (&self.place.host, &self.place.library) {
            (Host::Machine(machine), None) => Some(machine),
            _ => None,
        }
    }

    /// Waits until `server`, which runs here, listens on a TCP port.
    ///
    /// # Errors
    /// When it ends first or never does.
    pub fn wait_for_listener(&self, server: &mut Running, port: u16) -> Result<()> {
        match &self.place.host {
            Host::Namespace(_) => {
                server.wait_until("it listened", |server| Ok(namespace::listens(server.id(), port)))
            }
            Host::Machine(machine) => {
                let mut listening = machine.wait_for_listener(port)?;
                server.wait_until("it listened", |_| Ok(!listening.is_running()?))
            }
        }
    }

    /// The name of the first RoCE device.
    ///
    /// # Errors
    /// When `ibv_devinfo` shows none.
    pub fn device(&self) -> Result<&str> {
        Ok(&self.look()?.name)
    }

    /// The index of the GID that stands for the node's address.
    ///
    /// # Errors
    /// When `ibv_devinfo` shows no such GID.
    pub fn gid_index(&self, family: Family) -> Result<u32> {
        let device = self.look()?;
        let wanted = match family {
            Family::V4 => format!("::ffff:{}", self.ipv4),
            Family::V6 => self.ipv6.clone(),
        };
        let found = device.gids.iter().find(|(_, gid)| *gid == wanted);
        let (index, _) = found.with_context(|| format!("no GID {wanted} in {:?}", device.gids))?;
        Ok(*index)
    }

    fn look(&self) -> Result<&Device> {
        if let Some(device) = self.device.get() {
            return Ok(device);
        }
        let text = self.place(Program::new("ibv_devinfo").arg("-v")).output()?;
        let device = Device::parse(&text).with_context(|| format!("no device in:\n{text}"))?;
        Ok(self.device.get_or_init(|| device))
    }
}

impl Device {
    /// The first device in what `ibv_devinfo -v` prints, with its GIDs: `GID[  1]:  ::ffff:10.77.0.2, RoCE v2`.
    fn parse(text: &str) -> Option<Self> {
        let mut devices = text.split("hca_id:").skip(1);
        let first = devices.next()?;
        let name = first.split_whitespace().next()?.to_owned();
        let gids = first.lines().filter_map(|line| {
            let (index, gid) = line.trim().strip_prefix("GID[")?.split_once("]:")?;
            let (gid, kind) = gid.trim().split_once(',')?;
            (kind.trim() == "RoCE v2").then_some((index.trim().parse().ok()?, gid.to_owned()))
        });
        Some(Self { name, gids: gids.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_device_and_its_roce_v2_gids_are_found() {
        let text = "hca_id:\trxe0\n\tport:\t1\n\t\tGID[  0]:\t\tfe80::1, RoCE v1\n\t\tGID[ 12]:\t\t::ffff:1.2.3.4, RoCE v2\n\
                    hca_id:\tsiw0\n\t\tGID[  0]:\t\tfe80::2, RoCE v2\n";
        let device = Device::parse(text).unwrap();
        assert_eq!(device.name, "rxe0");
        assert_eq!(device.gids, [(12, "::ffff:1.2.3.4".to_owned())]);
        assert!(Device::parse("No IB devices found\n").is_none());
    }
}
