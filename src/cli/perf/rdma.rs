//! The verbs side of a measurement: its objects, and how the two sides find each other.

use std::ops::Range;

use anyhow::{Context as _, anyhow, ensure};
use host::{
    Access, AddressHandle, Completion, CompletionQueue, Context, Gid, MemoryRegion, Mtu, ProtectionDomain,
    QpCapabilities, QpEndpoint, QpType, QueuePair, Receive, RegionSlice, RemoteRegion, devices,
};
use serde::{Deserialize, Serialize};

use super::bench::{Bench, Role, changing_tail, pattern};
use super::control::Control;
use super::spec::{Mode, Operation, Spec, Transport};
use super::stats::Samples;

/// Datagrams arrive with so many bytes in front.
const GRH: usize = 40;

/// The shortest send queue: there is room for what completes only now and then.
const MIN_QUEUE: usize = 64;

/// Memory for messages that arrive, unless one alone is larger. Receives share it: a program that wants the
/// data would have it taken out by then, and larger memory would measure the processor's cache.
const INBOX: usize = 2 << 20;

/// One side of a measurement on verbs.
pub struct RdmaBench {
    pub(super) spec: Spec,
    pub(super) role: Role,
    pub(super) pd: ProtectionDomain,
    pub(super) queue: CompletionQueue,
    pub(super) qp: QueuePair,
    pub(super) memory: MemoryRegion,
    pub(super) layout: Layout,
    pub(super) peer: QpEndpoint,
    pub(super) remote: RemoteRegion,
    pub(super) handle: Option<AddressHandle>,
    pub(super) completions: Vec<Completion>,
    /// Messages of all rounds so far.
    pub(super) total: u64,
    /// Slots that messages arrived in, from the first.
    pub(super) filled: usize,
    /// Receives that are not posted, by number.
    pub(super) free: Vec<usize>,
    /// How many are posted.
    pub(super) receives: u64,
}

/// What the sides tell each other.
#[derive(Serialize, Deserialize)]
struct Hello {
    endpoint: String,
    remote: String,
}

/// Where things are in a side's region.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    /// Bytes of a message, which is sent from the region's start.
    pub(super) size: usize,
    /// Where messages arrive.
    inbox: usize,
    /// How far they lie apart.
    stride: usize,
    /// How many there is room for.
    pub(super) slots: usize,
    /// What lies in front of a message.
    header: usize,
}

/// How many receives are posted at once: many more than there are messages under way, since the adapter of a
/// receiver that is not running at the moment goes on to use them.
fn receives(spec: &Spec) -> usize {
    (4 * spec.depth).max(512)
}

impl Layout {
    fn new(spec: &Spec) -> Self {
        let header = if spec.transport == Transport::Ud { GRH } else { 0 };
        let stride = (spec.size + header).next_multiple_of(64);
        let slots = receives(spec).min(INBOX / stride).max(1);
        Self { size: spec.size, inbox: spec.size.next_multiple_of(64), stride, slots, header }
    }

    fn length(&self) -> usize {
        self.inbox + self.slots * self.stride
    }

    /// Where the message of a slot arrives, with what lies in front of it.
    fn slot(&self, slot: usize) -> Range<usize> {
        let start = self.inbox + slot * self.stride;
        start..start + self.header + self.size
    }

    /// Where the message itself arrives.
    pub(super) fn message(&self, slot: usize) -> Range<usize> {
        let Range { start, end } = self.slot(slot);
        start + self.header..end
    }
}

impl RdmaBench {
    /// Connects the two sides.
    pub fn open(spec: &Spec, role: Role, control: &mut Control) -> anyhow::Result<Self> {
        let device = devices()?.remove(0);
        let pd = Context::open(&device)?.protection_domain()?;
        let layout = Layout::new(spec);
        let receives = receives(spec);
        let queue = pd.context().completion_queue((spec.depth.max(MIN_QUEUE) + receives) as u32)?;
        let qp = build_queue_pair(spec, &pd, &queue, receives, control)?;
        let memory = pd.register(layout.length(), Access::ALL).context("cannot register memory")?;
        memory.write(0, &pattern(role, spec.size))?;
        if spec.operation.is_atomic() {
            // The word that they work on begins at zero.
            memory.fill(.., 0)?;
        }
        let own = Hello { endpoint: qp.endpoint().to_string(), remote: memory.remote().to_string() };
        let hello: Hello = control.exchange(&own)?;
        let peer: QpEndpoint = hello.endpoint.parse()?;
        qp.connect(&peer)?;
        let gid_index = pd.context().gid_index(qp.endpoint().gid).unwrap_or(0);
        let handle = match spec.transport {
            Transport::Ud => Some(pd.address_handle_to(&peer, gid_index)?),
            _ => None,
        };
        Ok(Self {
            spec: *spec,
            role,
            queue,
            qp,
            memory,
            layout,
            peer,
            remote: hello.remote.parse()?,
            handle,
            pd,
            completions: Vec::new(),
            total: 0,
            filled: 0,
            free: (0..receives).rev().collect(),
            receives: 0,
        })
    }

    /// Whether the server takes part by receives.
    pub(super) fn has_receives(&self) -> bool {
        let Spec { transport, operation, mode, .. } = self.spec;
        match operation {
            Operation::Send => true,
            // Nobody would know what has arrived.
            Operation::Write => transport == Transport::Uc && mode == Mode::Bandwidth,
            _ => false,
        }
    }

    /// Posts receives until there are as many as fit, or as are needed.
    pub(super) fn post_receives(&mut self, needed: u64) -> anyhow::Result<()> {
        let wanted = usize::try_from(needed.saturating_sub(self.receives)).unwrap_or(usize::MAX);
        let numbers = self.free.split_off(self.free.len() - wanted.min(self.free.len()));
        let is_message = self.spec.operation == Operation::Send;
        let slots: Vec<[RegionSlice<'_>; 1]> = numbers
            .iter()
            .map(|number| Ok([self.memory.slice(self.layout.slot(number % self.layout.slots))?]))
            .collect::<anyhow::Result<_>>()?;
        let receives: Vec<Receive<'_>> = std::iter::zip(&numbers, &slots)
            .map(|(&number, slot)| Receive {
                wr_id: number as u64,
                scatter: if is_message { slot } else { &[] },
            })
            .collect();
        self.qp.receive_all(&receives).map_err(|(_, error)| error).context("cannot post a receive")?;
        self.receives += numbers.len() as u64;
        Ok(())
    }

    /// Notes that a receive was used.
    pub(super) fn received(&mut self, number: u64) {
        let number = number as usize;
        self.filled = self.filled.max(number + 1);
        self.receives -= 1;
        self.free.push(number);
    }

    /// Notes a round of messages that no receives tell of: they use slots in turn.
    fn note_one_sided(&mut self, iterations: u64) {
        if !self.has_receives() {
            let used = if self.spec.mode == Mode::Latency {
                1
            } else {
                usize::try_from(iterations).unwrap_or(usize::MAX)
            };
            self.filled = self.filled.max(used);
        }
    }

    /// The message that is sent.
    pub(super) fn outbox(&self) -> anyhow::Result<RegionSlice<'_>> {
        Ok(self.memory.slice(..self.layout.size)?)
    }
}

fn build_queue_pair(
    spec: &Spec,
    pd: &ProtectionDomain,
    queue: &CompletionQueue,
    receives: usize,
    control: &Control,
) -> anyhow::Result<QueuePair> {
    let qp_type = match spec.transport {
        Transport::Rc => QpType::Rc,
        Transport::Uc => QpType::Uc,
        Transport::Ud => QpType::Ud,
        Transport::Tcp | Transport::Udp => return Err(anyhow!("{} has no queue pairs", spec.transport)),
    };
    // The address by which the other side is reached over TCP reaches it here as well.
    let local = control.addresses()?.0.ip().to_canonical();
    let gid_index = pd
        .context()
        .gid_index(Gid::from(local))
        .with_context(|| format!("the device has no address {local}: see `softverbs devices`"))?;
    let capabilities = QpCapabilities {
        max_send_wr: spec.depth.max(MIN_QUEUE) as u32,
        max_recv_wr: receives as u32,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    let builder = pd.queue_pair(qp_type, queue).capabilities(capabilities).gid_index(gid_index);
    // A receiver that is late is asked again soon.
    let builder = builder.mtu(Mtu::fitting(spec.mtu)).receiver_not_ready(7, 1);
    builder.build().context("cannot make a queue pair: is the queue depth too large?")
}

impl Bench for RdmaBench {
    fn prepare(&mut self, iterations: u64) -> anyhow::Result<()> {
        let receives = self.role == Role::Server || self.spec.mode == Mode::Latency;
        if receives && self.has_receives() {
            self.post_receives(iterations)?;
        }
        Ok(())
    }

    fn drive(&mut self, iterations: u64, samples: &mut Samples) -> anyhow::Result<()> {
        match (self.spec.mode, self.spec.operation) {
            (Mode::Bandwidth, _) => self.stream(iterations)?,
            (Mode::Latency, Operation::Send) => self.ping_messages(iterations, samples)?,
            (Mode::Latency, Operation::Write) => self.ping_writes(iterations, samples)?,
            (Mode::Latency, _) => self.ask(iterations, samples)?,
        }
        self.total += iterations;
        self.note_one_sided(iterations);
        Ok(())
    }

    fn attend(&mut self, iterations: u64, control: &mut Control) -> anyhow::Result<u64> {
        let delivered = match (self.spec.mode, self.spec.operation) {
            (Mode::Bandwidth, _) if self.has_receives() => self.drain(iterations, control)?,
            (Mode::Latency, Operation::Send) => self.pong_messages(iterations)?,
            (Mode::Latency, Operation::Write) => self.pong_writes(iterations)?,
            _ => {
                self.be_used(control)?;
                iterations
            }
        };
        self.total += iterations;
        self.note_one_sided(iterations);
        Ok(delivered)
    }

    fn verify(&mut self) -> anyhow::Result<()> {
        let Spec { operation, mode, .. } = self.spec;
        let receives = match operation {
            Operation::Send | Operation::Write => mode == Mode::Latency || self.role == Role::Server,
            Operation::Read => self.role == Role::Client,
            Operation::Cas | Operation::Fadd => return self.verify_word(),
        };
        if !receives {
            return Ok(());
        }
        let length = self.layout.size - changing_tail(mode);
        let expected = pattern(self.role.other(), self.layout.size);
        for slot in 0..self.filled.min(self.layout.slots) {
            let start = self.layout.message(slot).start;
            let found = self.memory.to_vec(start..start + length)?;
            ensure!(
                found == expected[..length],
                "{operation} delivered other data than was sent (slot {slot})"
            );
        }
        Ok(())
    }

    fn retransmitted(&self) -> u64 {
        self.pd.context().counters().retransmitted
    }
}

impl RdmaBench {
    /// Each operation adds one to the server's word, or replaces it by the next number.
    fn verify_word(&self) -> anyhow::Result<()> {
        let word = self.memory.load_u64(0)?;
        ensure!(
            self.role == Role::Client || word == self.total,
            "{} operations left {word} in a word that began at zero",
            self.total
        );
        Ok(())
    }
}
