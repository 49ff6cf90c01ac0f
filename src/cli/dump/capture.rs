//! Capture files, record by record: pcap (microseconds and nanoseconds, both byte orders) and pcapng.
//!
//! The file is read in pieces, so its size does not matter. A record that cannot be understood is
//! reported with its offset and skipped if its length is known; if not, reading ends there.

use std::fmt;
use std::io::{self, Read};
use std::time::Duration;

use pcap_file::pcap::PcapParser;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
use pcap_file::pcapng::{Block, PcapNgParser};
use pcap_file::{DataLink, Endianness, PcapError, TsResolution};

/// How much is read at once.
const CHUNK: usize = 1 << 18;

/// Longest record that is believed. Captures cut packets at 256 KiB; pcapng has longer blocks of other
/// kinds.
const MAX_RECORD: usize = 16 << 20;

/// Length of a pcap file's header.
const PCAP_HEADER: usize = 24;

/// The two block types of pcapng that the rest of a section depends on.
const SECTION_HEADER: u32 = 0x0A0D_0D0A;
const INTERFACE_DESCRIPTION: u32 = 1;

/// One captured packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where in the file the record begins.
    pub offset: u64,
    /// When it was captured, since 1970; simple pcapng packets have no time.
    pub time: Option<Duration>,
    /// What its bytes begin with.
    pub link: DataLink,
    /// How long it was on the wire.
    pub original_len: usize,
    /// As much of it as was captured.
    pub data: &'a [u8],
}

/// What is wrong with the file at some place.
#[derive(Debug)]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    /// What.
    pub kind: DamageKind,
}

/// What can be wrong with a file.
#[derive(Debug)]
pub enum DamageKind {
    /// It does not begin like a capture.
    NoCapture,
    /// It ends inside a header or a record.
    Truncated {
        /// How many bytes were announced.
        needed: usize,
        /// How many there are.
        available: usize,
    },
    /// A record announces a length that cannot be.
    Length(u64),
    /// A field contradicts the format.
    Field(String),
    /// A packet names an interface that was not described.
    UnknownInterface(u32),
    /// The system could not read.
    Io(io::Error),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at offset {}: {}", self.offset, self.kind)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DamageKind::NoCapture => write!(f, "neither a pcap nor a pcapng file"),
            DamageKind::Truncated { needed, available } => {
                write!(f, "the file ends early: {needed} bytes are announced here, {available} are there")
            }
            DamageKind::Length(length) => write!(f, "a record of {length} bytes cannot be"),
            DamageKind::Field(what) => write!(f, "{what}"),
            DamageKind::UnknownInterface(id) => {
                write!(f, "a packet of interface {id}, which was not described")
            }
            DamageKind::Io(error) => write!(f, "cannot read: {error}"),
        }
    }
}

impl std::error::Error for Damage {}

/// Reads a capture.
pub struct CaptureReader<R> {
    input: Window<R>,
    format: Format,
    /// Set when nothing that follows can be understood.
    ended: bool,
}

enum Format {
    Pcap(PcapParser),
    PcapNg(PcapNgParser),
}

impl<R: Read> CaptureReader<R> {
    /// Recognizes the format.
    pub fn new(input: R) -> Result<Self, Damage> {
        let mut input = Window { input, buffer: Vec::new(), start: 0, offset: 0 };
        let magic = input.peek::<4>().map_err(|damage| match damage.kind {
            DamageKind::Truncated { .. } => Damage { kind: DamageKind::NoCapture, ..damage },
            _ => damage,
        })?;
        let format = if u32::from_be_bytes(magic) == SECTION_HEADER {
            let length = block_length(Endianness::Big, &input.peek()?);
            let length = length.map_err(|kind| input.damage(kind))?;
            let parser = PcapNgParser::new(input.require(length)?);
            // The header stays: the reader begins with it like with any later section's.
            Format::PcapNg(parser.map_err(|error| Damage { offset: 0, kind: error.into() })?.1)
        } else {
            let parser = PcapParser::new(input.require(PCAP_HEADER)?);
            let (_, parser) = parser.map_err(|_| Damage { offset: 0, kind: DamageKind::NoCapture })?;
            input.skip(PCAP_HEADER);
            Format::Pcap(parser)
        };
        Ok(Self { input, format, ended: false })
    }

    /// The next packet, or what is wrong where it should be; nothing at the end.
    pub fn next_record(&mut self) -> Option<Result<Record<'_>, Damage>> {
        while !self.ended {
            match self.advance() {
                Ok(Some(block)) => match block.read(&self.input, &mut self.format) {
                    // Told as a location and not as a record, which the borrow checker takes to be
                    // borrowed in every round of the loop.
                    Ok(Some(found)) => return Some(Ok(self.record(block, found))),
                    Ok(None) => {}
                    Err(kind) => {
                        self.ended = block.is_vital;
                        return Some(Err(Damage { offset: block.offset, kind }));
                    }
                },
                Ok(None) => self.ended = true,
                Err(damage) => {
                    self.ended = true;
                    return Some(Err(damage));
                }
            }
        }
        None
    }

    /// How much of the file has been read.
    pub fn offset(&self) -> u64 {
        self.input.offset
    }

    /// Moves past the next record, which stays in the window; nothing at the end.
    fn advance(&mut self) -> Result<Option<RawRecord>, Damage> {
        if self.input.at_end()? {
            return Ok(None);
        }
        let head = self.input.peek()?;
        let (length, is_vital) = match &self.format {
            Format::Pcap(parser) => (Ok(packet_length(parser.header().endianness, &head)), false),
            Format::PcapNg(parser) => {
                let endianness = parser.section().endianness;
                let kind = word(endianness, &head, 0);
                (block_length(endianness, &head), matches!(kind, SECTION_HEADER | INTERFACE_DESCRIPTION))
            }
        };
        let length = length.map_err(|kind| self.input.damage(kind))?;
        if length > MAX_RECORD {
            return Err(self.input.damage(DamageKind::Length(length as u64)));
        }
        self.input.require(length)?;
        let offset = self.input.offset;
        self.input.skip(length);
        Ok(Some(RawRecord { offset, length, is_vital }))
    }

    fn record(&self, raw: RawRecord, found: Found) -> Record<'_> {
        let data = &self.input.last(raw.length)[found.start..found.end];
        Record {
            offset: raw.offset,
            time: found.time,
            link: found.link,
            original_len: found.original_len.max(data.len()),
            data,
        }
    }
}

/// A record in the window, just before what is read next.
#[derive(Clone, Copy)]
struct RawRecord {
    offset: u64,
    length: usize,
    /// Whether what follows cannot be understood without it.
    is_vital: bool,
}

/// A packet in a record.
struct Found {
    time: Option<Duration>,
    link: DataLink,
    original_len: usize,
    start: usize,
    end: usize,
}

impl RawRecord {
    fn read<R>(&self, input: &Window<R>, format: &mut Format) -> Result<Option<Found>, DamageKind> {
        let bytes = input.last(self.length);
        match format {
            Format::Pcap(parser) => read_packet(parser, bytes).map(Some),
            Format::PcapNg(parser) => read_block(parser, bytes),
        }
    }
}

fn read_packet(parser: &PcapParser, bytes: &[u8]) -> Result<Found, DamageKind> {
    let (_, packet) = parser.next_raw_packet(bytes)?;
    let header = parser.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => Duration::from_micros(1),
        TsResolution::NanoSecond => Duration::from_nanos(1),
    };
    Ok(Found {
        time: Some(Duration::from_secs(packet.ts_sec.into()) + unit * packet.ts_frac),
        link: header.datalink,
        original_len: packet.orig_len as usize,
        start: bytes.len() - packet.data.len(),
        end: bytes.len(),
    })
}

fn read_block(parser: &mut PcapNgParser, bytes: &[u8]) -> Result<Option<Found>, DamageKind> {
    let (_, block) = parser.next_block(bytes)?;
    let (interface, time, original_len, start, length) = match &block {
        // The library takes the count of units for nanoseconds; what they are, the interface says.
        Block::EnhancedPacket(packet) => {
            let units = packet.timestamp.as_nanos() as u64;
            (packet.interface_id, Some(units), packet.original_len, 28, packet.data.len())
        }
        Block::Packet(packet) => {
            let id = packet.interface_id.into();
            (id, Some(packet.timestamp), packet.original_len, 28, packet.data.len())
        }
        Block::SimplePacket(packet) => {
            let limit = parser.interfaces().first().map_or(0, |interface| interface.snaplen);
            let limit = if limit == 0 { usize::MAX } else { limit as usize };
            let length = packet.data.len().min(packet.original_len as usize).min(limit);
            (0, None, packet.original_len, 12, length)
        }
        _ => return Ok(None),
    };
    let described = parser.interfaces().get(interface as usize);
    let described = described.ok_or(DamageKind::UnknownInterface(interface))?;
    Ok(Some(Found {
        time: time.and_then(|units| timestamp(units, &described.options)),
        link: described.linktype,
        original_len: original_len as usize,
        start,
        end: start + length,
    }))
}

/// The time of a packet, given in the units of its interface; nothing if that time cannot be.
fn timestamp(units: u64, options: &[InterfaceDescriptionOption<'_>]) -> Option<Duration> {
    let mut resolution = 6;
    let mut offset = 0;
    for option in options {
        match *option {
            InterfaceDescriptionOption::IfTsResol(value) => resolution = value,
            InterfaceDescriptionOption::IfTsOffset(seconds) => offset = seconds,
            _ => {}
        }
    }
    let per_second = match resolution {
        0x80.. => 2u64.checked_pow((resolution & 0x7F).into()),
        decimals => 10u64.checked_pow(decimals.into()),
    }?;
    let nanos = u128::from(units % per_second) * 1_000_000_000 / u128::from(per_second);
    Duration::new(units / per_second, nanos as u32).checked_add(Duration::from_secs(offset))
}

impl From<PcapError> for DamageKind {
    fn from(error: PcapError) -> Self {
        match error {
            PcapError::IoError(error) => Self::Io(error),
            PcapError::InvalidInterfaceId(id) => Self::UnknownInterface(id),
            other => Self::Field(other.to_string()),
        }
    }
}

/// The length of the pcap record that begins with `head`.
fn packet_length(endianness: Endianness, head: &[u8; 12]) -> usize {
    16 + word(endianness, head, 8) as usize
}

/// The length of the pcapng block that begins with `head`.
fn block_length(endianness: Endianness, head: &[u8; 12]) -> Result<usize, DamageKind> {
    let endianness = match (word(endianness, head, 0), word(Endianness::Big, head, 8)) {
        (SECTION_HEADER, 0x1A2B_3C4D) => Endianness::Big,
        (SECTION_HEADER, 0x4D3C_2B1A) => Endianness::Little,
        (SECTION_HEADER, _) => return Err(DamageKind::Field("a section of neither byte order".into())),
        _ => endianness,
    };
    match word(endianness, head, 4) {
        length if length >= 12 && length.is_multiple_of(4) => Ok(length as usize),
        length => Err(DamageKind::Length(length.into())),
    }
}

fn word(endianness: Endianness, head: &[u8; 12], at: usize) -> u32 {
    let bytes = [head[at], head[at + 1], head[at + 2], head[at + 3]];
    match endianness {
        Endianness::Big => u32::from_be_bytes(bytes),
        Endianness::Little => u32::from_le_bytes(bytes),
    }
}

/// The part of the input that is in memory: the record read last, and what was read ahead.
struct Window<R> {
    input: R,
    buffer: Vec<u8>,
    /// Where in the buffer the unread part begins.
    start: usize,
    /// Where in the file that is.
    offset: u64,
}

impl<R: Read> Window<R> {
    /// The next `needed` bytes, which must be there.
    fn require(&mut self, needed: usize) -> Result<&[u8], Damage> {
        if !self.fill(needed)? {
            let available = self.buffer.len() - self.start;
            return Err(self.damage(DamageKind::Truncated { needed, available }));
        }
        Ok(&self.buffer[self.start..self.start + needed])
    }

    fn peek<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let mut bytes = [0; N];
        bytes.copy_from_slice(self.require(N)?);
        Ok(bytes)
    }

    fn at_end(&mut self) -> Result<bool, Damage> {
        Ok(!self.fill(1)?)
    }

    /// Reads ahead until `needed` bytes are there; false if the input ends before.
    fn fill(&mut self, needed: usize) -> Result<bool, Damage> {
        if self.buffer.len() - self.start >= needed {
            return Ok(true);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        while self.buffer.len() < needed {
            let filled = self.buffer.len();
            self.buffer.resize(filled + CHUNK, 0);
            let read = self.input.read(&mut self.buffer[filled..]);
            self.buffer.truncate(filled + read.as_ref().map_or(0, |read| *read));
            match read {
                Ok(0) => return Ok(false),
                Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                    return Err(self.damage(DamageKind::Io(error)));
                }
                _ => {}
            }
        }
        Ok(true)
    }
}

impl<R> Window<R> {
    fn skip(&mut self, length: usize) {
        self.start += length;
        self.offset += length as u64;
    }

    /// The bytes skipped last. They are in the buffer until more is read.
    fn last(&self, length: usize) -> &[u8] {
        &self.buffer[self.start - length..self.start]
    }

    fn damage(&self, kind: DamageKind) -> Damage {
        Damage { offset: self.offset, kind }
    }
}

#[cfg(test)]
mod tests {
    use pcap_file::pcap::{PcapPacket, PcapWriter};
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
    use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};

    use super::*;

    fn pcap() -> Vec<u8> {
        let mut writer = PcapWriter::new(Vec::new()).unwrap();
        for length in [60, 0, 61] {
            let data = vec![7; length];
            writer.write_packet(&PcapPacket::new(Duration::ZERO, length as u32, &data)).unwrap();
        }
        writer.into_writer()
    }

    fn pcapng(endianness: Endianness) -> Vec<u8> {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).unwrap();
        let options =
            vec![InterfaceDescriptionOption::IfTsResol(9), InterfaceDescriptionOption::IfTsOffset(1)];
        let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options };
        writer.write_block(&interface.into_block()).unwrap();
        for length in [60, 0, 61] {
            let packet = EnhancedPacketBlock {
                interface_id: 0,
                timestamp: Duration::from_nanos(5),
                original_len: length as u32,
                data: vec![7; length].into(),
                options: Vec::new(),
            };
            writer.write_block(&packet.into_block()).unwrap();
        }
        writer.into_inner()
    }

    /// How many packets a file has, and how many of its places are damaged.
    fn read(bytes: &[u8]) -> (usize, usize) {
        let Ok(mut reader) = CaptureReader::new(bytes) else { return (0, 1) };
        let (mut packets, mut damaged) = (0, 0);
        while let Some(record) = reader.next_record() {
            match record {
                Ok(_) => packets += 1,
                Err(_) => damaged += 1,
            }
        }
        (packets, damaged)
    }

    #[test]
    fn reading_survives_any_damage_and_ends() {
        for whole in [pcap(), pcapng(Endianness::Little), pcapng(Endianness::Big)] {
            assert_eq!(read(&whole), (3, 0));
            for at in 0..whole.len() {
                for flip in [1, 0x80, 0xFF] {
                    let mut bytes = whole.clone();
                    bytes[at] ^= flip;
                    let (packets, damaged) = read(&bytes);
                    assert!(packets <= 3 && damaged <= 3, "byte {at}");
                }
                assert!(read(&whole[..at]).0 <= 3);
            }
        }
    }

    #[test]
    fn times_have_the_unit_and_offset_of_their_interface() {
        let whole = pcapng(Endianness::Big);
        let mut reader = CaptureReader::new(&whole[..]).unwrap();
        let first = reader.next_record().unwrap().unwrap();
        assert_eq!(first.time, Some(Duration::new(1, 5)));
    }
}
