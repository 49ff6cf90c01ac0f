//! Which queue of a port is served next: strict priorities first, then deficit round robin (Shreedhar and
//! Varghese 1995) among the weighted ones.

use crate::priority::{PRIORITIES, Priorities};

use super::config::{QueueConfig, Service};

/// The settings of the scheduler, the same for all ports of a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    strict: Priorities,
    /// Bytes that a weighted queue may send in one turn.
    quantum: [u32; PRIORITIES],
}

/// Bytes per turn and unit of weight.
const BYTES_PER_WEIGHT: u32 = 64;

impl Schedule {
    /// The scheduler of these queues.
    pub fn new(queues: &[QueueConfig; PRIORITIES]) -> Self {
        let mut schedule = Self { strict: Priorities::NONE, quantum: [0; PRIORITIES] };
        for (priority, queue) in queues.iter().enumerate() {
            match queue.service {
                Service::Strict => schedule.strict.insert(priority as u8),
                Service::Weighted(weight) => {
                    schedule.quantum[priority] = u32::from(weight.max(1)) * BYTES_PER_WEIGHT;
                }
            }
        }
        schedule
    }

    /// Which of the `eligible` queues is next, of which there is at least one. `turn` is the weighted queue
    /// whose turn it is; `deficit` and `head` are what a queue may still send, and the length of its first
    /// packet.
    pub fn next(
        &self,
        eligible: Priorities,
        turn: &mut u8,
        deficits: &mut [u32; PRIORITIES],
        head: impl Fn(u8) -> u32,
    ) -> u8 {
        if let Some(priority) = eligible.common(self.strict).highest() {
            return priority;
        }
        if eligible.0.is_power_of_two() {
            return eligible.0.trailing_zeros() as u8;
        }
        let mut priority = *turn;
        loop {
            let index = usize::from(priority);
            if eligible.contains(priority) && deficits[index] >= head(priority) {
                deficits[index] -= head(priority);
                *turn = priority;
                return priority;
            }
            priority = next_in_turn(eligible, priority);
            let index = usize::from(priority);
            deficits[index] += self.quantum[index];
        }
    }
}

/// The next eligible queue after `priority`, round the circle; possibly itself.
fn next_in_turn(eligible: Priorities, priority: u8) -> u8 {
    let rotated = eligible.0.rotate_right(u32::from(priority) + 1);
    (priority + 1 + rotated.trailing_zeros() as u8) % PRIORITIES as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(services: &[(u8, Service)]) -> Schedule {
        let mut queues = [QueueConfig::default(); PRIORITIES];
        for (priority, service) in services {
            queues[usize::from(*priority)].service = *service;
        }
        Schedule::new(&queues)
    }

    /// Bytes served of each priority, when the queues of `lengths` always have packets.
    fn serve(schedule: &Schedule, lengths: &[(u8, u32)], packets: usize) -> [u32; PRIORITIES] {
        let eligible: Priorities = lengths.iter().map(|(priority, _)| *priority).collect();
        let mut length = [0; PRIORITIES];
        for (priority, bytes) in lengths {
            length[usize::from(*priority)] = *bytes;
        }
        let (mut turn, mut deficits, mut served) = (0, [0; PRIORITIES], [0; PRIORITIES]);
        for _ in 0..packets {
            let head = |priority: u8| length[usize::from(priority)];
            let priority = schedule.next(eligible, &mut turn, &mut deficits, head);
            served[usize::from(priority)] += head(priority);
        }
        served
    }

    #[test]
    fn weights_divide_bytes_whatever_the_packets() {
        let schedule =
            schedule(&[(0, Service::Weighted(10)), (3, Service::Weighted(50)), (5, Service::Weighted(40))]);
        let served = serve(&schedule, &[(0, 64), (3, 4158), (5, 1048)], 20_000);
        let total: u32 = served.iter().sum();
        for (priority, share) in [(0, 0.10), (3, 0.50), (5, 0.40)] {
            let got = f64::from(served[priority]) / f64::from(total);
            assert!((got - share).abs() < 0.002, "priority {priority}: {got}");
        }
    }

    #[test]
    fn a_strict_queue_comes_first_and_the_higher_of_two() {
        let schedule = schedule(&[(6, Service::Strict), (2, Service::Strict)]);
        assert_eq!(serve(&schedule, &[(7, 100), (6, 100), (2, 100)], 5)[6], 500);
        assert_eq!(serve(&schedule, &[(7, 100), (2, 100)], 5)[2], 500);
    }

    #[test]
    fn a_lone_queue_is_served_without_credit() {
        let schedule = schedule(&[]);
        assert_eq!(serve(&schedule, &[(4, 9000)], 3)[4], 27_000);
    }
}
