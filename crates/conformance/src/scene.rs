//! Two nodes that reach each other.

use std::{fmt, sync::Arc};

use anyhow::Result;

use crate::{
    library::Library,
    namespace::Namespace,
    node::Node,
    peer_vm::{Machine, PeerVm, Stack},
};

/// An MTU that leaves room for the largest RoCE path MTU, 4096 bytes, and its headers.
pub const JUMBO: u32 = 9000;

/// The MTU of plain Ethernet, which allows a RoCE path MTU of 1024.
pub const PLAIN: u32 = 1500;

/// See the module.
#[derive(Clone, Debug)]
pub struct Scene {
    name: &'static str,
    /// Where the server program runs.
    pub server: Node,
    /// Where the client program runs.
    pub client: Node,
    /// Every device that packets between the two enter, the one to capture on first.
    wire: Vec<(Arc<Namespace>, &'static str)>,
}

impl Scene {
    /// Two programs on one host, sharing its one address.
    ///
    /// # Errors
    /// When the network cannot be made.
    pub fn one_host(library: &Arc<Library>) -> Result<Self> {
        Ok(Self::one_host_in(&Arc::new(Namespace::new()?), library))
    }

    /// The same in a namespace that is there.
    pub fn one_host_in(namespace: &Arc<Namespace>, library: &Arc<Library>) -> Self {
        let node = Node::ours(namespace, library, "127.0.0.1", "::1");
        let wire = vec![(Arc::clone(namespace), "lo")];
        Self { name: "one host", server: node.clone(), client: node, wire }
    }

    /// Two hosts, each a namespace, joined by an Ethernet of this MTU.
    ///
    /// # Errors
    /// When the network cannot be made.
    pub fn two_hosts(library: &Arc<Library>, mtu: u32) -> Result<Self> {
        let (first, second) = Namespace::joined(mtu)?;
        let (first, second) = (Arc::new(first), Arc::new(second));
        Ok(Self {
            name: "two hosts",
            server: Node::ours(&first, library, "10.77.0.1", "fd77::1"),
            client: Node::ours(&second, library, "10.77.0.2", "fd77::2"),
            wire: vec![(first, "eth0"), (second, "eth0")],
        })
    }

    /// A server on the kernel's stack, a client on ours.
    ///
    /// # Errors
    /// When the network or the other host cannot be made.
    pub fn kernel_server(library: &Arc<Library>) -> Result<Self> {
        let network = Arc::new(PeerVm::network()?);
        let machine = Arc::new(PeerVm::boot(&network, 2, Machine::default())?);
        Ok(Self {
            name: "kernel server",
            server: Node::kernel(&machine),
            client: Node::ours(&network, library, "10.77.0.1", "fd77::1"),
            wire: vec![(network, "br0")],
        })
    }

    /// Two hosts on the kernel's stack: what the genuine thing does with a test.
    ///
    /// # Errors
    /// When the network or the hosts cannot be made.
    pub fn kernel_only() -> Result<Self> {
        let network = Arc::new(PeerVm::network()?);
        let boot = |number| PeerVm::boot(&network, number, Machine::default()).map(Arc::new);
        let (first, second) = (boot(2)?, boot(3)?);
        Ok(Self {
            name: "kernel only",
            server: Node::kernel(&first),
            client: Node::kernel(&second),
            wire: vec![(network, "br0")],
        })
    }

    /// Two programs on one emulated host of two processors, on the kernel's stack.
    ///
    /// # Errors
    /// When the network or the host cannot be made.
    pub fn emulated_on_kernel() -> Result<Self> {
        let network = Arc::new(PeerVm::network()?);
        let machine = PeerVm::boot(&network, 2, Machine { processors: 2, ..Machine::default() })?;
        let node = Node::kernel(&Arc::new(machine));
        Ok(Self { name: "emulated, rxe", server: node.clone(), client: node, wire: vec![(network, "br0")] })
    }

    /// The same emulated host without a stack of its own, and our library in front.
    ///
    /// # Errors
    /// When the network or the host cannot be made.
    pub fn emulated_on_ours(library: &Arc<Library>) -> Result<Self> {
        let network = Arc::new(PeerVm::network()?);
        let machine = PeerVm::boot(&network, 2, Machine { processors: 2, stack: Stack::None })?;
        let node = Node::ours_on(&Arc::new(machine), library);
        Ok(Self { name: "emulated, ours", server: node.clone(), client: node, wire: vec![(network, "br0")] })
    }

    /// The same scene with the roles changed.
    #[must_use]
    pub fn swapped(&self, name: &'static str) -> Self {
        Self { name, server: self.client.clone(), client: self.server.clone(), wire: self.wire.clone() }
    }

    /// The same scene, with programs run by users that have no privilege.
    #[must_use]
    pub fn unprivileged(&self, name: &'static str) -> Self {
        Self {
            name,
            server: self.server.unprivileged(),
            client: self.client.unprivileged(),
            wire: self.wire.clone(),
        }
    }

    /// The same scene, with programs run by `softverbs run` with one more option: see [`Node::run_with`].
    #[must_use]
    pub fn run_with(&self, option: &str) -> Self {
        Self { server: self.server.run_with(option), client: self.client.run_with(option), ..self.clone() }
    }

    /// The same scene under another name.
    #[must_use]
    pub fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// The host on the kernel's stack, if the scene has one; of two, the server.
    pub fn kernel(&self) -> Option<&PeerVm> {
        self.server.kernel_machine().or_else(|| self.client.kernel_machine())
    }

    /// Every device that packets between the two nodes enter, with its namespace. The first sees all of them.
    pub fn wire(&self) -> impl Iterator<Item = (&Namespace, &str)> {
        self.wire.iter().map(|(namespace, device)| (&**namespace, *device))
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
