//! Plays scenarios on one arm, a line for each: what tests run in other networks, on other hosts and against other
//! libraries, and what runs for as long as one likes.

use std::{ffi::OsString, process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use clap::{Args, Parser, Subcommand};
use conformance::{
    arm::{Arm, abi, loopback, real_time::Pace, virtual_time::VirtualTime},
    scenario::{self, Outcome, Scenario, traffic},
};
use host::FaultPlan;
use nic::verbs::Mtu;

/// Plays scenarios on one arm.
#[derive(Parser)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Plays each scenario, or those that are named, and prints a line of what became of it.
    Play {
        #[command(flatten)]
        arm: ArmChoice,
        /// Names of scenarios.
        scenarios: Vec<String>,
    },
    /// Runs random operations against a model, and ends at the first difference.
    Traffic {
        #[command(flatten)]
        arm: ArmChoice,
        /// Operations of each end.
        #[arg(long, default_value_t = 100_000)]
        operations: u64,
        /// Where chance starts.
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Path MTU in bytes.
        #[arg(long, default_value_t = 1024)]
        mtu: u32,
        /// How often a receive comes late.
        #[arg(long, default_value_t = 0.01)]
        late_receives: f64,
        /// Without fences.
        #[arg(long)]
        no_fences: bool,
        /// Without memory windows.
        #[arg(long)]
        no_windows: bool,
    },
}

/// Where to play.
#[derive(Args, Clone)]
struct ArmChoice {
    /// Two adapters in virtual time, on sockets, or behind libraries.
    #[arg(long, value_enum)]
    arm: Kind,
    /// What the wire does, as in `loss=1%,reorder=5%,seed=7`; not for libraries.
    #[arg(long)]
    faults: Option<FaultPlan>,
    /// The `libibverbs.so.1` of both ends, or of each.
    #[arg(long)]
    library: Vec<OsString>,
    /// The device of both ends, or of each, if not the first.
    #[arg(long)]
    device: Vec<String>,
    /// The machine is an emulated one: slow.
    #[arg(long)]
    emulated: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    VirtualTime,
    Loopback,
    Abi,
}

impl ArmChoice {
    fn make(&self) -> Result<Box<dyn Arm>> {
        Ok(match self.arm {
            Kind::VirtualTime => Box::new(VirtualTime::new(self.faults.unwrap_or_default())),
            Kind::Loopback => Box::new(loopback::arm(self.faults)?),
            Kind::Abi => {
                ensure!(self.faults.is_none(), "libraries take faults from their environment");
                let pace = if self.emulated { Pace::EMULATED } else { Pace::HOST };
                Box::new(abi::arm([self.source(0), self.source(1)], pace)?)
            }
        })
    }

    fn source(&self, index: usize) -> abi::Source<'_> {
        let library = self.library.get(index).or(self.library.first());
        let library = library.map_or("libibverbs.so.1".as_ref(), OsString::as_os_str);
        let device = self.device.get(index).or(self.device.first());
        abi::Source { library, device: device.map(String::as_str) }
    }
}

fn main() -> ExitCode {
    let done = match Command::parse().what {
        What::Play { arm, scenarios } => play(&arm, &scenarios),
        What::Traffic { arm, operations, seed, mtu, late_receives, no_fences, no_windows } => {
            let fences = (!no_fences).then_some(0.02);
            let plan = traffic::Plan { seed, operations, windows: !no_windows, late_receives, fences };
            run_traffic(&arm, Mtu::fitting(mtu), &plan)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

/// One line a scenario: its name, a tab, and `passed`, `skipped: REASON` or `failed: MESSAGE`.
fn play(arm: &ArmChoice, names: &[String]) -> Result<()> {
    let is_wanted = |scenario: &&Scenario| names.is_empty() || names.iter().any(|name| name == scenario.name);
    let wanted: Vec<_> = scenario::all().filter(is_wanted).collect();
    let known = |name: &&String| !wanted.iter().any(|scenario| scenario.name == **name);
    ensure!(!names.iter().any(|name| known(&name)), "no scenario {}", names.join(", "));
    let mut failed = 0;
    for scenario in wanted {
        let outcome = scenario::play(scenario, || arm.make());
        failed += usize::from(matches!(outcome, Outcome::Failed(_)));
        println!("{}\t{outcome}", scenario.name);
    }
    ensure!(failed == 0, "{failed} failed");
    Ok(())
}

fn run_traffic(arm: &ArmChoice, mtu: Mtu, plan: &traffic::Plan) -> Result<()> {
    let start = Instant::now();
    let tally = traffic::run(&mut *arm.make()?, mtu, plan);
    println!("right in {:.1} s: {tally}", start.elapsed().as_secs_f64());
    Ok(())
}
