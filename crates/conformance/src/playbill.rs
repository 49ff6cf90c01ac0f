//! Scenarios played by the `scenarios` program somewhere else, and what was expected of each.

use std::{collections::BTreeMap, sync::Arc};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    program::Program,
    scenario::{self, Outcome},
    suite::{Shared, Suite},
};

/// Outcomes by the names of scenarios.
pub type Outcomes = BTreeMap<String, Outcome>;

/// Where an arm is not as a scenario has it, for a reason that is not ours.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The scenario.
    pub scenario: &'static str,
    /// Why it fails there.
    pub reason: &'static str,
}

/// Runs the `scenarios` program, which must print the outcome of every scenario.
///
/// # Errors
/// When it cannot be run, or leaves a scenario out.
pub fn outcomes(program: Program) -> Result<Outcomes> {
    let finished = program.run()?;
    let lines = finished.stdout.lines().filter_map(|line| line.split_once('\t'));
    let outcomes: Result<Outcomes> =
        lines.map(|(name, outcome)| Ok((name.to_owned(), outcome.parse()?))).collect();
    let outcomes = outcomes?;
    for scenario in scenario::all() {
        ensure!(outcomes.contains_key(scenario.name), "{} was not played:\n{finished}", scenario.name);
    }
    Ok(outcomes)
}

/// What is played on an arm, and what is expected of it.
#[derive(Clone, Copy, Debug)]
pub struct Playbill {
    /// The arm's name.
    pub arm: &'static str,
    /// Why scenarios may be left out.
    pub skips: &'static [&'static str],
    /// Which scenarios fail, and why.
    pub differences: &'static [Difference],
    /// Whether it takes too long for every day.
    pub is_long: bool,
}

impl Playbill {
    /// Adds a check for each scenario: it passes, or is left out for a listed reason, or fails as listed. `play` is called
    /// once, by the first of them.
    pub fn check(self, suite: &mut Suite, play: impl Fn() -> Result<Outcomes> + Send + Sync + 'static) {
        let played = Shared::new(play);
        for scenario in scenario::all() {
            let (played, name) = (Arc::clone(&played), format!("{}: {}", self.arm, scenario.name));
            self.add(suite, name, move || self.judge(scenario.name, &*played.obtain()?));
        }
        let name = format!("{}: every reason to skip and every difference is needed", self.arm);
        self.add(suite, name, move || self.is_needed(&*played.obtain()?));
    }

    fn add(self, suite: &mut Suite, name: String, check: impl FnOnce() -> Result<()> + Send + 'static) {
        if self.is_long {
            suite.check_when_asked(name, check);
        } else {
            suite.check(name, check);
        }
    }

    fn judge(self, name: &str, outcomes: &Outcomes) -> Result<()> {
        let outcome = outcomes.get(name).context("it was not played")?;
        let difference = self.differences.iter().find(|difference| difference.scenario == name);
        match (outcome, difference) {
            (Outcome::Passed, None) => {}
            (Outcome::Skipped(reason), None) => {
                ensure!(
                    self.skips.contains(&reason.as_str()),
                    "skipped for a reason that is not listed: {reason}"
                );
                println!("skipped: {reason}");
            }
            (Outcome::Failed(message), Some(difference)) => {
                println!("differs, since {}: {message}", difference.reason);
            }
            (outcome, None) => bail!("{outcome}"),
            (outcome, Some(difference)) => {
                bail!("{outcome}, though it was said to fail since {}", difference.reason);
            }
        }
        Ok(())
    }

    /// What is listed must occur, or the list lies.
    fn is_needed(self, outcomes: &Outcomes) -> Result<()> {
        for reason in self.skips {
            let skipped = Outcome::Skipped((*reason).to_owned());
            ensure!(
                outcomes.values().any(|outcome| *outcome == skipped),
                "nothing is skipped since {reason}"
            );
        }
        for Difference { scenario, .. } in self.differences {
            ensure!(outcomes.contains_key(*scenario), "there is no scenario {scenario}");
        }
        Ok(())
    }
}
