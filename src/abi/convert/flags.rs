//! Sets of flags.

use std::{
    ffi::c_uint,
    ops::{BitAnd, Not},
};

use nic::verbs::Access;

use crate::abi::{errno::Errno, types::constants::*};

/// Bits that a program set, some of which may be unknown.
pub(crate) trait Flags:
    Copy + BitAnd<Output = Self> + Not<Output = Self> + PartialEq + Default
{
    /// Whether any bit of `flag` is set.
    fn has(self, flag: Self) -> bool {
        self & flag != Self::default()
    }

    /// An error if a bit is set that is not in `known`.
    fn only(self, known: Self, error: Errno) -> Result<(), Errno> {
        if self.has(!known) { Err(error) } else { Ok(()) }
    }
}

impl Flags for i32 {}
impl Flags for u32 {}
impl Flags for u64 {}

/// Flags that ask for something an adapter may decline without a word (`ibv_reg_mr(3)`).
const OPTIONAL: c_uint = ((1 << 30) - 1) & !((1 << 20) - 1);

/// Flags that have a word in [`Access`], and `HUGETLB`, which only tells how the memory was allocated.
const KNOWN: c_uint = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ZERO_BASED
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB;

/// Rights from `enum ibv_access_flags`.
pub(crate) fn access(flags: c_uint) -> Result<Access, Errno> {
    flags.only(KNOWN | OPTIONAL, Errno::INVALID)?;
    Ok(Access {
        local_write: flags.has(IBV_ACCESS_LOCAL_WRITE),
        remote_write: flags.has(IBV_ACCESS_REMOTE_WRITE),
        remote_read: flags.has(IBV_ACCESS_REMOTE_READ),
        remote_atomic: flags.has(IBV_ACCESS_REMOTE_ATOMIC),
        window_bind: flags.has(IBV_ACCESS_MW_BIND),
        zero_based: flags.has(IBV_ACCESS_ZERO_BASED),
        on_demand: flags.has(IBV_ACCESS_ON_DEMAND),
        relaxed_ordering: flags.has(IBV_ACCESS_RELAXED_ORDERING),
    })
}

/// Rights as `enum ibv_access_flags`.
pub(crate) fn access_flags(access: Access) -> c_uint {
    [
        (access.local_write, IBV_ACCESS_LOCAL_WRITE),
        (access.remote_write, IBV_ACCESS_REMOTE_WRITE),
        (access.remote_read, IBV_ACCESS_REMOTE_READ),
        (access.remote_atomic, IBV_ACCESS_REMOTE_ATOMIC),
        (access.window_bind, IBV_ACCESS_MW_BIND),
        (access.zero_based, IBV_ACCESS_ZERO_BASED),
        (access.on_demand, IBV_ACCESS_ON_DEMAND),
        (access.relaxed_ordering, IBV_ACCESS_RELAXED_ORDERING),
    ]
    .into_iter()
    .filter_map(|(set, flag)| set.then_some(flag))
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_survive_the_way_there_and_back() {
        for bit in 0..7 {
            let flags = 1 << bit;
            assert_eq!(access_flags(access(flags).unwrap()), flags);
        }
        assert_eq!(access_flags(access(0x10_007f).unwrap()), 0x10_007f);
    }

    #[test]
    fn optional_rights_are_passed_over_and_unknown_ones_refused() {
        assert_eq!(access_flags(access(1 << 29).unwrap()), 0);
        assert_eq!(access(1 << 8), Err(Errno::INVALID));
        assert_eq!(access(1 << 30), Err(Errno::INVALID));
    }
}
