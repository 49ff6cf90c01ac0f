//! Two sides on the real clock, each of which does its work when it is called, or by itself.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{Arm, Need, Side};

/// How fast the machine is that the sides run on.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// What a wait may last.
    pub patience: Duration,
    /// After so long, what has not happened was not to happen.
    pub quiet: Duration,
    /// A local ACK timeout code: 4.096 us times two to this power, and four times that at most.
    pub ack_timeout: u8,
}

impl Pace {
    /// Adapters of this host.
    pub const HOST: Self =
        Self { patience: Duration::from_secs(20), quiet: Duration::from_millis(5), ack_timeout: 14 };

    /// The same, with packets lost on purpose: what is lost is soon sent again.
    pub const FAULTY: Self = Self { quiet: Duration::from_millis(20), ack_timeout: 11, ..Self::HOST };

    /// An emulated host, which is 20 to 50 times slower.
    pub const EMULATED: Self =
        Self { patience: Duration::from_secs(60), quiet: Duration::from_millis(100), ack_timeout: 17 };
}

/// See the module.
pub struct RealTime {
    sides: [Box<dyn Side>; 2],
    pace: Pace,
    deadline: Instant,
    idle: u32,
    lacks: Vec<(Need, &'static str)>,
}

/// So many steps of a wait are taken without a pause: an answer takes a few.
const EAGER: u32 = 200;

/// The pause after each step of a longer wait.
const PAUSE: Duration = Duration::from_micros(50);

impl RealTime {
    /// Two sides that reach each other.
    pub fn new(sides: [Box<dyn Side>; 2], pace: Pace) -> Self {
        Self { sides, pace, deadline: Instant::now(), idle: 0, lacks: Vec::new() }
    }

    /// An arm that has not got something, for a reason.
    #[must_use]
    pub fn without(mut self, need: Need, reason: &'static str) -> Self {
        self.lacks.push((need, reason));
        self
    }
}

impl Arm for RealTime {
    fn side(&mut self, index: usize) -> &mut dyn Side {
        &mut *self.sides[index]
    }

    fn start_waiting(&mut self) {
        self.deadline = Instant::now() + self.pace.patience;
        self.idle = 0;
    }

    fn step(&mut self) -> bool {
        self.idle += 1;
        if self.idle > EAGER {
            thread::sleep(PAUSE);
        }
        self.sides.iter_mut().for_each(|side| side.progress());
        Instant::now() < self.deadline
    }

    fn settle(&mut self) {
        let end = Instant::now() + self.pace.quiet;
        while Instant::now() < end {
            self.sides.iter_mut().for_each(|side| side.progress());
            thread::sleep(PAUSE);
        }
    }

    fn ack_timeout(&self) -> u8 {
        self.pace.ack_timeout
    }

    fn lacks(&self, need: Need) -> Option<&'static str> {
        self.lacks.iter().find(|(lacking, _)| *lacking == need).map(|(_, reason)| *reason)
    }
}
