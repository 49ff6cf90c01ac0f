//! One line of text for one packet.

use std::fmt;

use super::describe::{Contents, Description, Details, IcrcVerdict, Mad, Roce};

/// A packet as a line.
pub struct Line<'a> {
    /// The packet.
    pub packet: &'a Description,
    /// When the capture began, in nanoseconds since 1970.
    pub start_ns: u64,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.packet.time_ns {
            Some(time) => {
                let since = i128::from(time) - i128::from(self.start_ns);
                let sign = if since < 0 { "-" } else { "" };
                let nanos = since.unsigned_abs();
                write!(f, "{sign}{}.{:09} ", nanos / 1_000_000_000, nanos % 1_000_000_000)?;
            }
            None => write!(f, "- ")?,
        }
        match &self.packet.contents {
            Contents::Roce(packet) => roce(f, packet)?,
            Contents::Other { what } => write!(f, "not RoCE: {what}")?,
            Contents::Malformed { error } => {
                write!(
                    f,
                    "malformed: {error} (packet {} at offset {})",
                    self.packet.number, self.packet.offset
                )?;
            }
        }
        write!(f, " length {}", self.packet.length)?;
        match self.packet.missing {
            0 => Ok(()),
            missing => write!(f, " ({missing} not captured)"),
        }
    }
}

fn roce(f: &mut fmt::Formatter<'_>, packet: &Roce) -> fmt::Result {
    write!(f, "{} > {} {}", packet.source, packet.destination, packet.opcode)?;
    write!(f, " psn {} qp {:#x}", packet.psn, packet.dest_qp)?;
    if let Some(srqn) = packet.srqn {
        write!(f, " srq {srqn:#x}")?;
    }
    details(f, &packet.extended)?;
    if let Some(immediate) = packet.immediate {
        write!(f, " imm {immediate:#010x}")?;
    }
    if let Some(key) = packet.invalidate {
        write!(f, " invalidate {key:#x}")?;
    }
    if let Some(datagram) = &packet.mad {
        mad(f, datagram)?;
    }
    for (name, is_set) in
        [("ackreq", packet.ack_request), ("solicited", packet.solicited), ("becn", packet.becn)]
    {
        if is_set {
            write!(f, " {name}")?;
        }
    }
    around(f, packet)?;
    if packet.payload > 0 {
        write!(f, " payload {}", packet.payload)?;
    }
    f.write_str(match packet.icrc {
        IcrcVerdict::Ok => " icrc ok",
        IcrcVerdict::Bad => " icrc BAD",
        IcrcVerdict::Missing => " icrc ?",
    })
}

fn details(f: &mut fmt::Formatter<'_>, details: &Details) -> fmt::Result {
    match details {
        Details::None {} => Ok(()),
        Details::Reth { va, rkey, dma_length } => write!(f, " va {va:#x} rkey {rkey:#x} dmalen {dma_length}"),
        Details::Atomic { va, rkey, swap_or_add, compare } => {
            write!(f, " va {va:#x} rkey {rkey:#x} swap/add {swap_or_add:#x} compare {compare:#x}")
        }
        Details::Aeth { syndrome, msn, credits, rnr_delay_us, original } => {
            write!(f, " {syndrome} msn {msn}")?;
            if let Some(credits) = credits {
                write!(f, " credits {credits}")?;
            }
            if let Some(micros) = rnr_delay_us {
                write!(f, " retry after {} ms", *micros as f64 / 1000.0)?;
            }
            match original {
                Some(original) => write!(f, " original {original:#x}"),
                None => Ok(()),
            }
        }
        Details::Deth { qkey, source_qp } => write!(f, " from {source_qp:#x} qkey {qkey:#x}"),
    }
}

fn mad(f: &mut fmt::Formatter<'_>, mad: &Mad) -> fmt::Result {
    write!(f, " [{} {} {} tid {:#x}", mad.class, mad.method, mad.attribute, mad.transaction_id)?;
    if mad.status != 0 {
        write!(f, " status {:#x}", mad.status)?;
    }
    for (name, value) in [("local", mad.local_id), ("remote", mad.remote_id)] {
        if let Some(value) = value {
            write!(f, " {name} {value:#x}")?;
        }
    }
    if let Some(service) = mad.service_id {
        write!(f, " service {service:#x}")?;
    }
    if let Some(reason) = mad.reject_reason {
        write!(f, " reason {reason}")?;
    }
    f.write_str("]")
}

/// What stands around the packet and is not as usual.
fn around(f: &mut fmt::Formatter<'_>, packet: &Roce) -> fmt::Result {
    if packet.version == 1 {
        write!(f, " v1")?;
    }
    for tag in &packet.vlans {
        write!(f, " vlan {} pcp {}", tag.id, tag.priority)?;
    }
    if packet.dscp != 0 {
        write!(f, " dscp {}", packet.dscp)?;
    }
    if let Some(ecn) = packet.ecn {
        write!(f, " {ecn}")?;
    }
    if packet.pkey != 0xFFFF {
        write!(f, " pkey {:#06x}", packet.pkey)?;
    }
    Ok(())
}
