//! Every scenario on the protocol core in virtual time, and on real sockets; with a good wire and with a bad one.

use anyhow::{Result, ensure};
use conformance::{
    arm::{Arm, LOSSY, loopback, virtual_time::VirtualTime},
    scenario::{self, Outcome, Scenario},
    suite::Suite,
};
use host::FaultPlan;

/// What a bad wire does.
const FAULTS: &str = "loss=5%,duplicate=5%,reorder=5%,corrupt=2%,seed=3";

fn main() {
    let faults: FaultPlan = FAULTS.parse().expect("a fault plan");
    let mut suite = Suite::new();
    for scenario in scenario::all() {
        check(&mut suite, scenario, "virtual time", false, || {
            Ok(Box::new(VirtualTime::new(FaultPlan::default())))
        });
        check(&mut suite, scenario, "virtual time, faults", true, move || {
            Ok(Box::new(VirtualTime::new(faults)))
        });
        check(&mut suite, scenario, "loopback", false, || Ok(Box::new(loopback::arm(None)?)));
        check(&mut suite, scenario, "loopback, faults", true, move || {
            Ok(Box::new(loopback::arm(Some(faults))?))
        });
    }
    suite.run()
}

/// Adds a scenario on an arm. Only on a bad wire may one be left out, and only for that.
fn check(
    suite: &mut Suite,
    scenario: &'static Scenario,
    arm: &str,
    is_bad: bool,
    make: impl FnOnce() -> Result<Box<dyn Arm>> + Send + 'static,
) {
    suite.check(format!("{arm}: {}", scenario.name), move || {
        let outcome = scenario::play(scenario, make);
        let expected = match is_bad && scenario.needs.contains(&conformance::arm::Need::Lossless) {
            true => Outcome::Skipped(LOSSY.to_owned()),
            false => Outcome::Passed,
        };
        ensure!(outcome == expected, "{outcome}");
        if let Outcome::Skipped(reason) = outcome {
            println!("skipped: {reason}");
        }
        Ok(())
    });
}
