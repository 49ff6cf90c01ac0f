#!/usr/bin/env python3
"""Checks the ICRC of RoCE v2 packets in capture files with scapy's implementation, which is not ours.

    icrc.py N FILE...

Checks at most N packets of each file, spread over it. Prints how many it checked and a line for each that is wrong;
exits with 1 if one is wrong or a file holds none. A frame's ICRC is the last four bytes of its UDP payload (IBTA annex A17.3.3): Ethernet may have padded
what follows.
"""

import sys

from scapy.compat import raw
from scapy.contrib.roce import BTH
from scapy.layers.inet import IP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import Ether
from scapy.packet import Raw
from scapy.utils import RawPcapReader

ROCE_V2_PORT = 4791
BTH_LENGTH = 12


def split(frame):
    """The IP header and UDP header of a RoCE v2 frame as scapy layers, and the UDP payload; None for other frames."""
    packet = Ether(frame)
    ip = packet.getlayer(IP) or packet.getlayer(IPv6)
    udp = packet.getlayer(UDP)
    if ip is None or udp is None or udp.dport != ROCE_V2_PORT:
        return None
    datagram = raw(udp)[: udp.len]
    ip = ip.copy()
    ip.remove_payload()
    udp_alone = UDP(sport=udp.sport, dport=udp.dport, len=udp.len, chksum=udp.chksum)
    return ip, udp_alone, datagram[8:]


def wanted_icrc(ip, udp, payload):
    """What scapy puts at the end of such a packet. The transport payload is opaque to it: only BTH has masked fields."""
    bth = BTH(payload[:BTH_LENGTH] + b"\0\0\0\0")
    bth.icrc = None
    bth.remove_payload()
    packet = ip / udp / bth / Raw(payload[BTH_LENGTH:-4])
    return raw(packet)[-4:]


def check(path, most):
    """How many RoCE v2 packets were checked, and the frame numbers of those whose ICRC is wrong."""
    frames = list(enumerate((frame for frame, _ in RawPcapReader(path)), 1))
    step = max(1, -(-len(frames) // most))
    sample = ((number, split(frame)) for number, frame in frames[::step])
    sample = [(number, parts) for number, parts in sample if parts]
    wrong = [number for number, parts in sample if wanted_icrc(*parts) != parts[2][-4:]]
    return len(sample), wrong


def main(most, paths):
    failed = not paths
    for path in paths:
        checked, wrong = check(path, most)
        for number in wrong:
            print(f"{path}: frame {number}: wrong ICRC")
        print(f"{path}: {checked} packets checked, {len(wrong)} with a wrong ICRC")
        failed |= bool(wrong) or checked == 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
