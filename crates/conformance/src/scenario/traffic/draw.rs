//! The next request of an end, and what it does to the model.

use std::ops::Range;

use nic::verbs::*;

use super::{
    Traffic,
    flow::{Flight, Kind, Message, Turn},
    layout::{COUNTER_COUNT, COUNTERS, LOCAL, RECEIVE, SLOT, SLOTS, TARGET, TARGET_LENGTH},
};
use crate::scenario::pair::content;

/// Every so many requests one is signalled, so that no queue fills with requests of which nobody hears.
const SIGNAL_INTERVAL: u64 = 16;

/// A request as it was drawn.
struct Draw {
    kind: Kind,
    operation: SendOperation,
    /// Bytes that it sends, or room for what it brings.
    length: u32,
    /// What it writes of the peer's target area.
    writes: Range<u64>,
    /// What it reads of it.
    reads: Range<u64>,
    /// What it must bring back.
    brings: Vec<u8>,
}

impl Draw {
    fn new(kind: Kind, operation: SendOperation, length: u32) -> Self {
        Self { kind, operation, length, writes: 0..0, reads: 0..0, brings: Vec::new() }
    }
}

impl Traffic<'_, '_> {
    /// Posts as many receives as there is room for, or not quite as many.
    pub(super) fn post_receives(&mut self, index: usize) {
        while self.flows[index].receives < self.flows[index].received + SLOTS {
            if self.chance.strikes(self.plan.late_receives) {
                return;
            }
            let number = self.flows[index].receives;
            let pieces = self.pieces(index, RECEIVE + number % SLOTS * SLOT, SLOT as u32);
            self.pair.recv(index, number, &pieces);
            self.flows[index].receives += 1;
        }
    }

    /// Posts the next request of an end, which has `last` of them in all.
    pub(super) fn post_next(&mut self, index: usize, last: u64) {
        let draw = self.draw(index);
        let number = self.flows[index].posted;
        let slot = LOCAL + number % SLOTS * SLOT;
        let bytes = content(number * 2 + index as u64, draw.length as usize);
        if draw.kind.carries() {
            self.pair.store(index, slot, &bytes);
        } else {
            self.pair.store(index, slot, &vec![0xEE; draw.brings.len()]);
        }
        let own = matches!(draw.kind, Kind::Bind | Kind::Invalidate);
        let flags = SendFlags {
            signaled: own
                || number.is_multiple_of(SIGNAL_INTERVAL)
                || number + 1 == last
                || self.chance.strikes(0.7),
            solicited: self.chance.strikes(0.3),
            // A READ that is asked for again, after its answer was lost, reads again.
            fence: self.flows[index].is_being_read(&draw.writes)
                || self.chance.strikes(self.plan.fences.unwrap_or(0.0)),
        };
        let is_inline = draw.kind.carries() && draw.length <= 256 && self.chance.strikes(0.5);
        let pieces = if own { Vec::new() } else { self.pieces(index, slot, draw.length) };
        let parts = [bytes.as_slice()];
        let data = if is_inline { SendData::Inline(&parts) } else { SendData::Gather(&pieces) };
        let request =
            SendRequest { wr_id: number, operation: draw.operation, data, flags, destination: None };
        self.pair.post(index, &request).unwrap_or_else(|error| panic!("{request:?}: {error:?}"));
        self.note(index, draw, bytes, flags);
    }

    /// Does to the model what the request does to the peer.
    fn note(&mut self, index: usize, draw: Draw, bytes: Vec<u8>, flags: SendFlags) {
        let Draw { kind, operation, length, writes, reads, brings } = draw;
        self.tally.counts[kind as usize] += 1;
        self.tally.bytes += u64::from(length);
        let peer = &mut self.flows[1 - index];
        peer.target[writes.start as usize..writes.end as usize].copy_from_slice(match writes.is_empty() {
            true => &[],
            false => &bytes,
        });
        let word = match operation {
            SendOperation::SendWithImmediate(word)
            | SendOperation::WriteWithImmediate(_, word)
            | SendOperation::SendWithInvalidate(word) => word,
            _ => 0,
        };
        match kind {
            Kind::Send | Kind::SendImmediate | Kind::SendInvalidate => {
                peer.expected.push_back(Message { kind, length, bytes, word });
            }
            Kind::WriteImmediate => {
                peer.expected.push_back(Message { kind, length, bytes: Vec::new(), word });
            }
            _ => {}
        }
        let own = &mut self.flows[index];
        own.flights.push_back(Flight { number: own.posted, kind, flags, reads, brings });
        own.posted += 1;
    }

    fn draw(&mut self, index: usize) -> Draw {
        if let Some(draw) = self.draw_with_own_window(index).or_else(|| self.draw_with_peers_window(index)) {
            return draw;
        }
        let length = self.length();
        let number = self.flows[index].posted as u32;
        match self.chance.below(7) {
            0 => Draw::new(Kind::Send, SendOperation::Send, length),
            1 => Draw::new(Kind::SendImmediate, SendOperation::SendWithImmediate(number), length),
            2 => self.draw_write(index, Kind::Write, length),
            3 => self.draw_write(index, Kind::WriteImmediate, length),
            4 => self.draw_read(index, length),
            5 => self.draw_atomic(index, Kind::FetchAdd),
            _ => self.draw_atomic(index, Kind::CompareSwap),
        }
    }

    /// Half are of a few bytes or one packet.
    fn length(&mut self) -> u32 {
        let limit = match self.chance.below(4) {
            0 => 16,
            1 => 1500,
            _ => SLOT + 1,
        };
        self.chance.below(limit) as u32
    }

    fn draw_write(&mut self, index: usize, kind: Kind, length: u32) -> Draw {
        let (writes, length) = self.place_to_write(index, length);
        let remote = self.pair.remote(index, TARGET + writes.start);
        let operation = match kind {
            Kind::WriteImmediate => {
                SendOperation::WriteWithImmediate(remote, self.flows[index].posted as u32)
            }
            _ => SendOperation::Write(remote),
        };
        Draw { writes, ..Draw::new(kind, operation, length) }
    }

    /// So many bytes of the peer's target area, or, if all are being read and fences are not wanted, none.
    fn place_to_write(&mut self, index: usize, length: u32) -> (Range<u64>, u32) {
        const ATTEMPTS: usize = 100;
        for _ in 0..ATTEMPTS {
            let start = self.chance.below(TARGET_LENGTH - u64::from(length) + 1);
            let range = start..start + u64::from(length);
            if self.plan.fences.is_some() || !self.flows[index].is_being_read(&range) {
                return (range, length);
            }
        }
        (0..0, 0)
    }

    fn draw_read(&mut self, index: usize, length: u32) -> Draw {
        let start = self.chance.below(TARGET_LENGTH - u64::from(length) + 1);
        let operation = SendOperation::Read(self.pair.remote(index, TARGET + start));
        let reads = start..start + u64::from(length);
        let brings = self.flows[1 - index].target[start as usize..reads.end as usize].to_vec();
        Draw { reads, brings, ..Draw::new(Kind::Read, operation, length) }
    }

    fn draw_atomic(&mut self, index: usize, kind: Kind) -> Draw {
        let number = self.chance.below(COUNTER_COUNT);
        let remote = self.pair.remote(index, COUNTERS + 8 * number);
        let (operand, is_right) = (self.chance.draw(), self.chance.strikes(0.5));
        let counter = &mut self.flows[1 - index].counters[number as usize];
        let found = *counter;
        let operation = if kind == Kind::FetchAdd {
            *counter = found.wrapping_add(operand);
            SendOperation::FetchAdd { remote, add: operand }
        } else {
            let compare = if is_right { found } else { !found };
            *counter = if is_right { operand } else { found };
            SendOperation::CompareSwap { remote, compare, swap: operand }
        };
        Draw { brings: found.to_ne_bytes().to_vec(), ..Draw::new(kind, operation, 8) }
    }

    /// A bind or an invalidation, if it is this end's turn with its window.
    fn draw_with_own_window(&mut self, index: usize) -> Option<Draw> {
        let lkey = self.pair.ends[index].mr.lkey;
        let start = self.pair.side(index).address() + TARGET;
        let peer_completed = self.flows[1 - index].completed;
        let window = self.flows[index].window.as_mut()?;
        match window.turn {
            Turn::Unbound if self.chance.strikes(0.3) => {
                let length = 1 + self.chance.below(SLOT);
                let offset = self.chance.below(TARGET_LENGTH - length + 1);
                window.range = offset..offset + length;
                window.key = window.key & !0xFF | (window.key + 1) & 0xFF;
                window.turn = Turn::Binding;
                let access = Access { remote_write: true, ..Access::default() };
                let binding = Binding { lkey, address: start + offset, length, access };
                let operation = SendOperation::BindWindow { window: window.mw, rkey: window.key, binding };
                Some(Draw::new(Kind::Bind, operation, 0))
            }
            Turn::Released { after } if after < peer_completed => {
                window.turn = Turn::Invalidating;
                Some(Draw::new(Kind::Invalidate, SendOperation::LocalInvalidate(window.key), 0))
            }
            _ => None,
        }
    }

    /// A write through the peer's window, or what gives it back, if it is this end's turn with it.
    fn draw_with_peers_window(&mut self, index: usize) -> Option<Draw> {
        let number = self.flows[index].posted;
        let start = self.pair.side(1 - index).address() + TARGET;
        let window = self.flows[1 - index].window.as_mut()?;
        let (rkey, range) = (window.key, window.range.clone());
        match window.turn {
            Turn::Bound { writes: 0 } if self.chance.strikes(0.5) => {
                window.turn = Turn::Returning;
                let length = self.length();
                Some(Draw::new(Kind::SendInvalidate, SendOperation::SendWithInvalidate(rkey), length))
            }
            Turn::Bound { writes: 0 } => {
                window.turn = Turn::Released { after: number.saturating_sub(1) };
                None
            }
            Turn::Bound { writes } if self.chance.strikes(0.5) => {
                window.turn = Turn::Bound { writes: writes - 1 };
                let length = 1 + self.chance.below(range.end - range.start);
                let at = range.start + self.chance.below(range.end - range.start - length + 1);
                let operation = SendOperation::Write(Remote { address: start + at, rkey });
                Some(Draw {
                    writes: at..at + length,
                    ..Draw::new(Kind::WriteToWindow, operation, length as u32)
                })
            }
            _ => None,
        }
    }

    /// A stretch of an end's memory as one to four elements.
    fn pieces(&mut self, index: usize, start: u64, length: u32) -> Vec<Sge> {
        let mut cuts = [self.cut(length), self.cut(length), self.cut(length)];
        cuts.sort_unstable();
        let ends = [cuts[0], cuts[1], cuts[2], length];
        let mut at = 0;
        let pieces = ends.map(|end| {
            let piece = self.pair.sge(index, start + u64::from(at), end - at);
            at = end;
            piece
        });
        pieces.into_iter().filter(|piece| piece.length > 0 || self.chance.strikes(0.1)).collect()
    }

    /// Half of the cuts cut nothing.
    fn cut(&mut self, length: u32) -> u32 {
        if self.chance.strikes(0.5) { length } else { self.chance.below(u64::from(length) + 1) as u32 }
    }
}
