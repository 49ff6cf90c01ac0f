//! A link with a delay and faults, between side 0 and side 1.

use std::{cmp::Reverse, collections::BinaryHeap};

use host::FaultPlan;
use nic::{Arrival, Duration, Instant, Transmit, packet::PayloadSource};
use wire::Headers;

use super::memory::VecMemory;
use crate::chance::Chance;

/// From one end to the other.
const DELAY: Duration = Duration::from_micros(1);

/// How much later than in its turn a packet may arrive that is overtaken.
const DISORDER: Duration = Duration::from_micros(20);

/// Hop limits count down on the way.
const HOPS_LEFT: u8 = 63;

/// See the module.
#[derive(Debug)]
pub(super) struct Link {
    faults: FaultPlan,
    chance: Chance,
    packets: BinaryHeap<Reverse<Packet>>,
    sequence: u64,
}

/// A packet on its way; ordered by arrival, then by departure.
#[derive(Debug)]
pub(super) struct Packet {
    due: Instant,
    sequence: u64,
    pub to: usize,
    pub arrival: Arrival,
    pub headers: Headers,
    /// What follows the headers, pad included.
    pub payload: Vec<u8>,
}

impl Link {
    pub fn new(faults: FaultPlan) -> Self {
        Self { faults, chance: Chance::new(faults.seed), packets: BinaryHeap::new(), sequence: 0 }
    }

    /// Takes a run apart, as a network card does.
    pub fn send(&mut self, now: Instant, from: usize, transmit: &Transmit, memory: &VecMemory) {
        let run = payload_of(transmit, memory);
        for index in 0..transmit.packets() {
            // A corrupted packet is one that the ICRC finds.
            if self.chance.strikes(self.faults.loss) || self.chance.strikes(self.faults.corrupt) {
                continue;
            }
            let headers = transmit.headers(index);
            let range = transmit.payload_range(index);
            let mut payload = run[range.start as usize..range.end as usize].to_vec();
            payload.resize(payload.len() + usize::from(headers.bth.pad_count), 0);
            let arrival = Arrival {
                source: transmit.route.source,
                destination: transmit.route.destination,
                traffic_class: transmit.route.traffic_class,
                hop_limit: HOPS_LEFT,
            };
            if self.chance.strikes(self.faults.duplicate) {
                self.enqueue(now, from, arrival, headers, payload.clone());
            }
            self.enqueue(now, from, arrival, headers, payload);
        }
    }

    fn enqueue(&mut self, now: Instant, from: usize, arrival: Arrival, headers: Headers, payload: Vec<u8>) {
        let mut due = now + DELAY;
        if self.chance.strikes(self.faults.reorder) {
            due += Duration::from_picos(self.chance.below(DISORDER.as_picos()));
        }
        self.sequence += 1;
        let packet = Packet { due, sequence: self.sequence, to: 1 - from, arrival, headers, payload };
        self.packets.push(Reverse(packet));
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

/// The payload of a whole run.
fn payload_of(transmit: &Transmit, memory: &VecMemory) -> Vec<u8> {
    match &transmit.payload {
        PayloadSource::Memory(segments) => {
            segments.iter().flat_map(|&segment| memory.read(segment)).copied().collect()
        }
        PayloadSource::Inline { bytes, range } => bytes[range.start as usize..range.end as usize].to_vec(),
    }
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

impl PartialEq for Packet {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Packet {}
