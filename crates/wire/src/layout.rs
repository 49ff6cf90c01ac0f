//! What a packet with each opcode carries.
//!
//! [`ROWS`] is the one place that says which operations exist, on which
//! services, with which headers (IBTA vol. 1, 9.2.1 and 9.3). Everything else
//! is derived from it at compile time.

use crate::{Aeth, AtomicAckEth, AtomicEth, Deth, Opcode, Operation, Reth, Service, Xrceth};

/// The length of immediate data or of an IETH.
pub(crate) const IMMEDIATE_LEN: usize = 4;

/// The reserved bytes after the BTH of a congestion notification (A17.9).
pub(crate) const NOTIFICATION_LEN: usize = 16;

/// Where in its message a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Position {
    First,
    Middle,
    Last,
    Only,
}

/// The kind of message a packet belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum Kind {
    Send,
    Write,
    ReadRequest,
    ReadResponse,
    AtomicRequest,
    AtomicResponse,
    Acknowledge,
    CongestionNotification,
}

/// Which extended header follows the BTH (and the XRCETH, if there is one).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the field's")]
pub enum ExtendedKind {
    None,
    Reth,
    Atomic,
    Aeth,
    AtomicAck,
    Deth,
    /// The sixteen reserved bytes of a congestion notification.
    Notification,
}

impl ExtendedKind {
    const fn len(self) -> usize {
        match self {
            ExtendedKind::None => 0,
            ExtendedKind::Reth => Reth::LEN,
            ExtendedKind::Atomic => AtomicEth::LEN,
            ExtendedKind::Aeth => Aeth::LEN,
            ExtendedKind::AtomicAck => Aeth::LEN + AtomicAckEth::LEN,
            ExtendedKind::Deth => Deth::LEN,
            ExtendedKind::Notification => NOTIFICATION_LEN,
        }
    }
}

/// Which four bytes, if any, follow the extended header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ImmediateKind {
    /// None.
    None,
    /// Immediate data for the receiver's completion (ImmDt).
    Data,
    /// The rkey that the receiver shall invalidate (IETH).
    Invalidate,
}

/// What a packet carries, by its opcode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The kind of message.
    pub kind: Kind,
    /// Where in its message the packet stands.
    pub position: Position,
    /// Whether an XRCETH directly follows the BTH.
    pub xrceth: bool,
    /// The extended header.
    pub extended: ExtendedKind,
    /// What follows the extended header.
    pub immediate: ImmediateKind,
    /// The length of all that, without the BTH.
    pub extended_len: u8,
}

/// One operation of the table, on every service that has it.
struct Row {
    operation: Operation,
    services: u8,
    position: Position,
    kind: Kind,
    extended: ExtendedKind,
    immediate: ImmediateKind,
}

const fn row(
    operation: Operation,
    services: u8,
    position: Position,
    kind: Kind,
    extended: ExtendedKind,
    immediate: ImmediateKind,
) -> Row {
    Row { operation, services, position, kind, extended, immediate }
}

/// Sets of services, one bit each.
const RELIABLE: u8 = 1 << Service::Rc.bits() | 1 << Service::Xrc.bits();
const CONNECTED: u8 = RELIABLE | 1 << Service::Uc.bits();
const ALL: u8 = CONNECTED | DATAGRAM;
const DATAGRAM: u8 = 1 << Service::Ud.bits();
const NOTIFICATION: u8 = 1 << Service::Cnp.bits();

/// The table. A DETH on the datagram service and an XRCETH before the requests
/// of the XRC service come on top of the columns.
#[rustfmt::skip]
const ROWS: [Row; 24] = {
    use ExtendedKind as E;
    use ImmediateKind as I;
    use Kind as K;
    use Operation as O;
    use Position::{First, Last, Middle, Only};
    [
        row(O::SendFirst,          CONNECTED,    First,  K::Send,           E::None,      I::None),
        row(O::SendMiddle,         CONNECTED,    Middle, K::Send,           E::None,      I::None),
        row(O::SendLast,           CONNECTED,    Last,   K::Send,           E::None,      I::None),
        row(O::SendLastImm,        CONNECTED,    Last,   K::Send,           E::None,      I::Data),
        row(O::SendOnly,           ALL,          Only,   K::Send,           E::None,      I::None),
        row(O::SendOnlyImm,        ALL,          Only,   K::Send,           E::None,      I::Data),
        row(O::WriteFirst,         CONNECTED,    First,  K::Write,          E::Reth,      I::None),
        row(O::WriteMiddle,        CONNECTED,    Middle, K::Write,          E::None,      I::None),
        row(O::WriteLast,          CONNECTED,    Last,   K::Write,          E::None,      I::None),
        row(O::WriteLastImm,       CONNECTED,    Last,   K::Write,          E::None,      I::Data),
        row(O::WriteOnly,          CONNECTED,    Only,   K::Write,          E::Reth,      I::None),
        row(O::WriteOnlyImm,       CONNECTED,    Only,   K::Write,          E::Reth,      I::Data),
        row(O::ReadRequest,        RELIABLE,     Only,   K::ReadRequest,    E::Reth,      I::None),
        row(O::ReadResponseFirst,  RELIABLE,     First,  K::ReadResponse,   E::Aeth,      I::None),
        row(O::ReadResponseMiddle, RELIABLE,     Middle, K::ReadResponse,   E::None,      I::None),
        row(O::ReadResponseLast,   RELIABLE,     Last,   K::ReadResponse,   E::Aeth,      I::None),
        row(O::ReadResponseOnly,   RELIABLE,     Only,   K::ReadResponse,   E::Aeth,      I::None),
        row(O::Ack,                RELIABLE,     Only,   K::Acknowledge,    E::Aeth,      I::None),
        row(O::AtomicAck,          RELIABLE,     Only,   K::AtomicResponse, E::AtomicAck, I::None),
        row(O::CompareSwap,        RELIABLE,     Only,   K::AtomicRequest,  E::Atomic,    I::None),
        row(O::FetchAdd,           RELIABLE,     Only,   K::AtomicRequest,  E::Atomic,    I::None),
        row(O::SendLastInv,        RELIABLE,     Last,   K::Send,           E::None,      I::Invalidate),
        row(O::SendOnlyInv,        RELIABLE,     Only,   K::Send,           E::None,      I::Invalidate),
        row(Opcode::CNP.operation, NOTIFICATION, Only,   K::CongestionNotification, E::Notification, I::None),
    ]
};

/// The named operations, by their five bits.
pub(crate) static OPERATIONS: [Operation; 32] = {
    let mut operations = [Operation::Unknown(0); 32];
    let mut bits = 0;
    while bits < operations.len() {
        operations[bits] = Operation::Unknown(bits as u8);
        bits += 1;
    }
    let mut index = 0;
    while index < ROWS.len() {
        if ROWS[index].services != NOTIFICATION {
            operations[ROWS[index].operation.bits() as usize] = ROWS[index].operation;
        }
        index += 1;
    }
    operations
};

/// The table by opcode, for a lookup per packet.
pub(crate) static LAYOUTS: [Option<Layout>; 256] = {
    let mut layouts = [None; 256];
    let mut index = 0;
    while index < ROWS.len() {
        let mut service = 0;
        while service < 8 {
            if ROWS[index].services & (1 << service) != 0 {
                let opcode = service << 5 | ROWS[index].operation.bits();
                layouts[opcode as usize] = Some(layout(&ROWS[index], Service::from_bits(service)));
            }
            service += 1;
        }
        index += 1;
    }
    layouts
};

/// What a row means on one of its services.
const fn layout(row: &Row, service: Service) -> Layout {
    let extended = match service {
        Service::Ud => ExtendedKind::Deth,
        _ => row.extended,
    };
    let request = matches!(row.kind, Kind::Send | Kind::Write | Kind::ReadRequest | Kind::AtomicRequest);
    let xrceth = matches!(service, Service::Xrc) && request;
    let immediate_len = match row.immediate {
        ImmediateKind::None => 0,
        ImmediateKind::Data | ImmediateKind::Invalidate => IMMEDIATE_LEN,
    };
    let xrceth_len = if xrceth { Xrceth::LEN } else { 0 };
    Layout {
        kind: row.kind,
        position: row.position,
        xrceth,
        extended,
        immediate: row.immediate,
        extended_len: (xrceth_len + extended.len() + immediate_len) as u8,
    }
}
