//! The choice among equal paths.

use nic::Instant;

use super::murmur::{address, murmur3};
use super::{Choice, Forwarding, Hash};
use crate::forward::routes::PortId;
use crate::packet::Packet;
use crate::random::{Random, mix};

/// What a switch remembers to choose by.
#[derive(Clone, Debug)]
pub(crate) struct Chooser {
    seed: u64,
    node: u32,
    random: Random,
    turn: u32,
    flowlets: Box<[Flowlet]>,
}

/// The last packet of the flows that share an entry.
#[derive(Clone, Copy, Debug)]
struct Flowlet {
    last: Instant,
    port: PortId,
}

impl Flowlet {
    const NONE: Self = Self { last: Instant::ZERO, port: PortId(u32::MAX) };
}

impl Chooser {
    /// The chooser of a node.
    pub fn new(forwarding: &Forwarding, seed: u64, node: u32) -> Self {
        let own = Random::derive(seed, u64::from(node)).next();
        let entries = match forwarding {
            Forwarding::Flowlet { entries, .. } => entries.next_power_of_two() as usize,
            _ => 0,
        };
        let flowlets = vec![Flowlet::NONE; entries].into();
        let seed = match forwarding {
            Forwarding::Ecmp(Hash::Common) => seed,
            _ => own,
        };
        Self { seed, node, random: Random::new(own), turn: 0, flowlets }
    }

    /// One of `ports`, of which there is at least one. `queued` tells how many bytes wait at a port.
    pub fn choose(
        &mut self,
        forwarding: &Forwarding,
        ports: &[PortId],
        packet: &Packet,
        now: Instant,
        queued: impl Fn(PortId) -> u32,
    ) -> PortId {
        match *forwarding {
            Forwarding::Ecmp(Hash::HpccNs3) => {
                // It keeps next hops in the order of their addresses in memory, which fall with their
                // numbers: each switch is a mapping of its own.
                ports[ports.len() - 1 - self.hpcc_hash(packet) as usize % ports.len()]
            }
            Forwarding::Ecmp(_) => ports[scale(self.hash(packet), ports.len())],
            Forwarding::Adaptive => self.pick(Choice::LeastQueued, ports, queued),
            Forwarding::Spray(choice) => self.pick(choice, ports, queued),
            Forwarding::Flowlet { gap, choice, .. } => {
                let entry = self.hash(packet) as usize & (self.flowlets.len() - 1);
                let Flowlet { last, port } = self.flowlets[entry];
                let port = if now.saturating_since(last) < gap && ports.contains(&port) {
                    port
                } else {
                    self.pick(choice, ports, queued)
                };
                self.flowlets[entry] = Flowlet { last: now, port };
                port
            }
        }
    }

    fn pick(&mut self, choice: Choice, ports: &[PortId], queued: impl Fn(PortId) -> u32) -> PortId {
        match choice {
            Choice::Random => ports[self.random.below(ports.len() as u64) as usize],
            Choice::InTurn => ports[self.next_turn(ports.len())],
            Choice::LeastQueued => {
                let start = self.next_turn(ports.len());
                let (before, after) = ports.split_at(start);
                let in_turn = after.iter().chain(before);
                in_turn.copied().min_by_key(|port| queued(*port)).unwrap_or(ports[start])
            }
        }
    }

    fn next_turn(&mut self, len: usize) -> usize {
        self.turn = self.turn.wrapping_add(1);
        self.turn as usize % len
    }

    fn hash(&self, packet: &Packet) -> u64 {
        let addresses = u64::from(packet.source.0) << 32 | u64::from(packet.destination.0);
        mix(addresses ^ mix(u64::from(packet.ports) ^ self.seed))
    }

    /// The simulator seeds the hash of a switch with its number.
    fn hpcc_hash(&self, packet: &Packet) -> u32 {
        murmur3([address(packet.source.0), address(packet.destination.0), packet.ports], self.node)
    }
}

/// A number below `len` for every hash, by its high bits.
fn scale(hash: u64, len: usize) -> usize {
    (((hash >> 32) * len as u64) >> 32) as usize
}

#[cfg(test)]
mod tests {
    use nic::Duration;

    use super::*;
    use crate::topology::HostId;

    const PORTS: [PortId; 4] = [PortId(10), PortId(11), PortId(12), PortId(13)];

    fn packet(flow: u32) -> Packet {
        Packet { ports: 4791 << 16 | (10_000 + flow), ..Packet::new(HostId(1), HostId(2), 1000, 938) }
    }

    fn counts(
        chooser: &mut Chooser,
        forwarding: Forwarding,
        packets: impl Iterator<Item = Packet>,
    ) -> [u32; 4] {
        let mut counts = [0; 4];
        for packet in packets {
            let port = chooser.choose(&forwarding, &PORTS, &packet, Instant::ZERO, |_| 0);
            counts[port.0 as usize - 10] += 1;
        }
        counts
    }

    #[test]
    fn ecmp_keeps_a_flow_on_its_path_and_spreads_flows() {
        for hash in [Hash::PerSwitch, Hash::Common, Hash::HpccNs3] {
            let forwarding = Forwarding::Ecmp(hash);
            let mut chooser = Chooser::new(&forwarding, 1, 20);
            assert!(counts(&mut chooser, forwarding, (0..9).map(|_| packet(7))).contains(&9));
            let spread = counts(&mut chooser, forwarding, (0..4000).map(packet));
            assert!(spread.iter().all(|count| (900..1100).contains(count)), "{hash:?}: {spread:?}");
        }
    }

    #[test]
    fn one_hash_everywhere_polarizes_and_one_per_switch_does_not() {
        for (hash, polarizes) in [(Hash::Common, true), (Hash::PerSwitch, false)] {
            let forwarding = Forwarding::Ecmp(hash);
            let (mut first, mut second) =
                (Chooser::new(&forwarding, 1, 20), Chooser::new(&forwarding, 1, 30));
            let choose = |chooser: &mut Chooser, packet| {
                chooser.choose(&forwarding, &PORTS, &packet, Instant::ZERO, |_| 0)
            };
            let sent_to_10: Vec<u32> =
                (0..400).filter(|flow| choose(&mut first, packet(*flow)) == PortId(10)).collect();
            let onward = counts(&mut second, forwarding, sent_to_10.iter().map(|flow| packet(*flow)));
            let idle = onward.iter().filter(|count| **count == 0).count();
            assert_eq!(idle, if polarizes { 3 } else { 0 }, "{hash:?}: {onward:?}");
        }
    }

    #[test]
    fn spraying_in_turn_is_even_for_one_flow() {
        let forwarding = Forwarding::Spray(Choice::InTurn);
        let mut chooser = Chooser::new(&forwarding, 1, 20);
        assert_eq!(counts(&mut chooser, forwarding, (0..400).map(|_| packet(0))), [100; 4]);
        let forwarding = Forwarding::Spray(Choice::Random);
        let random = counts(&mut chooser, forwarding, (0..4000).map(|_| packet(0)));
        assert!(random.iter().all(|count| (900..1100).contains(count)), "{random:?}");
    }

    #[test]
    fn adaptive_takes_the_emptiest_port() {
        let mut chooser = Chooser::new(&Forwarding::Adaptive, 1, 20);
        let queued = |port: PortId| [500, 300, 200, 400][port.0 as usize - 10];
        let port = chooser.choose(&Forwarding::Adaptive, &PORTS, &packet(0), Instant::ZERO, queued);
        assert_eq!(port, PortId(12));
    }

    #[test]
    fn a_flowlet_ends_with_a_pause() {
        let gap = Duration::from_micros(10);
        let forwarding = Forwarding::Flowlet { gap, entries: 64, choice: Choice::InTurn };
        let mut chooser = Chooser::new(&forwarding, 1, 20);
        let start = Instant::from_nanos(1_000_000);
        let mut at = |micros| {
            chooser.choose(&forwarding, &PORTS, &packet(0), start + Duration::from_micros(micros), |_| 0)
        };
        let first = at(0);
        assert_eq!((at(9), at(18)), (first, first));
        assert_ne!(at(28), first);
    }
}
