//! Static rates: their codes, as multiples of 2.5 Gb/s, and in Mb/s.

use std::ffi::{c_int, c_uint};

use crate::abi::types::constants::*;

/// One static rate.
struct Rate {
    code: c_uint,
    /// How many times 2.5 Gb/s, for rates that have a multiple.
    mult: Option<c_int>,
    mbps: c_int,
}

/// Rates by code. Those of eight-lane and later links are counted with their encoding's overhead taken off.
const RATES: &[Rate] = &[
    Rate { code: IBV_RATE_2_5_GBPS, mult: Some(1), mbps: 2_500 },
    Rate { code: IBV_RATE_10_GBPS, mult: Some(4), mbps: 10_000 },
    Rate { code: IBV_RATE_30_GBPS, mult: Some(12), mbps: 30_000 },
    Rate { code: IBV_RATE_5_GBPS, mult: Some(2), mbps: 5_000 },
    Rate { code: IBV_RATE_20_GBPS, mult: Some(8), mbps: 20_000 },
    Rate { code: IBV_RATE_40_GBPS, mult: Some(16), mbps: 40_000 },
    Rate { code: IBV_RATE_60_GBPS, mult: Some(24), mbps: 60_000 },
    Rate { code: IBV_RATE_80_GBPS, mult: Some(32), mbps: 80_000 },
    Rate { code: IBV_RATE_120_GBPS, mult: Some(48), mbps: 120_000 },
    Rate { code: IBV_RATE_14_GBPS, mult: None, mbps: 14_062 },
    Rate { code: IBV_RATE_56_GBPS, mult: None, mbps: 56_250 },
    Rate { code: IBV_RATE_112_GBPS, mult: None, mbps: 112_500 },
    Rate { code: IBV_RATE_168_GBPS, mult: None, mbps: 168_750 },
    Rate { code: IBV_RATE_25_GBPS, mult: None, mbps: 25_781 },
    Rate { code: IBV_RATE_100_GBPS, mult: None, mbps: 103_125 },
    Rate { code: IBV_RATE_200_GBPS, mult: None, mbps: 206_250 },
    Rate { code: IBV_RATE_300_GBPS, mult: None, mbps: 309_375 },
    Rate { code: IBV_RATE_28_GBPS, mult: Some(11), mbps: 28_125 },
    Rate { code: IBV_RATE_50_GBPS, mult: Some(20), mbps: 53_125 },
    Rate { code: IBV_RATE_400_GBPS, mult: Some(160), mbps: 425_000 },
    Rate { code: IBV_RATE_600_GBPS, mult: Some(240), mbps: 637_500 },
    Rate { code: IBV_RATE_800_GBPS, mult: Some(320), mbps: 850_000 },
    Rate { code: IBV_RATE_1200_GBPS, mult: Some(480), mbps: 1_275_000 },
];

/// `ibv_rate_to_mult(3)`.
pub(super) extern "C" fn rate_to_mult(code: c_uint) -> c_int {
    RATES.iter().find(|rate| rate.code == code).and_then(|rate| rate.mult).unwrap_or(-1)
}

/// `mult_to_ibv_rate(3)`.
pub(super) extern "C" fn mult_to_rate(mult: c_int) -> c_uint {
    RATES.iter().find(|rate| rate.mult == Some(mult)).map_or(IBV_RATE_MAX, |rate| rate.code)
}

/// `ibv_rate_to_mbps(3)`.
pub(super) extern "C" fn rate_to_mbps(code: c_uint) -> c_int {
    RATES.iter().find(|rate| rate.code == code).map_or(-1, |rate| rate.mbps)
}

/// `mbps_to_ibv_rate(3)`.
pub(super) extern "C" fn mbps_to_rate(mbps: c_int) -> c_uint {
    RATES.iter().find(|rate| rate.mbps == mbps).map_or(IBV_RATE_MAX, |rate| rate.code)
}
