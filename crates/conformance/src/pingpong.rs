//! The `ibv_*_pingpong` programs: what they are run with, and what they must print.

use std::{fmt, time::Duration};

use anyhow::{Result, ensure};

use crate::{
    dialogue::{Dialogue, Kind, Outcome},
    node::Family,
    program::Finished,
    scene::Scene,
};

/// Sizes around the edges: one byte, one packet of the default path MTU, one byte more, many packets, very many.
const SIZES: [u32; 5] = [1, 1024, 1025, 65_536, 1 << 20];

/// Every path MTU that IBTA defines.
const PATH_MTUS: [u32; 5] = [256, 512, 1024, 2048, 4096];

/// A datagram is one packet.
const DATAGRAM_SIZES: [u32; 4] = [1, 1024, 1025, 4096];

/// The transports of the programs. UD has no path MTU option: the port's counts.
const CONNECTED: [&str; 3] = ["rc", "uc", "srq"];

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Case {
    transport: &'static str,
    size: u32,
    path_mtu: Option<u32>,
    extra: &'static str,
    iterations: u32,
    limit: Duration,
}

impl Case {
    /// Every transport with every size, every path MTU, polling and sleeping on events.
    pub fn all() -> Vec<Self> {
        let mut cases = Vec::new();
        for extra in ["", "-e"] {
            for transport in CONNECTED {
                for size in SIZES {
                    cases.extend(PATH_MTUS.map(|mtu| Self::new(transport, size, Some(mtu), extra)));
                }
            }
            cases.extend(DATAGRAM_SIZES.map(|size| Self::new("ud", size, None, extra)));
        }
        // The extended ways to post and to poll; they are the RC program's only.
        cases.extend(["-N", "-t", "-N -e"].map(|extra| Self::new("rc", 4096, Some(1024), extra)));
        cases
    }

    /// One of each kind, for scenes in which a run is slow.
    pub fn few() -> Vec<Self> {
        let mut cases = Vec::new();
        for transport in CONNECTED {
            cases.push(Self::new(transport, 1025, Some(1024), ""));
            cases.push(Self::new(transport, 65_536, Some(4096), "-e"));
        }
        cases.push(Self::new("ud", 1025, None, ""));
        cases.push(Self::new("ud", 1024, None, "-e"));
        cases
    }

    /// What an emulated host can be asked: one of each kind, every size and every path MTU, with fewer messages.
    pub fn for_emulated_hosts() -> Vec<Self> {
        let cases = Self::few().into_iter().chain(Self::every_size_and_path_mtu());
        cases.map(Self::on_emulated_host).collect()
    }

    /// One of each kind, for an emulated host.
    pub fn few_for_emulated_hosts() -> Vec<Self> {
        Self::few().into_iter().map(Self::on_emulated_host).collect()
    }

    fn on_emulated_host(self) -> Self {
        Self { iterations: 10, limit: Duration::from_secs(90), ..self }
    }

    /// What a port of MTU 1500 carries: path MTUs up to 1024, and datagrams as long.
    pub fn fitting_plain_ethernet() -> Vec<Self> {
        let fits = |case: &Self| case.path_mtu.unwrap_or(case.size) <= 1024;
        Self::all().into_iter().filter(fits).collect()
    }

    /// Short runs over reliable connections, where something else than the run itself is looked at.
    pub fn reliable() -> Vec<Self> {
        let cases = [("rc", 1025, ""), ("rc", 65_536, "-e"), ("srq", 4096, "-e")];
        cases
            .map(|(transport, size, extra)| Self::new(transport, size, Some(1024), extra).iterations(50))
            .to_vec()
    }

    /// Every size and every path MTU once, RC: the least that shows segmentation to be right.
    fn every_size_and_path_mtu() -> Vec<Self> {
        let sizes = SIZES.map(|size| Self::new("rc", size, Some(1024), "-e"));
        let mtus = PATH_MTUS.map(|mtu| Self::new("rc", 16_384, Some(mtu), "-e"));
        sizes.into_iter().chain(mtus).collect()
    }

    fn new(transport: &'static str, size: u32, path_mtu: Option<u32>, extra: &'static str) -> Self {
        let iterations = if size > 65_536 { 20 } else { 200 };
        Self { transport, size, path_mtu, extra, iterations, limit: Duration::from_secs(60) }
    }

    /// The same with another number of exchanges.
    #[must_use]
    pub fn iterations(self, iterations: u32) -> Self {
        Self { iterations, ..self }
    }

    /// The same with another limit to what it may take.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The two programs.
    pub fn dialogue(&self) -> Dialogue {
        // -c: the receiver looks at every page of what it got.
        let mut arguments = format!("-c -s {} -n {}", self.size, self.iterations);
        if let Some(mtu) = self.path_mtu {
            arguments += &format!(" -m {mtu}");
        }
        if !self.extra.is_empty() {
            arguments += &format!(" {}", self.extra);
        }
        Dialogue::new(Kind::Pingpong, &format!("ibv_{}_pingpong", self.transport), &arguments)
            .limit(self.limit)
    }

    /// Runs it and judges what both sides print.
    ///
    /// # Errors
    /// When a side fails, hangs, or prints something else than it should.
    pub fn play(&self, scene: &Scene, family: Family) -> Result<Outcome> {
        let outcome = self.dialogue().run(scene, family)?;
        self.judge(&outcome)?;
        Ok(outcome)
    }

    /// Whether both sides said that they exchanged everything, and that it was right.
    ///
    /// # Errors
    /// With what the side that did not say so printed.
    pub fn judge(&self, outcome: &Outcome) -> Result<()> {
        for side in [&outcome.server, &outcome.client] {
            self.judge_side(side)?;
        }
        Ok(())
    }

    fn judge_side(&self, side: &Finished) -> Result<()> {
        let bytes = u64::from(self.size) * u64::from(self.iterations) * 2;
        ensure!(side.stdout.contains(&format!("{bytes} bytes in ")), "not {bytes} bytes:\n{side}");
        ensure!(side.stdout.contains(&format!("{} iters in ", self.iterations)), "other iterations:\n{side}");
        ensure!(!side.stdout.contains("invalid data"), "wrong bytes arrived:\n{side}");
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialogue().fmt(f)
    }
}

/// Runs `count` copies of a case at once.
///
/// # Errors
/// When one of them fails.
pub fn play_at_once(case: &Case, count: usize, scene: &Scene, family: Family) -> Result<()> {
    let started = (0..count).map(|_| case.dialogue().start(scene, family));
    let pairs = started.collect::<Result<Vec<_>>>()?;
    for pair in pairs {
        case.judge(&pair.finish()?)?;
    }
    Ok(())
}
