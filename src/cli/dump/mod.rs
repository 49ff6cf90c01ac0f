//! `softverbs dump`: the packets of a capture, one line each, every ICRC checked.
//!
//! | module | idea |
//! |---|---|
//! | `capture` | pcap and pcapng files, record by record |
//! | `link` | what carries IP becomes an Ethernet frame |
//! | `describe` | what there is to say about a packet |
//! | `names` | names and coded values of the specification |
//! | `line`, `summary` | a packet as text, and what all of them come to |

mod capture;
mod describe;
mod line;
mod link;
mod names;
mod summary;

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use capture::{CaptureReader, Damage};
use describe::Description;
use line::Line;
use summary::Summary;

/// Shows the RoCE packets of a capture.
///
/// One line a packet and a summary at the end. The exit status is 1 if an ICRC is wrong, a packet
/// malformed or the file damaged.
#[derive(Debug, clap::Args)]
pub struct DumpArgs {
    /// A pcap or pcapng file, or - for standard input.
    file: PathBuf,
    /// Writes one JSON object a line: packets, errors, and the summary last.
    #[arg(long)]
    json: bool,
    /// Writes the summary alone.
    #[arg(long, short)]
    summary: bool,
    /// Shows RoCE and malformed packets only.
    #[arg(long, short)]
    roce_only: bool,
}

/// One line of JSON.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Item<'a> {
    Packet(&'a Description),
    Error { offset: u64, error: String },
    Summary(&'a Summary),
}

impl DumpArgs {
    /// Does it.
    pub fn run(&self) -> anyhow::Result<ExitCode> {
        let (input, size): (Box<dyn Read>, _) = if self.file.as_os_str() == "-" {
            (Box::new(io::stdin().lock()), None)
        } else {
            let file =
                File::open(&self.file).with_context(|| format!("cannot open {}", self.file.display()))?;
            let size = file.metadata().map(|metadata| metadata.len()).ok();
            (Box::new(file), size)
        };
        let reader = CaptureReader::new(input).with_context(|| self.file.display().to_string())?;
        let mut output = BufWriter::new(io::stdout().lock());
        match self.dump(reader, &progress(size), &mut output).and_then(|summary| {
            output.flush()?;
            Ok(summary)
        }) {
            Ok(summary) if summary.is_clean() => Ok(ExitCode::SUCCESS),
            Ok(_) => Ok(ExitCode::FAILURE),
            // Whoever reads has seen enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ExitCode::SUCCESS),
            Err(error) => Err(error).context("cannot write"),
        }
    }

    fn dump<R: Read>(
        &self,
        mut reader: CaptureReader<R>,
        progress: &ProgressBar,
        output: &mut impl Write,
    ) -> io::Result<Summary> {
        let mut summary = Summary::default();
        let mut start_ns = None;
        loop {
            progress.set_position(reader.offset());
            match reader.next_record() {
                None => break,
                Some(Ok(record)) => {
                    let packet = Description::new(summary.packets + 1, &record);
                    summary.add(&packet);
                    let start_ns = *start_ns.get_or_insert(packet.time_ns.unwrap_or(0));
                    self.write_packet(output, &packet, start_ns)?;
                }
                Some(Err(damage)) => {
                    summary.damaged_records += 1;
                    self.write_damage(output, &damage)?;
                }
            }
        }
        progress.finish_and_clear();
        if self.json {
            write_json(output, &Item::Summary(&summary))?;
        } else {
            write!(output, "{summary}")?;
        }
        Ok(summary)
    }

    fn write_packet(&self, output: &mut impl Write, packet: &Description, start_ns: u64) -> io::Result<()> {
        let is_other = matches!(packet.contents, describe::Contents::Other { .. });
        if self.summary || self.roce_only && is_other {
            return Ok(());
        }
        if self.json {
            write_json(output, &Item::Packet(packet))
        } else {
            writeln!(output, "{}", Line { packet, start_ns })
        }
    }

    fn write_damage(&self, output: &mut impl Write, damage: &Damage) -> io::Result<()> {
        if self.json {
            return write_json(
                output,
                &Item::Error { offset: damage.offset, error: damage.kind.to_string() },
            );
        }
        // In its place among the packets, if both go to one terminal.
        output.flush()?;
        eprintln!("{}: {damage}", self.file.display());
        Ok(())
    }
}

fn write_json(output: &mut impl Write, item: &Item<'_>) -> io::Result<()> {
    serde_json::to_writer(&mut *output, item)?;
    output.write_all(b"\n")
}

/// A progress bar, where it does not get between the lines.
fn progress(size: Option<u64>) -> ProgressBar {
    match size {
        Some(size) if !io::stdout().is_terminal() => {
            let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}");
            ProgressBar::new(size).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        }
        _ => ProgressBar::hidden(),
    }
}
