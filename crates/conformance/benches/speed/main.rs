//! How fast the library is, as ratios to what the same machine does without it, in the same minutes.
//!
//! `cargo bench -p softverbs-conformance --bench speed [-- --json FILE] [--here] [--emulated]`
//!
//! | figure | beside |
//! |---|---|
//! | bandwidth of `ib_write_bw`, 1 MiB and 4 KiB, between two programs on loopback | iperf3's TCP on the same loopback |
//! | latency of `ib_write_lat`, 64 bytes, both polling | a bare UDP ping-pong of the same size, both polling |
//! | the same programs inside an emulated host | the same programs there on the kernel's rxe |
//! | memory of a process with 1,000 queue pairs; time and memory to register 1 GiB | the targets |
//!
//! Each figure is the median of five, taken in turns with what it is compared to.

mod udp;

use std::{env, path::Path, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, Result};
use conformance::{
    Dialogue, Family, Library, Namespace, Node, Program, Scene, dialogue::Kind, namespace, perftest,
};
use serde_json::{Value, json};

/// An odd number, for a median.
const RUNS: usize = 5;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("speed: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all targets are met.
fn run(arguments: &[String]) -> Result<bool> {
    if let [role, rest @ ..] = arguments
        && role == udp::ROLE
    {
        return udp::run(rest).map(|()| true);
    }
    let only = |flag: &str| arguments.iter().any(|argument| argument == flag);
    let all = !only("--here") && !only("--emulated");
    let library = Arc::new(Library::build()?);
    let mut figures = Vec::new();
    if all || only("--here") {
        figures.extend(here(&library)?);
        figures.extend(footprint(&library)?);
    }
    if all || only("--emulated") {
        figures.extend(emulated(&library)?);
    }
    print_table(&figures);
    if let Some(place) = arguments.iter().position(|argument| argument == "--json") {
        let file = arguments.get(place + 1).context("--json needs a file")?;
        let rows: Vec<Value> = figures.iter().map(Figure::to_json).collect();
        std::fs::write(file, serde_json::to_string_pretty(&rows)?)?;
    }
    Ok(figures.iter().all(Figure::is_met))
}

/// One line of the report: a figure of ours beside another, and how they should relate.
struct Figure {
    name: String,
    unit: &'static str,
    ours: f64,
    beside: f64,
    target: Target,
}

/// What the ratio of ours to the other should be.
#[derive(Clone, Copy)]
enum Target {
    AtLeast(f64),
    AtMost(f64),
}

impl Figure {
    fn ratio(&self) -> f64 {
        self.ours / self.beside
    }

    fn is_met(&self) -> bool {
        match self.target {
            Target::AtLeast(least) => self.ratio() >= least,
            Target::AtMost(most) => self.ratio() <= most,
        }
    }

    fn target(&self) -> String {
        match self.target {
            Target::AtLeast(least) => format!(">= {least}"),
            Target::AtMost(most) => format!("<= {most}"),
        }
    }

    fn to_json(&self) -> Value {
        json!({
            "name": self.name, "unit": self.unit, "ours": self.ours, "beside": self.beside,
            "ratio": self.ratio(), "target": self.target(), "met": self.is_met(),
        })
    }
}

fn print_table(figures: &[Figure]) {
    println!("{:44} {:>6} {:>12} {:>12} {:>7} {:>8}", "", "unit", "ours", "beside it", "ratio", "target");
    for figure in figures {
        let met = if figure.is_met() { "" } else { "  missed" };
        let Figure { name, unit, ours, beside, .. } = figure;
        println!(
            "{name:44} {unit:>6} {ours:12.2} {beside:12.2} {:7.2} {:>8}{met}",
            figure.ratio(),
            figure.target()
        );
    }
}

/// The middle one of some figures.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

/// Takes two figures in turns, so that what disturbs the machine disturbs both.
fn in_turns(
    mut ours: impl FnMut() -> Result<f64>,
    mut beside: impl FnMut() -> Result<f64>,
) -> Result<(f64, f64)> {
    let (mut our_figures, mut other_figures) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        our_figures.push(ours()?);
        other_figures.push(beside()?);
    }
    Ok((median(our_figures), median(other_figures)))
}

fn here(library: &Arc<Library>) -> Result<Vec<Figure>> {
    let namespace = Arc::new(Namespace::new()?);
    let scene = Scene::one_host_in(&namespace, library);
    let mut figures = Vec::new();
    for (size, name, least) in [
        (1 << 20, "RC WRITE 1 MiB, loopback; iperf3 TCP", 1.0),
        (4096, "RC WRITE 4 KiB, loopback; iperf3 TCP", 0.5),
    ] {
        let (ours, beside) =
            in_turns(|| write_bandwidth(&scene, size, "-D 3"), || tcp_bandwidth(&namespace))?;
        figures.push(Figure {
            name: name.to_owned(),
            unit: "Gb/s",
            ours,
            beside,
            target: Target::AtLeast(least),
        });
    }
    let (ours, beside) = in_turns(|| write_latency(&scene, 20_000), || udp_latency(&namespace))?;
    let name = "RC WRITE 64 B, half round trip; polling UDP".to_owned();
    figures.push(Figure { name, unit: "us", ours, beside, target: Target::AtMost(1.5) });
    Ok(figures)
}

/// The same programs in an emulated host, once on the kernel's stack and once on ours; one host at a time.
fn emulated(library: &Arc<Library>) -> Result<Vec<Figure>> {
    let kernel = emulated_figures(&Scene::emulated_on_kernel()?)?;
    let ours = emulated_figures(&Scene::emulated_on_ours(library)?)?;
    let rows = [
        ("RC WRITE 64 KiB, emulated host; rxe", "Gb/s", Target::AtLeast(2.0)),
        ("RC WRITE 4 KiB, emulated host; rxe", "Gb/s", Target::AtLeast(2.0)),
        ("RC WRITE 64 B, emulated host; rxe", "us", Target::AtMost(0.5)),
    ];
    let pairs = ours.into_iter().zip(kernel);
    let figures = rows.into_iter().zip(pairs).map(|((name, unit, target), (ours, beside))| Figure {
        name: name.to_owned(),
        unit,
        ours,
        beside,
        target,
    });
    Ok(figures.collect())
}

fn emulated_figures(scene: &Scene) -> Result<[f64; 3]> {
    let median_of =
        |take: &dyn Fn() -> Result<f64>| (0..RUNS).map(|_| take()).collect::<Result<Vec<_>>>().map(median);
    Ok([
        median_of(&|| write_bandwidth(scene, 65_536, "-n 500"))?,
        median_of(&|| write_bandwidth(scene, 4096, "-n 1000"))?,
        median_of(&|| write_latency(scene, 500))?,
    ])
}

/// Gb/s of `ib_write_bw`.
fn write_bandwidth(scene: &Scene, size: u32, length: &str) -> Result<f64> {
    let dialogue = Dialogue::new(Kind::Perftest, "ib_write_bw", &format!("-c RC -s {size} {length}"));
    let outcome = dialogue.limit(Duration::from_secs(120)).run(scene, Family::V4)?;
    let report = perftest::reports(&outcome.client.stdout)?;
    let report = report.first().context("a report")?;
    Ok(report.bandwidth()? / 1e9)
}

/// Microseconds of half a round trip, the median, of `ib_write_lat`.
fn write_latency(scene: &Scene, count: u32) -> Result<f64> {
    let dialogue = Dialogue::new(Kind::Perftest, "ib_write_lat", &format!("-c RC -s 64 -n {count}"));
    let outcome = dialogue.limit(Duration::from_secs(120)).run(scene, Family::V4)?;
    perftest::reports(&outcome.client.stdout)?.first().context("a report")?.latency()
}

/// Gb/s of iperf3's TCP over loopback.
fn tcp_bandwidth(namespace: &Namespace) -> Result<f64> {
    const PORT: u16 = 5201;
    let mut server = namespace.place(Program::new("iperf3").args("-s -1 -J")).start()?;
    server.wait_until("it listened", |server| Ok(namespace::listens(server.id(), PORT)))?;
    let report = namespace.place(Program::new("iperf3").args("-c 127.0.0.1 -t 3 -J")).output()?;
    server.finish()?.succeeded()?;
    let report: Value = serde_json::from_str(&report)?;
    let bits = report["end"]["sum_received"]["bits_per_second"].as_f64();
    Ok(bits.context("iperf3's report has no sum")? / 1e9)
}

/// Microseconds of half a round trip, the median, between two processes that poll UDP sockets.
fn udp_latency(namespace: &Namespace) -> Result<f64> {
    let itself = env::current_exe()?.display().to_string();
    let program = |side: &str| namespace.place(Program::new(&itself).arg(udp::ROLE).arg(side));
    let mut server = program("server").start()?;
    server.wait_until("it was ready", |server| Ok(server.stdout_so_far().contains("ready")))?;
    let told = program("client").output()?;
    server.finish()?.succeeded()?;
    told.trim().parse().context("the ping-pong's figure")
}

fn footprint(library: &Arc<Library>) -> Result<Vec<Figure>> {
    let program = library.compile(Path::new("crates/conformance/programs/footprint.c"))?;
    let namespace = Arc::new(Namespace::new()?);
    let node = Node::ours(&namespace, library, "127.0.0.1", "::1");
    let (mut resident, mut register, mut copied) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let told = node.place(program.clone().arg(1000).arg(1024)).output()?;
        let figure = |name: &str| {
            let line = told.lines().find_map(|line| line.strip_prefix(name)).context("a figure")?;
            line.trim().parse::<f64>().context("a number")
        };
        resident.push(figure("resident")? / 1024.0);
        register.push(figure("register")?);
        copied.push(figure("copied")? / 1024.0);
    }
    let row = |name: &str, unit, ours, most| Figure {
        name: name.to_owned(),
        unit,
        ours,
        beside: most,
        target: Target::AtMost(1.0),
    };
    Ok(vec![
        row("memory with 1,000 queue pairs; target", "MiB", median(resident), 100.0),
        row("registering 1 GiB; target", "us", median(register), 1000.0),
        row("memory added by registering 1 GiB; target", "MiB", median(copied), 1.0),
    ])
}
