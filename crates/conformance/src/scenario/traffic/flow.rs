//! What an end has under way, and the model of its memory.

use std::{collections::VecDeque, ops::Range};

use nic::verbs::{CompletionOpcode, Mw, SendFlags};

use super::layout::COUNTER_COUNT;

/// Kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Send,
    SendImmediate,
    SendInvalidate,
    Write,
    WriteImmediate,
    WriteToWindow,
    Read,
    FetchAdd,
    CompareSwap,
    Bind,
    Invalidate,
}

impl Kind {
    pub const ALL: [Self; 11] = [
        Self::Send,
        Self::SendImmediate,
        Self::SendInvalidate,
        Self::Write,
        Self::WriteImmediate,
        Self::WriteToWindow,
        Self::Read,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::Bind,
        Self::Invalidate,
    ];

    /// Whether it takes bytes to the peer.
    pub const fn carries(self) -> bool {
        matches!(self.opcode(), CompletionOpcode::Send | CompletionOpcode::Write)
    }

    /// What its completion says.
    pub const fn opcode(self) -> CompletionOpcode {
        match self {
            Self::Send | Self::SendImmediate | Self::SendInvalidate => CompletionOpcode::Send,
            Self::Write | Self::WriteImmediate | Self::WriteToWindow => CompletionOpcode::Write,
            Self::Read => CompletionOpcode::Read,
            Self::FetchAdd => CompletionOpcode::FetchAdd,
            Self::CompareSwap => CompletionOpcode::CompareSwap,
            Self::Bind => CompletionOpcode::BindWindow,
            Self::Invalidate => CompletionOpcode::LocalInvalidate,
        }
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(super) struct Flight {
    pub number: u64,
    pub kind: Kind,
    pub flags: SendFlags,
    /// What it reads of the peer's target area.
    pub reads: Range<u64>,
    /// What it must bring back.
    pub brings: Vec<u8>,
}

/// A message on its way that takes a receive.
#[derive(Clone, Debug)]
pub(super) struct Message {
    pub kind: Kind,
    pub length: u32,
    /// Its payload, if the receive takes that.
    pub bytes: Vec<u8>,
    /// Immediate data, or the key that it invalidates.
    pub word: u32,
}

/// One end.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    /// Requests posted.
    pub posted: u64,
    /// Requests known to be done.
    pub completed: u64,
    /// The difference.
    pub flights: VecDeque<Flight>,
    /// Receives posted.
    pub receives: u64,
    /// Receives completed.
    pub received: u64,
    /// What is on its way to this end.
    pub expected: VecDeque<Message>,
    /// What the peer's requests make of the target area.
    pub target: Vec<u8>,
    /// What they make of the counters.
    pub counters: Vec<u64>,
    /// This end's window, which the peer writes through.
    pub window: Option<Window>,
}

/// A window, and whose turn it is.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub mw: Mw,
    pub key: u32,
    /// What it covers of the target area.
    pub range: Range<u64>,
    pub turn: Turn,
}

/// The stations of a window's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The owner may bind it.
    Unbound,
    /// The owner has posted a bind.
    Binding,
    /// The peer may write through it so often yet.
    Bound { writes: u32 },
    /// The peer has posted what invalidates it.
    Returning,
    /// The peer writes through it no more, once its request of this number is done; then the owner may invalidate it.
    Released { after: u64 },
    /// The owner has posted that.
    Invalidating,
}

impl Flow {
    pub fn new(target: Vec<u8>, window: Option<(Mw, u32)>) -> Self {
        Self {
            posted: 0,
            completed: 0,
            flights: VecDeque::new(),
            receives: 0,
            received: 0,
            expected: VecDeque::new(),
            target,
            counters: vec![0; COUNTER_COUNT as usize],
            window: window.map(|(mw, key)| Window { mw, key, range: 0..0, turn: Turn::Unbound }),
        }
    }

    /// Requests in flight.
    pub fn in_flight(&self) -> u64 {
        self.posted - self.completed
    }

    /// For the message of a test that stalls.
    pub fn progress(&self) -> String {
        format!(
            "posted {}, completed {}, receives {} of {}, in flight {:#?}",
            self.posted, self.completed, self.received, self.receives, self.flights
        )
    }

    /// Whether a READ in flight may read some of these bytes again, if its answer is lost.
    pub fn is_being_read(&self, range: &Range<u64>) -> bool {
        self.flights.iter().any(|flight| flight.reads.start < range.end && range.start < flight.reads.end)
    }
}
