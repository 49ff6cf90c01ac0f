//! Link rates and spans of time, exact in picoseconds.

use std::fmt;
use std::str::FromStr;

use nic::Duration;

/// Bits per second, not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// Why a quantity with a unit cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number at the start, or one out of range.
    #[error("\"{0}\": expected a number and a unit, such as {1}")]
    Malformed(String, &'static str),
    /// A rate of zero, at which nothing ever arrives.
    #[error("a rate of zero")]
    Zero,
}

impl Rate {
    /// So many Gb/s (10^9 bits per second).
    ///
    /// # Panics
    /// If it is zero.
    pub const fn gbps(gigabits: u64) -> Self {
        assert!(gigabits > 0, "a rate of zero");
        Self(gigabits * 1_000_000_000)
    }

    /// So many bits per second, unless that is zero.
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// In bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// How long `bytes` take, rounded up to a picosecond.
    pub const fn time_for(self, bytes: u64) -> Duration {
        let bits = bytes as u128 * 8 * PICOS_PER_SECOND as u128;
        Duration::from_picos(bits.div_ceil(self.0 as u128) as u64)
    }

    /// How many whole bytes pass in `time`.
    pub const fn bytes_in(self, time: Duration) -> u64 {
        (time.as_picos() as u128 * self.0 as u128 / (8 * PICOS_PER_SECOND as u128)) as u64
    }
}

const PICOS_PER_SECOND: u64 = 1_000_000_000_000;

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gb/s", self.0 as f64 / 1e9)
    }
}

impl FromStr for Rate {
    type Err = QuantityError;

    /// Reads "100Gbps", "25 Gb/s", "1000Mb/s" or "40G".
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let example = "100Gbps";
        let bits = quantity(text, example, |unit| {
            Some(match unit {
                "bps" | "b/s" => 1,
                "K" | "Kbps" | "Kb/s" | "kbps" | "kb/s" => 1_000,
                "M" | "Mbps" | "Mb/s" => 1_000_000,
                "G" | "Gbps" | "Gb/s" => 1_000_000_000,
                "T" | "Tbps" | "Tb/s" => 1_000_000_000_000,
                _ => return None,
            })
        })?;
        Self::from_bits_per_second(bits).ok_or(QuantityError::Zero)
    }
}

/// Reads a span of time such as "1000ns", "1.5 us" or "2ms".
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    quantity(text, "1000ns", |unit| {
        Some(match unit {
            "ps" => 1,
            "ns" => 1_000,
            "us" | "µs" => 1_000_000,
            "ms" => 1_000_000_000,
            "s" => PICOS_PER_SECOND,
            _ => return None,
        })
    })
    .map(Duration::from_picos)
}

/// Reads a number and a unit; the number may have a fraction.
fn quantity(
    text: &str,
    example: &'static str,
    unit: impl Fn(&str) -> Option<u64>,
) -> Result<u64, QuantityError> {
    let malformed = || QuantityError::Malformed(text.to_owned(), example);
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(malformed)?;
    let (number, name) = text.split_at(split);
    let scale = unit(name.trim()).ok_or_else(malformed)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().map_err(|_| malformed())?;
    let fraction: f64 =
        if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().map_err(|_| malformed())? };
    let rest = (fraction * scale as f64).round() as u64;
    whole.checked_mul(scale).and_then(|whole| whole.checked_add(rest)).ok_or_else(malformed)
}

/// The time one byte takes, in 2^-20 ps: what a port multiplies its frames' lengths with.
///
/// Exact for every Ethernet rate (10 Gb/s is 800 ps a byte, 800 Gb/s is 10 ps); other rates are rounded
/// so that no frame is ever faster than its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ByteTime(u64);

impl ByteTime {
    const FRACTION_BITS: u32 = 20;

    /// The time of `bytes` in picoseconds; at most a few million bytes.
    pub const fn picos(self, bytes: u32) -> u64 {
        (bytes as u64 * self.0 + ((1 << Self::FRACTION_BITS) - 1)) >> Self::FRACTION_BITS
    }
}

impl From<Rate> for ByteTime {
    fn from(rate: Rate) -> Self {
        let picos = (8 * u128::from(PICOS_PER_SECOND)) << Self::FRACTION_BITS;
        Self(picos.div_ceil(u128::from(rate.0)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_takes_a_whole_number_of_picoseconds_at_the_rates_of_ethernet() {
        for (gigabits, picos) in
            [(10, 800), (25, 320), (40, 200), (50, 160), (100, 80), (200, 40), (400, 20), (800, 10)]
        {
            let rate = Rate::gbps(gigabits);
            assert_eq!(ByteTime::from(rate).picos(1), picos);
            assert_eq!(ByteTime::from(rate).picos(1048), 1048 * picos);
            assert_eq!(rate.time_for(1048).as_picos(), 1048 * picos);
            assert_eq!(rate.bytes_in(Duration::from_picos(1048 * picos)), 1048);
        }
    }

    #[test]
    fn no_rate_is_exceeded_by_rounding() {
        let rate: Rate = "56Gbps".parse().unwrap();
        let exact = 1086.0 * 8e12 / 56e9;
        let picos = ByteTime::from(rate).picos(1086) as f64;
        assert!((exact..exact + 2.0).contains(&picos), "{picos} for {exact}");
        let slow: Rate = "10Mbps".parse().unwrap();
        assert_eq!(ByteTime::from(slow).picos(9216), 9216 * 800_000);
    }

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!("100Gbps".parse(), Ok(Rate::gbps(100)));
        assert_eq!(" 25 Gb/s".parse(), Ok(Rate::gbps(25)));
        assert_eq!("2.5G".parse::<Rate>().unwrap().bits_per_second(), 2_500_000_000);
        assert_eq!(parse_duration("0.001ms"), Ok(Duration::from_micros(1)));
        assert_eq!(parse_duration("1000ns"), Ok(Duration::from_micros(1)));
        assert_eq!(parse_duration("7ps"), Ok(Duration::from_picos(7)));
    }

    #[test]
    fn what_is_no_quantity_is_refused_with_what_was_expected() {
        assert_eq!("0Gbps".parse::<Rate>(), Err(QuantityError::Zero));
        for text in ["", "100", "Gbps", "1.2.3G", "-5G", "5 parsecs", "99999999999999999999G", "99999999999G"]
        {
            let error = text.parse::<Rate>().unwrap_err().to_string();
            assert_eq!(error, format!("\"{text}\": expected a number and a unit, such as 100Gbps"));
            assert!(parse_duration(text).is_err());
        }
    }
}
