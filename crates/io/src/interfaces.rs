//! The machine's network interfaces, their addresses, and the routes between those and others.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::bytes::read;
use crate::netlink::{self, Message, attributes, push_attribute};

/// Sizes of the fixed parts of messages: `struct ifinfomsg`, `ifaddrmsg`, `rtmsg`.
const LINK_HEADER: usize = 16;
const ADDRESS_HEADER: usize = 8;
const ROUTE_HEADER: usize = 12;

/// From linux/if_link.h and linux/rtnetlink.h, which the libc crate lacks.
const IFLA_VLAN_ID: u16 = 1;
const RTAX_MTU: u16 = 2;

/// A network interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its number, which no other interface has while this exists.
    pub index: u32,
    /// Its name, up to 15 bytes.
    pub name: String,
    /// Administratively up.
    pub up: bool,
    /// Up and able to carry packets, as far as the driver knows.
    pub running: bool,
    /// Reaches this machine only.
    pub loopback: bool,
    /// Can carry multicast.
    pub multicast: bool,
    /// Largest IP packet.
    pub mtu: u32,
    /// Its Ethernet address; none for loopback and tunnels.
    pub mac: Option<[u8; 6]>,
    /// Set for a VLAN device.
    pub vlan: Option<Vlan>,
    /// The interface it is stacked on, if any and in this network namespace.
    pub parent: Option<u32>,
    /// Its addresses in the order of the kernel.
    pub addresses: Vec<InterfaceAddress>,
}

/// What makes an interface a VLAN device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vlan {
    /// VLAN identifier, 1 to 4094.
    pub id: u16,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The address.
    pub address: IpAddr,
    /// Length of the network part.
    pub prefix_length: u8,
    /// How far it is valid.
    pub scope: Scope,
    /// Not yet known to be unique (or known not to be), so not to be used.
    pub tentative: bool,
    /// Not to be used for new connections.
    pub deprecated: bool,
}

/// How far an address is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Everywhere, as far as the machine knows.
    Global,
    /// Within the site.
    Site,
    /// On the link.
    Link,
    /// On this machine.
    Host,
    /// A number the administrator gave a meaning to.
    Other(u8),
}

impl Scope {
    fn from_kernel(scope: u8) -> Self {
        match scope {
            libc::RT_SCOPE_UNIVERSE => Self::Global,
            libc::RT_SCOPE_SITE => Self::Site,
            libc::RT_SCOPE_LINK => Self::Link,
            libc::RT_SCOPE_HOST => Self::Host,
            other => Self::Other(other),
        }
    }
}

/// All interfaces of this network namespace, in the order of their index.
pub fn interfaces() -> io::Result<Vec<Interface>> {
    let links = netlink::dump(libc::RTM_GETLINK, &[0; LINK_HEADER])?;
    let mut interfaces: Vec<_> = links.iter().filter_map(parse_link).collect();
    interfaces.sort_by_key(|interface| interface.index);
    for message in netlink::dump(libc::RTM_GETADDR, &[0; ADDRESS_HEADER])? {
        let Some((index, address)) = parse_address(&message) else { continue };
        // An interface that has come in between is reported by the next call, for which the watch calls.
        if let Ok(position) = interfaces.binary_search_by_key(&index, |interface| interface.index) {
            interfaces[position].addresses.push(address);
        }
    }
    Ok(interfaces)
}

fn parse_link(message: &Message) -> Option<Interface> {
    let body = &message.body;
    if message.kind != libc::RTM_NEWLINK {
        return None;
    }
    let hardware = u16::from_ne_bytes(read(body, 2)?);
    let flags = i32::from_ne_bytes(read(body, 8)?);
    let has = |flag| flags & flag != 0;
    let mut interface = Interface {
        index: u32::from_ne_bytes(read(body, 4)?),
        name: String::new(),
        up: has(libc::IFF_UP),
        running: has(libc::IFF_RUNNING),
        loopback: has(libc::IFF_LOOPBACK),
        multicast: has(libc::IFF_MULTICAST),
        mtu: 0,
        mac: None,
        vlan: None,
        parent: None,
        addresses: Vec::new(),
    };
    let mut parent_is_elsewhere = false;
    for (kind, value) in attributes(body, LINK_HEADER) {
        match kind {
            libc::IFLA_IFNAME => interface.name = text(value),
            libc::IFLA_MTU => interface.mtu = u32::from_ne_bytes(read(value, 0)?),
            libc::IFLA_ADDRESS if hardware == libc::ARPHRD_ETHER => interface.mac = value.try_into().ok(),
            libc::IFLA_LINK => interface.parent = read(value, 0).map(u32::from_ne_bytes),
            libc::IFLA_LINK_NETNSID => parent_is_elsewhere = true,
            libc::IFLA_LINKINFO => interface.vlan = parse_vlan(value),
            _ => {}
        }
    }
    // Index 0 is no interface, and some tunnels name themselves.
    interface.parent =
        interface.parent.filter(|&parent| !parent_is_elsewhere && parent != 0 && parent != interface.index);
    Some(interface)
}

fn parse_vlan(link_info: &[u8]) -> Option<Vlan> {
    let mut is_vlan = false;
    let mut id = None;
    for (kind, value) in attributes(link_info, 0) {
        match kind {
            libc::IFLA_INFO_KIND => is_vlan = text(value) == "vlan",
            libc::IFLA_INFO_DATA => {
                id = attributes(value, 0)
                    .find(|&(kind, _)| kind == IFLA_VLAN_ID)
                    .and_then(|(_, id)| read(id, 0));
            }
            _ => {}
        }
    }
    Some(Vlan { id: u16::from_ne_bytes(id.filter(|_| is_vlan)?) })
}

/// A C string as text.
fn text(value: &[u8]) -> String {
    let end = value.iter().position(|&byte| byte == 0).unwrap_or(value.len());
    String::from_utf8_lossy(&value[..end]).into_owned()
}

/// An address and the index of its interface.
fn parse_address(message: &Message) -> Option<(u32, InterfaceAddress)> {
    let body = &message.body;
    if message.kind != libc::RTM_NEWADDR {
        return None;
    }
    let [family, prefix_length, short_flags, scope] = read(body, 0)?;
    let index = u32::from_ne_bytes(read(body, 4)?);
    let mut flags = u32::from(short_flags);
    let (mut local, mut address) = (None, None);
    for (kind, value) in attributes(body, ADDRESS_HEADER) {
        match kind {
            libc::IFA_LOCAL => local = parse_ip(family, value),
            libc::IFA_ADDRESS => address = parse_ip(family, value),
            libc::IFA_FLAGS => flags = u32::from_ne_bytes(read(value, 0)?),
            _ => {}
        }
    }
    let interface_address = InterfaceAddress {
        // On a point-to-point interface the other one is the peer's.
        address: local.or(address)?,
        prefix_length,
        scope: Scope::from_kernel(scope),
        // An optimistic address is tentative too, but may be used.
        tentative: flags & libc::IFA_F_DADFAILED != 0
            || flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_OPTIMISTIC) == libc::IFA_F_TENTATIVE,
        deprecated: flags & libc::IFA_F_DEPRECATED != 0,
    };
    Some((index, interface_address))
}

fn parse_ip(family: u8, value: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(Ipv4Addr::from(<[u8; 4]>::try_from(value).ok()?).into()),
        libc::AF_INET6 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(value).ok()?).into()),
        _ => None,
    }
}

/// How packets to some destination leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The source address the kernel would choose.
    pub source: IpAddr,
    /// The interface; loopback for addresses of this machine.
    pub interface: u32,
    /// Largest IP packet on the way, as far as known.
    pub mtu: u32,
}

/// The route to `destination`, by `interface` if that is given, which link-local addresses need. The error is
/// `NetworkUnreachable` or `HostUnreachable` if there is none.
pub fn route_to(destination: IpAddr, interface: Option<u32>) -> io::Result<Route> {
    let answer = netlink::query(libc::RTM_GETROUTE, &route_request(destination, interface))?;
    let found = parse_route(&answer)?;
    let link = netlink::query(libc::RTM_GETLINK, &link_request(found.interface))?;
    let link = parse_link(&link).ok_or_else(no_route)?;
    let mtu = found.mtu.map_or(link.mtu, |mtu| mtu.min(link.mtu));
    Ok(Route { source: found.source, interface: found.interface, mtu })
}

fn route_request(destination: IpAddr, interface: Option<u32>) -> Vec<u8> {
    let (family, octets) = match destination {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut body = vec![0; ROUTE_HEADER];
    body[0] = family as u8;
    body[1] = 8 * octets.len() as u8;
    push_attribute(&mut body, libc::RTA_DST, &octets);
    if let Some(interface) = interface {
        push_attribute(&mut body, libc::RTA_OIF, &interface.to_ne_bytes());
    }
    body
}

fn link_request(index: u32) -> [u8; LINK_HEADER] {
    let mut body = [0; LINK_HEADER];
    body[4..8].copy_from_slice(&index.to_ne_bytes());
    body
}

struct FoundRoute {
    source: IpAddr,
    interface: u32,
    mtu: Option<u32>,
}

fn parse_route(message: &Message) -> io::Result<FoundRoute> {
    let &[family, _, _, _, _, _, _, kind, ..] = &message.body[..] else { return Err(no_route()) };
    // IPv6 reports a route that forbids as a route.
    if !matches!(
        kind,
        libc::RTN_UNICAST | libc::RTN_LOCAL | libc::RTN_BROADCAST | libc::RTN_ANYCAST | libc::RTN_MULTICAST
    ) {
        return Err(no_route());
    }
    let (mut source, mut interface, mut mtu) = (None, None, None);
    for (kind, value) in attributes(&message.body, ROUTE_HEADER) {
        match kind {
            libc::RTA_PREFSRC => source = parse_ip(family, value),
            libc::RTA_OIF => interface = read(value, 0).map(u32::from_ne_bytes),
            libc::RTA_METRICS => {
                let metric = attributes(value, 0).find(|&(kind, _)| kind == RTAX_MTU);
                mtu = metric.and_then(|(_, value)| read(value, 0)).map(u32::from_ne_bytes);
            }
            _ => {}
        }
    }
    match (source, interface) {
        (Some(source), Some(interface)) => Ok(FoundRoute { source, interface, mtu }),
        _ => Err(no_route()),
    }
}

fn no_route() -> io::Error {
    Errno::NETUNREACH.into()
}

/// Is readable when interfaces or addresses have changed.
#[derive(Debug)]
pub struct AddressWatch(OwnedFd);

/// Watches the interfaces and addresses of this network namespace from now on.
pub fn watch_addresses() -> io::Result<AddressWatch> {
    let groups = libc::RTMGRP_LINK | libc::RTMGRP_IPV4_IFADDR | libc::RTMGRP_IPV6_IFADDR;
    Ok(AddressWatch(netlink::open(groups as u32)?))
}

impl AddressWatch {
    /// Takes note of all changes so far, and says whether there were any. Look at [`interfaces`] after that, not before.
    pub fn take(&self) -> io::Result<bool> {
        let mut changed = false;
        loop {
            // What has changed is looked up afterwards, so nothing of the message matters.
            match rustix::net::recv(&self.0, &mut [0; 1][..], RecvFlags::DONTWAIT) {
                Ok(_) => changed = true,
                // So many changes that the kernel gave up telling them.
                Err(Errno::NOBUFS) => changed = true,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(changed),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A VLAN device as the kernel describes it: eth0.7 on eth0.
    fn vlan_link() -> Message {
        let mut body = vec![0; LINK_HEADER];
        body[2..4].copy_from_slice(&libc::ARPHRD_ETHER.to_ne_bytes());
        body[4..8].copy_from_slice(&9u32.to_ne_bytes());
        body[8..12].copy_from_slice(&(libc::IFF_UP | libc::IFF_MULTICAST).to_ne_bytes());
        push_attribute(&mut body, libc::IFLA_IFNAME, b"eth0.7\0");
        push_attribute(&mut body, libc::IFLA_MTU, &1500u32.to_ne_bytes());
        push_attribute(&mut body, libc::IFLA_ADDRESS, &[2, 0, 0, 0, 0, 1]);
        push_attribute(&mut body, libc::IFLA_LINK, &2u32.to_ne_bytes());
        let (mut info, mut data) = (Vec::new(), Vec::new());
        push_attribute(&mut data, 5, &0x8100u16.to_ne_bytes());
        push_attribute(&mut data, IFLA_VLAN_ID, &7u16.to_ne_bytes());
        push_attribute(&mut info, libc::IFLA_INFO_KIND, b"vlan\0");
        push_attribute(&mut info, libc::IFLA_INFO_DATA, &data);
        push_attribute(&mut body, libc::IFLA_LINKINFO, &info);
        Message { kind: libc::RTM_NEWLINK, body }
    }

    #[test]
    fn a_vlan_device_is_recognised() {
        let interface = parse_link(&vlan_link()).unwrap();
        let expected = Interface {
            index: 9,
            name: "eth0.7".into(),
            up: true,
            running: false,
            loopback: false,
            multicast: true,
            mtu: 1500,
            mac: Some([2, 0, 0, 0, 0, 1]),
            vlan: Some(Vlan { id: 7 }),
            parent: Some(2),
            addresses: Vec::new(),
        };
        assert_eq!(interface, expected);
    }

    #[test]
    fn a_message_cut_anywhere_does_no_harm() {
        let whole = vlan_link().body;
        for length in 0..whole.len() {
            let cut = Message { kind: libc::RTM_NEWLINK, body: whole[..length].to_vec() };
            let _ = parse_link(&cut);
            let _ = parse_route(&Message { kind: libc::RTM_NEWROUTE, ..cut });
        }
    }

    #[test]
    fn address_flags_are_read() {
        let address = |flags: u32| {
            let mut body = vec![libc::AF_INET6 as u8, 64, 0, libc::RT_SCOPE_LINK];
            body.extend_from_slice(&3u32.to_ne_bytes());
            push_attribute(&mut body, libc::IFA_ADDRESS, &Ipv6Addr::LOCALHOST.octets());
            push_attribute(&mut body, libc::IFA_FLAGS, &flags.to_ne_bytes());
            let (index, address) = parse_address(&Message { kind: libc::RTM_NEWADDR, body }).unwrap();
            assert_eq!((index, address.prefix_length, address.scope), (3, 64, Scope::Link));
            (address.tentative, address.deprecated)
        };
        assert_eq!(address(0), (false, false));
        assert_eq!(address(libc::IFA_F_TENTATIVE), (true, false));
        assert_eq!(address(libc::IFA_F_TENTATIVE | libc::IFA_F_OPTIMISTIC), (false, false));
        assert_eq!(address(libc::IFA_F_DADFAILED | libc::IFA_F_DEPRECATED), (true, true));
    }
}
