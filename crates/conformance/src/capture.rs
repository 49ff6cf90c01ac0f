//! What went over the wire, judged by programs that are not ours: tshark dissects it, scapy computes the ICRC again.

use std::{
    collections::HashSet,
    env,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::{
    library::project_root,
    program::{Program, Running},
    scene::Scene,
};

/// How many packets a capture keeps.
const PACKETS: u32 = 50_000;

/// How many of them scapy checks, spread over the capture: it does some hundreds a second.
const CHECKED: u32 = 2000;

/// Bytes of a capture file without packets.
const PCAP_HEADER: u64 = 24;

/// Protocols that tshark tries to find in the payload of any message. Some stumble over payloads that are not theirs, such as
/// the kernel's of one byte.
const PAYLOAD_GUESSES: [&str; 8] =
    ["smc", "smb_direct", "rpcordma", "nvme-rdma", "lnet", "iser", "infiniband_sdp", "fcoib"];

/// `tcpdump`, listening.
#[derive(Debug)]
pub struct Recording {
    directory: TempDir,
    tcpdump: Running,
}

/// A finished capture of RoCE v2 packets.
#[derive(Debug)]
pub struct Capture {
    _directory: Option<TempDir>,
    file: PathBuf,
}

impl Recording {
    /// Starts to record the RoCE v2 packets of a scene.
    ///
    /// # Errors
    /// When `tcpdump` does not start.
    pub fn start(scene: &Scene) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("softverbs-capture.").tempdir()?;
        for (namespace, device) in scene.wire() {
            namespace.segment_before_capture(device)?;
        }
        let (namespace, device) = scene.wire().next().context("a scene with a wire")?;
        // --immediate-mode, -U: nothing waits in a buffer when it is told to stop. -B: room for a burst, in KiB, each packet
        // taking the length of the longest, -s. -Z: the file is ours, not another user's.
        let tcpdump = Program::new("tcpdump")
            .args(&format!("-i {device} -n --immediate-mode -U -B 65536 -s 9100 -Z root -c {PACKETS} -w"));
        let tcpdump = tcpdump.arg(directory.path().join("wire.pcap").display()).args("udp dst port 4791");
        let mut tcpdump = namespace.place(tcpdump.limit(Duration::from_secs(1800))).start()?;
        tcpdump.wait_until("it listened", |tcpdump| Ok(tcpdump.stderr_so_far().contains("listening on")))?;
        Ok(Self { directory, tcpdump })
    }

    /// Ends it.
    ///
    /// # Errors
    /// When `tcpdump` lost packets that passed, or failed.
    pub fn stop(mut self) -> Result<Capture> {
        self.settle()?;
        if self.tcpdump.is_running()? {
            self.tcpdump.interrupt()?;
        }
        let finished = self.tcpdump.finish()?.succeeded()?;
        ensure!(
            finished.stderr.contains("\n0 packets dropped by kernel"),
            "packets were not captured:\n{finished}"
        );
        let file = self.directory.path().join("wire.pcap");
        Ok(Capture { _directory: Some(self.directory), file })
    }
}

impl Recording {
    /// Waits until tcpdump has written what it was given: on a busy machine it may not have run yet, and it forgets what is
    /// between the kernel and itself when it is told to stop.
    fn settle(&self) -> Result<()> {
        const QUIET: Duration = Duration::from_millis(300);
        const PATIENCE: Duration = Duration::from_secs(20);
        let file = self.directory.path().join("wire.pcap");
        let size = || Ok::<u64, anyhow::Error>(file.metadata().context("tcpdump's file")?.len());
        let start = Instant::now();
        let mut before = size()?;
        loop {
            thread::sleep(QUIET);
            let now = size()?;
            let has_packets = now > PCAP_HEADER;
            if (has_packets && now == before) || start.elapsed() > PATIENCE {
                return Ok(());
            }
            before = now;
        }
    }
}

impl Capture {
    /// A capture that somebody else made.
    pub fn open(file: &Path) -> Self {
        Self { _directory: None, file: file.to_owned() }
    }

    /// Its file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Everything that must hold for packets on a wire that loses nothing.
    ///
    /// # Errors
    /// With the first thing that does not hold.
    pub fn is_clean(&self) -> Result<()> {
        self.is_well_formed()?;
        self.has_right_icrcs()?;
        self.shows_no_retransmission()
    }

    /// tshark takes every packet for a RoCE v2 packet, and finds none malformed and nothing in error.
    ///
    /// # Errors
    /// With the packets that it complains about.
    pub fn is_well_formed(&self) -> Result<()> {
        let complaints =
            self.tshark("_ws.malformed || _ws.expert.severity >= \"Error\" || !infiniband.bth")?.output()?;
        ensure!(complaints.is_empty(), "tshark complains:\n{complaints}");
        let packets = self.tshark("infiniband.bth")?.output()?;
        ensure!(!packets.is_empty(), "an empty capture proves nothing");
        Ok(())
    }

    /// scapy computes the same ICRC for every packet.
    ///
    /// # Errors
    /// With the numbers of the packets for which it does not.
    pub fn has_right_icrcs(&self) -> Result<()> {
        let program = Program::new(python()).arg(tool("icrc.py")).arg(CHECKED).arg(self.file.display());
        program.limit(Duration::from_secs(300)).output().map(drop)
    }

    /// No request came twice and none was answered with a NAK.
    ///
    /// # Errors
    /// With the packets that say otherwise.
    pub fn shows_no_retransmission(&self) -> Result<()> {
        let mut seen = HashSet::new();
        let packets = self.packets()?;
        for packet in packets.iter().filter(|packet| packet.is_connected_request()) {
            ensure!(seen.insert(packet.identity()), "frame {} was sent before: {packet:?}", packet.frame);
        }
        let refused: Vec<&Packet> = packets.iter().filter(|packet| packet.is_refusal()).collect();
        ensure!(refused.is_empty(), "NAKs: {refused:?}");
        Ok(())
    }

    fn packets(&self) -> Result<Vec<Packet>> {
        const FIELDS: [&str; 7] = [
            "frame.number",
            "ip.src",
            "ipv6.src",
            "infiniband.bth.destqp",
            "infiniband.bth.opcode",
            "infiniband.bth.psn",
            "infiniband.aeth.syndrome",
        ];
        let mut program = self.tshark("infiniband.bth")?.args("-T fields");
        for field in FIELDS {
            program = program.arg("-e").arg(field);
        }
        program.output()?.lines().map(Packet::parse).collect()
    }

    fn tshark(&self, filter: &str) -> Result<Program> {
        let file = self.file.to_str().context("a path in UTF-8")?;
        // RoCE v2 sends UDP without a checksum over IPv6 too: the ICRC protects more (IBTA annex A17.3.1).
        let mut tshark = Program::new("tshark").args("-n -o udp.ignore_ipv6_zero_checksum:TRUE");
        for guess in PAYLOAD_GUESSES {
            tshark = tshark.arg("--disable-protocol").arg(guess);
        }
        Ok(tshark.arg("-r").arg(file).arg("-Y").arg(filter).limit(Duration::from_secs(120)))
    }
}

/// What the checks need to know of a packet.
#[derive(Debug)]
struct Packet {
    frame: u32,
    source: String,
    queue_pair: u32,
    opcode: u8,
    psn: u32,
    syndrome: Option<u8>,
}

impl Packet {
    /// A line of tab-separated fields in the order of [`Capture::packets`].
    fn parse(line: &str) -> Result<Self> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [frame, ipv4, ipv6, queue_pair, opcode, psn, syndrome] = fields[..] else {
            anyhow::bail!("not seven fields: {line:?}");
        };
        Ok(Self {
            frame: frame.parse()?,
            source: format!("{ipv4}{ipv6}"),
            queue_pair: number(queue_pair)?,
            opcode: number(opcode)?.try_into()?,
            psn: number(psn)?,
            syndrome: if syndrome.is_empty() { None } else { Some(number(syndrome)?.try_into()?) },
        })
    }

    /// A request on RC (IBTA table 38: RC is 000 in the upper three bits, requests up to SEND Only, RDMA WRITE, RDMA READ
    /// Request, then atomics and sends with invalidate; responses and acknowledgements are 13 to 18).
    fn is_connected_request(&self) -> bool {
        matches!(self.opcode, 0..=12 | 19..=23)
    }

    /// A NAK or RNR NAK (IBTA table 45: bits 6 and 5 of the syndrome).
    fn is_refusal(&self) -> bool {
        self.syndrome.is_some_and(|syndrome| matches!(syndrome >> 5, 0b001 | 0b011))
    }

    fn identity(&self) -> (&str, u32, u8, u32) {
        (&self.source, self.queue_pair, self.opcode, self.psn)
    }
}

/// tshark prints some fields in decimal and some in hexadecimal.
fn number(text: &str) -> Result<u32> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.with_context(|| format!("a number, not {text:?}"))
}

/// The Python that has scapy: `scripts/test` makes it and says where.
fn python() -> String {
    env::var("SOFTVERBS_TEST_PYTHON")
        .unwrap_or_else(|_| "/var/tmp/softverbs-test-python/bin/python".to_owned())
}

fn tool(name: &str) -> String {
    project_root().join("crates/conformance/tools").join(name).display().to_string()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Lengths of the headers of the captures used here: pcap's own, and those in front of BTH in an IPv4 packet.
    const FILE_HEADER: usize = 24;
    const RECORD_HEADER: usize = 16;
    const TO_BTH: usize = 14 + 20 + 8;

    /// The first `count` packets that the kernel sent in a capture, each as its pcap record.
    fn records(count: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
        let file = fs::read(project_root().join("crates/wire/tests/golden/rxe-verbs.pcap")).unwrap();
        let (header, mut rest) = file.split_at(FILE_HEADER);
        let records = (0..count).map(|_| {
            let captured = u32::from_le_bytes(rest[8..12].try_into().unwrap()) as usize;
            let (record, after) = rest.split_at(RECORD_HEADER + captured);
            rest = after;
            record.to_vec()
        });
        (header.to_vec(), records.collect())
    }

    fn capture_of(header: &[u8], records: &[Vec<u8>]) -> Capture {
        let directory = TempDir::new().unwrap();
        let file = directory.path().join("made.pcap");
        fs::write(&file, [header, &records.concat()].concat()).unwrap();
        Capture { _directory: Some(directory), file }
    }

    #[test]
    fn what_the_kernel_sent_is_clean() {
        let (header, records) = records(40);
        capture_of(&header, &records).is_clean().unwrap();
    }

    #[test]
    fn a_changed_byte_is_noticed() {
        let (header, mut records) = records(40);
        *records[7].last_mut().unwrap() ^= 1;
        let error = capture_of(&header, &records).has_right_icrcs().unwrap_err().to_string();
        assert!(error.contains("frame 8: wrong ICRC"), "{error}");
    }

    #[test]
    fn a_packet_sent_twice_is_noticed() {
        let (header, mut records) = records(40);
        records.push(records[0].clone());
        let error = capture_of(&header, &records).shows_no_retransmission().unwrap_err().to_string();
        assert!(error.contains("frame 41 was sent before"), "{error}");
    }

    #[test]
    fn an_opcode_that_needs_more_bytes_than_there_are_is_noticed() {
        let (header, mut records) = records(40);
        let short = records.iter_mut().min_by_key(|record| record.len()).unwrap();
        short[RECORD_HEADER + TO_BTH] = 0x0a; // RDMA WRITE Only, whose RETH does not fit
        assert!(capture_of(&header, &records).is_well_formed().is_err());
    }

    #[test]
    fn an_empty_capture_is_no_proof() {
        let (header, _) = records(1);
        let capture = capture_of(&header, &[]);
        assert!(capture.is_well_formed().is_err() && capture.has_right_icrcs().is_err());
    }
}
