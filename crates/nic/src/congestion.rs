//! When the next run of a queue pair may leave, and how much of it may be in flight.
//!
//! One controller per connection. The requester asks [`CongestionControl::window`] before it sends new
//! data, tells what it sent and what came back, and waits until [`CongestionControl::next_send`].

use crate::time::{Duration, Instant};

/// The rate control of one connection.
pub trait CongestionControl {
    /// `bytes` (payload and headers) were handed to the wire.
    fn on_send(&mut self, now: Instant, bytes: u32);

    /// `bytes` were acknowledged; `sent` is when the newest of them left, unless it was retransmitted.
    fn on_ack(&mut self, now: Instant, bytes: u32, sent: Option<Instant>);

    /// A congestion notification packet arrived (IBTA A17.9.3).
    fn on_cnp(&mut self, now: Instant);

    /// Packets were lost: a NAK for a sequence error or an ACK timeout.
    fn on_loss(&mut self, now: Instant);

    /// How many unacknowledged bytes may be in flight.
    fn window(&self) -> u32;

    /// The earliest time at which the next packet may leave, if it is paced.
    fn next_send(&self) -> Option<Instant>;
}

/// The rate controls there are.
#[derive(Clone, Debug)]
pub(crate) enum Controller {
    /// A window that halves on congestion.
    Halving(HalvingWindow),
}

impl Controller {
    /// The control of a new connection that may have `window` bytes in flight.
    pub fn new(window: u32) -> Self {
        Self::Halving(HalvingWindow::new(window))
    }

    fn inner(&self) -> &dyn CongestionControl {
        match self {
            Self::Halving(window) => window,
        }
    }

    fn inner_mut(&mut self) -> &mut dyn CongestionControl {
        match self {
            Self::Halving(window) => window,
        }
    }
}

impl CongestionControl for Controller {
    fn on_send(&mut self, now: Instant, bytes: u32) {
        self.inner_mut().on_send(now, bytes);
    }

    fn on_ack(&mut self, now: Instant, bytes: u32, sent: Option<Instant>) {
        self.inner_mut().on_ack(now, bytes, sent);
    }

    fn on_cnp(&mut self, now: Instant) {
        self.inner_mut().on_cnp(now);
    }

    fn on_loss(&mut self, now: Instant) {
        self.inner_mut().on_loss(now);
    }

    fn window(&self) -> u32 {
        self.inner().window()
    }

    fn next_send(&self) -> Option<Instant> {
        self.inner().next_send()
    }
}

/// A window that halves on congestion, at most once in [`Self::REACTION`], and grows back with the bytes
/// acknowledged.
///
/// A software receiver loses packets when its socket buffer overruns, which a smaller window cures;
/// nothing is paced.
#[derive(Clone, Debug)]
pub(crate) struct HalvingWindow {
    window: u32,
    max: u32,
    last_cut: Option<Instant>,
}

impl HalvingWindow {
    /// The window never closes below two packets of the largest MTU.
    const MIN: u32 = 2 * 4096;
    /// What was lost or marked together was sent before the first cut showed an effect.
    const REACTION: Duration = Duration::from_micros(50);

    fn new(max: u32) -> Self {
        let max = max.max(Self::MIN);
        Self { window: max, max, last_cut: None }
    }

    fn cut(&mut self, now: Instant) {
        if self.last_cut.is_some_and(|last| now < last + Self::REACTION) {
            return;
        }
        self.last_cut = Some(now);
        self.window = (self.window / 2).max(Self::MIN);
    }
}

impl CongestionControl for HalvingWindow {
    fn on_send(&mut self, _now: Instant, _bytes: u32) {}

    fn on_ack(&mut self, _now: Instant, bytes: u32, _sent: Option<Instant>) {
        // Doubles in about eight windows' worth of acknowledgements.
        self.window = self.window.saturating_add(bytes / 8).min(self.max);
    }

    fn on_cnp(&mut self, now: Instant) {
        self.cut(now);
    }

    fn on_loss(&mut self, now: Instant) {
        self.cut(now);
    }

    fn window(&self) -> u32 {
        self.window
    }

    fn next_send(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_halves_once_per_reaction_time_and_grows_back() {
        let mut window = HalvingWindow::new(65_536);
        let start = Instant::ZERO;
        window.on_loss(start);
        window.on_cnp(start + Duration::from_micros(49));
        assert_eq!(window.window(), 32_768);
        window.on_cnp(start + Duration::from_micros(50));
        assert_eq!(window.window(), 16_384);
        for _ in 0..10 {
            window.on_loss(start + Duration::from_millis(1));
        }
        assert_eq!(window.window(), HalvingWindow::MIN);
        for _ in 0..100 {
            window.on_ack(start, 8_192, None);
        }
        assert_eq!(window.window(), 65_536);
    }
}
