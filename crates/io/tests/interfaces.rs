//! Interfaces, addresses and routes of network namespaces made for the purpose.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::AsFd;

use io::interfaces::{AddressWatch, Interface, Route, Scope, interfaces, route_to, watch_addresses};
use io::poll::{Interest, Poller};
use support::{Tun, in_namespace, interface_index, ip, ip_batch};

fn interface(name: &str) -> Interface {
    interfaces().unwrap().into_iter().find(|interface| interface.name == name).unwrap()
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn addresses(interface: &Interface) -> Vec<(IpAddr, u8, Scope)> {
    interface.addresses.iter().map(|a| (a.address, a.prefix_length, a.scope)).collect()
}

/// Two Ethernet interfaces joined by a cable, up, without link-local addresses.
fn ethernet() {
    ip("link add left type veth peer name right");
    for (name, number) in [("left", 1), ("right", 2)] {
        ip(&format!("link set {name} addrgenmode none"));
        ip(&format!("link set {name} address 02:00:00:00:00:0{number} mtu 4200"));
    }
    ip("link set left up");
    ip("link set right up");
}

#[test]
fn loopback_ethernet_and_tunnel_are_described() {
    in_namespace("loopback_ethernet_and_tunnel_are_described", || {
        ethernet();
        ip("addr add 10.1.0.1/24 dev left");
        ip("addr add fd01::1/64 dev left nodad");
        ip("addr add fe80::1/64 dev left nodad");
        let _tun = Tun::new("tun0", 1400, &["10.2.0.1 peer 10.2.0.9/32"]);
        ip("link add other type veth peer name down");

        let lo = interface("lo");
        assert!(lo.loopback && lo.up && lo.running);
        assert_eq!((lo.mac, lo.index), (None, interface_index("lo")));
        assert_eq!(
            addresses(&lo),
            [(address("127.0.0.1"), 8, Scope::Host), (address("::1"), 128, Scope::Host)]
        );

        let left = interface("left");
        assert!(left.up && left.running && left.multicast && !left.loopback);
        assert_eq!((left.mac, left.mtu, left.vlan), (Some([2, 0, 0, 0, 0, 1]), 4200, None));
        let mut found = addresses(&left);
        found.sort_by_key(|entry| entry.0);
        let expected = [
            (address("10.1.0.1"), 24, Scope::Global),
            (address("fd01::1"), 64, Scope::Global),
            (address("fe80::1"), 64, Scope::Link),
        ];
        assert_eq!(found, expected);

        let tun = interface("tun0");
        assert_eq!((tun.mac, tun.mtu), (None, 1400));
        assert!(addresses(&tun).contains(&(address("10.2.0.1"), 32, Scope::Global)), "{tun:?}");

        let down = interface("down");
        assert!(!down.up && !down.running);
    });
}

#[test]
fn stacked_interfaces_name_their_parent() {
    in_namespace("stacked_interfaces_name_their_parent", || {
        ethernet();
        ip("link add upper link left type macvlan");
        assert_eq!(interface("upper").parent, Some(interface_index("left")));
        assert_eq!(interface("upper").vlan, None);
        assert_eq!(interface("lo").parent, None);
    });
}

#[test]
#[ignore = "needs a kernel with 802.1Q, which not every one has"]
fn vlan_devices_have_their_identifier() {
    in_namespace("vlan_devices_have_their_identifier", || {
        ethernet();
        ip("link add left.7 link left type vlan id 7");
        let vlan = interface("left.7");
        assert_eq!(vlan.vlan.map(|vlan| vlan.id), Some(7));
        assert_eq!(vlan.parent, Some(interface_index("left")));
    });
}

#[test]
fn addresses_not_to_be_used_are_marked() {
    in_namespace("addresses_not_to_be_used_are_marked", || {
        ethernet();
        ip("addr add fd01::1/64 dev left");
        ip("addr add fd01::2/64 dev left nodad preferred_lft 0");
        let marks: Vec<_> =
            interface("left").addresses.iter().map(|a| (a.address, a.tentative, a.deprecated)).collect();
        assert!(marks.contains(&(address("fd01::1"), true, false)), "{marks:?}");
        assert!(marks.contains(&(address("fd01::2"), false, true)), "{marks:?}");
    });
}

#[test]
fn many_interfaces_are_listed_in_order() {
    in_namespace("many_interfaces_are_listed_in_order", || {
        ethernet();
        let commands =
            |i| [format!("link add m{i} link left type macvlan"), format!("addr add 10.3.{i}.1/24 dev m{i}")];
        ip_batch(&(0..60).flat_map(commands).collect::<Vec<_>>());
        let all = interfaces().unwrap();
        assert_eq!(all.len(), 63);
        assert!(all.is_sorted_by_key(|interface| interface.index));
        assert_eq!(all.iter().map(|interface| interface.addresses.len()).sum::<usize>(), 62);
    });
}

#[test]
fn routes_give_source_interface_and_mtu() {
    in_namespace("routes_give_source_interface_and_mtu", || {
        ethernet();
        ip("addr add 10.1.0.1/24 dev left");
        ip("addr add 10.1.5.1/24 dev left");
        ip("addr add fd01::1/64 dev left nodad");
        ip("addr add fe80::1/64 dev left nodad");
        ip("addr add fe80::2/64 dev right nodad");
        ip("route add 10.9.0.0/16 via 10.1.0.254 src 10.1.5.1 mtu 1280");
        ip("route add unreachable 10.66.0.0/16");
        ip("route add unreachable fd66::/16");
        let (left, lo) = (interface_index("left"), interface_index("lo"));
        let route = |to, by| route_to(address(to), by).unwrap();
        let expect = |source, interface, mtu| Route { source: address(source), interface, mtu };
        assert_eq!(route("10.1.0.77", None), expect("10.1.0.1", left, 4200));
        assert_eq!(route("10.9.1.1", None), expect("10.1.5.1", left, 1280));
        assert_eq!(route("fd01::77", None), expect("fd01::1", left, 4200));
        assert_eq!(route("127.0.0.1", None), expect("127.0.0.1", lo, 65536));
        assert_eq!(route("10.1.0.1", None), expect("10.1.0.1", lo, 65536));
        assert_eq!(route("fd01::1", None), expect("fd01::1", lo, 65536));
        let right = interface_index("right");
        assert_eq!(route("fe80::77", Some(left)), expect("fe80::1", left, 4200));
        assert_eq!(route("fe80::77", Some(right)), expect("fe80::2", right, 4200));
        let refusal = |to| route_to(address(to), None).unwrap_err().kind();
        for (to, expected) in [
            ("203.0.113.1", ErrorKind::NetworkUnreachable),
            ("2001:db8::1", ErrorKind::NetworkUnreachable),
            ("10.66.0.1", ErrorKind::HostUnreachable),
        ] {
            assert_eq!(refusal(to), expected, "{to}");
        }
        assert!(matches!(refusal("fd66::1"), ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable));
    });
}

/// Whether something changes within `patience_ms`.
fn changes_within(watch: &AddressWatch, patience_ms: u64) -> bool {
    let mut poller = Poller::new();
    poller.add(watch.as_fd(), Interest::Readable);
    let readable = poller.wait(Some(patience_ms * 1_000_000)).unwrap() == 1;
    assert_eq!(watch.take().unwrap(), readable);
    readable
}

/// The kernel reports some consequences of a change a little later.
fn settle(watch: &AddressWatch) {
    while changes_within(watch, 50) {}
}

#[test]
fn changes_are_noticed() {
    in_namespace("changes_are_noticed", || {
        ethernet();
        let watch = watch_addresses().unwrap();
        let changes = [
            "addr add 10.1.0.1/24 dev left",
            "addr del 10.1.0.1/24 dev left",
            "addr add fd01::1/64 dev left nodad",
            "link set left mtu 9000",
            "link set left down",
            "link del left",
        ];
        for change in changes {
            settle(&watch);
            ip(change);
            assert!(changes_within(&watch, 5000), "{change}");
        }
        settle(&watch);
        // More than the kernel keeps for a watch that nobody reads.
        let flood: Vec<_> = (0..2000).map(|i| format!("link set lo mtu {}", 60_000 + i)).collect();
        ip_batch(&flood);
        assert!(changes_within(&watch, 0));
    });
}
