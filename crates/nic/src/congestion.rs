//! When the next run of a queue pair may leave, and how much of it may be in flight.
//!
//! One controller per connection. The requester asks [`CongestionControl::window`] before it sends new
//! data, tells what it sent and what came back, and waits until [`CongestionControl::next_send`].

use crate::time::Instant;

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
