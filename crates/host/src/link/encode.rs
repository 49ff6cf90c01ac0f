//! From runs of packets to segmented datagrams.
//!
//! The kernel cuts a datagram into packets of one size, the last of which may be shorter. So packets are
//! collected in a *group* for as long as they have the group's size and route, also across runs: small
//! messages that wait together leave together. A first packet of a WRITE, longer by its RETH, is a group
//! of its own.
//!
//! Payload stays where it is. A group is a list of pieces: headers from a scratch buffer, payload from
//! registered memory, then pad and ICRC from the scratch buffer again.

use io::udp::Piece;
use nic::packet::PayloadSource;
use nic::{Route, Transmit};
use wire::{Headers, Icrc};

use super::envelope::Envelope;
use crate::memory;

/// Scratch bytes of a packet: headers, pad and ICRC.
const SCRATCH_PER_PACKET: usize = Headers::MAX_LEN + 3 + Icrc::LEN;

/// A run of which the first packets may have been taken.
#[derive(Debug)]
pub(super) struct Cursor {
    run: Transmit,
    next: usize,
    /// Where the next packet's payload begins: a segment and an offset into it.
    segment: usize,
    offset: u32,
}

impl Cursor {
    pub(super) fn new(run: Transmit) -> Self {
        Self { run, next: 0, segment: 0, offset: 0 }
    }

    pub(super) fn route(&self) -> &Route {
        &self.run.route
    }

    pub(super) fn is_done(&self) -> bool {
        self.next == self.run.packets()
    }

    /// Copies the payload that is left, so that the program may do as it likes with its memory.
    pub(super) fn own_payload(&mut self) {
        let PayloadSource::Memory(segments) = &self.run.payload else { return };
        let mut bytes = Vec::new();
        for (index, segment) in segments.iter().enumerate().skip(self.segment) {
            let start = if index == self.segment { self.offset } else { 0 };
            let piece = memory::piece(segment.address + u64::from(start), segment.length - start);
            bytes.extend_from_slice(memory::piece_bytes(&piece));
        }
        let range = 0..bytes.len() as u32;
        self.run.payload = PayloadSource::Inline { bytes: bytes.into(), range };
        self.offset = 0;
    }

    /// Hands out the pieces of the next `length` payload bytes.
    fn take_payload(&mut self, length: u32, mut piece: impl FnMut(Piece<'static>)) {
        let mut wanted = length;
        while wanted > 0 {
            let part = match &self.run.payload {
                PayloadSource::Memory(segments) => {
                    let Some(segment) = segments.get(self.segment) else { return };
                    let part = wanted.min(segment.length - self.offset);
                    if part > 0 {
                        piece(memory::piece(segment.address + u64::from(self.offset), part));
                    }
                    self.offset += part;
                    if self.offset == segment.length {
                        (self.segment, self.offset) = (self.segment + 1, 0);
                    }
                    part
                }
                PayloadSource::Inline { bytes, range } => {
                    let start = (range.start + self.offset) as usize;
                    let part = &bytes[start..start + wanted as usize];
                    piece(memory::piece(part.as_ptr() as u64, wanted));
                    self.offset += wanted;
                    wanted
                }
            };
            wanted -= part;
        }
    }
}

/// Packets collected for one datagram.
#[derive(Debug)]
pub(super) struct Group {
    scratch: Vec<u8>,
    pieces: Vec<Piece<'static>>,
    /// Runs whose inline bytes the pieces lie in.
    kept: Vec<Transmit>,
    /// The bytes of all packets, if the group was copied.
    copy: Vec<u8>,
    route: Option<Route>,
    packets: usize,
    /// Bytes of every packet but the last.
    size: usize,
    bytes: usize,
    /// Whether the last packet was shorter, so that none may follow.
    closed: bool,
}

/// What packets of a group must share.
pub(super) struct Limits {
    /// Most packets: 1 where the kernel does not segment.
    pub(super) packets: usize,
    /// Whether the kernel numbers the packets of a datagram, from 0.
    pub(super) numbered: bool,
}

impl Group {
    pub(super) fn new() -> Self {
        Self {
            // Never grown: pieces point into it.
            scratch: Vec::with_capacity(SCRATCH_PER_PACKET * io::udp::MAX_SEGMENTS),
            pieces: Vec::with_capacity(4 * io::udp::MAX_SEGMENTS),
            kept: Vec::new(),
            copy: Vec::new(),
            route: None,
            packets: 0,
            size: 0,
            bytes: 0,
            closed: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    pub(super) fn clear(&mut self) {
        self.pieces.clear();
        self.scratch.clear();
        self.kept.clear();
        self.copy.clear();
        (self.route, self.packets, self.size, self.bytes, self.closed) = (None, 0, 0, 0, false);
    }

    /// The route of the packets.
    pub(super) fn route(&self) -> Option<&Route> {
        self.route.as_ref()
    }

    pub(super) fn pieces(&self) -> &[Piece<'static>] {
        &self.pieces
    }

    pub(super) fn packet_size(&self) -> usize {
        self.size
    }

    pub(super) fn packets(&self) -> usize {
        self.packets
    }

    /// Copies the packets, so that the program may do as it likes with its memory.
    pub(super) fn own(&mut self) {
        if self.copy.is_empty() && !self.is_empty() {
            for piece in &self.pieces {
                self.copy.extend_from_slice(memory::piece_bytes(piece));
            }
            self.pieces.clear();
            self.pieces.push(memory::piece(self.copy.as_ptr() as u64, self.copy.len() as u32));
            self.closed = true;
        }
    }

    /// Adds as many packets of the run as fit; true if that was all of them.
    pub(super) fn fill(&mut self, cursor: &mut Cursor, envelope: &Envelope, limits: &Limits) -> bool {
        while !cursor.is_done() {
            let headers = cursor.run.headers(cursor.next);
            let payload = cursor.run.payload_range(cursor.next);
            let payload = payload.end - payload.start;
            let header_length = headers.len();
            let size = header_length + payload as usize + usize::from(headers.bth.pad_count) + Icrc::LEN;
            if !self.fits(&cursor.run.route, size, limits) {
                return false;
            }
            if self.is_empty() {
                (self.route, self.size) = (Some(cursor.run.route), size);
            }
            self.closed = size < self.size;
            self.add(cursor, envelope, limits, &headers, payload, size);
        }
        if matches!(cursor.run.payload, PayloadSource::Inline { .. }) {
            self.kept.push(cursor.run.clone());
        }
        true
    }

    fn fits(&self, route: &Route, size: usize, limits: &Limits) -> bool {
        let Some(mine) = &self.route else { return true };
        !self.closed
            && size <= self.size
            && self.packets < limits.packets
            && self.bytes + size <= io::udp::MAX_TRANSMIT_BYTES
            && mine == route
    }

    fn add(
        &mut self,
        cursor: &mut Cursor,
        envelope: &Envelope,
        limits: &Limits,
        headers: &Headers,
        payload: u32,
        size: usize,
    ) {
        let identification = if limits.numbered { self.packets as u16 } else { 0 };
        let head = self.append(|out| headers.emit(out));
        let mut icrc = envelope.icrc(size, identification).transport(&self.scratch[head.clone()]);
        self.pieces.push(self.scratch_piece(head));
        cursor.take_payload(payload, |piece| {
            icrc = icrc.update(memory::piece_bytes(&piece));
            self.pieces.push(piece);
        });
        let pad = usize::from(headers.bth.pad_count);
        let icrc = icrc.update(&[0; 3][..pad]).finish();
        let tail = self.append(|out| {
            out[..pad].fill(0);
            out[pad..pad + Icrc::LEN].copy_from_slice(&icrc);
            pad + Icrc::LEN
        });
        self.pieces.push(self.scratch_piece(tail));
        self.packets += 1;
        self.bytes += size;
        cursor.next += 1;
    }

    /// Appends what `emit` writes to the scratch buffer.
    fn append(&mut self, emit: impl FnOnce(&mut [u8]) -> usize) -> std::ops::Range<usize> {
        let start = self.scratch.len();
        self.scratch.resize(start + Headers::MAX_LEN, 0);
        let length = emit(&mut self.scratch[start..]);
        self.scratch.truncate(start + length);
        start..start + length
    }

    fn scratch_piece(&self, range: std::ops::Range<usize>) -> Piece<'static> {
        let bytes = &self.scratch[range];
        memory::piece(bytes.as_ptr() as u64, bytes.len() as u32)
    }
}
