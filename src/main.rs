//! The `softverbs` program.

mod cli;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    match cli::Cli::parse().run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("softverbs: {error:#}");
            ExitCode::FAILURE
        }
    }
}
