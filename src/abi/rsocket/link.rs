//! A stream on a queue pair: memory, completions, and what is posted.

use host::{
    Access, BuildError, Completion, CompletionQueue, MemoryRegion, OutOfBounds, ProtectionDomain,
    QpCapabilities, QpType, QueuePair, Remote, Work,
};
use wire::Immediate;

use super::{
    settings::Settings,
    stream::{Sizes, Stream, TARGETS},
    wire::{Introduction, Mapping, Message, Piece, told_mappings},
};
use crate::abi::errno::Errno;

/// What marks the completion of a receive.
const RECEIVE: u64 = 1 << 63;

/// What marks the completion of a write that is no message; the rest is its length.
const SILENT: u64 = 1 << 62;

/// Completions taken at once.
const BATCH: usize = 64;

/// A queue pair, and what it needs to carry a stream. It can be told to a peer before there is one.
#[derive(Debug)]
pub(super) struct Link {
    pub queue: CompletionQueue,
    pub queue_pair: QueuePair,
    sizes: Sizes,
    inline: usize,
    /// What we send lies here until it is sent.
    send_memory: MemoryRegion,
    /// The peer writes here.
    receive_memory: MemoryRegion,
    /// Here the peer tells of memory: targets, then mappings.
    told: MemoryRegion,
    /// Mappings that there is room for.
    mappings: u32,
    completions: Vec<Completion>,
    peer: Option<Peer>,
    /// A request failed, or the peer went astray.
    pub error: Option<Errno>,
}

/// The peer of a link.
#[derive(Debug)]
struct Peer {
    stream: Stream,
    /// Where it wants to be told of mappings, and of how many.
    mappings: Piece,
}

impl Link {
    /// Makes one, at an address of ours.
    pub fn new(pd: &ProtectionDomain, settings: &Settings, gid_index: u8) -> Result<Self, Errno> {
        let sizes = settings.sizes();
        let mappings = told_mappings(settings.mappings);
        let queue =
            pd.context().completion_queue(u32::from(sizes.send_queue) + u32::from(sizes.receive_queue))?;
        let queue_pair = pd
            .queue_pair(QpType::Rc, &queue)
            .gid_index(gid_index)
            .peer_access(Access { remote_write: true, ..Access::default() })
            .capabilities(QpCapabilities {
                max_send_wr: sizes.send_queue.into(),
                max_recv_wr: sizes.receive_queue.into(),
                max_send_sge: 2,
                max_recv_sge: 1,
                // What is told of memory always fits.
                max_inline_data: settings.inline.max(Mapping::LEN as u32),
            })
            .build()?;
        let inline = settings.inline as usize;
        let peers = Access { local_write: true, remote_write: true, ..Access::default() };
        let link = Self {
            queue,
            queue_pair,
            sizes,
            inline,
            send_memory: pd.register(sizes.send_memory, Access::LOCAL)?,
            receive_memory: pd.register(sizes.receive_memory, peers)?,
            told: pd.register(TARGETS * Piece::LEN + mappings as usize * Mapping::LEN, peers)?,
            mappings,
            completions: Vec::with_capacity(BATCH),
            peer: None,
            error: None,
        };
        for _ in 0..sizes.receive_queue {
            link.queue_pair.receive(RECEIVE, &[])?;
        }
        Ok(link)
    }

    /// What to tell the peer.
    pub fn introduction(&self) -> Introduction {
        let (told, memory) = (self.told.remote(), self.receive_memory.remote());
        Introduction {
            swapped: false,
            credits: self.sizes.receive_queue,
            mappings: self.mappings,
            targets: Piece { address: told.at(0).address, key: told.at(0).rkey, length: TARGETS as u32 },
            memory: Piece {
                address: memory.at(0).address,
                key: memory.at(0).rkey,
                length: (self.sizes.receive_memory / 2) as u32,
            },
        }
    }

    /// Hears what the peer tells.
    pub fn meet(&mut self, peer: &Introduction) {
        let Piece { address, key, length } = peer.targets;
        let behind = address.wrapping_add(u64::from(length) * Piece::LEN as u64);
        self.peer = Some(Peer {
            stream: Stream::new(self.sizes, peer),
            mappings: Piece { address: behind, key, length: peer.mappings },
        });
    }

    fn stream(&self) -> Option<&Stream> {
        self.peer.as_ref().map(|peer| &peer.stream)
    }

    /// Takes what has happened, and grants what is due.
    pub fn progress(&mut self) {
        if let Err(error) = self.take_completions().and_then(|()| self.grant()) {
            self.fail(error);
        }
        if self.wants_target().is_err() {
            self.fail(Errno(libc::EIO));
        }
    }

    fn fail(&mut self, error: Errno) {
        self.error.get_or_insert(error);
        self.end();
    }

    /// The peer has ended the connection: what it has sent can still be read.
    pub fn end(&mut self) {
        if let Some(peer) = &mut self.peer {
            (peer.stream.peer_sends, peer.stream.peer_reads) = (false, false);
        }
    }

    fn take_completions(&mut self) -> Result<(), Errno> {
        loop {
            let mut completions = std::mem::take(&mut self.completions);
            let taken = self.queue.poll_into(&mut completions, BATCH);
            let handled = completions.iter().try_for_each(|completion| self.handle(completion));
            completions.clear();
            self.completions = completions;
            handled?;
            if taken? < BATCH {
                return Ok(());
            }
        }
    }

    fn handle(&mut self, completion: &Completion) -> Result<(), Errno> {
        // Before there is a peer nothing but the flushing of receives completes.
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(()) };
        if completion.wr_id & RECEIVE != 0 {
            if !completion.is_success() {
                return Ok(());
            }
            let Immediate::Data(word) = completion.immediate else { return Err(Errno(libc::EPROTO)) };
            stream.on_message(Message::decode(word)).map_err(|_| Errno(libc::EPROTO))?;
            return Ok(self.queue_pair.receive(RECEIVE, &[])?);
        }
        let is_failed = !completion.is_success() && stream.peer_reads;
        match Message::decode(completion.wr_id as u32) {
            _ if completion.wr_id & SILENT != 0 => stream.on_sent((completion.wr_id & !SILENT) as usize),
            Message::Data(length) => stream.on_sent(length as usize),
            Message::Mapped(_) => stream.on_sent(Mapping::LEN),
            _ => stream.on_control_sent(),
        }
        if is_failed { Err(Errno(libc::EIO)) } else { Ok(()) }
    }

    /// Looks for the next target, if the present one is used up.
    fn wants_target(&mut self) -> Result<(), OutOfBounds> {
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(()) };
        let Some(place) = stream.wanted_target() else { return Ok(()) };
        let at = place * Piece::LEN;
        let mut bytes = [0; Piece::LEN];
        self.told.read(at, &mut bytes)?;
        let target = Piece::from_bytes(&bytes);
        if target.length > 0 {
            // The peer writes there again only after it has read what is sent to the other one.
            self.told.fill(at..at + Piece::LEN, 0)?;
            stream.set_target(target);
        }
        Ok(())
    }

    fn grant(&mut self) -> Result<(), Errno> {
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(()) };
        let Some(grant) = stream.grant() else { return Ok(()) };
        let word = grant.message.encode();
        let Some((offset, place)) = grant.memory else {
            let nowhere = Remote { address: 0, rkey: 0 };
            return self.post(Work::write_with_immediate(&[], nowhere, word).id(word.into()));
        };
        let memory = self.receive_memory.remote().at(offset as u64);
        let half = (self.sizes.receive_memory / 2) as u32;
        let piece = Piece { address: memory.address, key: memory.rkey, length: half };
        let bytes = piece.to_bytes(stream.is_swapped());
        let place = Remote { address: place, rkey: grant.key };
        let pieces = [&bytes[..]];
        self.post(Work::write_with_immediate(host::Data::Inline(&pieces), place, word).id(word.into()))
    }

    fn post(&self, work: Work<'_>) -> Result<(), Errno> {
        Ok(self.queue_pair.post(&work)?)
    }

    // ---- sending

    /// Whether data can be sent now.
    pub fn can_send(&self) -> bool {
        self.error.is_none() && self.stream().is_some_and(|stream| stream.can_send())
    }

    /// Whether the peer goes on to read, as far as is known.
    pub fn peer_reads(&self) -> bool {
        self.error.is_none() && self.stream().is_some_and(|stream| stream.peer_reads)
    }

    /// Whether the peer goes on to send, as far as is known.
    pub fn peer_sends(&self) -> bool {
        self.error.is_none() && self.stream().is_some_and(|stream| stream.peer_sends)
    }

    /// Whether all is sent, or will never be.
    pub fn is_idle(&self) -> bool {
        self.error.is_some() || self.stream().is_none_or(|stream| stream.is_idle() || !stream.peer_reads)
    }

    /// Sends as much of `data` as it can now; returns how much that was.
    pub fn send(&mut self, data: &[u8]) -> Result<usize, Errno> {
        let mut sent = 0;
        while sent < data.len() {
            let Some(length) = self.send_once(&data[sent..])? else { break };
            sent += length;
            // So that the next half of the peer's memory is found without another completion.
            self.wants_target().map_err(|_| Errno(libc::EIO))?;
        }
        Ok(sent)
    }

    fn send_once(&mut self, data: &[u8]) -> Result<Option<usize>, Errno> {
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(None) };
        let inline = self.inline;
        let Some(plan) = stream.plan(data.len(), |length| length > inline) else { return Ok(None) };
        let word = plan.message.encode();
        let to = Remote { address: plan.address, rkey: plan.key };
        let data = &data[..plan.length];
        if plan.length <= inline {
            let pieces = [data];
            self.post(Work::write_with_immediate(host::Data::Inline(&pieces), to, word).id(word.into()))?;
        } else {
            self.keep(plan.at, data)?;
            let bounds = self.bounds(plan.at, plan.length);
            let slices = bounds.map(|(from, to)| self.send_memory.slice(from..to));
            let [first, second] = slices;
            let slices = [first.map_err(|_| Errno::INVALID)?, second.map_err(|_| Errno::INVALID)?];
            let count = if slices[1].len() == 0 { 1 } else { 2 };
            self.post(Work::write_with_immediate(&slices[..count], to, word).id(word.into()))?;
        }
        Ok(Some(plan.length))
    }

    /// Copies data into our send memory, going on at its start if it reaches the end.
    fn keep(&self, at: usize, data: &[u8]) -> Result<(), Errno> {
        let (first, rest) = data.split_at(data.len().min(self.sizes.send_memory - at));
        let kept = self.send_memory.write(at, first).and_then(|()| self.send_memory.write(0, rest));
        kept.map_err(|_| Errno::INVALID)
    }

    /// The two parts of our send memory that `length` bytes from `at` on take; the second may be empty.
    fn bounds(&self, at: usize, length: usize) -> [(usize, usize); 2] {
        let first = length.min(self.sizes.send_memory - at);
        [(at, at + first), (0, length - first)]
    }

    /// Sends a control message, if there is room for it.
    pub fn control(&mut self, message: Message) -> Result<bool, Errno> {
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(false) };
        if !stream.take_control() {
            return Ok(false);
        }
        let word = message.encode();
        let nowhere = Remote { address: 0, rkey: 0 };
        self.post(Work::write_with_immediate(&[], nowhere, word).id(word.into()))?;
        Ok(true)
    }

    // ---- mappings

    /// Mappings that the peer has room for.
    pub fn mapping_room(&self) -> u32 {
        self.peer.as_ref().map_or(0, |peer| peer.mappings.length)
    }

    /// Tells the peer of a mapping; false if there is no room for that now.
    pub fn tell_mapping(&mut self, index: u16, mapping: Mapping) -> Result<bool, Errno> {
        let Some(Peer { stream, mappings }) = &mut self.peer else { return Ok(false) };
        if stream.take_room(Mapping::LEN).is_none() {
            return Ok(false);
        }
        let bytes = mapping.to_bytes(stream.is_swapped());
        let address = mappings.address.wrapping_add(u64::from(index) * Mapping::LEN as u64);
        let place = Remote { address, rkey: mappings.key };
        let word = Message::Mapped(index).encode();
        let pieces = [&bytes[..]];
        self.post(Work::write_with_immediate(host::Data::Inline(&pieces), place, word).id(word.into()))?;
        Ok(true)
    }

    /// The peer's mapping that holds a range.
    pub fn find_mapping(&self, offset: u64, length: usize) -> Option<Mapping> {
        let mut bytes = [0; Mapping::LEN];
        (0..self.mappings as usize).find_map(|index| {
            self.told.read(TARGETS * Piece::LEN + index * Mapping::LEN, &mut bytes).ok()?;
            Some(Mapping::from_bytes(&bytes)).filter(|mapping| mapping.holds(offset, length))
        })
    }

    /// Writes into a mapping of the peer's, of which it hears nothing; returns how much that was.
    pub fn write_mapped(&mut self, mapping: &Mapping, offset: u64, data: &[u8]) -> Result<usize, Errno> {
        /// Bytes at once.
        const MOST: usize = 1 << 16;
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(0) };
        let data = &data[..data.len().min(MOST).min(self.sizes.send_memory)];
        let Some(at) = stream.take_room(data.len()) else { return Ok(0) };
        self.keep(at, data)?;
        let address = mapping.memory.address.wrapping_add(offset - mapping.offset);
        let to = Remote { address, rkey: mapping.memory.key };
        let [first, second] = self.bounds(at, data.len()).map(|(from, to)| self.send_memory.slice(from..to));
        let slices = [first.map_err(|_| Errno::INVALID)?, second.map_err(|_| Errno::INVALID)?];
        let count = if slices[1].len() == 0 { 1 } else { 2 };
        self.post(Work::write(&slices[..count], to).id(SILENT | data.len() as u64))?;
        Ok(data.len())
    }

    // ---- receiving

    /// Bytes that can be read.
    pub fn unread(&self) -> usize {
        self.stream().map_or(0, Stream::unread)
    }

    /// Reads as much as there is into `into`, but leaves it there if it only peeks; returns how much that was.
    pub fn receive(&mut self, into: &mut [u8], peeks: bool) -> Result<usize, Errno> {
        let Some(Peer { stream, .. }) = &mut self.peer else { return Ok(0) };
        let wanted = into.len().min(stream.unread());
        let mut done = 0;
        while done < wanted {
            let (at, length) = stream.next(wanted - done, done);
            let part = &mut into[done..done + length];
            self.receive_memory.read(at, part).map_err(|_| Errno(libc::EIO))?;
            done += length;
        }
        if !peeks {
            stream.consume(done);
        }
        Ok(done)
    }
}

impl From<BuildError> for Errno {
    fn from(error: BuildError) -> Self {
        match error {
            BuildError::Create(error) => error.into(),
            BuildError::Setting(error) => error.into(),
            BuildError::NoGid(_) => Self(libc::EADDRNOTAVAIL),
        }
    }
}
