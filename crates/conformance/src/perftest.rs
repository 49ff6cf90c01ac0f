//! The perftest programs: what they are run with, and what they must print.

use std::{fmt, time::Duration};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    dialogue::{Dialogue, Kind, Outcome},
    node::Family,
    scene::Scene,
};

/// `-a` runs the powers of two from 2 to 8 MiB.
const LARGEST: u64 = 8 << 20;

/// The largest datagram where the port's MTU is 4096.
const LARGEST_DATAGRAM: u64 = 4096;

/// How many sends fit in the receives that `ib_send_bw` posts before the first (512). Unreliable transports drop what
/// finds no receive, and the program then waits for it for ever: on every stack.
const POSTED_AHEAD: u32 = 500;

/// How many of its messages of 64 KiB fit in the receiving socket of UC, which nothing stops from sending faster than its peer
/// receives, and which does not notice what is lost.
const UNACKNOWLEDGED: u32 = 100;

/// One row of the table: a program, the transports over which it runs, the groups of options with which it is run there.
struct Row {
    program: &'static str,
    transports: &'static [&'static str],
    options: &'static [&'static [&'static str]],
}

const BANDWIDTH: &[&str] = &["-s 65536", "-a", "-q 4 -s 4096", "-b -s 4096"];
const DATAGRAM_BANDWIDTH: &[&str] = &["-s 2048", "-a", "-q 4 -s 1024", "-b -s 1024", "--use-srq -s 1024"];
const ATOMIC_BANDWIDTH: &[&str] = &["", "-q 4", "-b", "-A CMP_AND_SWAP"];
const LATENCY: &[&str] = &["-s 64", "-a"];
const ATOMIC_LATENCY: &[&str] = &["", "-A CMP_AND_SWAP"];
/// Not for writes: they say nothing to the program whose memory they change, so perftest has no event to sleep on.
const EVENTS: &[&str] = &["-e -s 1024"];
const ATOMIC_EVENTS: &[&str] = &["-e"];
/// Not for reads and atomics, whose data comes from the other side.
const INLINE: &[&str] = &["-I 64 -s 64"];
const SHARED_RECEIVES: &[&str] = &["--use-srq -s 4096", "--use-srq -q 4 -s 4096", "--use-srq -e -s 4096"];
const SHARED_RECEIVES_LATENCY: &[&str] = &["--use-srq -s 64", "--use-srq -e -s 64"];

const TABLE: &[Row] = &[
    Row { program: "ib_send_bw", transports: &["RC", "UC"], options: &[BANDWIDTH, EVENTS, INLINE] },
    Row { program: "ib_send_bw", transports: &["UD"], options: &[DATAGRAM_BANDWIDTH, EVENTS, INLINE] },
    Row { program: "ib_send_bw", transports: &["RC"], options: &[SHARED_RECEIVES] },
    Row { program: "ib_send_lat", transports: &["RC", "UC", "UD"], options: &[LATENCY, EVENTS, INLINE] },
    Row { program: "ib_send_lat", transports: &["RC"], options: &[SHARED_RECEIVES_LATENCY] },
    Row { program: "ib_write_bw", transports: &["RC", "UC"], options: &[BANDWIDTH, INLINE] },
    Row { program: "ib_write_lat", transports: &["RC", "UC"], options: &[LATENCY, INLINE] },
    Row { program: "ib_read_bw", transports: &["RC"], options: &[BANDWIDTH, EVENTS] },
    Row { program: "ib_read_lat", transports: &["RC"], options: &[LATENCY, EVENTS] },
    Row { program: "ib_atomic_bw", transports: &["RC"], options: &[ATOMIC_BANDWIDTH, ATOMIC_EVENTS] },
    Row { program: "ib_atomic_lat", transports: &["RC"], options: &[ATOMIC_LATENCY, ATOMIC_EVENTS] },
];

/// One run of one program.
#[derive(Clone, Debug)]
pub struct Case {
    program: &'static str,
    transport: &'static str,
    options: &'static str,
    iterations: u32,
    limit: Duration,
    /// Whether retransmission has to wait for seconds: then none is seen but what a lost packet calls for, however busy the
    /// machine is.
    patient: bool,
}

impl Case {
    /// The whole table.
    pub fn all() -> Vec<Self> {
        TABLE.iter().flat_map(|row| Self::of_row(row, usize::MAX)).collect()
    }

    /// Every program and transport with its first options, for scenes in which a run is slow.
    pub fn few() -> Vec<Self> {
        TABLE.iter().flat_map(|row| Self::of_row(row, 1)).collect()
    }

    /// Runs that a network that loses packets only delays.
    pub fn reliable() -> Vec<Self> {
        let reliable = Self::few()
            .into_iter()
            .filter(|case| case.transport == "RC" && case.option("--use-srq").is_none());
        reliable.map(|case| case.iterations(100)).collect()
    }

    /// What an emulated host can be asked: all but the runs over every size, with fewer messages.
    pub fn for_emulated_hosts() -> Vec<Self> {
        let bearable = Self::all().into_iter().filter(|case| case.option("-a").is_none());
        bearable.map(Self::on_emulated_host).collect()
    }

    /// Every program and transport once, for an emulated host.
    pub fn few_for_emulated_hosts() -> Vec<Self> {
        Self::few().into_iter().map(Self::on_emulated_host).collect()
    }

    fn on_emulated_host(self) -> Self {
        Self { iterations: 20, limit: Duration::from_secs(90), patient: true, ..self }
    }

    /// A row's cases: for each transport the first `most` of its options.
    fn of_row(row: &'static Row, most: usize) -> impl Iterator<Item = Self> {
        row.transports.iter().flat_map(move |transport| {
            let options = row.options.iter().copied().flatten().take(most);
            options.map(move |options| Self::new(row.program, transport, options))
        })
    }

    fn new(program: &'static str, transport: &'static str, options: &'static str) -> Self {
        let (iterations, limit) = match (transport, options) {
            ("UC", "-a") => (5, 180),
            (_, "-a") => (20, 180),
            ("UC", _) => (UNACKNOWLEDGED, 60),
            _ => (POSTED_AHEAD, 60),
        };
        Self { program, transport, options, iterations, limit: Duration::from_secs(limit), patient: false }
    }

    /// The same with another number of exchanges.
    #[must_use]
    pub fn iterations(self, iterations: u32) -> Self {
        Self { iterations, ..self }
    }

    /// The same with another limit to what it may take.
    #[must_use]
    pub fn limit(self, limit: Duration) -> Self {
        Self { limit, ..self }
    }

    /// The two programs.
    pub fn dialogue(&self) -> Dialogue {
        // -u: the local ACK timeout, 4.096 us times this power of two (IBTA 9.9.1.1); 20 is 4 s, and 14 the default.
        let timeout = if self.patient { "-u 20 " } else { "" };
        let arguments = format!("-c {} -n {} {timeout}{}", self.transport, self.iterations, self.options);
        Dialogue::new(Kind::Perftest, self.program, arguments.trim_end()).limit(self.limit)
    }

    /// Runs it and judges what both sides print.
    ///
    /// # Errors
    /// When a side fails, hangs, or prints something else than it should.
    pub fn play(&self, scene: &Scene, family: Family) -> Result<Outcome> {
        let outcome = self.dialogue().run(scene, family)?;
        self.judge(&outcome)?;
        Ok(outcome)
    }

    /// Whether the client reports a positive figure for each size, over all iterations.
    ///
    /// # Errors
    /// With what it printed, otherwise.
    pub fn judge(&self, outcome: &Outcome) -> Result<()> {
        let reports = reports(&outcome.client.stdout)?;
        let sizes: Vec<u64> = reports.iter().map(|report| report.size).collect();
        ensure!(sizes == self.sizes(), "sizes {sizes:?}, not {:?}:\n{}", self.sizes(), outcome.client);
        for report in &reports {
            let (Measured::Rate(figure) | Measured::Latency(figure)) = report.measured;
            ensure!(figure > 0.0, "nothing moved:\n{}", outcome.client);
            let expected = u64::from(self.iterations) * self.connections();
            ensure!(
                report.iterations == expected,
                "{} iterations, not {expected}:\n{}",
                report.iterations,
                outcome.client
            );
        }
        Ok(())
    }

    /// The message sizes that the options ask for.
    fn sizes(&self) -> Vec<u64> {
        if self.option("-a").is_some() {
            let largest = if self.transport == "UD" { LARGEST_DATAGRAM } else { LARGEST };
            return (1..=largest.ilog2()).map(|power| 1 << power).collect();
        }
        let size = self.option("-s").and_then(|size| size.parse().ok());
        vec![size.unwrap_or(8)] // atomics are of 8 bytes
    }

    /// The report counts the iterations of all queue pairs.
    fn connections(&self) -> u64 {
        self.option("-q").and_then(|count| count.parse().ok()).unwrap_or(1)
    }

    /// The word after an option, empty for the last word.
    fn option(&self, name: &str) -> Option<&'static str> {
        let mut words = self.options.split_whitespace();
        words.find(|word| *word == name)?;
        Some(words.next().unwrap_or_default())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialogue().fmt(f)
    }
}

/// One line of a report: the figures for one message size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Report {
    /// Bytes in a message.
    pub size: u64,
    /// Messages, over all queue pairs.
    pub iterations: u64,
    /// What was measured.
    pub measured: Measured,
}

/// What the two kinds of program measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// Messages in a second. perftest prints its bandwidth with too few digits for small messages.
    Rate(f64),
    /// Half a round trip, or a whole one for reads and atomics, in microseconds: the median ("typical").
    Latency(f64),
}

impl Report {
    /// Bits in a second, of a bandwidth program.
    ///
    /// # Errors
    /// For a latency program.
    pub fn bandwidth(&self) -> Result<f64> {
        match self.measured {
            Measured::Rate(rate) => Ok(rate * self.size as f64 * 8.0),
            Measured::Latency(_) => bail!("a latency, not a bandwidth: {self:?}"),
        }
    }

    /// Microseconds, of a latency program.
    ///
    /// # Errors
    /// For a bandwidth program.
    pub fn latency(&self) -> Result<f64> {
        match self.measured {
            Measured::Latency(latency) => Ok(latency),
            Measured::Rate(_) => bail!("a bandwidth, not a latency: {self:?}"),
        }
    }
}

/// The report in what a perftest program prints: the lines after the heading `#bytes`.
///
/// # Errors
/// When there is none, or a line has too few columns.
pub fn reports(text: &str) -> Result<Vec<Report>> {
    let mut lines = text.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let heading = lines.next().with_context(|| format!("no report in:\n{text}"))?;
    let latency = heading.contains("t_typical");
    let rows = lines.take_while(|line| line.trim_start().starts_with(|first: char| first.is_ascii_digit()));
    rows.map(|line| parse_report(line, latency).with_context(|| format!("a report line, not {line:?}")))
        .collect()
}

fn parse_report(line: &str, latency: bool) -> Option<Report> {
    let columns: Vec<&str> = line.split_whitespace().collect();
    let figure = |column: usize| columns.get(column)?.parse::<f64>().ok();
    // Bandwidth: size, iterations, peak, average, message rate in millions. Latency: size, iterations, least, most, typical.
    let measured = if latency { Measured::Latency(figure(4)?) } else { Measured::Rate(figure(4)? * 1e6) };
    Some(Report { size: columns.first()?.parse().ok()?, iterations: columns.get(1)?.parse().ok()?, measured })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_of_both_kinds_are_read() {
        let text = "noise\n #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n \
                    2          500              0.00               1.25                 0.65\n 4 500 0.00 2.5 0.66\n----\n";
        let bandwidth = reports(text).unwrap();
        assert_eq!(bandwidth[1], Report { size: 4, iterations: 500, measured: Measured::Rate(660_000.0) });
        let text = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]\n 64 20 1.0 9.0 2.0 3.0 0 0 0\n";
        assert_eq!(
            reports(text).unwrap(),
            [Report { size: 64, iterations: 20, measured: Measured::Latency(2.0) }]
        );
        assert!(reports("Failed to modify QP\n").is_err());
    }

    #[test]
    fn the_table_knows_its_sizes() {
        let all = Case::all();
        let find = |words: &str| all.iter().find(|case| case.to_string().contains(words)).unwrap();
        assert_eq!(find("ib_send_bw -c UD -n 20 -a").sizes().last(), Some(&4096));
        assert_eq!(find("ib_write_bw -c RC -n 20 -a").sizes().len(), 23);
        assert_eq!(find("ib_atomic_lat").sizes(), [8]);
        assert_eq!(find("ib_write_bw -c UC -n 100 -q 4").connections(), 4);
    }
}
