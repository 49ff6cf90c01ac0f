//! What every arm must do alike: each scenario once.
//!
//! A scenario is a function that drives two sides and asserts what comes of it; [`play`] runs one on an arm. What an arm
//! has not got it says itself, and that reason is the outcome, for the caller to compare with what it expects.
//!
//! | module | idea |
//! |---|---|
//! | [`pair`] | two connected ends, and what scenarios say about them |
//! | [`transfer`] | one message of any kind, with every byte around it watched |
//! | `messages` | every operation, of every size, however it is cut |
//! | `order` | what waits for what, and which completions come |
//! | `atomics` | words that are changed once |
//! | `windows` | memory windows |
//! | `violations` | what must not be done, and is not |
//! | `receives` | receives that are late, shared or too few |
//! | `failures` | connections that end |
//! | `states` | what a queue pair takes in which state |
//! | `events` | completion events |
//! | `datagrams` | unreliable datagrams and multicast |
//! | [`traffic`] | random operations against a naive model |

mod atomics;
mod datagrams;
mod events;
mod failures;
mod messages;
mod order;
pub mod pair;
mod receives;
mod states;
pub mod traffic;
pub mod transfer;
mod violations;
mod windows;

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    str::FromStr,
};

use anyhow::{Result, bail};

use crate::arm::{Arm, Need};

/// One thing that every arm must do alike.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// What it is called, in one word.
    pub name: &'static str,
    /// What the arm must have.
    pub needs: &'static [Need],
    /// Plays it; panics when something is not as it must be.
    pub body: fn(&mut dyn Arm),
}

/// What became of a scenario on an arm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All was as it must be.
    Passed,
    /// The arm has not got what it takes.
    Skipped(String),
    /// Something was not as it must be.
    Failed(String),
}

impl fmt::Display for Outcome {
    /// On one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passed => f.write_str("passed"),
            Self::Skipped(reason) => write!(f, "skipped: {reason}"),
            Self::Failed(message) => write!(f, "failed: {}", message.replace('\n', " ")),
        }
    }
}

impl FromStr for Outcome {
    type Err = anyhow::Error;

    /// What [`Display`](fmt::Display) wrote.
    fn from_str(line: &str) -> Result<Self> {
        match line.split_once(": ") {
            None if line == "passed" => Ok(Self::Passed),
            Some(("skipped", reason)) => Ok(Self::Skipped(reason.to_owned())),
            Some(("failed", message)) => Ok(Self::Failed(message.to_owned())),
            _ => bail!("no outcome: {line:?}"),
        }
    }
}

/// Every scenario.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    [
        messages::SCENARIOS,
        order::SCENARIOS,
        atomics::SCENARIOS,
        windows::SCENARIOS,
        violations::SCENARIOS,
        receives::SCENARIOS,
        failures::SCENARIOS,
        states::SCENARIOS,
        events::SCENARIOS,
        datagrams::SCENARIOS,
        traffic::SCENARIOS,
    ]
    .into_iter()
    .flatten()
}

/// Plays a scenario on an arm that is made for it alone.
pub fn play(scenario: &Scenario, make: impl FnOnce() -> Result<Box<dyn Arm>>) -> Outcome {
    let played = catch_unwind(AssertUnwindSafe(|| -> Result<Outcome> {
        let mut arm = make()?;
        if let Some(reason) = scenario.needs.iter().find_map(|&need| arm.lacks(need)) {
            return Ok(Outcome::Skipped(reason.to_owned()));
        }
        (scenario.body)(&mut *arm);
        Ok(Outcome::Passed)
    }));
    match played {
        Ok(Ok(outcome)) => outcome,
        Ok(Err(error)) => Outcome::Failed(format!("no arm: {error:#}")),
        Err(panic) => Outcome::Failed(panic_message(&*panic)),
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked").to_owned()
}

/// A scenario that every arm can play.
const fn scenario(name: &'static str, body: fn(&mut dyn Arm)) -> Scenario {
    Scenario { name, needs: &[], body }
}

impl Scenario {
    /// The same, for arms that have something.
    const fn needing(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }
}
