//! BTH opcodes: the service in the top three bits, the operation in the other five.

use core::fmt;

use crate::layout::{ExtendedKind, ImmediateKind, Kind, LAYOUTS, Layout, OPERATIONS, Position};

/// The transport service: the top three bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection.
    Rc,
    /// Unreliable connection.
    Uc,
    /// Reliable datagram. No adapter implements it, so its opcodes are unknown here.
    Rd,
    /// Unreliable datagram.
    Ud,
    /// Congestion notification (RoCE, annex A17).
    Cnp,
    /// Extended reliable connection (annex A14).
    Xrc,
    /// Not assigned; the three bits.
    Reserved(u8),
}

impl Service {
    pub(crate) const fn from_bits(bits: u8) -> Self {
        match bits & 0x7 {
            0 => Service::Rc,
            1 => Service::Uc,
            2 => Service::Rd,
            3 => Service::Ud,
            4 => Service::Cnp,
            5 => Service::Xrc,
            bits => Service::Reserved(bits),
        }
    }

    pub(crate) const fn bits(self) -> u8 {
        match self {
            Service::Rc => 0,
            Service::Uc => 1,
            Service::Rd => 2,
            Service::Ud => 3,
            Service::Cnp => 4,
            Service::Xrc => 5,
            Service::Reserved(bits) => bits & 0x7,
        }
    }
}

/// What a packet does: the low five bits of an opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Operation {
    SendFirst,
    SendMiddle,
    SendLast,
    SendLastImm,
    SendOnly,
    SendOnlyImm,
    WriteFirst,
    WriteMiddle,
    WriteLast,
    WriteLastImm,
    WriteOnly,
    WriteOnlyImm,
    ReadRequest,
    ReadResponseFirst,
    ReadResponseMiddle,
    ReadResponseLast,
    ReadResponseOnly,
    Ack,
    AtomicAck,
    CompareSwap,
    FetchAdd,
    SendLastInv,
    SendOnlyInv,
    /// The five bits of an operation without a name: not assigned, or of a
    /// service that has no operations ([`Service::Cnp`], [`Service::Reserved`]).
    Unknown(u8),
}

impl Operation {
    pub(crate) const fn bits(self) -> u8 {
        match self {
            Operation::SendFirst => 0x00,
            Operation::SendMiddle => 0x01,
            Operation::SendLast => 0x02,
            Operation::SendLastImm => 0x03,
            Operation::SendOnly => 0x04,
            Operation::SendOnlyImm => 0x05,
            Operation::WriteFirst => 0x06,
            Operation::WriteMiddle => 0x07,
            Operation::WriteLast => 0x08,
            Operation::WriteLastImm => 0x09,
            Operation::WriteOnly => 0x0A,
            Operation::WriteOnlyImm => 0x0B,
            Operation::ReadRequest => 0x0C,
            Operation::ReadResponseFirst => 0x0D,
            Operation::ReadResponseMiddle => 0x0E,
            Operation::ReadResponseLast => 0x0F,
            Operation::ReadResponseOnly => 0x10,
            Operation::Ack => 0x11,
            Operation::AtomicAck => 0x12,
            Operation::CompareSwap => 0x13,
            Operation::FetchAdd => 0x14,
            Operation::SendLastInv => 0x16,
            Operation::SendOnlyInv => 0x17,
            Operation::Unknown(bits) => bits & 0x1F,
        }
    }
}

/// The opcode of a packet. Converts to and from all 256 bytes without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opcode {
    /// The transport service.
    pub service: Service,
    /// What the packet does.
    pub operation: Operation,
}

impl Opcode {
    /// The congestion notification packet, the one opcode of its service (A17.9).
    pub const CNP: Opcode = Opcode::new(Service::Cnp, Operation::Unknown(0x01));

    /// The operation on the service.
    pub const fn new(service: Service, operation: Operation) -> Self {
        Opcode { service, operation }
    }

    /// The opcode of a byte.
    pub const fn from_byte(byte: u8) -> Self {
        let service = Service::from_bits(byte >> 5);
        let bits = byte & 0x1F;
        let operation = match service {
            Service::Cnp | Service::Reserved(_) => Operation::Unknown(bits),
            _ => OPERATIONS[bits as usize],
        };
        Opcode { service, operation }
    }

    /// The byte of the opcode.
    pub const fn byte(self) -> u8 {
        self.service.bits() << 5 | self.operation.bits()
    }

    /// What a packet with this opcode carries; nothing for an opcode that is not defined.
    pub const fn layout(self) -> Option<&'static Layout> {
        LAYOUTS[self.byte() as usize].as_ref()
    }

    /// Whether the operation is defined on the service.
    pub const fn is_known(self) -> bool {
        self.layout().is_some()
    }

    /// Whether this is the first or only packet of a message.
    pub const fn starts_message(self) -> bool {
        match self.layout() {
            Some(layout) => matches!(layout.position, Position::First | Position::Only),
            None => false,
        }
    }

    /// Whether this is the last or only packet of a message.
    pub const fn ends_message(self) -> bool {
        match self.layout() {
            Some(layout) => matches!(layout.position, Position::Last | Position::Only),
            None => false,
        }
    }

    /// Whether payload bytes may follow the headers.
    pub const fn carries_payload(self) -> bool {
        match self.layout() {
            Some(layout) => matches!(layout.kind, Kind::Send | Kind::Write | Kind::ReadResponse),
            None => false,
        }
    }

    /// Whether it asks for something, so that it goes from requester to responder.
    pub const fn is_request(self) -> bool {
        match self.layout() {
            Some(layout) => {
                matches!(layout.kind, Kind::Send | Kind::Write | Kind::ReadRequest | Kind::AtomicRequest)
            }
            None => false,
        }
    }

    /// Whether it answers a request.
    pub const fn is_response(self) -> bool {
        match self.layout() {
            Some(layout) => {
                matches!(layout.kind, Kind::ReadResponse | Kind::Acknowledge | Kind::AtomicResponse)
            }
            None => false,
        }
    }

    /// Whether it is a part of a SEND.
    pub const fn is_send(self) -> bool {
        self.is_of(Kind::Send)
    }

    /// Whether it is a part of an RDMA WRITE.
    pub const fn is_write(self) -> bool {
        self.is_of(Kind::Write)
    }

    /// Whether it is a part of the response to an RDMA READ.
    pub const fn is_read_response(self) -> bool {
        self.is_of(Kind::ReadResponse)
    }

    /// Whether it asks for an atomic operation.
    pub const fn is_atomic_request(self) -> bool {
        self.is_of(Kind::AtomicRequest)
    }

    /// Whether a RETH follows.
    pub const fn has_reth(self) -> bool {
        self.has(ExtendedKind::Reth)
    }

    /// Whether an AtomicETH follows.
    pub const fn has_atomic_eth(self) -> bool {
        self.has(ExtendedKind::Atomic)
    }

    /// Whether an AETH follows, alone or before an AtomicAckETH.
    pub const fn has_aeth(self) -> bool {
        self.has(ExtendedKind::Aeth) || self.has(ExtendedKind::AtomicAck)
    }

    /// Whether an AETH and an AtomicAckETH follow.
    pub const fn has_atomic_ack_eth(self) -> bool {
        self.has(ExtendedKind::AtomicAck)
    }

    /// Whether a DETH follows.
    pub const fn has_deth(self) -> bool {
        self.has(ExtendedKind::Deth)
    }

    /// Whether an XRCETH follows.
    pub const fn has_xrceth(self) -> bool {
        match self.layout() {
            Some(layout) => layout.xrceth,
            None => false,
        }
    }

    /// Whether immediate data follows.
    pub const fn has_immediate(self) -> bool {
        match self.layout() {
            Some(layout) => matches!(layout.immediate, ImmediateKind::Data),
            None => false,
        }
    }

    /// Whether the rkey to invalidate (IETH) follows.
    pub const fn has_invalidate(self) -> bool {
        match self.layout() {
            Some(layout) => matches!(layout.immediate, ImmediateKind::Invalidate),
            None => false,
        }
    }

    const fn is_of(self, kind: Kind) -> bool {
        match self.layout() {
            Some(layout) => layout.kind as u8 == kind as u8,
            None => false,
        }
    }

    const fn has(self, extended: ExtendedKind) -> bool {
        match self.layout() {
            Some(layout) => layout.extended as u8 == extended as u8,
            None => false,
        }
    }
}

impl From<u8> for Opcode {
    fn from(byte: u8) -> Self {
        Opcode::from_byte(byte)
    }
}

impl From<Opcode> for u8 {
    fn from(opcode: Opcode) -> u8 {
        opcode.byte()
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Opcode::CNP {
            return f.write_str("CNP");
        }
        match self.layout() {
            Some(_) => write!(f, "{:?} {:?}", self.service, self.operation),
            None => write!(f, "opcode {:#04x}", self.byte()),
        }
    }
}

impl Default for Opcode {
    /// A SEND ONLY on a reliable connection.
    fn default() -> Self {
        Opcode::new(Service::Rc, Operation::SendOnly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_an_opcode_and_back() {
        for byte in 0..=u8::MAX {
            assert_eq!(u8::from(Opcode::from(byte)), byte);
        }
        assert_eq!(u8::from(Opcode::CNP), 0x81);
        assert_eq!(Opcode::from(0x81), Opcode::CNP);
    }

    #[test]
    fn each_service_has_its_operations() {
        let known = |service| {
            (0..=u8::MAX)
                .map(Opcode::from_byte)
                .filter(|opcode| opcode.service == service && opcode.is_known())
                .count()
        };
        assert_eq!(known(Service::Rc), 23);
        assert_eq!(known(Service::Xrc), 23);
        assert_eq!(known(Service::Uc), 12);
        assert_eq!(known(Service::Ud), 2);
        assert_eq!(known(Service::Cnp), 1);
        assert_eq!(known(Service::Rd), 0);
    }

    #[test]
    fn helpers_follow_the_table() {
        let write_only_imm = Opcode::new(Service::Rc, Operation::WriteOnlyImm);
        assert!(write_only_imm.starts_message() && write_only_imm.ends_message());
        assert!(write_only_imm.has_reth() && write_only_imm.has_immediate());
        assert!(write_only_imm.is_request() && write_only_imm.carries_payload());

        let datagram = Opcode::new(Service::Ud, Operation::SendOnly);
        assert!(datagram.has_deth() && !datagram.has_reth());

        let ack = Opcode::new(Service::Xrc, Operation::Ack);
        assert!(ack.has_aeth() && !ack.has_xrceth() && ack.is_response());
        assert!(!ack.carries_payload());

        let undefined = Opcode::new(Service::Ud, Operation::ReadRequest);
        assert!(!undefined.is_known() && !undefined.has_deth() && !undefined.is_request());
    }
}
