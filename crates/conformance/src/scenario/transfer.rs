//! One message of any kind, from pieces of memory to pieces of memory, with every byte around it watched.

use nic::verbs::*;
use wire::Immediate;

use super::pair::{Pair, content, request};

/// Where an end's messages come from, and READs go to.
pub const SOURCE: u64 = 64;

/// Where an end's messages arrive, and the peer's READs come from.
pub const TARGET: u64 = 512 * 1024 + 64;

/// Bytes on either side of a buffer that must stay as they are.
const GUARD: usize = 64;

/// What they are.
const UNTOUCHED: u8 = 0xEE;

/// Operations that move bytes of any number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SEND.
    Send,
    /// SEND with immediate data.
    SendImmediate,
    /// RDMA WRITE.
    Write,
    /// RDMA WRITE with immediate data.
    WriteImmediate,
    /// RDMA READ.
    Read,
}

impl Operation {
    /// Those of a reliable connection.
    pub const RELIABLE: &[Self] =
        &[Self::Send, Self::SendImmediate, Self::Write, Self::WriteImmediate, Self::Read];

    /// Those of an unreliable connection.
    pub const UNRELIABLE: &[Self] = &[Self::Send, Self::SendImmediate, Self::Write, Self::WriteImmediate];

    /// Whether the other end has to have posted a receive.
    pub const fn takes_receive(self) -> bool {
        matches!(self, Self::Send | Self::SendImmediate | Self::WriteImmediate)
    }

    /// The request, on the other end's memory at `remote`.
    pub const fn on(self, remote: Remote, immediate: u32) -> SendOperation {
        match self {
            Self::Send => SendOperation::Send,
            Self::SendImmediate => SendOperation::SendWithImmediate(immediate),
            Self::Write => SendOperation::Write(remote),
            Self::WriteImmediate => SendOperation::WriteWithImmediate(remote, immediate),
            Self::Read => SendOperation::Read(remote),
        }
    }
}

/// A message from end 0 to end 1, or, READ, the other way.
#[derive(Clone, Copy, Debug)]
pub struct Transfer<'a> {
    /// How.
    pub operation: Operation,
    /// Tells this message from others.
    pub number: u64,
    /// The lengths of the pieces at end 0.
    pub pieces: &'a [u32],
    /// The lengths of the pieces of the receive, if one is taken.
    pub receive_pieces: &'a [u32],
    /// Whether the data travels in the request.
    pub inline: bool,
}

impl Transfer<'_> {
    /// Carries it out and checks every byte and every completion.
    pub fn run(&self, pair: &mut Pair<'_>) {
        let length = self.length();
        let bytes = content(self.number, length as usize);
        self.prepare(pair, &bytes);
        if self.operation.takes_receive() {
            let scatter = spread(pair, 1, TARGET, self.receive_pieces);
            pair.recv(1, self.number + 1_000_000, &scatter);
        }
        self.post(pair, &bytes);
        let done = pair.sent(0);
        assert_eq!((done.wr_id, done.status), (self.number, Status::Success), "{self:?}");
        assert_eq!(done.opcode, self.completion_opcode(), "{self:?}");
        if self.operation.takes_receive() {
            self.check_received(&pair.received(1));
        }
        self.check_bytes(pair, &bytes);
        pair.assert_nothing_more();
    }

    fn length(&self) -> u32 {
        self.pieces.iter().sum()
    }

    /// Fills the source with what is sent and the target with what must change.
    fn prepare(&self, pair: &mut Pair<'_>, bytes: &[u8]) {
        let (from, from_at, from_pieces) = self.source();
        let (to, to_at, to_pieces) = self.destination();
        scatter(pair, from, from_at, &from_pieces, bytes);
        let room = extent(&to_pieces) as usize + 2 * GUARD;
        pair.store(to, to_at - GUARD as u64, &vec![UNTOUCHED; room]);
    }

    fn post(&self, pair: &mut Pair<'_>, bytes: &[u8]) {
        let remote = pair.remote(0, TARGET);
        let operation = self.operation.on(remote, self.number as u32);
        let gather = spread(pair, 0, SOURCE, self.pieces);
        let mut rest = bytes;
        let parts: Vec<&[u8]> = self
            .pieces
            .iter()
            .map(|&length| rest.split_off(..length as usize).expect("pieces of the bytes"))
            .collect();
        let data = if self.inline { SendData::Inline(&parts) } else { SendData::Gather(&gather) };
        let posted = pair.post(0, &SendRequest { data, ..request(self.number, operation, &[]) });
        posted.unwrap_or_else(|error| panic!("{self:?}: {error:?}"));
    }

    fn completion_opcode(&self) -> CompletionOpcode {
        match self.operation {
            Operation::Send | Operation::SendImmediate => CompletionOpcode::Send,
            Operation::Write | Operation::WriteImmediate => CompletionOpcode::Write,
            Operation::Read => CompletionOpcode::Read,
        }
    }

    fn check_received(&self, received: &Completion) {
        let id = (received.wr_id, received.status);
        assert_eq!(id, (self.number + 1_000_000, Status::Success), "{self:?}");
        let (opcode, immediate) = match self.operation {
            Operation::WriteImmediate => {
                (CompletionOpcode::RecvWriteWithImmediate, Immediate::Data(self.number as u32))
            }
            Operation::SendImmediate => (CompletionOpcode::Recv, Immediate::Data(self.number as u32)),
            _ => (CompletionOpcode::Recv, Immediate::None),
        };
        assert_eq!((received.opcode, received.immediate), (opcode, immediate), "{self:?}");
        assert_eq!(received.byte_length, self.length(), "{self:?}");
    }

    /// The right bytes in the right places, and nothing else anywhere near.
    fn check_bytes(&self, pair: &mut Pair<'_>, bytes: &[u8]) {
        let (to, at, pieces) = self.destination();
        let room = extent(&pieces) as usize + 2 * GUARD;
        let mut expected = vec![UNTOUCHED; room];
        let mut rest = bytes;
        for (offset, length) in places(&pieces) {
            let start = GUARD + offset as usize;
            let part = rest.split_off(..rest.len().min(length as usize)).expect("as many as there are");
            expected[start..start + part.len()].copy_from_slice(part);
        }
        if pair.setup.qp_type == QpType::Uc {
            // The sender is done when it has sent.
            pair.until("a message", |pair| {
                (pair.load(to, at - GUARD as u64, room) == expected).then_some(())
            });
        }
        let found = pair.load(to, at - GUARD as u64, room);
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(wrong.map(|at| at as i64 - GUARD as i64), None, "{self:?}: another byte here");
    }

    /// Where the bytes come from: end, offset, pieces. The other end's memory is never cut.
    fn source(&self) -> (usize, u64, Vec<u32>) {
        match self.operation {
            Operation::Read => (1, TARGET, vec![self.length()]),
            _ => (0, SOURCE, self.pieces.to_vec()),
        }
    }

    /// Where they go to.
    fn destination(&self) -> (usize, u64, Vec<u32>) {
        match self.operation {
            Operation::Read => (0, SOURCE, self.pieces.to_vec()),
            Operation::Send | Operation::SendImmediate => (1, TARGET, self.receive_pieces.to_vec()),
            Operation::Write | Operation::WriteImmediate => (1, TARGET, vec![self.length()]),
        }
    }
}

/// Bytes between two pieces, so that none can run into the next unseen.
const GAP: u32 = 24;

/// Offset and length of each piece.
fn places(pieces: &[u32]) -> Vec<(u32, u32)> {
    let mut at = 0;
    pieces
        .iter()
        .map(|&length| {
            let place = (at, length);
            at += length + GAP;
            place
        })
        .collect()
}

/// From the first byte of the first piece to the last of the last.
fn extent(pieces: &[u32]) -> u32 {
    pieces.iter().map(|length| length + GAP).sum()
}

/// Pieces of memory as elements of a request.
fn spread(pair: &mut Pair<'_>, index: usize, start: u64, pieces: &[u32]) -> Vec<Sge> {
    places(pieces)
        .into_iter()
        .map(|(offset, length)| pair.sge(index, start + u64::from(offset), length))
        .collect()
}

/// Writes bytes to pieces of memory.
fn scatter(pair: &mut Pair<'_>, index: usize, start: u64, pieces: &[u32], mut bytes: &[u8]) {
    for (offset, length) in places(pieces) {
        let part = bytes.split_off(..bytes.len().min(length as usize)).expect("as many as there are");
        pair.store(index, start + u64::from(offset), part);
    }
}
