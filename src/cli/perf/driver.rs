//! Measuring: rounds of messages until one takes long enough, then as many as are wanted.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::bench::{self, Bench, Role};
use super::control::{Control, Request, RoundReport};
use super::spec::{Effort, Latency, Measurement, Mode, Rate, Spec};
use super::stats::{Samples, cpu_time, median};

/// Messages of the first round.
const FIRST_ROUND: u64 = 16;

/// Which part of a run the round takes from which its length is estimated.
const ESTIMATE: u32 = 8;

/// Most messages of a round.
const MAX_ROUND: u64 = 1 << 26;

/// What one round came to.
struct Round {
    iterations: u64,
    elapsed: Duration,
    latency: Option<Latency>,
    /// Processors that the client used.
    cpu: f64,
    server: RoundReport,
}

/// The client's side of all that one measurement takes.
pub fn measure(control: &mut Control, spec: &Spec, effort: Effort) -> anyhow::Result<Measurement> {
    if let Some(obstacle) = spec.obstacle() {
        bail!("{obstacle}");
    }
    control.send(&Request::Open(*spec))?;
    control.expect::<()>()?;
    let mut bench = bench::open(spec, Role::Client, control)?;
    let iterations = estimate(control, bench.as_mut(), spec, effort.time)?;
    let mut rounds = Vec::new();
    for _ in 0..effort.runs.max(1) {
        rounds.push(round(control, bench.as_mut(), spec, iterations)?);
    }
    control.send(&Request::Close)?;
    bench.verify()?;
    control.expect::<()>()?;
    let measurements = rounds.into_iter().map(|round| summarize(spec, effort.runs, &round)).collect();
    let mut middle = median(measurements, Measurement::figure).context("no run was made")?;
    middle.retransmitted = bench.retransmitted();
    Ok(middle)
}

/// How many messages take so long, about.
fn estimate(
    control: &mut Control,
    bench: &mut dyn Bench,
    spec: &Spec,
    time: Duration,
) -> anyhow::Result<u64> {
    let mut iterations = FIRST_ROUND;
    loop {
        let elapsed = round(control, bench, spec, iterations)?.elapsed.max(Duration::from_micros(1));
        let scale = time.as_secs_f64() / elapsed.as_secs_f64();
        if elapsed >= time / ESTIMATE || iterations >= MAX_ROUND {
            return Ok(((iterations as f64 * scale) as u64).clamp(1, MAX_ROUND));
        }
        // By and by: the first messages are slower than the rest.
        iterations = (iterations as f64 * scale.min(16.0)).ceil() as u64;
    }
}

fn round(
    control: &mut Control,
    bench: &mut dyn Bench,
    spec: &Spec,
    iterations: u64,
) -> anyhow::Result<Round> {
    let mut samples = Samples::default();
    control.send(&Request::Round(iterations))?;
    bench.prepare(iterations)?;
    control.expect::<()>()?;
    let (start, cpu) = (Instant::now(), cpu_time());
    if let Err(error) = bench.drive(iterations, &mut samples) {
        // What went wrong at the server explains more than that it does not answer.
        return Err(if control.is_called() { control.expect::<()>().err().unwrap_or(error) } else { error });
    }
    let elapsed = start.elapsed();
    let cpu = processors(cpu_time() - cpu, elapsed);
    // Tells the server that all has been sent.
    control.answer(())?;
    let server = control.expect()?;
    let legs = if spec.operation.is_round_trip() { 1 } else { 2 };
    Ok(Round { iterations, elapsed, latency: samples.latency(legs), cpu, server })
}

fn processors(cpu: Duration, elapsed: Duration) -> f64 {
    cpu.as_secs_f64() / elapsed.as_secs_f64().max(1e-9)
}

fn summarize(spec: &Spec, runs: u32, round: &Round) -> Measurement {
    let seconds = round.elapsed.as_secs_f64().max(1e-9);
    let rate = (spec.mode == Mode::Bandwidth).then(|| {
        let messages_per_second = round.server.delivered as f64 / seconds;
        Rate {
            gbit_per_second: messages_per_second * spec.size as f64 * 8.0 / 1e9,
            messages_per_second,
            delivered: round.server.delivered as f64 / round.iterations as f64,
        }
    });
    Measurement {
        spec: *spec,
        iterations: round.iterations,
        runs,
        latency_us: round.latency,
        rate,
        cpu_client: round.cpu,
        cpu_server: round.server.cpu,
        retransmitted: 0,
        to_tcp: None,
        to_udp: None,
    }
}

/// The server's side, until the client hangs up.
pub fn attend(control: &mut Control) -> anyhow::Result<()> {
    while let Some(request) = control.receive()? {
        let Request::Open(spec) = request else { bail!("the client asks for a round of nothing") };
        control.answer(())?;
        if let Err(error) = attend_one(control, &spec) {
            // The client learns it from the next answer that it expects.
            control.send(&Err::<(), String>(format!("{error:#}")))?;
            return Err(error);
        }
    }
    Ok(())
}

fn attend_one(control: &mut Control, spec: &Spec) -> anyhow::Result<()> {
    let mut bench = bench::open(spec, Role::Server, control)?;
    loop {
        match control.receive()?.context("the client is gone")? {
            Request::Round(iterations) => {
                bench.prepare(iterations)?;
                control.answer(())?;
                let (start, cpu) = (Instant::now(), cpu_time());
                let delivered = bench.attend(iterations, control)?;
                let cpu = processors(cpu_time() - cpu, start.elapsed());
                control.expect::<()>()?;
                control.answer(RoundReport { cpu, delivered })?;
            }
            Request::Close => {
                bench.verify()?;
                return control.answer(());
            }
            Request::Open(_) => bail!("the client opens a measurement inside another"),
        }
    }
}
