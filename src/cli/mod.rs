//! The command line.

mod demo;
mod devices;
mod dump;
mod perf;
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
    Demo(demo::DemoArgs),
    Run(run::RunArgs),
    Devices(devices::DevicesArgs),
    Dump(dump::DumpArgs),
    Perf(perf::PerfArgs),
    Service(service::ServiceArgs),
}

impl Cli {
    /// Does what the command line says.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            Command::Demo(args) => args.run(),
            Command::Run(args) => args.run(),
            Command::Devices(args) => args.run(),
            Command::Dump(args) => args.run(),
            Command::Perf(args) => args.run(),
            Command::Service(args) => args.run(),
        }
    }
}
