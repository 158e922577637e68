"""Networks that are not public, from IANA's registries of special-purpose addresses.

https://www.iana.org/assignments/iana-ipv4-special-registry
https://www.iana.org/assignments/iana-ipv6-special-registry
https://www.iana.org/assignments/ipv6-address-space
Read 2026-11. Python's own `is_global` differs between patch releases (CVE-2024-4032), so it is not
used. Where a registry lists single global addresses inside a block that is not (192.0.0.9), the
whole block counts as not public: it serves no images.
"""

from ipaddress import IPv4Network, IPv6Network

V4 = tuple(
    IPv4Network(one)
    for one in (
        "0.0.0.0/8",  # "this network", RFC 791
        "10.0.0.0/8",  # private, RFC 1918
        "100.64.0.0/10",  # shared, RFC 6598; Alibaba Cloud's metadata at 100.100.100.200
        "127.0.0.0/8",  # loopback, RFC 1122
        "168.63.129.16/32",  # Azure's platform address, from every virtual machine
        "169.254.0.0/16",  # link-local, RFC 3927; the metadata services at 169.254.169.254
        "172.16.0.0/12",  # private, RFC 1918
        "192.0.0.0/24",  # protocol assignments, RFC 6890; Oracle Cloud's metadata at 192.0.0.192
        "192.0.2.0/24",  # documentation, RFC 5737
        "192.88.99.0/24",  # 6to4 relays, deprecated, RFC 7526
        "192.168.0.0/16",  # private, RFC 1918
        "198.18.0.0/15",  # benchmarking, RFC 2544
        "198.51.100.0/24",  # documentation, RFC 5737
        "203.0.113.0/24",  # documentation, RFC 5737
        "224.0.0.0/4",  # multicast, RFC 5771
        "240.0.0.0/4",  # reserved, RFC 1112, and broadcast
    )
)

UNICAST = IPv6Network("2000::/3")
"""All else in IPv6 is not assigned, not global (fc00::/7, fe80::/10), or embeds another.
fd00:ec2::254 and fd20:ce::254, where AWS and Google Cloud have metadata, are in fc00::/7."""

V6 = tuple(
    IPv6Network(one)
    for one in (
        "2001::/23",  # protocol assignments, RFC 2928: benchmarking, ORCHID, Teredo
        "2001:db8::/32",  # documentation, RFC 3849
        "3fff::/20",  # documentation, RFC 9637
    )
)

MAPPED = IPv6Network("::ffff:0:0/96")
COMPATIBLE = IPv6Network("::/96")
NAT64 = IPv6Network("64:ff9b::/96")
NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")
SIX_TO_FOUR = IPv6Network("2002::/16")
TEREDO = IPv6Network("2001::/32")
ISATAP = (0x00005EFE, 0x02005EFE)
"""The upper half of an interface's id whose lower half is an IPv4 address, RFC 5214."""
