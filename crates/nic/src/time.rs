//! Time as the adapter sees it: picoseconds from an epoch the caller chose.
//!
//! A picosecond is short enough that a 64-byte packet at 800 Gb/s (640 ps) has an exact length. 64 bits
//! of them wrap after 213 days, so instants are compared like TCP sequence numbers: two instants that
//! are alive at once must lie within 106 days of each other, which every protocol timer does.

use core::cmp::Ordering;
use core::ops::{Add, AddAssign, Sub};

/// A point in time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Instant(u64);

/// A span of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(u64);

impl Instant {
    /// The caller's epoch.
    pub const ZERO: Self = Self(0);

    /// The instant `picoseconds` after the epoch.
    pub const fn from_picos(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// The instant `nanoseconds` after the epoch (wrapping).
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds.wrapping_mul(1000))
    }

    /// Picoseconds since the epoch (wrapping).
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// The time from `earlier` to `self`; zero if `earlier` is later.
    pub fn saturating_since(self, earlier: Self) -> Duration {
        let difference = self.0.wrapping_sub(earlier.0);
        Duration(if difference > i64::MAX as u64 { 0 } else { difference })
    }
}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.wrapping_sub(other.0) as i64).cmp(&0)
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.wrapping_add(duration.0))
    }
}

impl AddAssign<Duration> for Instant {
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.saturating_since(earlier)
    }
}

impl Duration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// So many picoseconds.
    pub const fn from_picos(picoseconds: u64) -> Self {
        Self(picoseconds)
    }

    /// So many nanoseconds.
    pub const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds * 1_000)
    }

    /// So many microseconds.
    pub const fn from_micros(microseconds: u64) -> Self {
        Self(microseconds * 1_000_000)
    }

    /// So many milliseconds.
    pub const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds * 1_000_000_000)
    }

    /// The span in picoseconds.
    pub const fn as_picos(self) -> u64 {
        self.0
    }

    /// The span in nanoseconds, rounded up, so that waiting so long is long enough.
    pub const fn as_nanos_ceil(self) -> u64 {
        self.0.div_ceil(1000)
    }
}

impl Add for Duration {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_compare_across_the_wrap() {
        let before = Instant::from_picos(u64::MAX - 5);
        let after = before + Duration::from_picos(10);
        assert!(after > before);
        assert_eq!(after - before, Duration::from_picos(10));
        assert_eq!(before - after, Duration::ZERO);
    }
}
