"""Which addresses may be called: those of the public internet, and nothing else. Pure.

What must hold: an address is public only if it is known to be. For IPv6 that is global unicast (``2000::/3``) without
its special parts, so every form that wraps an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo) is refused as
what it is, whatever it wraps: its road leads through a translator that we know nothing of.

Not taken from ``ipaddress.is_global``: its answer for some of these ranges changed between releases of Python.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_V4 = {
    "unspecified": ["0.0.0.0/8"],
    "private": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
    "carrier-grade NAT": ["100.64.0.0/10"],
    "loopback": ["127.0.0.0/8"],
    "link-local": ["169.254.0.0/16"],
    "a cloud's metadata": ["168.63.129.16/32"],
    "reserved": ["192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4"],
    "documentation": ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"],
    "benchmarking": ["198.18.0.0/15"],
    "multicast": ["224.0.0.0/4"],
}
_V6 = {
    "unspecified": ["::/128"],
    "loopback": ["::1/128"],
    "IPv4-mapped": ["::ffff:0:0/96", "::ffff:0:0:0/96"],
    "IPv4-compatible": ["::/96"],
    "NAT64": ["64:ff9b::/96", "64:ff9b:1::/48"],
    "6to4": ["2002::/16"],
    "Teredo": ["2001::/32"],
    "documentation": ["2001:db8::/32", "3fff::/20"],
    "reserved": ["2001::/23"],
    "private": ["fc00::/7"],
    "link-local": ["fe80::/10"],
    "site-local": ["fec0::/10"],
    "multicast": ["ff00::/8"],
}
_RANGES_4 = [(name, IPv4Network(text)) for name, texts in _V4.items() for text in texts]
_RANGES_6 = [(name, IPv6Network(text)) for name, texts in _V6.items() for text in texts]
_GLOBAL_UNICAST = IPv6Network("2000::/3")

NEVER = frozenset({"unspecified", "link-local", "a cloud's metadata", "multicast"})
"""What no *name* reaches, also one that the operator has listed: only the address itself may be listed."""


@lru_cache(maxsize=4_096)
def blocked_as(address: str) -> str:
    """Why this address may not be called ("private", "loopback", "no address", ...); "" where it may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "no address"
    if isinstance(parsed, IPv4Address):
        return next((name for name, network in _RANGES_4 if parsed in network), "")
    return _blocked_6(parsed)


def _blocked_6(address: IPv6Address) -> str:
    if address.scope_id is not None:
        return "link-local"
    named = next((name for name, network in _RANGES_6 if address in network), "")
    return named or ("" if address in _GLOBAL_UNICAST else "reserved")
