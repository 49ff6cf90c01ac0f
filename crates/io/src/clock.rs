//! The clock that all deadlines are measured by.

use rustix::time::{ClockId, clock_gettime};

/// Nanoseconds on the monotonic clock, which starts at an arbitrary point and never goes back. Read without entering the
/// kernel, in some 20 ns.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // The kernel counts from boot, so neither part is negative, and 64 bits of nanoseconds last for centuries.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn it_advances_like_the_clock_of_the_standard_library() {
        let (start_ns, start) = (now_ns(), Instant::now());
        std::thread::sleep(Duration::from_millis(20));
        let (passed_ns, passed) = (now_ns() - start_ns, start.elapsed());
        let difference = passed.abs_diff(Duration::from_nanos(passed_ns));
        assert!(passed_ns >= 20_000_000 && difference < Duration::from_millis(5), "{passed_ns} {passed:?}");
    }
}
