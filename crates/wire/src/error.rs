//! Why bytes are not what a parser was asked for.

use core::fmt;

/// Which header a [`ParseError`] speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layer {
    /// Ethernet, with its VLAN tags.
    Ethernet,
    /// An 802.1Q tag.
    Vlan,
    /// IPv4.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// UDP.
    Udp,
    /// The InfiniBand global route header.
    Grh,
    /// The base transport header.
    Bth,
    /// A header that the opcode says follows the BTH.
    Extended,
    /// The invariant CRC at the end of a packet.
    Icrc,
    /// The common header of a management datagram.
    Mad,
    /// A message of communication management.
    Cm,
}

impl fmt::Display for Layer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Layer::Ethernet => "Ethernet header",
            Layer::Vlan => "VLAN tag",
            Layer::Ipv4 => "IPv4 header",
            Layer::Ipv6 => "IPv6 header",
            Layer::Udp => "UDP header",
            Layer::Grh => "GRH",
            Layer::Bth => "BTH",
            Layer::Extended => "extended transport header",
            Layer::Icrc => "ICRC",
            Layer::Mad => "MAD header",
            Layer::Cm => "CM message",
        })
    }
}

/// Why bytes could not be parsed. Every one means: drop the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ParseError {
    /// The bytes end before the header does.
    Truncated {
        /// The header that is cut short.
        layer: Layer,
        /// How many bytes it needs.
        needed: usize,
        /// How many there are.
        available: usize,
    },
    /// A length field contradicts the header it stands in or the bytes around it.
    Length {
        /// The header with the field.
        layer: Layer,
        /// The value of the field.
        value: usize,
    },
    /// The version field is not the one version that is defined.
    Version {
        /// The header with the field.
        layer: Layer,
        /// The value of the field.
        value: u8,
    },
    /// The IPv4 header carries options, which RoCE v2 forbids (A17.3.1).
    Options {
        /// How many bytes of them.
        len: usize,
    },
    /// The opcode is not defined, so that not even the length of the headers is known.
    UnknownOpcode(u8),
    /// The management datagram is for another class of manager or agent.
    ManagementClass(u8),
    /// The class of the management datagram has no such method.
    Method(u8),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            ParseError::Truncated { layer, needed, available } => {
                write!(f, "{layer} needs {needed} bytes, got {available}")
            }
            ParseError::Length { layer, value } => {
                write!(f, "{layer} carries an impossible length of {value}")
            }
            ParseError::Version { layer, value } => {
                write!(f, "{layer} carries the unknown version {value}")
            }
            ParseError::Options { len } => write!(f, "IPv4 header carries {len} bytes of options"),
            ParseError::UnknownOpcode(opcode) => write!(f, "unknown opcode {opcode:#04x}"),
            ParseError::ManagementClass(class) => write!(f, "unexpected management class {class:#04x}"),
            ParseError::Method(method) => write!(f, "unexpected management method {method:#04x}"),
        }
    }
}

impl core::error::Error for ParseError {}

/// The first `N` bytes, as the array that the field accessors index without checks.
pub(crate) fn fixed<const N: usize>(layer: Layer, bytes: &[u8]) -> Result<&[u8; N], ParseError> {
    bytes.first_chunk().ok_or(ParseError::Truncated { layer, needed: N, available: bytes.len() })
}
