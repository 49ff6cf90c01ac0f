//! What an adapter is opened with, and how `softverbs run` hands that to a program's library.

use std::env;
use std::path::PathBuf;

use crate::link::{FaultPlan, FaultPlanError};

/// The environment variables that carry a configuration into a program.
pub mod variable {
    /// The device's name.
    pub const DEVICE_NAME: &str = "SOFTVERBS_DEVICE_NAME";
    /// A [`FaultPlan`](super::FaultPlan).
    pub const FAULT: &str = "SOFTVERBS_FAULT";
    /// A capture file to append to.
    pub const PCAP: &str = "SOFTVERBS_PCAP";
    /// The program that runs the slot service, if it is not to be looked for.
    pub const PROGRAM: &str = "SOFTVERBS_PROGRAM";
}

/// The device's name, unless it is given another.
pub const DEFAULT_DEVICE_NAME: &str = "softverbs0";

/// Longest device name, as the kernel's (`IB_DEVICE_NAME_MAX`, with its terminating zero).
const MAX_NAME: usize = 63;

/// What an adapter is opened with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The device's name.
    pub device_name: String,
    /// Faults on purpose.
    pub faults: Option<FaultPlan>,
    /// A capture file to append to.
    pub pcap: Option<PathBuf>,
}

impl Default for Config {
    fn default() -> Self {
        Self { device_name: DEFAULT_DEVICE_NAME.to_owned(), faults: None, pcap: None }
    }
}

/// Why a configuration was not understood.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The device name would not do as a name of a file or a device.
    #[error(
        "device name {0:?}: expected 1 to {MAX_NAME} letters, digits, '-', '_' or '.', the first a letter"
    )]
    DeviceName(String),
    /// The fault plan is not one.
    #[error(transparent)]
    Faults(#[from] FaultPlanError),
}

impl Config {
    /// The configuration in the environment of this process.
    pub fn from_environment() -> Result<Self, ConfigError> {
        let mut config = Self::default();
        if let Ok(name) = env::var(variable::DEVICE_NAME) {
            config.device_name = checked_name(name)?;
        }
        if let Ok(plan) = env::var(variable::FAULT) {
            config.faults = Some(plan.parse()?);
        }
        config.pcap = env::var_os(variable::PCAP).map(PathBuf::from);
        Ok(config)
    }
}

/// `name`, if a device can be called so.
pub fn checked_name(name: String) -> Result<String, ConfigError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let good = name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(allowed);
    if good { Ok(name) } else { Err(ConfigError::DeviceName(name)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_are_checked() {
        for good in ["softverbs0", "mlx5_0", "a"] {
            assert_eq!(checked_name(good.into()).unwrap(), good);
        }
        for bad in ["", "../x", "0a", "a b", &"x".repeat(64)] {
            assert!(checked_name(bad.into()).is_err(), "{bad}");
        }
    }
}
