//! The eight priorities of a port, and sets of them.

/// Number of priorities.
pub const PRIORITIES: usize = 8;

/// A set of priorities, a bit each: priority `p` is bit `p`, as in the class enable vector of a PFC
/// frame (IEEE 802.1Q, 36.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Priorities(pub u8);

impl Priorities {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(0xFF);

    /// The set of one.
    pub const fn of(priority: u8) -> Self {
        Self(1 << (priority & 0x7))
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether it has `priority`.
    pub const fn contains(self, priority: u8) -> bool {
        self.0 & Self::of(priority).0 != 0
    }

    /// Adds one.
    pub const fn insert(&mut self, priority: u8) {
        self.0 |= Self::of(priority).0;
    }

    /// Takes one out.
    pub const fn remove(&mut self, priority: u8) {
        self.0 &= !Self::of(priority).0;
    }

    /// Those of either set.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those of both sets.
    pub const fn common(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that `other` lacks.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The highest, if there is one.
    pub const fn highest(self) -> Option<u8> {
        if self.0 == 0 { None } else { Some(7 - self.0.leading_zeros() as u8) }
    }

    /// The lowest, or 0 if there is none.
    pub(crate) const fn lowest(self) -> u8 {
        self.0.trailing_zeros() as u8 & 0x7
    }

    /// From the lowest on.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..PRIORITIES as u8).filter(move |priority| self.contains(*priority))
    }
}

impl FromIterator<u8> for Priorities {
    fn from_iter<I: IntoIterator<Item = u8>>(priorities: I) -> Self {
        let mut set = Self::NONE;
        for priority in priorities {
            set.insert(priority);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_what_was_put_in() {
        let mut set: Priorities = [3, 6].into_iter().collect();
        assert_eq!((set.0, set.highest(), set.contains(3), set.contains(4)), (0x48, Some(6), true, false));
        set.remove(6);
        assert_eq!(set.iter().collect::<Vec<_>>(), [3]);
        assert_eq!(set.without(set), Priorities::NONE);
        assert_eq!(Priorities::NONE.highest(), None);
    }
}
