//! Send requests that wait to be sent or answered.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ops::Range;

use smallvec::SmallVec;

use super::connection::Connection;
use super::scatter::{self, ScatterError};
use crate::keys::KeyTable;
use crate::packet::PayloadSource;
use crate::verbs::{
    CompletionOpcode, Pd, PostError, QpType, SendData, SendFlags, SendOperation, SendRequest, Sge, Status,
};

/// The count of packets since the connection began. It does not wrap, so that requests are ordered by
/// plain comparison; on the wire its low 24 bits, added to the first PSN, are the PSN.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sequence(pub u64);

impl Sequence {
    /// `packets` later.
    pub fn after(self, packets: u32) -> Self {
        Self(self.0 + u64::from(packets))
    }

    /// How many packets `self` is after `earlier`, which must not be later, nor earlier than a message
    /// is long.
    pub fn since(self, earlier: Self) -> u32 {
        debug_assert!(self.0 - earlier.0 <= u64::from(u32::MAX));
        (self.0 - earlier.0) as u32
    }
}

/// A send request on its way.
#[derive(Debug)]
pub(crate) struct Request {
    pub wr_id: u64,
    pub operation: SendOperation,
    pub data: Data,
    pub flags: SendFlags,
    /// Payload bytes.
    pub length: u32,
    /// Its first packet.
    pub first: Sequence,
    /// How many PSNs it takes: the packets of a message or of a READ's response; 1 for an atomic; none
    /// for what is done locally.
    pub packets: u32,
    pub progress: Progress,
}

/// Where a request's payload is, or goes.
#[derive(Debug)]
pub(crate) enum Data {
    Elements(SmallVec<[Sge; 2]>),
    Inline(Arc<[u8]>),
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of it was sent or done.
    Waiting,
    /// A part of it was sent.
    Started,
    /// It was done locally.
    Done,
    /// It cannot be sent, and completes so once its turn comes.
    Refused(Status),
}

impl Request {
    /// The end of its packets.
    pub fn end(&self) -> Sequence {
        self.first.after(self.packets)
    }

    /// Whether it is answered by more than an acknowledgement.
    pub fn wants_response(&self) -> bool {
        matches!(
            self.operation,
            SendOperation::Read(_) | SendOperation::CompareSwap { .. } | SendOperation::FetchAdd { .. }
        )
    }

    /// Whether nothing of it goes over the wire.
    pub fn is_local(&self) -> bool {
        matches!(self.operation, SendOperation::LocalInvalidate(_) | SendOperation::BindWindow { .. })
    }

    /// The elements of its payload; none if it is inline.
    pub fn elements(&self) -> &[Sge] {
        match &self.data {
            Data::Elements(sges) => sges,
            Data::Inline(_) => &[],
        }
    }

    /// Where a part of its payload is.
    pub fn payload(&self, keys: &KeyTable, pd: Pd, range: Range<u32>) -> Result<PayloadSource, ScatterError> {
        Ok(match &self.data {
            Data::Inline(bytes) => PayloadSource::Inline { bytes: bytes.clone(), range },
            Data::Elements(sges) => {
                let length = range.end - range.start;
                PayloadSource::Memory(scatter::gather(keys, pd, sges, range.start, length)?)
            }
        })
    }

    /// What its completion says it was.
    pub fn completion_opcode(&self) -> CompletionOpcode {
        match self.operation {
            SendOperation::Send
            | SendOperation::SendWithImmediate(_)
            | SendOperation::SendWithInvalidate(_) => CompletionOpcode::Send,
            SendOperation::Write(_) | SendOperation::WriteWithImmediate(..) => CompletionOpcode::Write,
            SendOperation::Read(_) => CompletionOpcode::Read,
            SendOperation::CompareSwap { .. } => CompletionOpcode::CompareSwap,
            SendOperation::FetchAdd { .. } => CompletionOpcode::FetchAdd,
            SendOperation::LocalInvalidate(_) => CompletionOpcode::LocalInvalidate,
            SendOperation::BindWindow { .. } => CompletionOpcode::BindWindow,
        }
    }
}

/// Requests in the order they were posted, the oldest of them first.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    pub requests: VecDeque<Request>,
    /// The end of the packets of all requests.
    pub end: Sequence,
    buffers: InlineBuffers,
}

impl SendQueue {
    /// The request's payload length, if the queue takes the request.
    pub fn check(&self, connection: Connection<'_>, request: &SendRequest<'_>) -> Result<u32, PostError> {
        let init = &connection.attributes.init;
        let sizes = &init.capabilities;
        if !does(init.qp_type, request) {
            return Err(PostError::InvalidOperation);
        }
        let length = match request.data {
            SendData::Inline(parts) => {
                let length = parts.iter().map(|part| part.len() as u64).sum();
                if length > u64::from(sizes.max_inline_data) {
                    return Err(PostError::InlineTooLong);
                }
                length
            }
            SendData::Gather(sges) if sges.len() > sizes.max_send_sge as usize => {
                return Err(PostError::TooManySges);
            }
            SendData::Gather(sges) => scatter::total_length(sges),
        };
        if length > LONGEST_MESSAGE {
            return Err(PostError::MessageTooLong);
        }
        if self.requests.len() >= sizes.max_send_wr as usize {
            return Err(PostError::QueueFull);
        }
        Ok(length as u32)
    }

    /// Adds a request of `length` bytes, checked, which takes `packets` PSNs.
    pub fn push(&mut self, connection: Connection<'_>, request: &SendRequest<'_>, length: u32, packets: u32) {
        let flags = SendFlags {
            signaled: request.flags.signaled || connection.attributes.init.signal_all,
            ..request.flags
        };
        let data = match request.data {
            SendData::Gather(sges) => Data::Elements(SmallVec::from_slice(sges)),
            SendData::Inline(parts) => Data::Inline(self.buffers.fill(parts, length)),
        };
        self.requests.push_back(Request {
            wr_id: request.wr_id,
            operation: request.operation,
            data,
            flags,
            length,
            first: self.end,
            packets,
            progress: Progress::Waiting,
        });
        self.end = self.end.after(packets);
    }

    /// Removes the oldest request.
    pub fn pop(&mut self) -> Option<Request> {
        self.requests.pop_front()
    }

    /// Gives a removed request's buffer back for the next one.
    pub fn recycle(&mut self, request: Request) {
        if let Data::Inline(buffer) = request.data {
            self.buffers.give_back(buffer);
        }
    }
}

/// A message is at most 2^31 bytes (IBTA 9.3.3).
const LONGEST_MESSAGE: u64 = 1 << 31;

/// Whether a kind of queue pair does an operation with this kind of data (IBTA 9.2.1).
fn does(qp_type: QpType, request: &SendRequest<'_>) -> bool {
    use SendOperation as O;
    let is_inline = matches!(request.data, SendData::Inline(_));
    match request.operation {
        O::Send | O::SendWithImmediate(_) => true,
        O::Write(_) | O::WriteWithImmediate(..) => qp_type != QpType::Ud,
        O::SendWithInvalidate(_) => qp_type == QpType::Rc,
        O::Read(_) | O::CompareSwap { .. } | O::FetchAdd { .. } => qp_type == QpType::Rc && !is_inline,
        O::LocalInvalidate(_) | O::BindWindow { .. } => qp_type != QpType::Ud && !is_inline,
    }
}

/// Buffers for inline data, used again once nobody sends from them any more, so that a stream of inline
/// requests allocates nothing.
#[derive(Debug, Default)]
struct InlineBuffers {
    spare: Vec<Arc<[u8]>>,
}

impl InlineBuffers {
    /// More than that many are not kept.
    const MOST: usize = 256;
    const SHORTEST: usize = 64;

    /// The concatenation of `parts`, of `length` bytes, at the start of a buffer.
    fn fill(&mut self, parts: &[&[u8]], length: u32) -> Arc<[u8]> {
        let length = length as usize;
        let mut buffer = match self.spare.pop() {
            Some(buffer) if buffer.len() >= length => buffer,
            _ => Arc::from_iter(core::iter::repeat_n(0, length.next_power_of_two().max(Self::SHORTEST))),
        };
        // It is unshared: new, or checked when it was given back.
        if let Some(bytes) = Arc::get_mut(&mut buffer) {
            let mut at = 0;
            for part in parts {
                bytes[at..at + part.len()].copy_from_slice(part);
                at += part.len();
            }
        }
        buffer
    }

    fn give_back(&mut self, mut buffer: Arc<[u8]>) {
        if self.spare.len() < Self::MOST && Arc::get_mut(&mut buffer).is_some() {
            self.spare.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_data_is_copied_into_a_buffer_that_is_used_again() {
        let mut buffers = InlineBuffers::default();
        let first = buffers.fill(&[b"ab", b"", b"c"], 3);
        assert_eq!(first[..3], *b"abc");
        let address = first.as_ptr();
        let shared = first.clone();
        buffers.give_back(first);
        assert_ne!(buffers.fill(&[b"d"], 1).as_ptr(), address, "still being sent");
        buffers.give_back(shared);
        let again = buffers.fill(&[b"e"], 1);
        assert_eq!((again.as_ptr(), again[0]), (address, b'e'));
    }
}
