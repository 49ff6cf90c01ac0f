//! The names and coded values that people know from the specification and from other analysers.

use std::borrow::Cow;
use std::time::Duration;

use wire::{ManagementClass, Method, NakCode, Opcode, Operation, Service, Syndrome};

/// The name of an opcode (IBTA vol. 1, 9.2.1).
pub fn opcode(opcode: Opcode) -> Cow<'static, str> {
    if opcode == Opcode::CNP {
        return "CNP".into();
    }
    match (service(opcode.service), operation(opcode.operation)) {
        (Some(service), Some(operation)) if opcode.is_known() => format!("{service} {operation}").into(),
        _ => format!("opcode {:#04x}", opcode.byte()).into(),
    }
}

fn service(service: Service) -> Option<&'static str> {
    match service {
        Service::Rc => Some("RC"),
        Service::Uc => Some("UC"),
        Service::Rd => Some("RD"),
        Service::Ud => Some("UD"),
        Service::Xrc => Some("XRC"),
        Service::Cnp | Service::Reserved(_) => None,
    }
}

fn operation(operation: Operation) -> Option<&'static str> {
    Some(match operation {
        Operation::SendFirst => "SEND First",
        Operation::SendMiddle => "SEND Middle",
        Operation::SendLast => "SEND Last",
        Operation::SendLastImm => "SEND Last with Immediate",
        Operation::SendOnly => "SEND Only",
        Operation::SendOnlyImm => "SEND Only with Immediate",
        Operation::WriteFirst => "RDMA WRITE First",
        Operation::WriteMiddle => "RDMA WRITE Middle",
        Operation::WriteLast => "RDMA WRITE Last",
        Operation::WriteLastImm => "RDMA WRITE Last with Immediate",
        Operation::WriteOnly => "RDMA WRITE Only",
        Operation::WriteOnlyImm => "RDMA WRITE Only with Immediate",
        Operation::ReadRequest => "RDMA READ Request",
        Operation::ReadResponseFirst => "RDMA READ response First",
        Operation::ReadResponseMiddle => "RDMA READ response Middle",
        Operation::ReadResponseLast => "RDMA READ response Last",
        Operation::ReadResponseOnly => "RDMA READ response Only",
        Operation::Ack => "Acknowledge",
        Operation::AtomicAck => "ATOMIC Acknowledge",
        Operation::CompareSwap => "CmpSwap",
        Operation::FetchAdd => "FetchAdd",
        Operation::SendLastInv => "SEND Last with Invalidate",
        Operation::SendOnlyInv => "SEND Only with Invalidate",
        Operation::Unknown(_) => return None,
    })
}

/// What became of a request, in words.
pub fn syndrome(syndrome: Syndrome) -> Cow<'static, str> {
    match syndrome {
        Syndrome::Ack { .. } => "ACK".into(),
        Syndrome::RnrNak { .. } => "RNR NAK".into(),
        Syndrome::Nak(NakCode::PsnSequence) => "NAK PSN sequence error".into(),
        Syndrome::Nak(NakCode::InvalidRequest) => "NAK invalid request".into(),
        Syndrome::Nak(NakCode::RemoteAccess) => "NAK remote access error".into(),
        Syndrome::Nak(NakCode::RemoteOperational) => "NAK remote operational error".into(),
        Syndrome::Nak(NakCode::InvalidRdRequest) => "NAK invalid RD request".into(),
        Syndrome::Nak(NakCode::Reserved(code)) => format!("NAK with reserved code {code}").into(),
        Syndrome::Reserved(byte) => format!("reserved syndrome {byte:#04x}").into(),
    }
}

/// How many messages the responder can still take; nothing if it does not count them (IBTA vol. 1, 9.7.7.2).
pub fn credits(code: u8) -> Option<u32> {
    (code != Syndrome::UNLIMITED).then(|| steps(code))
}

/// How long to wait after an RNR NAK (IBTA vol. 1, 9.7.5.2.8).
pub fn rnr_delay(code: u8) -> Duration {
    // The longest of all has the code that is left over.
    let code = if code == 0 { 32 } else { code };
    Duration::from_micros(10) * steps(code)
}

/// Both codes grow by a power of two every other step, with the value half way in between.
fn steps(code: u8) -> u32 {
    match code {
        0 | 1 => code.into(),
        even if even.is_multiple_of(2) => 1 << (even / 2),
        odd => 3 << (odd / 2 - 1),
    }
}

/// The name of a management class.
pub fn management_class(class: ManagementClass) -> Cow<'static, str> {
    match class {
        ManagementClass::SUBNET_LID_ROUTED | ManagementClass::SUBNET_DIRECTED_ROUTE => "SM".into(),
        ManagementClass::SUBNET_ADMINISTRATION => "SA".into(),
        ManagementClass::PERFORMANCE => "PM".into(),
        ManagementClass::BASEBOARD => "BM".into(),
        ManagementClass::DEVICE => "DM".into(),
        ManagementClass::COMMUNICATION => "CM".into(),
        ManagementClass(class) => format!("class {class:#04x}").into(),
    }
}

/// The name of a method.
pub fn method(method: Method) -> Cow<'static, str> {
    match method {
        Method::GET => "Get".into(),
        Method::SET => "Set".into(),
        Method::SEND => "Send".into(),
        Method::TRAP => "Trap".into(),
        Method::REPORT => "Report".into(),
        Method::TRAP_REPRESS => "TrapRepress".into(),
        Method::GET_RESPONSE => "GetResp".into(),
        Method(method) => format!("method {method:#04x}").into(),
    }
}

/// The name of an attribute of communication management (IBTA vol. 1, 16.7.3).
pub fn cm_attribute(id: u16) -> Option<&'static str> {
    Some(match id {
        0x0001 => "ClassPortInfo",
        0x0010 => "REQ",
        0x0011 => "MRA",
        0x0012 => "REJ",
        0x0013 => "REP",
        0x0014 => "RTU",
        0x0015 => "DREQ",
        0x0016 => "DREP",
        0x0017 => "SIDR_REQ",
        0x0018 => "SIDR_REP",
        0x0019 => "LAP",
        0x001A => "APR",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_defined_opcode_has_a_name_of_its_own() {
        let known = (0..=u8::MAX).map(Opcode::from_byte).filter(|opcode| opcode.is_known());
        let names: std::collections::BTreeSet<_> = known.clone().map(opcode).collect();
        assert_eq!(names.len(), known.count());
        assert!(names.iter().all(|name| !name.starts_with("opcode")));
        assert_eq!(opcode(Opcode::from_byte(0x0A)), "RC RDMA WRITE Only");
        assert_eq!(opcode(Opcode::from_byte(0x60)), "opcode 0x60");
    }

    #[test]
    fn codes_have_the_values_of_their_tables() {
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 30].map(steps), [0, 1, 2, 3, 4, 6, 8, 12, 32768]);
        assert_eq!(credits(31), None);
        assert_eq!(rnr_delay(0), Duration::from_micros(655_360));
        assert_eq!(rnr_delay(12), Duration::from_micros(640));
        assert_eq!(rnr_delay(31), Duration::from_micros(491_520));
    }
}
