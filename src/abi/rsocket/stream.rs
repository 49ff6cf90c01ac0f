//! The state of a stream: who may send how much to where, and what there is to read.
//!
//! Each side writes into the other's receive memory, one half of it after the other. It learns of a half by a [`Piece`] that
//! the other has written into its *targets*, two places that are used in turn; and of each write by its immediate data,
//! which takes a receive. What limits a sender is the memory that it knows of, the receives that it was granted, and its own
//! memory and queue. Control messages have places of their own in the queue, so that credits always get through.
//!
//! Pure: nothing is sent here. [`Stream::plan`] and its like say what to write where.

use std::collections::VecDeque;

use super::wire::{Introduction, Message, Piece};

/// How large everything is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sizes {
    /// Entries of the send queue.
    pub send_queue: u16,
    /// Entries of the receive queue.
    pub receive_queue: u16,
    /// Bytes that are on the way at most.
    pub send_memory: usize,
    /// Bytes that the peer may write before they are read; a multiple of two.
    pub receive_memory: usize,
}

/// Control messages on the way at most.
const CONTROL_MESSAGES: u16 = 4;

/// The longest single write.
const LONGEST_WRITE: usize = 1 << 16;

/// Who has less room than this waits for more, rather than writing crumbs.
const LOW_WATER: usize = 2048;

/// Places for targets.
pub(super) const TARGETS: usize = 2;

/// A stream that is connected, or was.
#[derive(Debug)]
pub(super) struct Stream {
    sizes: Sizes,
    swapped: bool,
    sending: Sending,
    receiving: Receiving,
    /// The peer goes on to send.
    pub peer_sends: bool,
    /// The peer goes on to read.
    pub peer_reads: bool,
}

#[derive(Debug)]
struct Sending {
    /// Messages of data so far, and as many as may be sent; modulo 2^16.
    messages: u16,
    granted: u16,
    slots: u16,
    space: usize,
    /// Where the next bytes lie in our send memory.
    at: usize,
    target: Piece,
    /// The place in which the next target will be.
    next_target: usize,
    /// Control messages so far, and as many as may be sent; modulo 2^16.
    control: u16,
    control_limit: u16,
}

#[derive(Debug)]
struct Receiving {
    /// What is left of each message that was not read.
    messages: VecDeque<usize>,
    unread: usize,
    /// Where the next byte to read lies.
    at: usize,
    /// Messages read so far, and at which number to grant more; modulo 2^16.
    read: u16,
    grant_at: u16,
    /// Bytes that were read and are not offered to the peer again.
    freed: usize,
    /// Which half to offer next.
    offer_at: usize,
    /// Where the peer wants to be told of memory, and in which place next.
    targets: Piece,
    next_place: u32,
}

/// A peer that keeps to no protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

/// A write of data: from where, how much, and to where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Where the bytes begin in our send memory; they go on at its start if they reach its end.
    pub at: usize,
    pub length: usize,
    /// Address and key at the peer.
    pub address: u64,
    pub key: u32,
    pub message: Message,
}

/// A grant of credits: a message, and often a half of our memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grant {
    pub message: Message,
    /// The offset of the half in our receive memory, and where the peer wants to be told of it.
    pub memory: Option<(usize, u64)>,
    pub key: u32,
}

impl Stream {
    /// A stream to a peer that introduced itself so.
    pub fn new(sizes: Sizes, peer: &Introduction) -> Self {
        let half = sizes.receive_memory / 2;
        Self {
            sizes,
            swapped: peer.swapped,
            sending: Sending {
                messages: 0,
                granted: peer.credits,
                slots: sizes.send_queue - CONTROL_MESSAGES,
                space: sizes.send_memory,
                at: 0,
                target: peer.memory,
                next_target: 1,
                control: 0,
                control_limit: CONTROL_MESSAGES,
            },
            receiving: Receiving {
                messages: VecDeque::new(),
                unread: 0,
                at: 0,
                read: 0,
                grant_at: sizes.receive_queue / 2,
                freed: half,
                offer_at: half,
                targets: peer.targets,
                next_place: 1,
            },
            peer_sends: true,
            peer_reads: true,
        }
    }

    /// Whether the peer is of the other byte order.
    pub fn is_swapped(&self) -> bool {
        self.swapped
    }

    // ---- sending

    /// The place of the next target, if the present one is used up.
    pub fn wanted_target(&self) -> Option<usize> {
        (self.sending.target.length == 0).then_some(self.sending.next_target)
    }

    /// Goes on with a target, which was taken from the place that was wanted.
    pub fn set_target(&mut self, target: Piece) {
        self.sending.target = target;
        self.sending.next_target = (self.sending.next_target + 1) % TARGETS;
    }

    /// Whether data can be sent now.
    pub fn can_send(&self) -> bool {
        let Sending { messages, granted, slots, space, target, .. } = self.sending;
        let enough = space >= LOW_WATER.min(self.sizes.send_memory);
        slots > 0 && enough && messages != granted && target.length > 0
    }

    /// Plans a write of at most `wanted` bytes; `keeps` says whether they will lie in our send memory until they are
    /// sent.
    pub fn plan(&mut self, wanted: usize, keeps: impl FnOnce(usize) -> bool) -> Option<Plan> {
        if wanted == 0 || !self.can_send() {
            return None;
        }
        let sending = &mut self.sending;
        let length = wanted.min(LONGEST_WRITE).min(sending.space).min(sending.target.length as usize);
        let Piece { address, key, .. } = sending.target;
        let plan = Plan { at: sending.at, length, address, key, message: Message::Data(length as u32) };
        if keeps(length) {
            sending.at = (sending.at + length) % self.sizes.send_memory;
        }
        sending.target.address = address.wrapping_add(length as u64);
        sending.target.length -= length as u32;
        sending.messages = sending.messages.wrapping_add(1);
        sending.slots -= 1;
        sending.space -= length;
        Some(plan)
    }

    /// Takes room in our send memory for something that is no data of the stream; where it lies.
    pub fn take_room(&mut self, length: usize) -> Option<usize> {
        let sending = &mut self.sending;
        if sending.slots == 0 || sending.space < length {
            return None;
        }
        let at = sending.at;
        sending.at = (at + length) % self.sizes.send_memory;
        sending.slots -= 1;
        sending.space -= length;
        Some(at)
    }

    /// Something was sent that had taken so much room.
    pub fn on_sent(&mut self, length: usize) {
        self.sending.slots += 1;
        self.sending.space += length;
    }

    /// A control message was sent.
    pub fn on_control_sent(&mut self) {
        self.sending.control_limit = self.sending.control_limit.wrapping_add(1);
    }

    /// Whether all is sent.
    pub fn is_idle(&self) -> bool {
        let control = self.sending.control_limit.wrapping_sub(self.sending.control);
        self.sending.slots + control == self.sizes.send_queue
    }

    /// Takes a place for a control message.
    pub fn take_control(&mut self) -> bool {
        let free = self.sending.control != self.sending.control_limit;
        self.sending.control = self.sending.control.wrapping_add(u16::from(free));
        free
    }

    /// What to grant the peer, if it is time for that.
    pub fn grant(&mut self) -> Option<Grant> {
        let half = self.sizes.receive_memory / 2;
        let receiving = &self.receiving;
        let is_due = receiving.freed >= half || (receiving.read.wrapping_sub(receiving.grant_at) as i16) >= 0;
        if !is_due || !self.peer_reads || !self.take_control() {
            return None;
        }
        let receiving = &mut self.receiving;
        receiving.grant_at = receiving.read.wrapping_add(self.sizes.receive_queue / 2);
        let message = Message::Credits(receiving.read.wrapping_add(self.sizes.receive_queue));
        let Piece { address, key, length } = receiving.targets;
        let memory = (receiving.freed >= half).then(|| {
            let place = address.wrapping_add(u64::from(receiving.next_place) * Piece::LEN as u64);
            let offered = receiving.offer_at;
            receiving.freed -= half;
            receiving.offer_at = (offered + half) % self.sizes.receive_memory;
            receiving.next_place = (receiving.next_place + 1) % length.max(1);
            (offered, place)
        });
        Some(Grant { message, memory, key })
    }

    // ---- receiving

    /// The peer has written.
    pub fn on_message(&mut self, message: Message) -> Result<(), Violation> {
        match message {
            Message::Data(length) => {
                let receiving = &mut self.receiving;
                receiving.unread += length as usize;
                if receiving.unread > self.sizes.receive_memory {
                    return Err(Violation);
                }
                receiving.messages.push_back(length as usize);
            }
            Message::Credits(granted) => self.sending.granted = granted,
            Message::Disconnect => (self.peer_sends, self.peer_reads) = (false, false),
            Message::Shutdown => self.peer_sends = false,
            Message::Mapped(_) | Message::Other(_) => {}
        }
        Ok(())
    }

    /// Bytes that can be read.
    pub fn unread(&self) -> usize {
        self.receiving.unread
    }

    /// The next bytes to read, at most `wanted`: where they lie in our receive memory, up to its end.
    pub fn next(&self, wanted: usize, skip: usize) -> (usize, usize) {
        let receiving = &self.receiving;
        let at = (receiving.at + skip) % self.sizes.receive_memory;
        let length = wanted.min(receiving.unread - skip).min(self.sizes.receive_memory - at);
        (at, length)
    }

    /// So many bytes were read.
    pub fn consume(&mut self, length: usize) {
        let receiving = &mut self.receiving;
        receiving.at = (receiving.at + length) % self.sizes.receive_memory;
        receiving.unread -= length;
        receiving.freed += length;
        let mut left = length;
        while let Some(first) = receiving.messages.front_mut() {
            if *first > left {
                *first -= left;
                break;
            }
            left -= *first;
            receiving.messages.pop_front();
            receiving.read = receiving.read.wrapping_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { send_queue: 16, receive_queue: 16, send_memory: 8192, receive_memory: 8192 };

    fn stream() -> Stream {
        let peer = Introduction {
            credits: 16,
            targets: Piece { address: 0x1000, key: 7, length: 2 },
            memory: Piece { address: 0x2000, key: 8, length: 4096 },
            ..Introduction::default()
        };
        Stream::new(SIZES, &peer)
    }

    #[test]
    fn the_second_half_is_offered_at_once_and_the_first_when_it_was_read() {
        let mut stream = stream();
        let grant = stream.grant().unwrap();
        assert_eq!(grant, Grant { message: Message::Credits(16), memory: Some((4096, 0x1010)), key: 7 });
        assert_eq!(stream.grant(), None);
        stream.on_message(Message::Data(4000)).unwrap();
        stream.on_message(Message::Data(96)).unwrap();
        stream.consume(4095);
        assert_eq!(stream.grant(), None);
        stream.consume(1);
        let grant = stream.grant().unwrap();
        assert_eq!(grant, Grant { message: Message::Credits(18), memory: Some((0, 0x1000)), key: 7 });
    }

    #[test]
    fn credits_are_granted_for_many_small_messages() {
        let mut stream = stream();
        stream.grant().unwrap();
        for _ in 0..8 {
            assert_eq!(stream.grant(), None);
            stream.on_message(Message::Data(1)).unwrap();
            stream.consume(1);
        }
        assert_eq!(stream.grant(), Some(Grant { message: Message::Credits(24), memory: None, key: 7 }));
    }

    #[test]
    fn a_sender_stops_at_each_limit() {
        let mut stream = stream();
        let plan = stream.plan(5000, |_| true).unwrap();
        assert_eq!((plan.at, plan.length, plan.address, plan.key), (0, 4096, 0x2000, 8));
        assert!(stream.plan(1, |_| true).is_none(), "no memory at the peer");
        assert_eq!(stream.wanted_target(), Some(1));
        stream.set_target(Piece { address: 0x4000, key: 8, length: 4096 });
        let plan = stream.plan(3000, |_| true).unwrap();
        assert_eq!((plan.at, plan.length, plan.address), (4096, 3000, 0x4000));
        assert!(stream.plan(1, |_| true).is_none(), "little memory of our own");
        stream.on_sent(4096);
        let plan = stream.plan(3000, |_| true).unwrap();
        assert_eq!((plan.at, plan.length, plan.address), (7096, 1096, 0x4bb8));
        stream.on_sent(3000);
        stream.on_sent(1096);
        stream.set_target(Piece { address: 0, key: 8, length: 4096 });
        for _ in 0..12 {
            stream.plan(1, |_| false).unwrap();
        }
        assert!(stream.plan(1, |_| false).is_none(), "no room in the queue");
        assert!(!stream.is_idle());
        (0..12).for_each(|_| stream.on_sent(1));
        assert!(stream.is_idle());
        stream.plan(1, |_| false).unwrap();
        assert!(stream.plan(1, |_| false).is_none(), "no credits");
        stream.on_message(Message::Credits(17)).unwrap();
        assert!(stream.plan(1, |_| false).is_some());
    }

    #[test]
    fn a_peer_that_writes_more_than_there_is_room_for_is_found_out() {
        let mut stream = stream();
        stream.on_message(Message::Data(8192)).unwrap();
        assert_eq!(stream.on_message(Message::Data(1)), Err(Violation));
    }

    #[test]
    fn reading_goes_on_at_the_start_of_the_memory() {
        let mut stream = stream();
        stream.on_message(Message::Data(8000)).unwrap();
        stream.consume(8000);
        stream.on_message(Message::Data(500)).unwrap();
        assert_eq!(stream.next(1000, 0), (8000, 192));
        assert_eq!(stream.next(1000, 192), (0, 308));
        stream.consume(500);
        assert_eq!(stream.unread(), 0);
    }
}
