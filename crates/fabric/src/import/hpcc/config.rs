//! Config files: a key and its values a line.

use nic::{Duration, Instant};

use super::LineError;
use crate::rate::Rate;
use crate::topology::statements;

/// The settings of a config file. Output files, tracing and sampling are none of a network's business and
/// are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HpccConfig {
    /// `TOPOLOGY_FILE`.
    pub topology_file: String,
    /// `FLOW_FILE`.
    pub flow_file: String,
    /// `PACKET_PAYLOAD_SIZE`, in bytes.
    pub payload: u16,
    /// `ENABLE_QCN`: whether switches mark packets.
    pub marks: bool,
    /// `CC_MODE`: 1 DCQCN, 3 HPCC, 7 TIMELY, 8 DCTCP, 10 PINT, others none.
    pub congestion_control: u32,
    /// `BUFFER_SIZE` of a switch, in MiB.
    pub buffer_mib: u64,
    /// `KMIN_MAP`: by link rate, in kB.
    pub kmin: Vec<(Rate, f64)>,
    /// `KMAX_MAP`: by link rate, in kB.
    pub kmax: Vec<(Rate, f64)>,
    /// `PMAX_MAP`: by link rate.
    pub pmax: Vec<(Rate, f64)>,
    /// `LINK_DOWN`: when, and between which nodes.
    pub link_down: Option<(Instant, u32, u32)>,
    /// `L2_BACK_TO_ZERO`: a loss makes a sender begin its chunk again.
    pub back_to_zero: bool,
    /// `ACK_HIGH_PRIO`: acknowledgements have the highest priority.
    pub ack_first: bool,
    /// What belongs to congestion control, by key, as it is written.
    pub control: Vec<(String, String)>,
}

/// Keys that say how rates are controlled.
const CONTROL: [&str; 24] = [
    "ALPHA_RESUME_INTERVAL",
    "CLAMP_TARGET_RATE",
    "DCTCP_RATE_AI",
    "EWMA_GAIN",
    "FAST_REACT",
    "FAST_RECOVERY_TIMES",
    "GLOBAL_T",
    "HAS_WIN",
    "INT_MULTI",
    "L2_ACK_INTERVAL",
    "L2_CHUNK_SIZE",
    "MIN_RATE",
    "MI_THRESH",
    "MULTI_RATE",
    "PINT_LOG_BASE",
    "PINT_PROB",
    "RATE_AI",
    "RATE_BOUND",
    "RATE_DECREASE_INTERVAL",
    "RATE_HAI",
    "RP_TIMER",
    "SAMPLE_FEEDBACK",
    "U_TARGET",
    "VAR_WIN",
];

/// Keys that say what is recorded, and settings that only one value of is in use.
const IGNORED: [&str; 12] = [
    "ENABLE_TRACE",
    "ERROR_RATE_PER_LINK",
    "FCT_OUTPUT_FILE",
    "PACKET_LEVEL_ECMP",
    "PFC_OUTPUT_FILE",
    "QLEN_MON_END",
    "QLEN_MON_FILE",
    "QLEN_MON_START",
    "SIMULATOR_STOP_TIME",
    "TRACE_FILE",
    "TRACE_OUTPUT_FILE",
    "USE_DYNAMIC_PFC_THRESHOLD",
];

impl HpccConfig {
    /// Reads a config file.
    pub fn parse(text: &str) -> Result<Self, LineError> {
        let mut config = Self::default();
        for (line, statement) in statements(text) {
            let (key, value) = statement.split_once(char::is_whitespace).unwrap_or((statement, ""));
            config.set(key, value.trim()).map_err(|expected| {
                LineError::new(line, format!("{key} {}: expected {expected}", value.trim()))
            })?;
        }
        let last = text.lines().count();
        for (key, is_missing) in [
            ("TOPOLOGY_FILE", config.topology_file.is_empty()),
            ("FLOW_FILE", config.flow_file.is_empty()),
            ("PACKET_PAYLOAD_SIZE", config.payload == 0),
            ("BUFFER_SIZE", config.buffer_mib == 0),
        ] {
            if is_missing {
                return Err(LineError::new(last, format!("expected {key} and a value that is not 0")));
            }
        }
        Ok(config)
    }

    /// Sets what a key says, or tells what was expected.
    fn set(&mut self, key: &str, value: &str) -> Result<(), &'static str> {
        match key {
            "TOPOLOGY_FILE" => self.topology_file = value.to_owned(),
            "FLOW_FILE" => self.flow_file = value.to_owned(),
            "PACKET_PAYLOAD_SIZE" => self.payload = value.parse().map_err(|_| "bytes below 65536")?,
            "ENABLE_QCN" => self.marks = flag(value)?,
            "CC_MODE" => self.congestion_control = value.parse().map_err(|_| "a number")?,
            "BUFFER_SIZE" => self.buffer_mib = value.parse().map_err(|_| "MiB")?,
            "KMIN_MAP" => self.kmin = map(value)?,
            "KMAX_MAP" => self.kmax = map(value)?,
            "PMAX_MAP" => self.pmax = map(value)?,
            "LINK_DOWN" => self.link_down = link_down(value)?,
            "L2_BACK_TO_ZERO" => self.back_to_zero = flag(value)?,
            "ACK_HIGH_PRIO" => self.ack_first = flag(value)?,
            _ if CONTROL.contains(&key) => self.control.push((key.to_owned(), value.to_owned())),
            _ if IGNORED.contains(&key) => {}
            _ => return Err("a key of this simulator"),
        }
        Ok(())
    }
}

fn flag(value: &str) -> Result<bool, &'static str> {
    match value {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("0 or 1"),
    }
}

/// The number of pairs, and pairs of a rate in bits per second and a value.
fn map(value: &str) -> Result<Vec<(Rate, f64)>, &'static str> {
    const EXPECTED: &str = "a number of pairs, and pairs of bits per second and a value";
    let mut words = value.split_whitespace();
    let count: usize = words.next().and_then(|word| word.parse().ok()).ok_or(EXPECTED)?;
    let mut pair = || {
        let rate = Rate::from_bits_per_second(words.next()?.parse().ok()?)?;
        Some((rate, words.next()?.parse().ok().filter(|value: &f64| *value >= 0.0)?))
    };
    let pairs: Option<Vec<_>> = (0..count).map(|_| pair()).collect();
    pairs.ok_or(EXPECTED)
}

/// Microseconds and two nodes; no failure at time 0.
fn link_down(value: &str) -> Result<Option<(Instant, u32, u32)>, &'static str> {
    const EXPECTED: &str = "microseconds and two nodes";
    let numbers: Option<Vec<u64>> = value.split_whitespace().map(|word| word.parse().ok()).collect();
    let Some([time, a, b]) = numbers.as_deref() else { return Err(EXPECTED) };
    let at = Instant::ZERO + Duration::from_micros(*time);
    let node = |node: u64| u32::try_from(node).map_err(|_| EXPECTED);
    Ok((*time > 0).then_some((at, node(*a)?, node(*b)?)))
}
