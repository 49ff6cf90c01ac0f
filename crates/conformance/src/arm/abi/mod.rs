//! Sides on any `libibverbs.so.1`, through its C interface: what programs in C see.
//!
//! The library is named by its path, so that one process can hold two: ours, and the genuine one over the kernel's stack.
//!
//! | module | idea |
//! |---|---|
//! | `bindings` | as much of `verbs.h` as scenarios need |
//! | `library` | loading a library, opening a device |
//! | `convert` | between `nic`'s vocabulary and the numbers of `verbs.h` |
//! | `objects` | objects of the C library by our names for them |
//! | `side` | an open device as a side |

mod bindings;
mod convert;
mod library;
mod objects;
mod side;

use std::ffi::OsStr;

use anyhow::{Context, Result};

use self::side::AbiSide;
use super::{
    Need,
    real_time::{Pace, RealTime},
};

/// Where a side comes from.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// The path of a `libibverbs.so.1`.
    pub library: &'a OsStr,
    /// The name of a device, if it is not to be the first.
    pub device: Option<&'a str>,
}

/// Opens two devices.
///
/// Two libraries of one name in a process need some care: the genuine one has providers that look for it by name, so it
/// must be loaded first, which is what `LD_PRELOAD` does.
///
/// # Errors
/// When a library is not one, or has no such device.
pub fn arm(sources: [Source<'_>; 2], pace: Pace) -> Result<RealTime> {
    let [first, second] = sources.map(open);
    let (first, second) = (first?, second?);
    let kernel = [is_kernel(&first), is_kernel(&second)];
    let lacks = RXE_LACKS.iter().filter(|(index, ..)| kernel[*index]);
    let arm = RealTime::new([Box::new(first), Box::new(second)], pace);
    Ok(lacks.fold(arm, |arm, &(_, need, reason)| arm.without(need, reason)))
}

fn open(source: Source<'_>) -> Result<AbiSide> {
    let functions = library::load(source.library)?;
    AbiSide::open(functions, source.device).with_context(|| format!("a device of {:?}", source.library))
}

/// Whether a device is the kernel's rxe, by the name that it is given everywhere.
fn is_kernel(side: &AbiSide) -> bool {
    side.device_name().starts_with("rxe")
}

/// What the rxe of Linux 6.1 has not got, by the side on which it is missed.
const RXE_LACKS: &[(usize, Need, &str)] = &[
    (0, Need::Drain, "rxe loses the event of a drained queue, or what was posted meanwhile"),
    (0, Need::OwnQueueKey, "rxe sends a queue key with the high bit set as it is"),
    (0, Need::IdleFence, "rxe may forget a fenced request that has nothing to wait for"),
    (1, Need::IdleFence, "rxe may forget a fenced request that has nothing to wait for"),
    (1, Need::QueuePairEvents, "rxe raises no asynchronous event about a queue pair's responder"),
    (1, Need::Multicast, "rxe joins no IP multicast group"),
];
