//! Address handles, also from what a datagram's receiver knows of its sender.

use std::ffi::c_int;

use nic::verbs::{self, GidType};
use wire::Gid;

use super::{
    context::{Context, ContextRef},
    memory::Pd,
    port::{GIDS, path_error},
};
use crate::abi::{
    convert::{Flags, address_vector, gid, to_gid},
    errno::{Errno, pointer, status, zero_or_minus_one},
    layout::Zeroed,
    object::{Object, Visible},
    types::{
        address::{ibv_ah, ibv_ah_attr, ibv_global_route, ibv_grh},
        completion::ibv_wc,
        constants::*,
        context::ibv_context,
        memory::ibv_pd,
    },
};

/// An address handle.
#[repr(C)]
pub(crate) struct Ah {
    c: Visible<ibv_ah>,
    context: ContextRef,
    handle: verbs::Ah,
}

// SAFETY: it begins with what C sees.
unsafe impl Object for Ah {
    type C = ibv_ah;
}

impl Ah {
    /// The adapter's name for it.
    pub(crate) fn handle(&self) -> verbs::Ah {
        self.handle
    }
}

/// `ibv_create_ah(3)`.
///
/// # Safety
///
/// `pd` is a protection domain and `attr` is valid.
pub(super) unsafe extern "C" fn create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the caller passes a protection domain and attributes.
    let (domain, path) = unsafe { (Pd::of(pd), address_vector(&*attr)) };
    let ah = domain.context.adapter.create_ah(domain.handle, path).map(|handle| {
        let c = Visible::new(ibv_ah { context: domain.context.c(), pd, handle: handle.0 });
        Ah { c, context: domain.context, handle }.hand_out()
    });
    pointer(ah.map_err(|error| path_error(&domain.context, &path, error.into())))
}

/// `ibv_destroy_ah(3)`.
///
/// # Safety
///
/// `ah` is an address handle.
pub(super) unsafe extern "C" fn destroy_ah(ah: *mut ibv_ah) -> c_int {
    // SAFETY: the caller passes an address handle.
    let handle = unsafe { Ah::of(ah) };
    let result = handle.context.adapter.destroy_ah(handle.handle);
    if result.is_ok() {
        // SAFETY: the adapter has forgotten it.
        unsafe { Ah::take_back(ah) };
    }
    status(result.map_err(Errno::from))
}

/// `ibv_create_ah_from_wc(3)`.
///
/// # Safety
///
/// `pd` is a protection domain, `wc` is valid, and so is `grh` if `wc` says that there is one.
pub(super) unsafe extern "C" fn create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    let mut attr = ibv_ah_attr::zeroed();
    // SAFETY: the caller's promises are passed on.
    unsafe {
        match init_ah_from_wc((*pd).context, port, wc, grh, &mut attr) {
            0 => create_ah(pd, &mut attr),
            _ => std::ptr::null_mut(),
        }
    }
}

/// `ibv_init_ah_from_wc(3)`.
///
/// # Safety
///
/// `context` is an open device, `wc` and `attr` are valid, and so is `grh` if `wc` says that there is one.
pub(super) unsafe extern "C" fn init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    // SAFETY: the caller passes an open device and a completion.
    let (context, wc) = unsafe { (ContextRef::of(context), &*wc) };
    let init = || -> Result<ibv_ah_attr, Errno> {
        let attr = ibv_ah_attr {
            dlid: wc.slid,
            sl: wc.sl,
            src_path_bits: wc.dlid_path_bits,
            port_num: port,
            ..ibv_ah_attr::zeroed()
        };
        if !wc.wc_flags.has(IBV_WC_GRH) {
            return Ok(attr);
        }
        // SAFETY: the completion says that there is a header.
        let header = unsafe { &*grh };
        Ok(ibv_ah_attr { grh: route_back(&context, header)?, is_global: 1, ..attr })
    };
    // SAFETY: the caller passes a valid place.
    zero_or_minus_one(init().map(|found| unsafe { *attr = found }))
}

/// The way back to where a network header came from.
fn route_back(context: &Context, header: &ibv_grh) -> Result<ibv_global_route, Errno> {
    let origin = Origin::read(header)?;
    if origin.destination.is_multicast() {
        return Err(Errno::INVALID);
    }
    let sgid_index = (0..GIDS as u8)
        .find(|&index| {
            let entry = context.adapter.gid(index);
            entry.is_some_and(|entry| entry.gid == origin.destination && entry.gid_type == origin.gid_type)
        })
        .ok_or(Errno::INVALID)?;
    Ok(ibv_global_route {
        dgid: to_gid(origin.source),
        flow_label: u32::from_be(header.version_tclass_flow) & 0xf_ffff,
        sgid_index,
        hop_limit: origin.hop_limit,
        traffic_class: origin.traffic_class,
    })
}

/// What a network header tells of the packet that it came on.
#[derive(Debug, PartialEq, Eq)]
struct Origin {
    source: Gid,
    destination: Gid,
    gid_type: GidType,
    hop_limit: u8,
    traffic_class: u8,
}

impl Origin {
    /// Reads the 40 bytes before a datagram: a GRH or IPv6 header, or 20 unused bytes and an IPv4 header (IBTA A17.4.5.1).
    fn read(header: &ibv_grh) -> Result<Self, Errno> {
        // SAFETY: the header is 40 bytes without padding, of which any value is valid.
        let [unused, ipv4]: [[u8; 20]; 2] = unsafe { std::mem::transmute(*header) };
        let (looks_like_6, looks_like_4) = (unused[0] >> 4 == 6, ipv4[0] >> 4 == 4);
        if looks_like_4 && (!looks_like_6 || is_sound(&ipv4)) {
            Ok(Self::from_ipv4(&ipv4))
        } else if looks_like_6 {
            Self::from_ipv6(header)
        } else {
            Err(Errno(libc::EPROTONOSUPPORT))
        }
    }

    fn from_ipv4(header: &[u8; 20]) -> Self {
        let &[_, traffic_class, _, _, _, _, _, _, hop_limit, _, _, _, s0, s1, s2, s3, d0, d1, d2, d3] =
            header;
        Self {
            source: Gid::from(std::net::IpAddr::from([s0, s1, s2, s3])),
            destination: Gid::from(std::net::IpAddr::from([d0, d1, d2, d3])),
            gid_type: GidType::RoceV2,
            hop_limit,
            traffic_class,
        }
    }

    fn from_ipv6(header: &ibv_grh) -> Result<Self, Errno> {
        /// IPv6's next header for the BTH behind a GRH (IBTA vol. 1, 8.3).
        const BTH: u8 = 0x1b;
        const UDP: u8 = 17;
        Ok(Self {
            source: gid(&header.sgid),
            destination: gid(&header.dgid),
            gid_type: match header.next_hdr {
                BTH => GidType::RoceV1,
                UDP => GidType::RoceV2,
                _ => return Err(Errno(libc::EPROTONOSUPPORT)),
            },
            hop_limit: header.hop_limit,
            traffic_class: (u32::from_be(header.version_tclass_flow) >> 20) as u8,
        })
    }
}

/// Whether an IPv4 header has no options and the right checksum. The unused bytes before it may hold anything, even what
/// looks like IPv6; then this decides.
fn is_sound(header: &[u8; 20]) -> bool {
    let sum: u32 = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
    header[0] == 0x45 && (sum & 0xffff) + (sum >> 16) == 0xffff
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(bytes: [u8; 40]) -> ibv_grh {
        // SAFETY: the header is 40 bytes without padding, of which any value is valid.
        unsafe { std::mem::transmute(bytes) }
    }

    #[test]
    fn an_ipv4_header_is_found_by_its_checksum() {
        let mut bytes = [0; 40];
        bytes[0] = 0x60; // left over from an IPv6 packet
        bytes[20..].copy_from_slice(&[
            0x45, 0x02, 0x00, 0x54, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0x25, 0xaf, 10, 77, 0, 1, 10, 77, 0,
            2,
        ]);
        let sum: u32 =
            bytes[20..].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let rest = !(((sum & 0xffff) + (sum >> 16)) as u16);
        let checksum = u16::from_be_bytes([bytes[30], bytes[31]]).wrapping_add(rest);
        bytes[30..32].copy_from_slice(&checksum.to_be_bytes());
        let origin = Origin::read(&header(bytes)).unwrap();
        let expected = Origin {
            source: Gid::from(std::net::IpAddr::from([10, 77, 0, 1])),
            destination: Gid::from(std::net::IpAddr::from([10, 77, 0, 2])),
            gid_type: GidType::RoceV2,
            hop_limit: 64,
            traffic_class: 2,
        };
        assert_eq!(origin, expected);
        bytes[39] ^= 1;
        assert_eq!(
            Origin::read(&header(bytes)),
            Err(Errno(libc::EPROTONOSUPPORT)),
            "IPv6 without next header"
        );
    }

    #[test]
    fn an_ipv6_header_tells_the_version_of_roce() {
        let mut bytes = [0; 40];
        (bytes[0], bytes[1], bytes[7]) = (0x6a, 0xb0, 9);
        (bytes[8], bytes[24]) = (0xfd, 0xfe);
        for (next_header, gid_type) in [(17, GidType::RoceV2), (0x1b, GidType::RoceV1)] {
            bytes[6] = next_header;
            let origin = Origin::read(&header(bytes)).unwrap();
            assert_eq!((origin.gid_type, origin.hop_limit, origin.traffic_class), (gid_type, 9, 0xab));
            assert_eq!((origin.source.0[0], origin.destination.0[0]), (0xfd, 0xfe));
        }
        bytes[6] = 6;
        assert_eq!(Origin::read(&header(bytes)), Err(Errno(libc::EPROTONOSUPPORT)));
    }
}
