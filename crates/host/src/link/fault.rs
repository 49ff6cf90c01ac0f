//! Faults on purpose: loss, duplication, reordering and corruption of what arrives.
//!
//! They strike between the socket and the checksum, so that a corrupted packet has to be noticed by its
//! ICRC like any other. The same seed on the same sequence of packets strikes the same ones.

use std::str::FromStr;

use nic::{Duration, Instant};

use super::envelope::Envelope;

/// How long a packet that waits to be overtaken waits at most.
const HOLD: Duration = Duration::from_millis(1);

/// Which share of the packets is struck, and from where chance starts.
///
/// Written as `loss=1%,duplicate=0.5%,reorder=2%,corrupt=0.01,seed=7`: a share with a percent sign or as
/// a fraction of one; what is not named does not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Lost.
    pub loss: f64,
    /// Delivered twice.
    pub duplicate: f64,
    /// Delivered after the next one.
    pub reorder: f64,
    /// Delivered with one bit flipped.
    pub corrupt: f64,
    /// Where chance starts.
    pub seed: u64,
}

/// Why a fault plan was not understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FaultPlanError(String);

impl std::fmt::Display for FaultPlanError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: expected loss=, duplicate=, reorder= or corrupt= with a share such as 1% or 0.01, or seed= with a number, separated by commas",
            self.0
        )
    }
}

impl std::error::Error for FaultPlanError {}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, FaultPlanError> {
        let mut plan = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let wrong = || FaultPlanError(format!("fault plan item {item:?} is not understood"));
            let (name, value) = item.split_once('=').ok_or_else(wrong)?;
            match name.trim() {
                "loss" => plan.loss = share(value).ok_or_else(wrong)?,
                "duplicate" => plan.duplicate = share(value).ok_or_else(wrong)?,
                "reorder" => plan.reorder = share(value).ok_or_else(wrong)?,
                "corrupt" => plan.corrupt = share(value).ok_or_else(wrong)?,
                "seed" => plan.seed = value.trim().parse().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        Ok(plan)
    }
}

/// A share from 0 to 1, written as a fraction or with a percent sign.
fn share(text: &str) -> Option<f64> {
    let text = text.trim();
    let value = match text.strip_suffix('%') {
        Some(percent) => percent.trim().parse::<f64>().ok()? / 100.0,
        None => text.parse().ok()?,
    };
    (0.0..=1.0).contains(&value).then_some(value)
}

/// A fault plan at work.
#[derive(Debug)]
pub(super) struct Faults {
    plan: FaultPlan,
    chance: Chance,
    held: Option<(Envelope, Vec<u8>, Instant)>,
}

impl Faults {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self { plan, chance: Chance(plan.seed), held: None }
    }

    /// Passes one packet on: not at all, once, twice, changed, or later.
    pub(super) fn pass(
        &mut self,
        now: Instant,
        envelope: &Envelope,
        packet: &[u8],
        deliver: &mut impl FnMut(&Envelope, &[u8]),
    ) {
        if self.chance.strikes(self.plan.loss) {
            return;
        }
        if self.chance.strikes(self.plan.corrupt) && !packet.is_empty() {
            let mut corrupted = packet.to_vec();
            let bit = self.chance.below(corrupted.len() as u64 * 8) as usize;
            corrupted[bit / 8] ^= 1 << (bit % 8);
            deliver(envelope, &corrupted);
        } else if self.held.is_none() && self.chance.strikes(self.plan.reorder) {
            self.held = Some((*envelope, packet.to_vec(), now + HOLD));
            return;
        } else {
            deliver(envelope, packet);
        }
        if self.chance.strikes(self.plan.duplicate) {
            deliver(envelope, packet);
        }
        self.release(deliver);
    }

    /// Delivers the packet that waited, if it has waited long enough for nothing.
    pub(super) fn expire(&mut self, now: Instant, deliver: &mut impl FnMut(&Envelope, &[u8])) {
        if self.deadline().is_some_and(|due| due <= now) {
            self.release(deliver);
        }
    }

    /// When [`Faults::expire`] is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.held.as_ref().map(|(_, _, due)| *due)
    }

    fn release(&mut self, deliver: &mut impl FnMut(&Envelope, &[u8])) {
        if let Some((envelope, packet, _)) = self.held.take() {
            deliver(&envelope, &packet);
        }
    }
}

/// A seeded source of chance (SplitMix64).
#[derive(Debug)]
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    fn strikes(&mut self, share: f64) -> bool {
        // Chance is drawn only for what can happen, so that one kind of fault leaves another's alone.
        share > 0.0 && (self.next() >> 11) as f64 / (1u64 << 53) as f64 <= share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_written() {
        let plan: FaultPlan = "loss=1%, reorder=0.5 ,seed=7".parse().unwrap();
        assert_eq!(plan, FaultPlan { loss: 0.01, reorder: 0.5, seed: 7, ..FaultPlan::default() });
        for wrong in ["loss", "loss=2", "loss=-1%", "delay=1%", "seed=x"] {
            assert!(wrong.parse::<FaultPlan>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_kind_of_fault_strikes_its_share() {
        let count = |plan: FaultPlan| {
            let mut faults = Faults::new(plan);
            let (mut delivered, mut changed) = (0, 0);
            let mut deliver = |_: &Envelope, bytes: &[u8]| {
                delivered += 1;
                changed += usize::from(bytes != [0; 64]);
            };
            for _ in 0..10_000 {
                faults.pass(Instant::ZERO, &Envelope::default(), &[0; 64], &mut deliver);
            }
            faults.expire(Instant::ZERO + HOLD, &mut deliver);
            (delivered, changed)
        };
        let (delivered, _) = count(FaultPlan { loss: 0.1, ..FaultPlan::default() });
        assert!((8_800..9_200).contains(&delivered), "{delivered}");
        let (delivered, _) = count(FaultPlan { duplicate: 0.1, ..FaultPlan::default() });
        assert!((10_800..11_200).contains(&delivered), "{delivered}");
        let (delivered, changed) = count(FaultPlan { corrupt: 0.1, ..FaultPlan::default() });
        assert!(delivered == 10_000 && (800..1_200).contains(&changed), "{changed}");
        assert_eq!(count(FaultPlan { reorder: 0.1, ..FaultPlan::default() }), (10_000, 0));
    }

    #[test]
    fn reordering_swaps_neighbours() {
        let mut faults = Faults::new(FaultPlan { reorder: 1.0, ..FaultPlan::default() });
        let mut order = Vec::new();
        for packet in [[1], [2], [3], [4]] {
            faults.pass(Instant::ZERO, &Envelope::default(), &packet, &mut |_, bytes| order.push(bytes[0]));
        }
        assert_eq!(order, [2, 1, 4, 3]);
    }
}
