//! What every measurement has in common: two sides that take part in rounds of messages.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::control::Control;
use super::kernel::{TcpBench, UdpBench};
use super::rdma::RdmaBench;
use super::spec::{Mode, Spec, Transport};
use super::stats::Samples;

/// Which side of a measurement this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Measures.
    Client,
    /// Takes part.
    Server,
}

/// How long a message may be on its way before it counts as lost.
const LOSS_TIMEOUT: Duration = Duration::from_secs(5);

/// Polls of a socket that take about 10 us.
pub const SOCKET_POLLS: u64 = 32;

/// Polls of a completion queue that take about 10 us.
pub const QUEUE_POLLS: u64 = 12;

/// How many yields pass between two looks at the clock.
const CLOCK_EVERY: u64 = 16;

/// One side of a measurement.
pub trait Bench {
    /// Gets ready for so many messages, before the client begins.
    fn prepare(&mut self, iterations: u64) -> anyhow::Result<()>;

    /// The client's part, which takes the time of each message if that is the mode.
    fn drive(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()>;

    /// The server's part, which ends when all has arrived or the client calls; returns what has arrived.
    fn attend(&mut self, iterations: u64, control: &mut Control) -> anyhow::Result<u64>;

    /// Checks what has arrived in all rounds.
    fn verify(&mut self) -> anyhow::Result<()>;

    /// Packets sent again so far.
    fn retransmitted(&self) -> u64 {
        0
    }
}

/// Waits for what should come, and notices if it does not.
///
/// It lets others run now and then: on a machine with too few processors, the other side may be waiting for
/// this one.
pub struct Patience {
    /// Polls that may find nothing before others may run.
    yield_every: u64,
    polls: u64,
    start: Option<Instant>,
}

impl Patience {
    /// For waiting by polls of which so many take about 10 us.
    pub fn new(yield_every: u64) -> Self {
        Self { yield_every, polls: 0, start: None }
    }

    /// To be called for each poll that finds nothing.
    pub fn check(&mut self) -> anyhow::Result<()> {
        ensure!(self.waited() < LOSS_TIMEOUT, "a message was lost: nothing came for {LOSS_TIMEOUT:?}");
        Ok(())
    }

    /// As [`check`](Self::check), and tells for how long nothing was found, if it looks at the clock.
    pub fn waited(&mut self) -> Duration {
        self.polls += 1;
        if self.polls.is_multiple_of(self.yield_every) {
            std::thread::yield_now();
        }
        if !self.polls.is_multiple_of(self.yield_every * CLOCK_EVERY) {
            return Duration::ZERO;
        }
        let now = Instant::now();
        now - *self.start.get_or_insert(now)
    }
}

/// Opens one side, in agreement with the other.
pub fn open(spec: &Spec, role: Role, control: &mut Control) -> anyhow::Result<Box<dyn Bench>> {
    Ok(match spec.transport {
        Transport::Rc | Transport::Uc | Transport::Ud => Box::new(RdmaBench::open(spec, role, control)?),
        Transport::Tcp => Box::new(TcpBench::open(spec, role, control)?),
        Transport::Udp => Box::new(UdpBench::open(spec, role, control)?),
    })
}

/// Bytes that one side sends: other ones at the other side, and no two neighbours alike.
pub fn pattern(role: Role, length: usize) -> Vec<u8> {
    let seed = match role {
        Role::Client => 17,
        Role::Server => 91,
    };
    (0..length).map(|at| (at as u32).wrapping_mul(2_654_435_761).rotate_left(9) as u8 ^ seed).collect()
}

impl Role {
    /// The other one.
    pub fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// How many bytes at the end of a message of this mode change with each: they are not part of the pattern.
pub fn changing_tail(mode: Mode) -> usize {
    match mode {
        Mode::Latency => 1,
        Mode::Bandwidth => 0,
    }
}
