//! The two 24-bit numbers of the transport: packet sequence and queue pair.

use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

const MASK: u32 = 0x00FF_FFFF;

/// A packet sequence number: 24 bits that wrap (IBTA vol. 1, 9.2).
///
/// There is deliberately no `Ord`: which of two numbers comes first is only
/// defined by [`Psn::distance`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The first number.
    pub const ZERO: Psn = Psn(0);
    /// The last number before the wrap.
    pub const MAX: Psn = Psn(MASK);

    /// Keeps the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Psn(value & MASK)
    }

    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// The number of the following packet.
    pub const fn next(self) -> Self {
        Psn::new(self.0.wrapping_add(1))
    }

    /// The number of the packet before.
    pub const fn previous(self) -> Self {
        Psn::new(self.0.wrapping_sub(1))
    }

    /// How many packets `self` lies after `earlier`: negative when it lies
    /// before, in `-2^23 .. 2^23`. Half the number space counts as the past
    /// (IBTA vol. 1, 9.7.1: valid and duplicate regions).
    pub const fn distance(self, earlier: Psn) -> i32 {
        // Moving the 24-bit difference to the top lets the arithmetic shift back extend its sign.
        (self.0.wrapping_sub(earlier.0) << 8).cast_signed() >> 8
    }

    /// Whether `self` was sent before `other`.
    pub const fn is_before(self, other: Psn) -> bool {
        self.distance(other) < 0
    }
}

impl Add<u32> for Psn {
    type Output = Psn;

    fn add(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_add(packets))
    }
}

impl AddAssign<u32> for Psn {
    fn add_assign(&mut self, packets: u32) {
        *self = *self + packets;
    }
}

impl Sub<u32> for Psn {
    type Output = Psn;

    fn sub(self, packets: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(packets))
    }
}

impl SubAssign<u32> for Psn {
    fn sub_assign(&mut self, packets: u32) {
        *self = *self - packets;
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A queue pair number: 24 bits (IBTA vol. 1, 9.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Qpn(u32);

impl Qpn {
    /// The subnet management interface.
    pub const SMI: Qpn = Qpn(0);
    /// The general services interface, where connection management lives.
    pub const GSI: Qpn = Qpn(1);
    /// The destination of every multicast packet (IBTA vol. 1, 10.5).
    pub const MULTICAST: Qpn = Qpn(MASK);

    /// Keeps the low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Qpn(value & MASK)
    }

    /// The number, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_wrap_in_both_directions() {
        assert_eq!(Psn::MAX.next(), Psn::ZERO);
        assert_eq!(Psn::ZERO.previous(), Psn::MAX);
        assert_eq!(Psn::new(0xFF_FFFE) + 5, Psn::new(3));
        assert_eq!(Psn::new(3) - 5, Psn::new(0xFF_FFFE));
        assert_eq!(Psn::new(0x1234_5678).value(), 0x34_5678);
    }

    #[test]
    fn distance_is_signed_and_crosses_the_wrap() {
        assert_eq!(Psn::new(3).distance(Psn::new(0xFF_FFFE)), 5);
        assert_eq!(Psn::new(0xFF_FFFE).distance(Psn::new(3)), -5);
        assert_eq!(Psn::new(0x7F_FFFF).distance(Psn::ZERO), 0x7F_FFFF);
        assert_eq!(Psn::new(0x80_0000).distance(Psn::ZERO), -0x80_0000);
        assert!(Psn::MAX.is_before(Psn::ZERO));
        assert!(!Psn::ZERO.is_before(Psn::ZERO));
        assert!(!Psn::ZERO.is_before(Psn::MAX));
    }
}
