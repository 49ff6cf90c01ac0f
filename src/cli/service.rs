//! `softverbs service`: shares the RoCE v2 port among the programs of this network namespace.

use std::process::ExitCode;

use host::slot::{self, ServiceError};

/// Shares the RoCE v2 port among programs; they start it themselves if need be.
///
/// Started by hand it runs until it is ended, as the user whose right it is to see what other users'
/// programs receive: root, where that matters.
#[derive(Debug, clap::Args)]
pub struct ServiceArgs {
    /// Says nothing, and ends when it has not been needed for a while.
    #[arg(long)]
    on_demand: bool,
}

impl ServiceArgs {
    /// Does it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        if !self.on_demand {
            eprintln!("softverbs: sharing the RoCE v2 port of this network namespace, until this is ended");
        }
        match slot::serve(!self.on_demand) {
            Ok(()) => Ok(ExitCode::SUCCESS),
            // Two programs started one at the same time; the other serves both.
            Err(ServiceError::AlreadyRunning) if self.on_demand => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error.into()),
        }
    }
}
