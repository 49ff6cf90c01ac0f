//! What two rsockets tell each other: when they connect, with each write, and in each other's memory.

/// A piece of a peer's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Piece {
    pub address: u64,
    pub key: u32,
    pub length: u32,
}

impl Piece {
    /// Bytes in memory.
    pub const LEN: usize = 16;

    /// As it lies in the memory of a machine of the other byte order, or of ours.
    pub fn to_bytes(self, swapped: bool) -> [u8; Self::LEN] {
        let numbers = if swapped { self.swapped() } else { self };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&numbers.address.to_ne_bytes());
        bytes[8..12].copy_from_slice(&numbers.key.to_ne_bytes());
        bytes[12..].copy_from_slice(&numbers.length.to_ne_bytes());
        bytes
    }

    /// As a peer left it in our memory, in our byte order.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let [a, b, c, d, e, f, g, h, k0, k1, k2, k3, l0, l1, l2, l3] = *bytes;
        Self {
            address: u64::from_ne_bytes([a, b, c, d, e, f, g, h]),
            key: u32::from_ne_bytes([k0, k1, k2, k3]),
            length: u32::from_ne_bytes([l0, l1, l2, l3]),
        }
    }

    fn swapped(self) -> Self {
        Self {
            address: self.address.swap_bytes(),
            key: self.key.swap_bytes(),
            length: self.length.swap_bytes(),
        }
    }

    /// On the wire, which is big-endian.
    fn to_wire(self) -> [u8; Self::LEN] {
        self.to_bytes(cfg!(target_endian = "little"))
    }

    fn from_wire(bytes: &[u8; Self::LEN]) -> Self {
        let numbers = Self::from_bytes(bytes);
        if cfg!(target_endian = "little") { numbers.swapped() } else { numbers }
    }
}

/// Memory of a program that its peer may write to under an offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mapping {
    pub offset: u64,
    pub memory: Piece,
}

impl Mapping {
    /// Bytes in memory.
    pub const LEN: usize = 8 + Piece::LEN;

    /// As it lies in the memory of a machine of the other byte order, or of ours.
    pub fn to_bytes(self, swapped: bool) -> [u8; Self::LEN] {
        let offset = if swapped { self.offset.swap_bytes() } else { self.offset };
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&offset.to_ne_bytes());
        bytes[8..].copy_from_slice(&self.memory.to_bytes(swapped));
        bytes
    }

    /// As a peer left it in our memory, in our byte order.
    pub fn from_bytes(bytes: &[u8; Self::LEN]) -> Self {
        let (offset, memory) = bytes.split_at(8);
        Self {
            offset: u64::from_ne_bytes(offset.try_into().unwrap_or_default()),
            memory: Piece::from_bytes(memory.try_into().unwrap_or(&[0; Piece::LEN])),
        }
    }

    /// Whether a byte range lies in it.
    pub fn holds(&self, offset: u64, length: usize) -> bool {
        let end = offset.checked_add(length as u64);
        let own_end = self.offset.checked_add(self.memory.length.into());
        self.memory.length > 0 && self.offset <= offset && end.is_some_and(|end| Some(end) <= own_end)
    }
}

/// What each side tells when they connect, as private data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Introduction {
    /// Whether it is a machine of the other byte order.
    pub swapped: bool,
    /// Messages that it has receives for.
    pub credits: u16,
    /// Mappings that it has room for.
    pub mappings: u32,
    /// Where it wants to be told of memory to write to: so many [`Piece`]s, and behind them the mappings.
    pub targets: Piece,
    /// The first memory to write to.
    pub memory: Piece,
}

impl Introduction {
    /// Bytes on the wire.
    pub const LEN: usize = 8 + 2 * Piece::LEN;
    const VERSION: u8 = 1;
    const BIG_ENDIAN: u8 = 1 << 0;
    const HAS_MAPPINGS: u8 = 1 << 1;

    /// Reads it; none if it is of another version, or none at all.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let &[version, flags, high, low, _, _, _, mappings, ..] = bytes;
        let targets = Piece::from_wire(bytes[8..].first_chunk()?);
        let memory = Piece::from_wire(bytes[8 + Piece::LEN..].first_chunk()?);
        let is_big_endian = flags & Self::BIG_ENDIAN != 0;
        let mappings = if flags & Self::HAS_MAPPINGS != 0 { from_scale(mappings) } else { 0 };
        (version == Self::VERSION).then_some(Self {
            swapped: is_big_endian != cfg!(target_endian = "big"),
            credits: u16::from_be_bytes([high, low]),
            mappings,
            targets,
            memory,
        })
    }

    /// Writes that of this machine.
    pub fn emit(&self) -> [u8; Self::LEN] {
        let order = if cfg!(target_endian = "big") { Self::BIG_ENDIAN } else { 0 };
        let mut bytes = [0; Self::LEN];
        (bytes[0], bytes[1]) = (Self::VERSION, order | Self::HAS_MAPPINGS);
        bytes[2..4].copy_from_slice(&self.credits.to_be_bytes());
        bytes[7] = to_scale(self.mappings);
        bytes[8..8 + Piece::LEN].copy_from_slice(&self.targets.to_wire());
        bytes[8 + Piece::LEN..].copy_from_slice(&self.memory.to_wire());
        bytes
    }
}

/// The top bit of a byte that counts in a coarse way.
const COARSE: u32 = 1 << 7;

/// A count in a byte: exact up to 128, above that in units of 256.
fn to_scale(count: u32) -> u8 {
    if count <= COARSE { count as u8 } else { (COARSE | (count >> 8).min(COARSE - 1)) as u8 }
}

fn from_scale(byte: u8) -> u32 {
    let byte = u32::from(byte);
    if byte <= COARSE { byte } else { (byte & !COARSE) << 8 }
}

/// What a number of mappings becomes when it is told.
pub(super) fn told_mappings(wanted: u32) -> u32 {
    from_scale(to_scale(wanted))
}

/// What the immediate data of a write says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    /// So many bytes were written.
    Data(u32),
    /// So many messages may be sent in all, modulo 2^16; there may be more memory to write to.
    Credits(u16),
    /// A mapping was written.
    Mapped(u16),
    /// Nothing will be sent or read any more.
    Disconnect,
    /// Nothing will be sent any more.
    Shutdown,
    /// Anything that changes nothing.
    Other(u32),
}

/// Bits for the kind, above those for the number.
const KIND_SHIFT: u32 = 29;
const DATA: u32 = 0;
const CREDITS: u32 = 4;
const MAPPED: u32 = 6;
const CONTROL: u32 = 7;
const DISCONNECT: u32 = 0;
const SHUTDOWN: u32 = 2;

impl Message {
    /// The longest piece of data that one message tells of.
    pub const MAX_DATA: usize = (1 << KIND_SHIFT) - 1;

    /// From immediate data.
    pub fn decode(word: u32) -> Self {
        let number = word & Self::MAX_DATA as u32;
        match (word >> KIND_SHIFT, number) {
            (DATA, length) => Self::Data(length),
            (CREDITS, granted) => Self::Credits(granted as u16),
            (MAPPED, index) => Self::Mapped(index as u16),
            (CONTROL, DISCONNECT) => Self::Disconnect,
            (CONTROL, SHUTDOWN) => Self::Shutdown,
            _ => Self::Other(word),
        }
    }

    /// As immediate data.
    pub fn encode(self) -> u32 {
        match self {
            Self::Data(length) => DATA << KIND_SHIFT | length,
            Self::Credits(granted) => CREDITS << KIND_SHIFT | u32::from(granted),
            Self::Mapped(index) => MAPPED << KIND_SHIFT | u32::from(index),
            Self::Disconnect => CONTROL << KIND_SHIFT | DISCONNECT,
            Self::Shutdown => CONTROL << KIND_SHIFT | SHUTDOWN,
            Self::Other(word) => word,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn introductions_are_big_endian() {
        let introduction = Introduction {
            swapped: false,
            credits: 384,
            mappings: 3,
            targets: Piece { address: 0x0102_0304_0506_0708, key: 0x0a0b_0c0d, length: 2 },
            memory: Piece { address: 0x1112_1314_1516_1718, key: 0x1a1b_1c1d, length: 0x1_0000 },
        };
        let bytes = introduction.emit();
        #[cfg(target_endian = "little")]
        assert_eq!(bytes[..8], [1, 2, 1, 0x80, 0, 0, 0, 3]);
        assert_eq!(bytes[8..24], [1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 0, 0, 0, 2]);
        assert_eq!(Introduction::parse(&bytes), Some(introduction));
        assert_eq!(Introduction::parse(&bytes[1..]), None);
        assert_eq!(Introduction::parse(&bytes[..39]), None);
    }

    #[test]
    fn messages_survive_the_way_there_and_back() {
        let known = [
            (Message::Data(70_000), 70_000),
            (Message::Credits(0x1234), 0x8000_1234),
            (Message::Mapped(5), 0xc000_0005),
            (Message::Disconnect, 0xe000_0000),
            (Message::Shutdown, 0xe000_0002),
            (Message::Other(0xe000_0001), 0xe000_0001),
        ];
        for (message, word) in known {
            assert_eq!((message.encode(), Message::decode(word)), (word, message));
        }
    }

    #[test]
    fn mappings_keep_their_byte_order_and_hold_what_fits() {
        let mapping = Mapping { offset: 100, memory: Piece { address: 0x1234_5678, key: 9, length: 50 } };
        assert_eq!(Mapping::from_bytes(&mapping.to_bytes(false)), mapping);
        assert_eq!(Mapping::from_bytes(&mapping.to_bytes(true)).offset, 100_u64.swap_bytes());
        for (offset, length, holds) in [(100, 50, true), (149, 1, true), (99, 1, false), (101, 50, false)] {
            assert_eq!(mapping.holds(offset, length), holds, "{offset} {length}");
        }
        assert!(!mapping.holds(u64::MAX, 2));
        assert!(!Mapping::default().holds(0, 0));
    }

    #[test]
    fn large_counts_are_coarse() {
        for (wanted, told) in [(0, 0), (128, 128), (255, 128), (256, 256), (300, 256), (1 << 20, 127 << 8)] {
            assert_eq!(told_mappings(wanted), told, "{wanted}");
        }
    }
}
