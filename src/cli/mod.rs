//! The command line.

mod dump;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// RDMA in software: verbs programs run with no adapter, no kernel module and no root.
#[derive(Debug, Parser)]
#[command(version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Dump(dump::DumpArgs),
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Dump(args) => args.run(),
        }
    }
}
