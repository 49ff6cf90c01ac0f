//! Cache misses that overlap.
//!
//! A large network does not fit the caches, and each event needs a handful of lines that no other touched
//! for a while. Events of one bucket are due within a nanosecond or so: what all of them need is read ahead,
//! so that the processor has many misses under way at once. It halves the time per event of a thousand
//! hosts, and costs small networks little.
//!
//! There is one pass for each step of a chain of pointers. Within a pass nothing is decided by what is read:
//! a branch that is predicted wrong would wait for the miss that it depends on.

use super::Network;
use crate::engine::Kind;
use crate::packet::Handle;

impl Network {
    /// Reads what the events of the bucket that has been opened will need.
    pub(super) fn warm(&self) {
        let sum = self.warm_ports_and_packets() ^ self.warm_queues_and_headers() ^ self.warm_heads();
        std::hint::black_box(sum);
    }

    fn warm_ports_and_packets(&self) -> u32 {
        let read = self.engine.queue.soon().iter().map(|event| match event.kind() {
            Kind::Arrival => {
                self.packets[Handle(event.argument())].destination.0 ^ self.ports[event.place()].peer
            }
            Kind::Wake => self.ports[event.place()].peer,
            _ => 0,
        });
        read.fold(0, |sum, word| sum ^ word)
    }

    fn warm_queues_and_headers(&self) -> u32 {
        let read = self.engine.queue.soon().iter().map(|event| {
            let place = event.place();
            match (event.kind(), self.ports.is_host(place)) {
                (Kind::Arrival, true) => self.packets.first_word(Handle(event.argument())),
                (Kind::Wake, false) => self.ports.queue(place, self.ports[place].waiting.lowest()).bytes,
                _ => 0,
            }
        });
        read.fold(0, |sum, word| sum ^ word)
    }

    /// Packets that wait for ports that fall free, and what they give back to the buffer.
    fn warm_heads(&self) -> u32 {
        let read = self.engine.queue.soon().iter().map(|event| {
            let place = event.place();
            if event.kind() != Kind::Wake || self.ports.is_host(place) {
                return 0;
            }
            let head = self.ports.queue(place, self.ports[place].waiting.lowest()).head;
            if head == Handle::NONE { 0 } else { self.packets[head].ingress }
        });
        read.fold(0, |sum, word| sum ^ word)
    }
}
