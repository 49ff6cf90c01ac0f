//! `softverbs demo`: what the whole thing is about, on any machine, with nothing else installed.

use std::num::NonZero;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use host::devices;
use serde::Serialize;

use super::perf::{
    Effort, LocalServer, Measurement, Mode, Operation, Spec, Transport, measure, progress_bar,
};

/// Shows software RDMA at work: two processes on this machine, beside the kernel's TCP.
///
/// Takes about 15 seconds. All data that arrives is verified.
#[derive(Debug, clap::Args)]
pub struct DemoArgs {
    /// Writes JSON.
    #[arg(long)]
    json: bool,
}

/// How long a measurement takes, beside what it takes to find out how many messages that is.
const TIME: Duration = Duration::from_millis(120);

/// How often it is made; the median counts.
const RUNS: u32 = 3;

/// Messages under way at once, for bandwidth.
const DEPTH: usize = 64;

/// The largest path MTU.
const MTU: u32 = 4096;

/// The same measurements of several transports, over several sizes.
struct Table {
    title: &'static str,
    mode: Mode,
    sizes: &'static [usize],
    rows: &'static [Row],
}

/// One row of a table.
struct Row {
    name: &'static str,
    transport: Transport,
    operation: Operation,
}

const fn row(name: &'static str, transport: Transport, operation: Operation) -> Row {
    Row { name, transport, operation }
}

const TABLES: [Table; 3] = [
    Table {
        title: "Latency one way, us",
        mode: Mode::Latency,
        sizes: &[8, 64, 4096],
        rows: &[
            row("kernel TCP", Transport::Tcp, Operation::Send),
            row("kernel UDP", Transport::Udp, Operation::Send),
            row("RDMA send", Transport::Rc, Operation::Send),
            row("RDMA write", Transport::Rc, Operation::Write),
        ],
    },
    Table {
        title: "Latency there and back, us",
        mode: Mode::Latency,
        sizes: &[8, 64, 4096],
        rows: &[
            row("RDMA read", Transport::Rc, Operation::Read),
            row("compare and swap", Transport::Rc, Operation::Cas),
            row("fetch and add", Transport::Rc, Operation::Fadd),
        ],
    },
    Table {
        title: "Bandwidth, Gbit/s",
        mode: Mode::Bandwidth,
        sizes: &[4096, 65536, 1 << 20],
        rows: &[
            row("kernel TCP", Transport::Tcp, Operation::Send),
            row("RDMA send", Transport::Rc, Operation::Send),
            row("RDMA write", Transport::Rc, Operation::Write),
            row("RDMA read", Transport::Rc, Operation::Read),
        ],
    },
];

/// What the demonstration shows.
#[derive(Debug, Serialize)]
struct Report {
    device: String,
    address: String,
    measurements: Vec<Measurement>,
}

impl DemoArgs {
    /// Does it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let device = devices()?.remove(0);
        // What keeps it from working is better told here than by the other process.
        drop(host::Context::open(&device).context("cannot open the device")?);
        warn_of_load();
        let server = LocalServer::start()?;
        let mut control = server.connect()?;
        let specs = specs();
        let progress = progress_bar(specs.len());
        let effort = Effort { time: TIME, runs: RUNS };
        let mut measurements = Vec::new();
        for spec in &specs {
            progress.set_message(format!(
                "{} {} of {}",
                spec.transport,
                spec.operation,
                size_name(spec.size)
            ));
            let measured = measure(&mut control, spec, effort);
            let what = || format!("{} {} of {} bytes", spec.transport, spec.operation, spec.size);
            measurements.push(measured.with_context(what)?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        let address = control.addresses()?.0.ip().to_string();
        let report = Report { device: device.name().to_owned(), address, measurements };
        if self.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            print(&report);
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Both processes poll, so other work on the machine shows in every figure.
fn warn_of_load() {
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get) as f64;
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: f64 = load.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0);
    if processors < 2.0 {
        eprintln!("note: this machine has one processor for two processes that poll: latencies will be poor");
    } else if load > processors / 2.0 {
        eprintln!(
            "note: this machine is busy (load {load} on {processors} processors): figures will be poor"
        );
    }
}

/// Everything that the tables show, once.
fn specs() -> Vec<Spec> {
    let mut specs = Vec::new();
    for table in &TABLES {
        for row in table.rows {
            let wanted = table.sizes.iter().filter_map(|&size| spec(table.mode, row, size));
            specs.extend(wanted);
        }
    }
    specs
}

/// What stands in a cell; nothing if the row has no such size.
fn spec(mode: Mode, row: &Row, size: usize) -> Option<Spec> {
    let Row { transport, operation, .. } = *row;
    let depth = if mode == Mode::Latency { 1 } else { DEPTH };
    let spec = Spec { transport, operation, mode, size, depth, mtu: MTU, passive: false };
    (!operation.is_atomic() || size == size_of::<u64>()).then_some(spec)
}

fn print(report: &Report) {
    println!(
        "Two processes on this machine, device {} at {}: RoCE v2 in UDP, path MTU {MTU}.",
        report.device, report.address
    );
    println!(
        "No adapter, no kernel module, no root. TCP and UDP are the kernel's, between the same processes."
    );
    for table in &TABLES {
        print_table(table, &report.measurements);
    }
    let again: u64 = report.measurements.iter().map(|measurement| measurement.retransmitted).sum();
    println!();
    println!("All data that arrived was verified. {again} packets were sent again.");
}

fn print_table(table: &Table, measurements: &[Measurement]) {
    println!();
    print!("{:<28}", table.title);
    table.sizes.iter().for_each(|&size| print!("{:>22}", size_name(size)));
    println!();
    if table.mode == Mode::Latency {
        print!("{:<28}", "");
        table.sizes.iter().for_each(|_| print!("{:>12}{:>10}", "p50", "p99"));
        println!();
    }
    for row in table.rows {
        print!("  {:<26}", row.name);
        for &size in table.sizes {
            let wanted = spec(table.mode, row, size);
            let found = measurements.iter().find(|measurement| Some(measurement.spec) == wanted);
            print!("{:>22}", found.map(cell).unwrap_or_default());
        }
        println!();
    }
}

fn cell(measurement: &Measurement) -> String {
    match (&measurement.latency_us, &measurement.rate) {
        (Some(latency), _) => format!("{:.2}{:>10.2}", latency.p50, latency.p99),
        (None, Some(rate)) => format!("{:.2}", rate.gbit_per_second),
        (None, None) => String::new(),
    }
}

fn size_name(size: usize) -> String {
    match size {
        1_048_576.. => format!("{} MiB", size >> 20),
        1024.. => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}
