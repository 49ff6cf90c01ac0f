//! The only source of chance, seeded.

/// SplitMix64 (Steele, Lea and Flood 2014): one addition and a mix per number.
///
/// Every node has one of its own, seeded by [`Random::derive`], so that what one node draws never
/// depends on how many numbers another drew before it.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

    /// A sequence of its own for every seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The sequence of stream `stream` under `seed`.
    pub const fn derive(seed: u64, stream: u64) -> Self {
        Self(mix(seed ^ mix(stream.wrapping_add(Self::STEP))))
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(Self::STEP);
        mix(self.0)
    }

    /// A number below `bound`, which is not 0. The bias is below `bound` / 2^64.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A number of [0, 1), of 53 bits.
    pub const fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// An exponentially distributed number with the given mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    /// Shuffles `items` (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Spreads the bits of `value` over the whole word.
pub(crate) const fn mix(value: u64) -> u64 {
    let mixed = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_seeds_give_equal_numbers_and_streams_differ() {
        let (mut a, mut b, mut c) = (Random::derive(7, 1), Random::derive(7, 1), Random::derive(7, 2));
        let first = a.next();
        assert_eq!(first, b.next());
        assert_ne!(first, c.next());
        assert_ne!(first, a.next());
    }

    #[test]
    fn numbers_fall_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[random.below(10) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_600..10_400).contains(count)), "{counts:?}");
        let mean = (0..100_000).map(|_| random.exponential(3.0)).sum::<f64>() / 1e5;
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }
}
