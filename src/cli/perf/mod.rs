//! `softverbs perf`: latency and bandwidth between two processes, on the Rust API.
//!
//! | module | idea |
//! |---|---|
//! | `spec` | what is measured, and what comes out |
//! | `control` | the connection on which client and server agree |
//! | `driver` | measuring: rounds of messages, and the median of them |
//! | `bench` | what every measurement has in common |
//! | `rdma`, `latency`, `bandwidth` | measurements on verbs |
//! | `kernel` | the kernel's TCP and UDP, for comparison |
//! | `server` | the other process |
//! | `stats`, `report` | distributions and tables |

mod bandwidth;
mod bench;
mod control;
mod driver;
mod kernel;
mod latency;
mod rdma;
mod report;
mod server;
mod spec;
mod stats;

use std::io::{self, IsTerminal};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail};
use indicatif::{ProgressBar, ProgressStyle};

pub use control::Control;
pub use driver::measure;
pub use server::LocalServer;
pub use spec::{Effort, Measurement, Mode, Operation, Spec, Transport};

/// The port on which servers listen.
const PORT: u16 = 18515;

/// Bytes that a TCP stream is written in, as common tools do.
pub const STREAM_CHUNK: usize = 128 << 10;

/// Measures latency and bandwidth between two processes.
///
/// Without a peer both are started here. Otherwise run `softverbs perf --listen 0.0.0.0` on one machine, and
/// `softverbs perf THAT_MACHINE` on the other. Everything that arrives is verified.
#[derive(Debug, clap::Args)]
pub struct PerfArgs {
    /// The server's machine, and its port if it is not 18515. Without it, a server is started here.
    #[arg(value_name = "HOST[:PORT]", conflicts_with_all = ["listen", "loopback"])]
    peer: Option<String>,
    /// Starts both sides on this machine, which is what happens without a peer too.
    #[arg(long)]
    loopback: bool,
    /// Serves clients on this address instead.
    #[arg(long, value_name = "ADDRESS[:PORT]", conflicts_with = "loopback")]
    listen: Option<String>,
    /// Serves one client only.
    #[arg(long, requires = "listen")]
    once: bool,
    /// What to measure.
    #[arg(long, short, value_delimiter = ',', default_value = "write")]
    operation: Vec<Operation>,
    /// On which transports.
    #[arg(long, short, value_delimiter = ',', default_value = "rc")]
    transport: Vec<Transport>,
    /// What about it.
    #[arg(long, short, value_delimiter = ',', default_value = "latency,bandwidth")]
    mode: Vec<Mode>,
    /// Bytes of a message: 64, 4K, 1M.
    #[arg(long, short, value_delimiter = ',', value_parser = parse_size, default_value = "64,4K,1M")]
    size: Vec<usize>,
    /// Messages under way at once, for bandwidth.
    #[arg(long, short, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=16384))]
    depth: u32,
    /// The largest path MTU.
    #[arg(long, default_value_t = 4096, value_parser = parse_mtu)]
    mtu: u32,
    /// Lets the target of one-sided operations sleep.
    #[arg(long)]
    passive: bool,
    /// Seconds that each run takes.
    #[arg(long, default_value_t = 0.5)]
    time: f64,
    /// Runs, of which the median is reported.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Measures the kernel's TCP and UDP too, and reports ratios.
    #[arg(long)]
    compare: bool,
    /// Writes JSON.
    #[arg(long)]
    json: bool,
}

impl PerfArgs {
    /// Does it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        if let Some(address) = &self.listen {
            server::serve(resolve(address)?, self.once)?;
            return Ok(ExitCode::SUCCESS);
        }
        let effort = Effort { time: self.run_time()?, runs: self.runs };
        let specs = self.specs()?;
        let (_server, mut control) = match &self.peer {
            Some(peer) => (None, connect(peer)?),
            None => {
                let server = LocalServer::start()?;
                let control = server.connect()?;
                (Some(server), control)
            }
        };
        let measurements = self.measure(&mut control, &specs, effort)?;
        if self.json {
            println!("{}", serde_json::to_string_pretty(&measurements)?);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn run_time(&self) -> anyhow::Result<Duration> {
        match Duration::try_from_secs_f64(self.time) {
            Ok(time) if time > Duration::ZERO && time < Duration::from_secs(20) => Ok(time),
            _ => bail!("a run of {} seconds: expected more than 0 and less than 20", self.time),
        }
    }

    /// Everything that is asked for and possible.
    fn specs(&self) -> anyhow::Result<Vec<Spec>> {
        let mut specs: Vec<Spec> = Vec::new();
        let mut obstacle = None;
        for &mode in &self.mode {
            for &transport in &self.transport {
                for &operation in &self.operation {
                    for &size in &self.size {
                        let spec = self.spec(transport, operation, mode, size);
                        match spec.obstacle() {
                            None if specs.contains(&spec) => {}
                            None => specs.push(spec),
                            Some(reason) => obstacle = Some(reason),
                        }
                    }
                }
            }
        }
        match obstacle {
            Some(reason) if specs.is_empty() => bail!("{reason}"),
            _ => Ok(specs),
        }
    }

    fn spec(&self, transport: Transport, operation: Operation, mode: Mode, size: usize) -> Spec {
        let size = if operation.is_atomic() { 8 } else { size };
        let depth = if mode == Mode::Latency { 1 } else { self.depth as usize };
        Spec { transport, operation, mode, size, depth, mtu: self.mtu, passive: self.passive }
    }

    fn measure(
        &self,
        control: &mut Control,
        specs: &[Spec],
        effort: Effort,
    ) -> anyhow::Result<Vec<Measurement>> {
        let progress = progress_bar(specs.len());
        let print = |line: &str| progress.suspend(|| println!("{line}"));
        let mut measurements: Vec<Measurement> = Vec::new();
        for spec in specs {
            if !self.json && measurements.last().is_none_or(|last| last.spec.mode != spec.mode) {
                print(report::heading(spec.mode));
            }
            progress.set_message(format!("{} {} {}", spec.transport, spec.operation, spec.size));
            let mut measurement = measure(control, spec, effort)?;
            if self.compare && spec.transport.is_rdma() {
                compare(control, &mut measurement, effort)?;
            }
            if !self.json {
                print(&report::row(&measurement));
            }
            measurements.push(measurement);
            progress.inc(1);
        }
        progress.finish_and_clear();
        Ok(measurements)
    }
}

/// Measures the kernel's transports right after ours, and notes the ratios.
///
/// Times are compared with those of messages of the same size, there and back where ours go there and back.
/// Bandwidths are compared with that of a TCP stream, written in large pieces.
fn compare(control: &mut Control, measurement: &mut Measurement, effort: Effort) -> anyhow::Result<()> {
    let ours = measurement.figure();
    let legs = if measurement.spec.operation.is_round_trip() { 2.0 } else { 1.0 };
    let kernel = Spec { operation: Operation::Send, ..measurement.spec };
    match measurement.spec.mode {
        Mode::Latency => {
            for (transport, ratio) in
                [(Transport::Tcp, &mut measurement.to_tcp), (Transport::Udp, &mut measurement.to_udp)]
            {
                let spec = Spec { transport, ..kernel };
                if spec.obstacle().is_none() {
                    *ratio = Some(ours / (measure(control, &spec, effort)?.figure() * legs));
                }
            }
        }
        Mode::Bandwidth => {
            let spec = Spec { transport: Transport::Tcp, size: STREAM_CHUNK, ..kernel };
            measurement.to_tcp = Some(ours / measure(control, &spec, effort)?.figure());
        }
    }
    Ok(())
}

/// A progress bar, if somebody is there to see it.
pub fn progress_bar(steps: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}");
    let bar =
        ProgressBar::new(steps as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn connect(peer: &str) -> anyhow::Result<Control> {
    let address = resolve(peer)?;
    let stream = TcpStream::connect(address)
        .with_context(|| format!("cannot connect to {address}: does `softverbs perf --listen` run there?"))?;
    Ok(Control::new(stream)?)
}

/// An address with or without a port.
fn resolve(text: &str) -> anyhow::Result<SocketAddr> {
    let found = text.to_socket_addrs().or_else(|_| (text, PORT).to_socket_addrs());
    let mut found = found.with_context(|| format!("{text:?} is no address"))?;
    found.next().with_context(|| format!("{text:?} has no address"))
}

/// A number of bytes, with K, M or G for powers of 1024.
fn parse_size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 20),
        Some(b'g' | b'G') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let size = digits.parse::<usize>().ok().and_then(|size| size.checked_mul(1 << shift));
    match size {
        Some(size) if (1..=1 << 30).contains(&size) => Ok(size),
        _ => Err("expected 1 to 1G bytes, such as 64, 4K or 1M".into()),
    }
}

fn parse_mtu(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(mtu @ (256 | 512 | 1024 | 2048 | 4096)) => Ok(mtu),
        _ => Err("expected 256, 512, 1024, 2048 or 4096".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_written() {
        assert_eq!(["1", "64", "4K", "1m", "1G"].map(parse_size), [1, 64, 4096, 1 << 20, 1 << 30].map(Ok));
        for wrong in ["", "0", "K", "-1", "2G", "1T", "99999999999999999999"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
