//! What a whole capture comes to.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::Serialize;
use wire::Psn;

use super::describe::{Contents, Description, Details, IcrcVerdict, Roce};

/// How far a PSN may lie from the newest one to be called a repetition.
const REPEATED: std::ops::RangeInclusive<i32> = -0x1_0000..=0;

/// Counts over a capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// All packets.
    pub packets: u64,
    /// Those that are RoCE.
    pub roce: u64,
    /// Their payload bytes.
    pub payload_bytes: u64,
    /// From the first to the last packet, in nanoseconds.
    pub duration_ns: u64,
    /// RoCE packets by opcode.
    pub opcodes: BTreeMap<String, u64>,
    /// RoCE packets whose ICRC is right.
    pub icrc_ok: u64,
    /// RoCE packets whose ICRC is wrong.
    pub icrc_bad: u64,
    /// RoCE packets that the capture cut short.
    pub icrc_missing: u64,
    /// Requests whose PSN was no news to their queue pair: sent again, or captured twice.
    pub repeated: u64,
    /// Refusals, by kind.
    pub naks: BTreeMap<String, u64>,
    /// Packets that met congestion.
    pub congestion_marked: u64,
    /// Packets that are something else.
    pub other: u64,
    /// Packets that are not what their headers say.
    pub malformed: u64,
    /// Records that could not be read.
    pub damaged_records: u64,
    #[serde(skip)]
    span: Option<(u64, u64)>,
    #[serde(skip)]
    newest: BTreeMap<(IpAddr, IpAddr, u32), Psn>,
}

impl Summary {
    /// Counts a packet.
    pub fn add(&mut self, packet: &Description) {
        self.packets += 1;
        if let Some(time) = packet.time_ns {
            let (first, last) = self.span.unwrap_or((time, time));
            let span = (first.min(time), last.max(time));
            self.span = Some(span);
            self.duration_ns = span.1 - span.0;
        }
        match &packet.contents {
            Contents::Roce(roce) => self.add_roce(roce),
            Contents::Other { .. } => self.other += 1,
            Contents::Malformed { .. } => self.malformed += 1,
        }
    }

    /// Whether every record was read, every packet well formed, and no ICRC wrong.
    pub fn is_clean(&self) -> bool {
        self.icrc_bad == 0 && self.malformed == 0 && self.damaged_records == 0
    }

    fn add_roce(&mut self, packet: &Roce) {
        self.roce += 1;
        self.payload_bytes += packet.payload as u64;
        *self.opcodes.entry(packet.opcode.to_string()).or_default() += 1;
        match packet.icrc {
            IcrcVerdict::Ok => self.icrc_ok += 1,
            IcrcVerdict::Bad => self.icrc_bad += 1,
            IcrcVerdict::Missing => self.icrc_missing += 1,
        }
        self.congestion_marked += u64::from(packet.ecn == Some("CE"));
        match &packet.extended {
            Details::Aeth { syndrome, .. } if syndrome != "ACK" => {
                *self.naks.entry(syndrome.to_string()).or_default() += 1;
            }
            _ => {}
        }
        // Datagrams of many senders meet at one queue pair; only connections have an order.
        if packet.is_request && !matches!(packet.extended, Details::Deth { .. }) {
            self.note_psn(packet);
        }
    }

    fn note_psn(&mut self, packet: &Roce) {
        let psn = Psn::new(packet.psn);
        let flow = (packet.source, packet.destination, packet.dest_qp);
        let newest = self.newest.entry(flow).or_insert(psn.previous());
        if REPEATED.contains(&psn.distance(*newest)) {
            self.repeated += 1;
        } else {
            // Later, or so much earlier that it is another connection with the same queue pair number.
            *newest = psn;
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.duration_ns as f64 / 1e9;
        writeln!(f, "{} packets in {seconds:.6} s, {} of them RoCE", self.packets, self.roce)?;
        for (opcode, count) in &self.opcodes {
            writeln!(f, "{count:>10}  {opcode}")?;
        }
        writeln!(f, "payload {} bytes", self.payload_bytes)?;
        write!(f, "ICRC {} ok, {} bad", self.icrc_ok, self.icrc_bad)?;
        let mut rest = vec![
            ("not captured".to_string(), self.icrc_missing),
            ("repeated PSNs".into(), self.repeated),
            ("marked CE".into(), self.congestion_marked),
            ("not RoCE".into(), self.other),
            ("malformed".into(), self.malformed),
            ("damaged records".into(), self.damaged_records),
        ];
        rest.splice(2..2, self.naks.iter().map(|(name, count)| (name.clone(), *count)));
        for (name, count) in rest.iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {count} {name}")?;
        }
        writeln!(f)
    }
}
