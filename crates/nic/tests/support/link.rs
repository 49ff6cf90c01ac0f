//! A link with a delay and faults.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nic::packet::PayloadSource;
use nic::{Arrival, Duration, Instant, Segment, Transmit};
use wire::{Gid, Headers};

use super::Setup;
use super::memory::VecMemory;

/// How often a packet suffers what, in parts of 1000.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplicate: u32,
    pub reorder: u32,
    /// How often the receiver is not ready, though that is not the link's fault.
    pub late_receive: u32,
}

/// Picks packets to drop, given the sender and the headers.
pub type Drop = Box<dyn FnMut(usize, &Headers) -> bool>;

/// Packets on their way between side 0 and side 1.
pub struct Link {
    faults: Faults,
    random: Random,
    packets: BinaryHeap<Reverse<Packet>>,
    sequence: u64,
    /// Drops more packets.
    pub drop: Option<Drop>,
    /// Marks packets as having met congestion.
    pub mark: bool,
    /// One line for each packet, if wanted.
    pub trace: Option<Vec<String>>,
    /// Packets sent by each side.
    pub sent: [u64; 2],
}

/// A packet on its way; ordered by arrival, then by departure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    due: Instant,
    sequence: u64,
    pub to: usize,
    pub arrival: Arrival,
    pub bytes: Vec<u8>,
}

impl Ord for Packet {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.sequence).cmp(&(other.due, other.sequence))
    }
}

impl PartialOrd for Packet {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

const DELAY: Duration = Duration::from_micros(1);

impl Link {
    pub fn new(setup: &Setup) -> Self {
        Self {
            faults: setup.faults,
            random: Random(setup.seed),
            packets: BinaryHeap::new(),
            sequence: 0,
            drop: None,
            mark: false,
            trace: setup.trace.then(Vec::new),
            sent: [0; 2],
        }
    }

    /// Takes a run apart, as a network card would.
    pub fn send(&mut self, now: Instant, from: usize, transmit: &Transmit, memory: &VecMemory) {
        let payload = payload(transmit, memory);
        assert_eq!(payload.len(), transmit.payload_length as usize);
        for index in 0..transmit.packets() {
            let headers = transmit.headers(index);
            let range = transmit.payload_range(index);
            let part = &payload[range.start as usize..range.end as usize];
            let mut bytes = vec![0; Headers::MAX_LEN];
            assert!(headers.is_consistent(), "{headers:?}");
            let length = headers.emit(&mut bytes);
            bytes.truncate(length);
            bytes.extend_from_slice(part);
            bytes.resize(bytes.len() + usize::from(headers.bth.pad_count), 0);
            assert!(bytes.len().is_multiple_of(4), "{headers:?}");
            let arrival = self.arrival(transmit.route.source, transmit.route.destination);
            self.enqueue(now, from, &headers, arrival, bytes);
        }
    }

    pub fn arrival(&self, source: Gid, destination: Gid) -> Arrival {
        Arrival { source, destination, traffic_class: if self.mark { 3 } else { 0 }, hop_limit: 63 }
    }

    fn enqueue(&mut self, now: Instant, from: usize, headers: &Headers, arrival: Arrival, bytes: Vec<u8>) {
        self.sent[from] += 1;
        let is_lost = self.random.happens(self.faults.loss)
            || self.drop.as_mut().is_some_and(|drop| drop(from, headers));
        if let Some(trace) = &mut self.trace {
            trace.push(describe(from, headers, bytes.len() - headers.len(), is_lost));
        }
        if is_lost {
            return;
        }
        let copies = 1 + u32::from(self.random.happens(self.faults.duplicate));
        for _ in 0..copies {
            let mut due = now + DELAY;
            if self.random.happens(self.faults.reorder) {
                due += Duration::from_nanos(self.random.below(20_000));
            }
            self.sequence += 1;
            let packet = Packet { due, sequence: self.sequence, to: 1 - from, arrival, bytes: bytes.clone() };
            self.packets.push(Reverse(packet));
        }
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.packets.peek().map(|Reverse(packet)| packet.due)
    }

    pub fn receive(&mut self, now: Instant) -> Option<Packet> {
        if self.next_arrival()? > now {
            return None;
        }
        self.packets.pop().map(|Reverse(packet)| packet)
    }
}

fn payload(transmit: &Transmit, memory: &VecMemory) -> Vec<u8> {
    match &transmit.payload {
        PayloadSource::Memory(segments) => {
            segments.iter().flat_map(|&segment: &Segment| memory.read(segment)).copied().collect()
        }
        PayloadSource::Inline { bytes, range } => bytes[range.start as usize..range.end as usize].to_vec(),
    }
}

/// A line about a packet.
fn describe(from: usize, headers: &Headers, payload: usize, is_lost: bool) -> String {
    use wire::{Extended, Immediate};
    let bth = &headers.bth;
    let way = if from == 0 { "->" } else { "<-" };
    let mut line = format!("{way} {:#08x} {:?}", bth.psn.value(), bth.opcode.operation);
    match headers.extended {
        Extended::Aeth(aeth) => line += &format!(" {:?} msn {}", aeth.syndrome, aeth.msn),
        Extended::AtomicAck(aeth, ack) => {
            line += &format!(" {:?} msn {} original {}", aeth.syndrome, aeth.msn, ack.original);
        }
        Extended::Reth(reth) => line += &format!(" at {:#x} length {}", reth.va, reth.length),
        Extended::Atomic(atomic) => line += &format!(" at {:#x}", atomic.va),
        Extended::Deth(deth) => line += &format!(" qkey {:#x}", deth.qkey),
        Extended::None => {}
    }
    if let Immediate::Data(data) | Immediate::Invalidate(data) = headers.immediate {
        line += &format!(" immediate {data:#x}");
    }
    if payload > 0 {
        line += &format!(" payload {}", payload - usize::from(bth.pad_count));
    }
    for (flag, name) in [(bth.ack_request, " ack?"), (bth.solicited, " solicited"), (is_lost, " LOST")] {
        line += if flag { name } else { "" };
    }
    line
}

/// Seeded random numbers (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// True in so many of 1000 cases.
    pub fn happens(&mut self, parts: u32) -> bool {
        parts > 0 && self.below(1000) < u64::from(parts)
    }
}
