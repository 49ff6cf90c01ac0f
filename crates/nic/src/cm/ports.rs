//! The port numbers of one address space, and who has them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::fmt;
use core::ops::RangeInclusive;

use wire::cm::PortSpace;

use super::ListenAddress;
use crate::random::Random;

/// Ports given to who does not ask for a certain one (Linux' default range).
const EPHEMERAL: RangeInclusive<u16> = 32_768..=60_999;

/// What a program asks for when it binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bind {
    /// The space of ports.
    pub space: PortSpace,
    /// The addresses it is for.
    pub address: ListenAddress,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// Whether it may be shared with others that say the same.
    pub reuse: bool,
}

/// Why a port was not had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindError {
    /// Somebody has it.
    InUse,
    /// None is free.
    NoneFree,
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InUse => "the port is in use at this address",
            Self::NoneFree => "no port is free",
        })
    }
}

impl core::error::Error for BindError {}

/// Who has which port. Owners are numbers of the caller's.
#[derive(Debug)]
pub(super) struct Ports {
    bound: BTreeMap<(PortSpace, u16), Vec<Holder>>,
    random: Random,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Holder {
    owner: u32,
    address: ListenAddress,
    reuse: bool,
}

impl Ports {
    /// All free.
    pub fn new(seed: u64) -> Self {
        Self { bound: BTreeMap::new(), random: Random::new(seed) }
    }

    /// Gives a port to `owner`.
    pub fn bind(&mut self, owner: u32, bind: Bind) -> Result<u16, BindError> {
        let port = if bind.port == 0 { self.any(bind.space)? } else { bind.port };
        let holders = self.bound.entry((bind.space, port)).or_default();
        let is_taken =
            |holder: &Holder| overlap(holder.address, bind.address) && !(holder.reuse && bind.reuse);
        if holders.iter().any(is_taken) {
            return Err(BindError::InUse);
        }
        holders.push(Holder { owner, address: bind.address, reuse: bind.reuse });
        Ok(port)
    }

    /// Takes back what `owner` was given so.
    pub fn release(&mut self, owner: u32, bind: Bind) {
        let key = (bind.space, bind.port);
        let Some(holders) = self.bound.get_mut(&key) else { return };
        let held = Holder { owner, address: bind.address, reuse: bind.reuse };
        if let Some(index) = holders.iter().position(|&holder| holder == held) {
            holders.swap_remove(index);
        }
        if holders.is_empty() {
            self.bound.remove(&key);
        }
    }

    /// Takes back all that `owner` has.
    pub fn release_all(&mut self, owner: u32) {
        self.bound.retain(|_, holders| {
            holders.retain(|holder| holder.owner != owner);
            !holders.is_empty()
        });
    }

    /// A port that nobody has, from a random place on.
    fn any(&mut self, space: PortSpace) -> Result<u16, BindError> {
        let count = u64::from(EPHEMERAL.end() - EPHEMERAL.start()) + 1;
        let start = self.random.next() % count;
        let port = |index: u64| EPHEMERAL.start() + ((start + index) % count) as u16;
        (0..count).map(port).find(|&port| !self.bound.contains_key(&(space, port))).ok_or(BindError::NoneFree)
    }
}

/// Whether a request could be meant for both.
fn overlap(a: ListenAddress, b: ListenAddress) -> bool {
    use ListenAddress::{Any, AnyV4, AnyV6, Ip};
    match (a, b) {
        (Any, _) | (_, Any) => true,
        (Ip(a), Ip(b)) => a == b,
        (AnyV4, Ip(ip)) | (Ip(ip), AnyV4) => ip.is_ipv4(),
        (AnyV6, Ip(ip)) | (Ip(ip), AnyV6) => ip.is_ipv6(),
        (AnyV4, AnyV4) | (AnyV6, AnyV6) => true,
        (AnyV4, AnyV6) | (AnyV6, AnyV4) => false,
    }
}

#[cfg(test)]
mod tests {
    use core::net::IpAddr;

    use super::*;

    const WEB: Bind = Bind { space: PortSpace::TCP, address: ListenAddress::Any, port: 80, reuse: false };

    fn ip(text: &str) -> ListenAddress {
        ListenAddress::Ip(text.parse::<IpAddr>().unwrap())
    }

    #[test]
    fn a_port_is_one_owners_at_an_address() {
        let mut ports = Ports::new(1);
        let v4 = Bind { address: ip("10.0.0.1"), ..WEB };
        assert_eq!(ports.bind(1, v4), Ok(80));
        for address in [ip("10.0.0.1"), ListenAddress::AnyV4, ListenAddress::Any] {
            assert_eq!(ports.bind(2, Bind { address, ..WEB }), Err(BindError::InUse), "{address:?}");
        }
        for address in [ip("10.0.0.2"), ip("fd00::1")] {
            assert_eq!(ports.bind(2, Bind { address, ..WEB }), Ok(80), "{address:?}");
        }
        assert_eq!(ports.bind(2, Bind { address: ListenAddress::AnyV6, ..WEB }), Err(BindError::InUse));
        assert_eq!(ports.bind(2, Bind { space: PortSpace::UDP, ..WEB }), Ok(80));
        ports.release(1, v4);
        assert_eq!(ports.bind(2, v4), Ok(80));
        ports.release(1, v4);
        assert_eq!(ports.bind(1, v4), Err(BindError::InUse));
        ports.release_all(2);
        assert!(ports.bound.is_empty());
        assert_eq!(ports.bind(1, WEB), Ok(80));
    }

    #[test]
    fn families_are_apart_and_sharers_agree() {
        let mut ports = Ports::new(1);
        assert_eq!(ports.bind(1, Bind { address: ListenAddress::AnyV4, ..WEB }), Ok(80));
        assert_eq!(ports.bind(2, Bind { address: ListenAddress::AnyV6, ..WEB }), Ok(80));
        let shared = Bind { port: 81, reuse: true, ..WEB };
        assert_eq!(ports.bind(1, shared), Ok(81));
        assert_eq!(ports.bind(2, shared), Ok(81));
        assert_eq!(ports.bind(3, Bind { reuse: false, ..shared }), Err(BindError::InUse));
    }

    #[test]
    fn every_free_port_is_found_and_then_none() {
        let mut ports = Ports::new(3);
        let any = Bind { port: 0, ..WEB };
        let mut given: Vec<u16> = (0..EPHEMERAL.len()).map(|_| ports.bind(1, any).unwrap()).collect();
        assert_ne!(given[0], *EPHEMERAL.start());
        assert_eq!(ports.bind(1, any), Err(BindError::NoneFree));
        given.sort_unstable();
        assert!(given.into_iter().eq(EPHEMERAL));
    }
}
