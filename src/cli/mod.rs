//! The command line.

mod devices;
mod dump;
mod run;
mod service;

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
    Run(run::RunArgs),
    Devices(devices::DevicesArgs),
    Dump(dump::DumpArgs),
    Service(service::ServiceArgs),
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Run(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Dump(args) => args.run(),
            Command::Service(args) => args.run(),
        }
    }
}
