"""Where a call wants to go: host and port, read from a URL or a gRPC target in one strict way.

What must hold: a host has one reading. Whatever some resolver would take for an address in disguise (``127.1``,
``0x7f000001``, ``2130706433``, ``0177.0.0.1``) is refused as soon as it is read, and so is everything that two parsers
could read differently: users and passwords, backslashes, percent signs, control and non-ASCII characters, zones.

How it fails: EgressRefused, which says what to write instead.
"""

from __future__ import annotations

import re
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address
from typing import NamedTuple, NoReturn

from .refusals import EgressRefused

_URL = re.compile(r"(?P<scheme>(?i:https?))://(?P<place>[^/?#]*)(?P<path>/[^?#]*)?(?P<query>\?[^#]*)?\Z")
_PLACE = re.compile(r"(?:(?P<name>[A-Za-z0-9._-]{1,254})|\[(?P<six>[0-9A-Fa-f:.]{2,45})\])(?::(?P<port>[0-9]{1,5}))?\Z")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMBER = re.compile(r"(?:[0-9]+|0[xX][0-9A-Fa-f]*)\Z")
_PRINTABLE = re.compile(r"[\x21-\x7e]+\Z")
_SHOWN_MAX = 120


class Destination(NamedTuple):
    """A host as it is compared and resolved: lower case, no brackets, no last dot. ``literal``: it is an address."""

    host: str
    port: int
    tls: bool
    literal: bool = False

    @property
    def place(self) -> str:
        """``host:port``, as an allow-list writes it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def authority(self) -> str:
        """The Host header: without the port where it is the scheme's own."""
        bare = f"[{self.host}]" if ":" in self.host else self.host
        return bare if self.port == (443 if self.tls else 80) else f"{bare}:{self.port}"


@lru_cache(maxsize=4_096)
def of_url(url: str) -> tuple[Destination, str]:
    """(destination, path and query) of an absolute http or https URL. Raises EgressRefused."""
    if not _PRINTABLE.match(url) or "\\" in url:
        _refuse(url, "it holds characters that no URL has", "percent-encode them, and write the host in punycode")
    match = _URL.match(url)
    if match is None:
        _refuse(url, "it is no absolute http or https URL without a fragment", "write https://host/path")
    tls = match["scheme"].lower() == "https"
    destination = _read(match["place"], tls=tls, port=443 if tls else 80)
    return destination, (match["path"] or "/") + (match["query"] or "")


@lru_cache(maxsize=4_096)
def of_target(target: str, *, tls: bool) -> Destination:
    """The destination of a gRPC target ``host:port``. Raises EgressRefused."""
    return _read(target, tls=tls, port=0)


def of_place(place: str) -> Destination:
    """``host:port`` as an allow-list writes it. Raises EgressRefused."""
    return _read(place, tls=False, port=0)


def _read(place: str, *, tls: bool, port: int) -> Destination:
    """``port``: where none is written; 0: one must be."""
    if "@" in place:
        _refuse(place, "it holds a user or password", "send credentials as a header")
    match = _PLACE.match(place)
    if match is None:
        _refuse(place, "it is no host with a port", "write host:port, an IPv6 address in brackets")
    number = int(match["port"]) if match["port"] else port
    if not 0 < number < 65_536:
        _refuse(place, "it has no port that exists", "write host:port, with a port from 1 to 65535")
    if match["six"]:
        return Destination(_six(match["six"]), number, tls, literal=True)
    host = match["name"].lower().removesuffix(".")
    labels = host.split(".")
    if _NUMBER.match(labels[-1]):
        return Destination(_four(host), number, tls, literal=True)
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        _refuse(place, "it is no host name", "write a name such as hooks.example")
    return Destination(host, number, tls)


def _six(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except ValueError:
        _refuse(text, "it is no IPv6 address", "write it as RFC 5952 does")


def _four(host: str) -> str:
    """A host whose last label is a number is an address to every resolver: then it must look like one."""
    try:
        address = str(IPv4Address(host))
    except ValueError:
        _refuse(host, "it is an address in disguise", "write four decimal numbers, such as 192.0.2.1")
    return address


def _refuse(what: str, why: str, hint: str) -> NoReturn:
    # Not repr of the whole: a query may hold a secret, and a log line has an end.
    shown = ascii(what.partition("?")[0].rpartition("@")[2][:_SHOWN_MAX])
    raise EgressRefused(f"{shown} cannot be called: {why}; {hint}")
