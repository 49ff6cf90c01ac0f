//! What program and service say to each other, over a sequenced-packet socket.
//!
//! The program speaks first and asks for a slot. The connection then stays open for as long as the slot is
//! in use: it is the program's *lease*, on which it may ask for more, one question at a time. A second
//! socket, which the service makes when it is asked to, carries the datagrams that arrived on QP 1 for the
//! program.
//!
//! Both are of one build on one machine, or the version tells them apart; so numbers are little-endian and
//! the layout is nobody else's business.

use nic::Arrival;
use nic::cm::{Listen, ListenAddress};
use wire::Gid;
use wire::cm::{CmMad, PortSpace, ServiceId};

/// Largest message on a lease.
pub(super) const MAX_MESSAGE: usize = 512;

/// The version of the protocol, first byte of the first request. A service of another version says so.
const VERSION: u8 = 2;

/// A program asks for a slot.
pub(super) fn request() -> [u8; 1] {
    [VERSION]
}

/// Whether a message is a request that this service understands.
pub(super) fn is_request(message: &[u8]) -> bool {
    message == request()
}

/// What a program that has a slot asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// A channel for datagrams. Answered by [`Answer::Done`] and a descriptor.
    OpenMadChannel,
    /// A port; number 0 is for any. Answered by [`Answer::Port`].
    Reserve {
        /// What the program calls the reservation.
        token: u32,
        /// The port space.
        space: PortSpace,
        /// The address it is to be reserved on.
        address: ListenAddress,
        /// The number.
        port: u16,
        /// Whether others that say so too may have it as well.
        shared: bool,
    },
    /// A reservation is over. Not answered.
    Release {
        /// What the program called it.
        token: u32,
    },
    /// Requests for a service. Answered by [`Answer::Done`].
    Listen(Listen),
    /// No more of them. Not answered.
    Unlisten(Listen),
}

const OPEN_MAD_CHANNEL: u8 = 1;
const RESERVE: u8 = 2;
const RELEASE: u8 = 3;
const LISTEN: u8 = 4;
const UNLISTEN: u8 = 5;

impl Ask {
    pub(super) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(32);
        match *self {
            Self::OpenMadChannel => out.push(OPEN_MAD_CHANNEL),
            Self::Reserve { token, space, address, port, shared } => {
                out.push(RESERVE);
                out.extend(token.to_le_bytes());
                out.extend(space.0.to_le_bytes());
                out.extend(emit_address(address));
                out.extend(port.to_le_bytes());
                out.push(u8::from(shared));
            }
            Self::Release { token } => {
                out.push(RELEASE);
                out.extend(token.to_le_bytes());
            }
            Self::Listen(listen) => emit_listen(&mut out, LISTEN, listen),
            Self::Unlisten(listen) => emit_listen(&mut out, UNLISTEN, listen),
        }
        out
    }

    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message);
        let ask = match reader.byte()? {
            OPEN_MAD_CHANNEL => Self::OpenMadChannel,
            RESERVE => Self::Reserve {
                token: u32::from_le_bytes(reader.take()?),
                space: PortSpace(u16::from_le_bytes(reader.take()?)),
                address: reader.address()?,
                port: u16::from_le_bytes(reader.take()?),
                shared: reader.flag()?,
            },
            RELEASE => Self::Release { token: u32::from_le_bytes(reader.take()?) },
            LISTEN => Self::Listen(reader.listen()?),
            UNLISTEN => Self::Unlisten(reader.listen()?),
            _ => return None,
        };
        reader.0.is_empty().then_some(ask)
    }
}

fn emit_listen(out: &mut Vec<u8>, kind: u8, listen: Listen) {
    out.push(kind);
    out.extend(listen.service.0.to_le_bytes());
    out.push(u8::from(listen.datagram));
    out.extend(emit_address(listen.address));
}

fn emit_address(address: ListenAddress) -> [u8; 17] {
    let mut out = [0; 17];
    let (kind, ip) = match address {
        ListenAddress::Any => (0, Gid::UNSPECIFIED),
        ListenAddress::AnyV4 => (4, Gid::UNSPECIFIED),
        ListenAddress::AnyV6 => (6, Gid::UNSPECIFIED),
        ListenAddress::Ip(ip) => (1, Gid::from(ip)),
    };
    out[0] = kind;
    out[1..].copy_from_slice(&ip.0);
    out
}

/// Why the service says no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Denial {
    /// Somebody has this.
    InUse = 1,
    /// It is for the privileged, or the port is not reserved.
    NotPermitted = 2,
    /// There is none left.
    Exhausted = 3,
}

impl Denial {
    fn from_byte(byte: u8) -> Option<Self> {
        [Self::InUse, Self::NotPermitted, Self::Exhausted].into_iter().find(|denial| *denial as u8 == byte)
    }
}

/// The service's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The slot of this number is the program's; its socket comes with the message.
    Granted(u8),
    /// No slot, for this reason.
    Refused(String),
    /// It is done.
    Done,
    /// This port is reserved.
    Port(u16),
    /// It is not done.
    Denied(Denial),
}

const GRANTED: u8 = 1;
const REFUSED: u8 = 2;
const DONE: u8 = 3;
const PORT: u8 = 4;
const DENIED: u8 = 5;

impl Answer {
    pub(super) fn emit(&self) -> Vec<u8> {
        match self {
            Self::Granted(slot) => vec![GRANTED, *slot],
            Self::Refused(reason) => {
                let mut message = vec![REFUSED];
                message.extend(reason.bytes().take(MAX_MESSAGE - 1));
                message
            }
            Self::Done => vec![DONE],
            Self::Port(port) => {
                let [low, high] = port.to_le_bytes();
                vec![PORT, low, high]
            }
            Self::Denied(denial) => vec![DENIED, *denial as u8],
        }
    }

    pub(super) fn parse(message: &[u8]) -> Option<Self> {
        match *message {
            [GRANTED, slot] => Some(Self::Granted(slot)),
            [REFUSED, ref reason @ ..] => Some(Self::Refused(String::from_utf8_lossy(reason).into_owned())),
            [DONE] => Some(Self::Done),
            [PORT, low, high] => Some(Self::Port(u16::from_le_bytes([low, high]))),
            [DENIED, denial] => Denial::from_byte(denial).map(Self::Denied),
            _ => None,
        }
    }
}

/// A datagram that arrived on QP 1, on its way to the program that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// What carried it.
    pub(crate) arrival: Arrival,
    /// The interface it came in by.
    pub(crate) interface: u32,
    /// The datagram.
    pub(crate) mad: [u8; CmMad::LEN],
}

/// The length of one.
const FORWARDED_LEN: usize = 4 + 2 + 32 + CmMad::LEN;

/// Datagrams in one message, at most.
const MAX_BUNDLE: usize = 64;

/// The largest message of them.
pub(crate) const MAX_FORWARDED: usize = MAX_BUNDLE * FORWARDED_LEN;

impl Forwarded {
    /// The messages that carry these datagrams, with how many are in each.
    pub(super) fn bundle(datagrams: &[Self]) -> impl Iterator<Item = (Vec<u8>, usize)> {
        datagrams
            .chunks(MAX_BUNDLE)
            .map(|bundle| (bundle.iter().flat_map(Self::emit).collect(), bundle.len()))
    }

    /// The datagrams in a message.
    pub(crate) fn parse_bundle(message: &[u8]) -> impl Iterator<Item = Self> {
        message.chunks(FORWARDED_LEN).filter_map(Self::parse)
    }

    fn emit(&self) -> [u8; FORWARDED_LEN] {
        let mut out = [0; FORWARDED_LEN];
        out[..4].copy_from_slice(&self.interface.to_le_bytes());
        out[4] = self.arrival.traffic_class;
        out[5] = self.arrival.hop_limit;
        out[6..22].copy_from_slice(&self.arrival.source.0);
        out[22..38].copy_from_slice(&self.arrival.destination.0);
        out[38..].copy_from_slice(&self.mad);
        out
    }

    fn parse(message: &[u8]) -> Option<Self> {
        let mut reader = Reader(message);
        let interface = u32::from_le_bytes(reader.take()?);
        let [traffic_class, hop_limit] = reader.take()?;
        let (source, destination) = (Gid(reader.take()?), Gid(reader.take()?));
        let arrival = Arrival { source, destination, traffic_class, hop_limit };
        let mad = reader.take()?;
        reader.0.is_empty().then_some(Self { arrival, interface, mad })
    }
}

/// What is left of a message.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    fn address(&mut self) -> Option<ListenAddress> {
        let (kind, ip) = (self.byte()?, Gid(self.take()?).ip());
        match kind {
            0 => Some(ListenAddress::Any),
            1 => Some(ListenAddress::Ip(ip)),
            4 => Some(ListenAddress::AnyV4),
            6 => Some(ListenAddress::AnyV6),
            _ => None,
        }
    }

    fn listen(&mut self) -> Option<Listen> {
        let service = ServiceId(u64::from_le_bytes(self.take()?));
        Some(Listen { service, datagram: self.flag()?, address: self.address()? })
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn answers_survive_the_wire() {
        let answers = [
            Answer::Granted(2),
            Answer::Granted(254),
            Answer::Refused("port taken".into()),
            Answer::Done,
            Answer::Port(0x1234),
            Answer::Denied(Denial::InUse),
        ];
        for answer in answers {
            assert_eq!(Answer::parse(&answer.emit()), Some(answer));
        }
        assert_eq!(Answer::parse(&[]), None);
        assert_eq!(Answer::parse(&[GRANTED]), None);
        assert_eq!(Answer::parse(&[9, 9]), None);
        assert!(Answer::Refused("x".repeat(5000)).emit().len() <= MAX_MESSAGE);
    }

    #[test]
    fn asks_survive_the_wire_and_nothing_else_is_one() {
        let addresses = ["10.0.0.1", "fe80::1"].map(|ip| ListenAddress::Ip(ip.parse().unwrap()));
        let wildcards = [ListenAddress::Any, ListenAddress::AnyV4, ListenAddress::AnyV6];
        let mut asks = vec![Ask::OpenMadChannel, Ask::Release { token: 7 }];
        for address in addresses.into_iter().chain(wildcards) {
            let listen = Listen { service: ServiceId(0x0106_1234), datagram: true, address };
            let (token, space, port) = (9, PortSpace::TCP, 4660);
            asks.push(Ask::Reserve { token, space, address, port, shared: true });
            asks.extend([Ask::Listen(listen), Ask::Unlisten(listen)]);
        }
        for ask in asks {
            let bytes = ask.emit();
            assert_eq!(Ask::parse(&bytes), Some(ask));
            assert!((0..bytes.len()).all(|length| Ask::parse(&bytes[..length]).is_none()));
            assert_eq!(Ask::parse(&[&bytes[..], &[0]].concat()), None);
        }
    }

    #[test]
    fn datagrams_survive_the_wire() {
        let ip = |text: &str| Gid::from(text.parse::<IpAddr>().unwrap());
        let (source, destination) = (ip("10.0.0.1"), ip("fe80::7"));
        let arrival = Arrival { source, destination, traffic_class: 3, hop_limit: 64 };
        let forwarded = Forwarded { arrival, interface: 5, mad: [0xA5; CmMad::LEN] };
        for count in [1, MAX_BUNDLE, MAX_BUNDLE + 1] {
            let datagrams = vec![forwarded; count];
            let messages: Vec<_> = Forwarded::bundle(&datagrams).collect();
            assert!(messages.iter().all(|(message, _)| message.len() <= MAX_FORWARDED));
            let parsed: Vec<_> =
                messages.iter().flat_map(|(message, _)| Forwarded::parse_bundle(message)).collect();
            assert_eq!(parsed, datagrams);
        }
        assert_eq!(Forwarded::parse_bundle(&forwarded.emit()[1..]).count(), 0);
    }

    #[test]
    fn other_versions_are_no_requests() {
        assert!(is_request(&request()));
        assert!(!is_request(&[]) && !is_request(&[VERSION + 1]) && !is_request(&[VERSION, 0]));
    }
}
