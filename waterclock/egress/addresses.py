"""Which addresses may be called: those of the public internet, and nothing else. Pure.

What must hold: an address is public only if it is known to be. For IPv6 that is global unicast (``2000::/3``) without
its special parts, so every form that wraps an IPv4 address (mapped, compatible, NAT64, 6to4, Teredo, ISATAP) is refused
as what it is, whatever it wraps: its road leads through a translator that we know nothing of. Where it wraps one that
no name may lead to, it is refused as that one: the operator's word for a name lifts the one refusal, never the other.

Not taken from ``ipaddress.is_global``: its answer for some of these ranges changed between releases of Python.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

_V4 = {
    # First: they stand in ranges with other names. Azure, Alibaba, Oracle; most others answer on link-local addresses.
    "a cloud's metadata": ["168.63.129.16/32", "100.100.100.200/32", "192.0.0.192/32"],
    "unspecified": ["0.0.0.0/8"],
    "private": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
    "carrier-grade NAT": ["100.64.0.0/10"],
    "loopback": ["127.0.0.0/8"],
    "link-local": ["169.254.0.0/16"],
    "reserved": ["192.0.0.0/24", "192.88.99.0/24", "240.0.0.0/4"],
    "documentation": ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24"],
    "benchmarking": ["198.18.0.0/15"],
    "multicast": ["224.0.0.0/4"],
}
_V6 = {
    # First, as above. AWS (with its other services for instances), Google, Oracle, Scaleway.
    "a cloud's metadata": ["fd00:ec2::/32", "fd20:ce::254/128", "fd00:c1::a9fe:a9fe/128", "fd00:42::42/128"],
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

_LOW = 0xFFFF_FFFF
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")
_ISATAP = frozenset({0x0000_5EFE, 0x0200_5EFE})
"""The upper half of such an interface's id; the lower one is the IPv4 address."""


@lru_cache(maxsize=4_096)
def blocked_as(address: str) -> str:
    """Why this address may not be called ("private", "loopback", "no address", ...); "" where it may."""
    try:
        parsed = ip_address(address)
    except ValueError:
        return "no address"
    return _blocked_4(parsed) if isinstance(parsed, IPv4Address) else _blocked_6(parsed)


def _blocked_6(address: IPv6Address) -> str:
    if address.scope_id is not None:
        return "link-local"
    number = int(address)
    named = next((name for name, network in _RANGES_6 if address in network), "")
    if not named and _is_isatap(number):
        named = "ISATAP"
    inside = (_blocked_4(IPv4Address(inner & _LOW)) for inner in _wrapped(named, number))
    worse = next((name for name in inside if name in NEVER), "")
    return worse or named or ("" if address in _GLOBAL_UNICAST else "reserved")


def _blocked_4(address: IPv4Address) -> str:
    return next((name for name, network in _RANGES_4 if address in network), "")


def _wrapped(named: str, number: int) -> list[int]:
    """What this address of the kind ``named`` leads to, or may lead to: IPv4 addresses, each in the low 32 bits."""
    found = [number] if _is_isatap(number) else []
    if named in {"IPv4-mapped", "IPv4-compatible"}:
        found += [number]
    elif named == "NAT64":
        found += _translated(number)
    elif named == "6to4":
        found += [number >> 80]
    elif named == "Teredo":
        found += [number >> 64, ~number]  # the server that tells the way, and the client behind it
    return found


def _translated(number: int) -> list[int]:
    """By RFC 6052. Where in the prefix for local use (RFC 8215) the address stands is its network's choice."""
    if IPv6Address(number) not in _LOCAL_NAT64:
        return [number]
    squeezed = number >> 64 << 56 | number & (1 << 56) - 1  # without bits 64 to 71, which belong to neither
    guesses = [number, *(squeezed >> 88 - length for length in (48, 56, 64))]
    # One that begins with a zero byte is padding of another: else no name could be listed in such a network.
    return [guess for guess in guesses if guess >> 24 & 0xFF]


def _is_isatap(number: int) -> bool:
    return number >> 32 & _LOW in _ISATAP
