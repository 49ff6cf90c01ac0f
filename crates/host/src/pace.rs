//! When what was posted or has to be answered leaves: at once, or together with what follows.
//!
//! A system call costs about as much as the packet it carries, so two kinds of packets wait a moment for
//! company, for as long as the program keeps calling:
//!
//! - *Answers* to what a poll found. The program is about to act on its completions, or on what it sees in
//!   its memory, often with a message back, which takes the acknowledgement along.
//! - *Posts in a burst*. After several were sent one by one with nothing received in between, the
//!   following are sent in bundles. What is in flight will be answered, and that ends the burst, as in
//!   Nagle's algorithm (RFC 896); but a few messages at a time never wait.
//!
//! Whatever waits is sent by the next poll of an empty queue, and by the worker if there is none.

use nic::{Duration, Instant};

/// The longest wait, if the worker has to end it.
const PATIENCE: Duration = Duration::from_micros(30);

/// Transmissions without anything received in between before posts are bundled.
const BURST: u32 = 8;

/// Posts in a bundle: with 4 KiB of payload each, what fits in a datagram.
const BUNDLE: u32 = 15;

/// What waits, and what led there.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// When something was last sent.
    last: Instant,
    /// Transmissions for posts since anything was received.
    transmissions: u32,
    /// Posts that wait.
    waiting: u32,
    due: Option<Instant>,
}

impl Pace {
    /// Something was received: the burst, if it was one, is answered.
    pub(crate) fn on_receive(&mut self) {
        self.transmissions = 0;
    }

    /// `posts` requests were posted. Whether to send now.
    pub(crate) fn on_post(&mut self, now: Instant, posts: u32) -> bool {
        if now - self.last > PATIENCE {
            self.transmissions = 0;
        }
        self.waiting += posts;
        if self.transmissions < BURST || self.waiting >= BUNDLE {
            self.transmissions += 1;
            return true;
        }
        self.defer(now);
        false
    }

    /// Something may wait for company from now on.
    pub(crate) fn defer(&mut self, now: Instant) {
        self.due.get_or_insert(now + PATIENCE);
    }

    /// Everything was sent.
    pub(crate) fn on_transmit(&mut self, now: Instant) {
        (self.last, self.waiting, self.due) = (now, 0, None);
    }

    /// When what waits has waited long enough.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_bundled_until_it_is_answered() {
        let (mut pace, now) = (Pace::default(), Instant::ZERO);
        let post = |pace: &mut Pace| {
            let sends = pace.on_post(now, 1);
            if sends {
                pace.on_transmit(now);
            }
            sends
        };
        assert!((0..BURST).all(|_| post(&mut pace)));
        let sent: Vec<bool> = (0..2 * BUNDLE).map(|_| post(&mut pace)).collect();
        assert_eq!(sent.iter().filter(|&&sent| sent).count(), 2);
        assert!(!post(&mut pace));
        assert_eq!(pace.due(), Some(now + PATIENCE));
        pace.on_receive();
        assert!(post(&mut pace));
        assert_eq!(pace.due(), None);
    }

    #[test]
    fn a_steady_trickle_never_waits() {
        let mut pace = Pace::default();
        for message in 1..100 {
            let now = Instant::ZERO + Duration::from_micros(40 * message);
            assert!(pace.on_post(now, 1));
            pace.on_transmit(now);
        }
    }
}
