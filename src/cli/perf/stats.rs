//! Times, their distribution, and processor time.

use std::time::Duration;

use super::spec::Latency;

/// How long each of many messages took.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    nanos: Vec<u32>,
}

impl Samples {
    /// Notes one.
    pub fn push(&mut self, time: Duration) {
        self.nanos.push(u32::try_from(time.as_nanos()).unwrap_or(u32::MAX));
    }

    /// Their distribution, each divided by `legs`; nothing if there are none.
    pub fn latency(&mut self, legs: u32) -> Option<Latency> {
        self.nanos.sort_unstable();
        let (last, legs) = (self.nanos.len().checked_sub(1)?, f64::from(legs) * 1000.0);
        let at = |share: f64| f64::from(self.nanos[(last as f64 * share).round() as usize]) / legs;
        Some(Latency { min: at(0.0), p50: at(0.5), p99: at(0.99), max: at(1.0) })
    }
}

/// Processor time of this process so far.
pub fn cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: a place for the answer.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) };
    // SAFETY: zeroed, then filled.
    let usage = unsafe { usage.assume_init() };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec as u64) + Duration::from_micros(time.tv_usec as u64)
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

/// The middle one of some values, by a figure of theirs; the lower one if there are two.
pub fn median<T>(mut values: Vec<T>, figure: impl Fn(&T) -> f64) -> Option<T> {
    values.sort_by(|a, b| figure(a).total_cmp(&figure(b)));
    let middle = values.len().checked_sub(1)? / 2;
    Some(values.swap_remove(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_samples() {
        let mut samples = Samples::default();
        assert_eq!(samples.latency(1), None);
        (1..=101).rev().for_each(|micros| samples.push(Duration::from_micros(micros)));
        assert_eq!(samples.latency(1), Some(Latency { min: 1.0, p50: 51.0, p99: 100.0, max: 101.0 }));
        assert_eq!(samples.latency(2).map(|latency| latency.p50), Some(25.5));
    }

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0], |value| *value), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0], |value| *value), Some(2.0));
        assert_eq!(median(Vec::<f64>::new(), |value| *value), None);
    }
}
