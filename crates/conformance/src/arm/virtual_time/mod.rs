//! Two adapters on a link with faults, and a clock that jumps from one event to the next: deterministic.

mod link;
mod memory;
mod side;

use std::{array, net::Ipv4Addr};

use host::FaultPlan;
use nic::{Duration, Instant, Payload};
use wire::Gid;

use self::{link::Link, side::VirtualSide};
use super::{Arm, LOSSY, Need, Side};

/// What a wait may last on the virtual clock.
const PATIENCE: Duration = Duration::from_millis(20_000);

/// Longer than every timer that a scenario lets run while it waits for nothing to happen.
const QUIET: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Debug)]
pub struct VirtualTime {
    sides: [VirtualSide; 2],
    link: Link,
    now: Instant,
    deadline: Instant,
    is_faulty: bool,
}

impl VirtualTime {
    /// Two adapters, on a link with these faults.
    pub fn new(faults: FaultPlan) -> Self {
        let sides = array::from_fn(|index| {
            let address = Ipv4Addr::new(10, 0, 0, index as u8 + 1);
            VirtualSide::new(index as u64 + 1, Gid::from(address))
        });
        let is_faulty = [faults.loss, faults.corrupt, faults.duplicate, faults.reorder] != [0.0; 4];
        let link = Link::new(faults);
        Self { sides, link, now: Instant::ZERO, deadline: Instant::ZERO, is_faulty }
    }

    /// When the next thing happens.
    fn next_event(&self) -> Option<Instant> {
        let timeouts = self.sides.iter().filter_map(|side| side.nic.poll_timeout());
        self.link.next_arrival().into_iter().chain(timeouts).min()
    }

    fn transmit(&mut self) {
        /// Packets taken from an adapter at once.
        const RUN: usize = 16;
        for (from, side) in self.sides.iter_mut().enumerate() {
            while let Some(transmit) = side.nic.poll_transmit(self.now, RUN) {
                self.link.send(self.now, from, &transmit, side.nic.memory());
            }
        }
    }

    /// Goes on to an instant that is no later than the next event.
    fn advance(&mut self, to: Instant) {
        self.now = self.now.max(to);
        for side in &mut self.sides {
            side.now = self.now;
        }
        while let Some(packet) = self.link.receive(self.now) {
            let nic = &mut self.sides[packet.to].nic;
            nic.handle_packet(self.now, &packet.arrival, &packet.headers, Payload::Bytes(&packet.payload));
        }
        for side in &mut self.sides {
            side.nic.handle_timeout(self.now);
            side.take_events();
        }
    }

    /// Goes on to the next event, unless that comes after `deadline`.
    fn step_before(&mut self, deadline: Instant) -> bool {
        self.transmit();
        let Some(next) = self.next_event().filter(|next| *next <= deadline) else { return false };
        self.advance(next);
        true
    }
}

impl Arm for VirtualTime {
    fn side(&mut self, index: usize) -> &mut dyn Side {
        &mut self.sides[index]
    }

    fn start_waiting(&mut self) {
        self.deadline = self.now + PATIENCE;
    }

    fn step(&mut self) -> bool {
        self.step_before(self.deadline)
    }

    fn settle(&mut self) {
        let end = self.now + QUIET;
        while self.step_before(end) {}
        self.advance(end);
    }

    fn ack_timeout(&self) -> u8 {
        8
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        match need {
            Need::Lossless if self.is_faulty => Some(LOSSY),
            _ => None,
        }
    }
}
