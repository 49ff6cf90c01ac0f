//! What is measured, and what comes out.

use std::fmt;
use std::time::Duration;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Transport {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Unreliable datagrams.
    Ud,
    /// The kernel's TCP, polled, for comparison.
    Tcp,
    /// The kernel's UDP, polled, for comparison.
    Udp,
}

/// What is done with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Messages that meet a receive.
    Send,
    /// Writes to the peer's memory.
    Write,
    /// Reads of the peer's memory.
    Read,
    /// Compare and swap of a word of the peer's memory.
    Cas,
    /// Addition to a word of the peer's memory.
    Fadd,
}

/// What is measured about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// One message at a time.
    Latency,
    /// As many as the queue takes.
    Bandwidth,
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spec {
    /// By what.
    pub transport: Transport,
    /// Of what.
    pub operation: Operation,
    /// What about it.
    pub mode: Mode,
    /// Bytes of a message.
    pub size: usize,
    /// Messages under way at once.
    pub depth: usize,
    /// The largest path MTU.
    pub mtu: u32,
    /// Whether the target of one-sided operations sleeps.
    pub passive: bool,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How long one run takes, about.
    pub time: Duration,
    /// How many runs there are, of which the median counts.
    pub runs: u32,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// What was measured.
    #[serde(flatten)]
    pub spec: Spec,
    /// Messages of the run that counts.
    pub iterations: u64,
    /// Runs, of which this is the median.
    pub runs: u32,
    /// How long messages took.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<Latency>,
    /// How many arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// Processors in use by the client.
    pub cpu_client: f64,
    /// Processors in use by the server.
    pub cpu_server: f64,
    /// Packets sent again in all runs.
    pub retransmitted: u64,
    /// Time or rate in relation to TCP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_tcp: Option<f64>,
    /// Time in relation to UDP's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_udp: Option<f64>,
}

/// How long messages took, in microseconds: one way for messages and writes, which are answered by such;
/// there and back for reads and atomics.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    pub min: f64,
    pub p50: f64,
    pub p99: f64,
    pub max: f64,
}

/// How many messages arrived.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rate {
    /// Payload, in gigabits a second.
    pub gbit_per_second: f64,
    /// Messages a second.
    pub messages_per_second: f64,
    /// The part of what was sent that arrived, on transports that may lose.
    pub delivered: f64,
}

impl Transport {
    /// Whether verbs offer it.
    pub fn is_rdma(self) -> bool {
        matches!(self, Self::Rc | Self::Uc | Self::Ud)
    }

    /// Whether it may lose messages.
    pub fn is_lossy(self) -> bool {
        matches!(self, Self::Uc | Self::Ud | Self::Udp)
    }
}

impl Operation {
    /// Whether it works on a word, whatever the size asked for.
    pub fn is_atomic(self) -> bool {
        matches!(self, Self::Cas | Self::Fadd)
    }

    /// Whether time is taken there and back.
    pub fn is_round_trip(self) -> bool {
        matches!(self, Self::Read | Self::Cas | Self::Fadd)
    }
}

impl Spec {
    /// Why it cannot be measured, if so.
    pub fn obstacle(&self) -> Option<String> {
        let Self { transport, operation, mode, size, mtu, .. } = *self;
        match transport {
            Transport::Rc => None,
            Transport::Uc if operation.is_round_trip() => Some("UC has neither reads nor atomics".into()),
            Transport::Uc => None,
            Transport::Ud if operation != Operation::Send => Some("UD has nothing but sends".into()),
            Transport::Ud if size > mtu as usize => {
                Some(format!("datagrams are not longer than {mtu} bytes"))
            }
            Transport::Ud => None,
            Transport::Tcp | Transport::Udp if operation != Operation::Send => {
                Some("TCP and UDP have nothing but sends".into())
            }
            Transport::Udp if mode == Mode::Bandwidth => Some("UDP is measured for its latency only".into()),
            Transport::Udp if size > 65_000 => Some("UDP datagrams are not longer than 65000 bytes".into()),
            Transport::Tcp | Transport::Udp => None,
        }
        .or_else(|| (size == 0).then(|| "messages have at least one byte".into()))
    }
}

impl Measurement {
    /// The figure that tells runs apart: what may be compared between transports.
    pub fn figure(&self) -> f64 {
        match (&self.latency_us, &self.rate) {
            (Some(latency), _) => latency.p50,
            (None, Some(rate)) => rate.gbit_per_second,
            (None, None) => 0.0,
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Ud => "UD",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
            Self::Cas => "compare-swap",
            Self::Fadd => "fetch-add",
        })
    }
}
