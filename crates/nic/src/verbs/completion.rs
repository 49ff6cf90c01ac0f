//! Work completions.

use wire::{Immediate, Qpn};

/// How a request ended (IBTA 11.6.2). The order is that of `enum ibv_wc_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It was done.
    Success,
    /// A message was longer or shorter than the buffers or limits allow.
    LocalLengthError,
    /// The queue pair could not do the operation.
    LocalQpOperationError,
    /// A local key did not name the memory, or not with that access.
    LocalProtectionError,
    /// Flushed: the queue pair is in the error state.
    WorkRequestFlushed,
    /// A memory window could not be bound.
    MemoryWindowBindError,
    /// The responder sent something unexpected.
    BadResponse,
    /// The responder's memory could not be accessed as a local access.
    LocalAccessError,
    /// The responder found the request invalid.
    RemoteInvalidRequest,
    /// The responder refused access to its memory.
    RemoteAccessError,
    /// The responder could not complete the request.
    RemoteOperationError,
    /// The responder did not answer, however often it was asked.
    RetryExceeded,
    /// The responder had no receive posted, however often it was asked.
    RnrRetryExceeded,
    /// The request was abandoned by the responder.
    RemoteAborted,
    /// Any other error.
    GeneralError,
}

/// What was done. `Recv` and `RecvWriteWithImmediate` are the receive side's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CompletionOpcode {
    /// A SEND of any kind.
    Send,
    /// An RDMA WRITE of any kind.
    Write,
    /// An RDMA READ.
    Read,
    /// A compare and swap.
    CompareSwap,
    /// A fetch and add.
    FetchAdd,
    /// A memory window bind.
    BindWindow,
    /// A local invalidate.
    LocalInvalidate,
    /// A message was received.
    Recv,
    /// An RDMA WRITE with immediate consumed a receive.
    RecvWriteWithImmediate,
}

/// One completion. After an error only `wr_id`, `status`, `vendor_error` and `qpn` mean anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's own.
    pub wr_id: u64,
    /// How it ended.
    pub status: Status,
    /// A detail of `status`, of our own making.
    pub vendor_error: u32,
    /// What was done.
    pub opcode: CompletionOpcode,
    /// Bytes received, or transferred by a READ or atomic.
    pub byte_length: u32,
    /// Immediate data received, or the key that the message invalidated.
    pub immediate: Immediate,
    /// Our queue pair.
    pub qpn: Qpn,
    /// The sender's queue pair (datagrams).
    pub source_qp: Qpn,
    /// Whether the first 40 bytes received are a GRH (datagrams).
    pub has_grh: bool,
    /// Service level it arrived with (datagrams).
    pub service_level: u8,
    /// When it was put on the queue, in nanoseconds of the adapter's clock.
    pub timestamp: u64,
}

impl Completion {
    /// Whether the request was done.
    pub const fn is_success(&self) -> bool {
        matches!(self.status, Status::Success)
    }
}
