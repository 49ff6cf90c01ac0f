//! A server and a client of one program, run in a scene.

use std::{
    fmt,
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};

use anyhow::{Context, Result};

use crate::{
    node::{Family, Node},
    program::{Finished, Program, Running},
    scene::Scene,
};

/// TCP ports from here on are handed out, one a dialogue, so that many run in one namespace at once.
const FIRST_PORT: u16 = 20_000;

/// The two families of test programs; they name the same things differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `ibv_*_pingpong` of rdma-core.
    Pingpong,
    /// `ib_*_bw`, `ib_*_lat` of perftest.
    Perftest,
}

/// What both sides run; the client has the server's address in addition.
#[derive(Clone, Debug)]
pub struct Dialogue {
    kind: Kind,
    program: String,
    arguments: String,
    client_arguments: String,
    limit: Duration,
}

impl Dialogue {
    /// The program with these arguments. Port, device and GID are added when it is run.
    pub fn new(kind: Kind, program: &str, arguments: &str) -> Self {
        Self {
            kind,
            program: program.to_owned(),
            arguments: arguments.to_owned(),
            client_arguments: String::new(),
            limit: Duration::from_secs(60),
        }
    }

    /// Arguments for the client alone, before the server's address.
    #[must_use]
    pub fn client_args(mut self, arguments: &str) -> Self {
        self.client_arguments = arguments.to_owned();
        self
    }

    /// What each side may take.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// Starts both sides, the client when the server listens.
    ///
    /// # Errors
    /// When a node has no device or GID, or the server does not come up.
    pub fn start(&self, scene: &Scene, family: Family) -> Result<Underway> {
        static NEXT_PORT: AtomicU16 = AtomicU16::new(FIRST_PORT);
        let port = NEXT_PORT.fetch_add(1, Ordering::Relaxed);
        let mut server = scene.server.place(self.side(&scene.server, family, port)?).start()?;
        scene.server.wait_for_listener(&mut server, port).context("the server")?;
        // The programs find each other over TCP and IPv4; the family is that of the GIDs.
        let client = self.side(&scene.client, family, port)?.args(&self.client_arguments);
        let client = scene.client.place(client.arg(scene.server.address(Family::V4))).start()?;
        Ok(Underway { server, client })
    }

    /// Runs both sides to their ends.
    ///
    /// # Errors
    /// When either fails or takes too long, with all that both printed.
    pub fn run(&self, scene: &Scene, family: Family) -> Result<Outcome> {
        self.start(scene, family)?.finish()
    }

    fn side(&self, node: &Node, family: Family, port: u16) -> Result<Program> {
        let (device, gid) = (node.device()?, node.gid_index(family)?);
        let program = Program::new(&self.program).limit(self.limit);
        let program = match self.kind {
            Kind::Pingpong => program.args(&format!("-d {device} -p {port} -g {gid}")),
            // -F: no complaint about a processor whose clock is not at its highest.
            Kind::Perftest => program.args(&format!("-F -d {device} -p {port} -x {gid}")),
        };
        Ok(program.args(&self.arguments))
    }
}

impl fmt::Display for Dialogue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [&self.program, &self.arguments, &self.client_arguments];
        let words: Vec<&str> =
            words.into_iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
        f.write_str(&words.join(" "))
    }
}

/// Both sides, running.
#[derive(Debug)]
pub struct Underway {
    /// The server.
    pub server: Running,
    /// The client.
    pub client: Running,
}

impl Underway {
    /// Waits for both ends.
    ///
    /// # Errors
    /// When either fails or takes too long, with all that both printed.
    pub fn finish(self) -> Result<Outcome> {
        // The client first: a client that fails leaves a server waiting, and says more about the reason.
        let client = self.client.finish().and_then(Finished::succeeded);
        let client = match client {
            Ok(client) => client,
            Err(error) => {
                return Err(error
                    .context(format!("the server so far:\n{}", self.server.stdout_so_far()))
                    .context("the client"));
            }
        };
        let server = self.server.finish().and_then(Finished::succeeded);
        let server = server.with_context(|| format!("the server, after the client ended well:\n{client}"))?;
        Ok(Outcome { server, client })
    }
}

/// Both sides, ended well.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The server.
    pub server: Finished,
    /// The client.
    pub client: Finished,
}
