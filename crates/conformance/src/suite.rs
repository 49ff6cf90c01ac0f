//! A list of named checks as one `cargo test` target.

use std::{
    panic::{self, AssertUnwindSafe},
    sync::{Arc, OnceLock},
};

use anyhow::{Result, anyhow};
use libtest_mimic::{Arguments, Failed, Trial};

/// The checks of one test target, in the order in which they are added.
#[derive(Default)]
pub struct Suite {
    trials: Vec<Trial>,
    one_at_a_time: bool,
}

impl Suite {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check. Spaces in its name become underscores, so that it can be given to `cargo test` as it is printed.
    pub fn check(&mut self, name: impl Into<String>, check: impl FnOnce() -> Result<()> + Send + 'static) {
        self.trials.push(trial(name.into(), check));
    }

    /// Adds a check that takes too long for every day: it runs with `--ignored`, as `scripts/soak` does.
    pub fn check_when_asked(
        &mut self,
        name: impl Into<String>,
        check: impl FnOnce() -> Result<()> + Send + 'static,
    ) {
        self.trials.push(trial(name.into(), check).with_ignored_flag(true));
    }

    /// Runs the checks one after the other, whatever the command line says.
    #[must_use]
    pub fn one_at_a_time(self) -> Self {
        Self { one_at_a_time: true, ..self }
    }

    /// Runs what the command line asks for and ends the process, with a failure if a check failed or none was there.
    pub fn run(self) -> ! {
        let mut arguments = Arguments::from_args();
        if self.one_at_a_time {
            arguments.test_threads = Some(1);
        }
        assert!(!self.trials.is_empty(), "a suite without checks proves nothing");
        // All checks, and with them namespaces and hosts, are dropped when this returns, before the process ends.
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        conclusion.exit()
    }
}

fn trial(name: String, check: impl FnOnce() -> Result<()> + Send + 'static) -> Trial {
    Trial::test(name.replace(' ', "_"), move || check().map_err(|error| Failed::from(format!("{error:#}"))))
}

/// Something expensive that several checks share, made by the first that needs it.
pub struct Shared<T> {
    make: Box<dyn Fn() -> Result<T> + Send + Sync>,
    made: OnceLock<Result<Arc<T>, String>>,
}

impl<T> Shared<T> {
    /// Will be made by `make`, once. When that fails or panics, every check that needs it fails with its error.
    pub fn new(make: impl Fn() -> Result<T> + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { make: Box::new(make), made: OnceLock::new() })
    }

    /// The shared thing.
    ///
    /// # Errors
    /// The one with which it could not be made.
    pub fn obtain(&self) -> Result<Arc<T>> {
        let made = self.made.get_or_init(|| {
            let made = panic::catch_unwind(AssertUnwindSafe(|| (self.make)()));
            let made = made.unwrap_or_else(|_| Err(anyhow!("panicked while it was made")));
            made.map(Arc::new).map_err(|error| format!("{error:#}"))
        });
        made.clone().map_err(|error| anyhow!(error))
    }
}
