//! How large flows are.

use crate::random::Random;
use crate::topology::statements;

/// A distribution of sizes, as points of its cumulative distribution joined by straight lines.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeDistribution {
    /// Bytes, and the probability of at most so many; both increase, up to 1.
    points: Vec<(f64, f64)>,
}

/// Why a distribution cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SizesError {
    /// A line without two numbers.
    #[error("line {0}: expected a size in bytes and the probability of at most that size, in percent")]
    Line(usize),
    /// A line that goes down.
    #[error("line {0}: expected no smaller size and probability than in the line before")]
    Order(usize),
    /// The last line is not 100 %.
    #[error("the last probability is not 100; expected a line such as: 10000000 100")]
    Incomplete,
}

impl SizeDistribution {
    /// All flows have so many bytes.
    pub fn fixed(bytes: u64) -> Self {
        Self { points: vec![(bytes as f64, 1.0)] }
    }

    /// Reads lines of a size and a cumulative probability in percent, as the HPCC simulator's traffic
    /// generator has them.
    pub fn parse(text: &str) -> Result<Self, SizesError> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (line, statement) in statements(text) {
            let numbers: Option<Vec<f64>> =
                statement.split_whitespace().map(|word| word.parse().ok()).collect();
            let Some([bytes, percent]) = numbers.as_deref() else { return Err(SizesError::Line(line)) };
            let point = (*bytes, percent / 100.0);
            if !(point.0.is_finite() && point.0 >= 0.0 && (0.0..=1.0).contains(&point.1)) {
                return Err(SizesError::Line(line));
            }
            if points.last().is_some_and(|last| point.0 < last.0 || point.1 < last.1) {
                return Err(SizesError::Order(line));
            }
            points.push(point);
        }
        match points.last() {
            Some((_, 1.0)) => Ok(Self { points }),
            _ => Err(SizesError::Incomplete),
        }
    }

    /// The mean, in bytes.
    pub fn mean(&self) -> f64 {
        let first = self.points[0].0 * self.points[0].1;
        let pairs = self.points.windows(2);
        first + pairs.map(|pair| (pair[0].0 + pair[1].0) / 2.0 * (pair[1].1 - pair[0].1)).sum::<f64>()
    }

    /// A size, at least one byte.
    pub fn draw(&self, random: &mut Random) -> u64 {
        let probability = random.unit();
        let after = self.points.partition_point(|(_, up_to)| *up_to <= probability);
        let (bytes, up_to) = self.points[after.min(self.points.len() - 1)];
        let Some((lower, from)) = after.checked_sub(1).map(|before| self.points[before]) else {
            return bytes.max(1.0) as u64;
        };
        let part = (probability - from) / (up_to - from);
        (lower + part * (bytes - lower)).round().max(1.0) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_drawn_as_the_curve_says() {
        let sizes = SizeDistribution::parse("0 0\n1000 50 # half are small\n9000 75\n1000000 100\n").unwrap();
        let mut random = Random::new(2);
        let drawn: Vec<u64> = (0..100_000).map(|_| sizes.draw(&mut random)).collect();
        let below = |limit| drawn.iter().filter(|bytes| **bytes <= limit).count() as f64 / 1e5;
        assert!((below(1000) - 0.5).abs() < 0.01 && (below(9000) - 0.75).abs() < 0.01);
        assert!((below(5000) - 0.625).abs() < 0.01);
        let mean = drawn.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean / sizes.mean() - 1.0).abs() < 0.02, "{mean}, {}", sizes.mean());
        assert_eq!(SizeDistribution::fixed(7).draw(&mut random), 7);
        assert_eq!(SizeDistribution::fixed(7).mean(), 7.0);
    }

    #[test]
    fn a_curve_that_is_none_is_refused() {
        assert_eq!(SizeDistribution::parse("100"), Err(SizesError::Line(1)));
        assert_eq!(SizeDistribution::parse("0 0\n-5 100"), Err(SizesError::Line(2)));
        assert_eq!(SizeDistribution::parse("100 50\n90 100"), Err(SizesError::Order(2)));
        assert_eq!(SizeDistribution::parse("100 50\n200 99"), Err(SizesError::Incomplete));
        assert_eq!(SizeDistribution::parse(""), Err(SizesError::Incomplete));
    }
}
