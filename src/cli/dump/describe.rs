//! What there is to say about a captured packet: a value that is written as a line or as JSON.

use std::borrow::Cow;
use std::net::IpAddr;

use serde::{Serialize, Serializer};
use wire::{
    Aeth, Body, Ecn, Extended, Frame, Headers, Immediate, MadHeader, ManagementClass, Network, Packet, Qpn,
    Syndrome, TrafficClass,
};

use super::capture::Record;
use super::link::ethernet_frame;
use super::names;

/// Most missing bytes of a packet cut short that are believed.
const MAX_MISSING: usize = 1 << 18;

/// A packet of a capture.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Description {
    /// Counted from 1.
    pub number: u64,
    /// Where in the file its record begins.
    pub offset: u64,
    /// When, in nanoseconds since 1970.
    pub time_ns: Option<u64>,
    /// Its length on the wire.
    pub length: usize,
    /// What is missing of it in the capture.
    #[serde(skip_serializing_if = "is_zero")]
    pub missing: usize,
    /// What it is.
    #[serde(flatten)]
    pub contents: Contents,
}

/// What a packet is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Contents {
    /// RoCE, v1 or v2.
    Roce(Box<Roce>),
    /// Something else.
    Other {
        /// What.
        what: String,
    },
    /// Not what its headers say.
    Malformed {
        /// What is wrong.
        error: String,
    },
}

/// A packet of RoCE.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roce {
    /// 1 or 2.
    pub version: u8,
    /// VLAN tags, the outer one first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vlans: Vec<VlanTag>,
    /// Who sent it.
    pub source: IpAddr,
    /// To whom.
    pub destination: IpAddr,
    /// UDP source port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// The treatment asked for.
    #[serde(skip_serializing_if = "is_zero")]
    pub dscp: u8,
    /// Congestion on the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ecn: Option<&'static str>,
    /// Whether it goes from requester to responder.
    #[serde(skip)]
    pub is_request: bool,
    /// The name of the opcode.
    pub opcode: Cow<'static, str>,
    /// Partition, if not the default one.
    #[serde(serialize_with = "hex", skip_serializing_if = "is_default_pkey")]
    pub pkey: u16,
    /// Destination queue pair.
    pub dest_qp: u32,
    /// Sequence number.
    pub psn: u32,
    /// Shared receive queue, on XRC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub srqn: Option<u32>,
    /// Whether an answer is asked for.
    #[serde(skip_serializing_if = "is_false")]
    pub ack_request: bool,
    /// Whether it wakes the receiver.
    #[serde(skip_serializing_if = "is_false")]
    pub solicited: bool,
    /// Congestion met by the other direction.
    #[serde(skip_serializing_if = "is_false")]
    pub becn: bool,
    /// The extended headers.
    #[serde(flatten)]
    pub extended: Details,
    /// Immediate data.
    #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
    pub immediate: Option<u32>,
    /// Key to invalidate.
    #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
    pub invalidate: Option<u32>,
    /// Payload bytes, without padding.
    pub payload: usize,
    /// Whether the ICRC is right.
    pub icrc: IcrcVerdict,
    /// The management datagram in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mad: Option<Mad>,
}

/// A VLAN tag.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct VlanTag {
    /// VID.
    pub id: u16,
    /// PCP.
    pub priority: u8,
}

/// The extended headers of a packet.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Details {
    Reth {
        #[serde(serialize_with = "hex")]
        va: u64,
        #[serde(serialize_with = "hex")]
        rkey: u32,
        dma_length: u32,
    },
    Atomic {
        #[serde(serialize_with = "hex")]
        va: u64,
        #[serde(serialize_with = "hex")]
        rkey: u32,
        #[serde(serialize_with = "hex")]
        swap_or_add: u64,
        #[serde(serialize_with = "hex")]
        compare: u64,
    },
    Aeth {
        syndrome: Cow<'static, str>,
        msn: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        credits: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        rnr_delay_us: Option<u64>,
        #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
        original: Option<u64>,
    },
    Deth {
        #[serde(serialize_with = "hex")]
        qkey: u32,
        source_qp: u32,
    },
    None {},
}

/// Whether a packet's ICRC is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum IcrcVerdict {
    /// It is.
    Ok,
    /// It is not.
    Bad,
    /// The capture does not have it.
    Missing,
}

/// A management datagram.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mad {
    /// Class.
    pub class: Cow<'static, str>,
    /// Method.
    pub method: Cow<'static, str>,
    /// Attribute.
    pub attribute: Cow<'static, str>,
    /// Transaction.
    #[serde(serialize_with = "hex")]
    pub transaction_id: u64,
    /// Status, if not 0.
    #[serde(skip_serializing_if = "is_zero")]
    pub status: u16,
    /// The sender's number of the connection.
    #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
    pub local_id: Option<u32>,
    /// The receiver's number of the connection.
    #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
    pub remote_id: Option<u32>,
    /// The service asked for.
    #[serde(serialize_with = "optional_hex", skip_serializing_if = "Option::is_none")]
    pub service_id: Option<u64>,
    /// Why it was rejected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reject_reason: Option<u16>,
}

impl Description {
    /// Reads a record.
    pub fn new(number: u64, record: &Record<'_>) -> Self {
        let missing = record.original_len - record.data.len();
        Self {
            number,
            offset: record.offset,
            time_ns: record.time.map(|time| time.as_nanos() as u64),
            length: record.original_len,
            missing,
            contents: contents(record, missing),
        }
    }
}

fn contents(record: &Record<'_>, missing: usize) -> Contents {
    let Some(mut bytes) = ethernet_frame(record.link, record.data) else {
        return Contents::Other { what: format!("link type {}", u32::from(record.link)) };
    };
    let captured = bytes.len();
    if (1..MAX_MISSING).contains(&missing) {
        // The headers of a packet that was cut short are worth showing: zeros stand for the rest.
        bytes.to_mut().resize(captured + missing, 0);
    }
    let frame = match Frame::parse(&bytes) {
        Ok(frame) => frame,
        Err(error) => return Contents::Malformed { error: error.to_string() },
    };
    match &frame.body {
        Body::Malformed { .. } if missing > 0 => {
            Contents::Malformed { error: format!("the capture has only {captured} bytes of it") }
        }
        Body::Malformed { error, .. } => Contents::Malformed { error: error.to_string() },
        Body::Other(_) => Contents::Other { what: other(&frame) },
        Body::Roce(packet) => {
            let end_of_headers = frame.len() - frame.trailer.len() - packet.len() + packet.headers.len();
            if end_of_headers > captured {
                return Contents::Malformed { error: "the capture ends in its headers".into() };
            }
            Contents::Roce(Box::new(roce(&frame, packet, &bytes, missing > 0)))
        }
    }
}

fn other(frame: &Frame<'_>) -> String {
    match (&frame.network, &frame.udp) {
        (_, Some(udp)) => format!("UDP {} > {}", udp.source_port, udp.destination_port),
        (Network::Ipv4(ip), None) if ip.is_fragment() => "IPv4 fragment".into(),
        (Network::Ipv4(ip), None) => format!("IPv4 protocol {}", ip.protocol),
        (Network::Ipv6(ip), None) => format!("IPv6 next header {}", ip.next_header),
        (Network::Grh(grh), None) => format!("GRH next header {:#04x}", grh.next_header),
        (Network::None, None) => {
            let tag = frame.vlans.iter().flatten().last();
            format!("EtherType {}", tag.map_or(frame.ethernet.ethertype, |vlan| vlan.ethertype))
        }
    }
}

fn roce(frame: &Frame<'_>, packet: &Packet<'_>, bytes: &[u8], cut: bool) -> Roce {
    let (source, destination, traffic_class) = endpoints(&frame.network);
    let Headers { bth, xrceth, extended, immediate } = packet.headers;
    let icrc = match frame.verify_icrc(bytes) {
        _ if cut => IcrcVerdict::Missing,
        Some(true) => IcrcVerdict::Ok,
        _ => IcrcVerdict::Bad,
    };
    Roce {
        version: if frame.udp.is_some() { 2 } else { 1 },
        vlans: frame
            .vlans
            .iter()
            .flatten()
            .map(|vlan| VlanTag { id: vlan.id, priority: vlan.priority })
            .collect(),
        source,
        destination,
        source_port: frame.udp.map(|udp| udp.source_port),
        dscp: traffic_class.dscp,
        ecn: ecn(traffic_class.ecn),
        is_request: bth.opcode.is_request(),
        opcode: names::opcode(bth.opcode),
        pkey: bth.pkey,
        dest_qp: bth.dest_qp.value(),
        psn: bth.psn.value(),
        srqn: xrceth.map(|xrceth| xrceth.srqn.value()),
        ack_request: bth.ack_request,
        solicited: bth.solicited,
        becn: bth.becn,
        extended: details(&extended),
        immediate: if let Immediate::Data(data) = immediate { Some(data) } else { None },
        invalidate: if let Immediate::Invalidate(key) = immediate { Some(key) } else { None },
        payload: packet.payload.len(),
        icrc,
        mad: if bth.dest_qp == Qpn::GSI && !cut { mad(packet.payload) } else { None },
    }
}

/// Source, destination and traffic class. A frame with a packet has all three.
fn endpoints(network: &Network) -> (IpAddr, IpAddr, TrafficClass) {
    match network {
        Network::None => (
            IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
            IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED),
            TrafficClass::default(),
        ),
        Network::Ipv4(ip) => (ip.source.into(), ip.destination.into(), ip.traffic_class),
        Network::Ipv6(ip) => (ip.source.into(), ip.destination.into(), ip.traffic_class),
        Network::Grh(grh) => {
            (grh.source.ip(), grh.destination.ip(), TrafficClass::from_byte(grh.traffic_class))
        }
    }
}

fn ecn(ecn: Ecn) -> Option<&'static str> {
    match ecn {
        Ecn::NotCapable => None,
        Ecn::Capable0 => Some("ECT(0)"),
        Ecn::Capable1 => Some("ECT(1)"),
        Ecn::CongestionExperienced => Some("CE"),
    }
}

fn details(extended: &Extended) -> Details {
    match *extended {
        Extended::None => Details::None {},
        Extended::Reth(reth) => Details::Reth { va: reth.va, rkey: reth.rkey, dma_length: reth.length },
        Extended::Atomic(atomic) => Details::Atomic {
            va: atomic.va,
            rkey: atomic.rkey,
            swap_or_add: atomic.swap_or_add,
            compare: atomic.compare,
        },
        Extended::Aeth(aeth) => acknowledgement(aeth, None),
        Extended::AtomicAck(aeth, ack) => acknowledgement(aeth, Some(ack.original)),
        Extended::Deth(deth) => Details::Deth { qkey: deth.qkey, source_qp: deth.source_qp.value() },
    }
}

fn acknowledgement(aeth: Aeth, original: Option<u64>) -> Details {
    let (credits, rnr_delay_us) = match aeth.syndrome {
        Syndrome::Ack { credits } => (names::credits(credits), None),
        Syndrome::RnrNak { timer } => (None, Some(names::rnr_delay(timer).as_micros() as u64)),
        Syndrome::Nak(_) | Syndrome::Reserved(_) => (None, None),
    };
    let syndrome = names::syndrome(aeth.syndrome);
    Details::Aeth { syndrome, msn: aeth.msn, credits, rnr_delay_us, original }
}

/// The management datagram in a payload; of communication management also what names the connection
/// (IBTA vol. 1, 12.6).
fn mad(payload: &[u8]) -> Option<Mad> {
    let header = MadHeader::parse(payload).ok()?;
    let is_cm = header.class == ManagementClass::COMMUNICATION;
    let attribute = if is_cm { names::cm_attribute(header.attribute_id) } else { None };
    let data = if attribute.is_some_and(|name| name != "ClassPortInfo") {
        payload.get(MadHeader::LEN..)
    } else {
        None
    };
    let field =
        |at: usize| data.and_then(|data| data.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes));
    let service = || Some(u64::from(field(8)?) << 32 | u64::from(field(12)?));
    Some(Mad {
        class: names::management_class(header.class),
        method: names::method(header.method),
        attribute: match attribute {
            Some(name) => name.into(),
            None => format!("attribute {:#06x}", header.attribute_id).into(),
        },
        transaction_id: header.transaction_id,
        status: header.status,
        local_id: field(0),
        remote_id: match attribute {
            Some("REQ" | "SIDR_REQ" | "SIDR_REP") => None,
            _ => field(4),
        },
        service_id: matches!(attribute, Some("REQ" | "SIDR_REQ")).then(service).flatten(),
        reject_reason: match attribute {
            Some("REJ") => field(8).map(|word| word as u16),
            _ => None,
        },
    })
}

fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_false(value: &bool) -> bool {
    !value
}

fn is_default_pkey(pkey: &u16) -> bool {
    *pkey == 0xFFFF
}

/// As text: JSON's numbers do not hold 64 bits everywhere, and keys are read in hexadecimal.
fn hex<S: Serializer, T: std::fmt::LowerHex>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{value:#x}"))
}

fn optional_hex<S: Serializer, T: std::fmt::LowerHex>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => hex(value, serializer),
        None => serializer.serialize_none(),
    }
}
