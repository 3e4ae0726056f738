"""Places that must not be reached, in every disguise that is known: addresses, their writings, names and URL tricks."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import IPv4Address, IPv6Address

PUBLIC = "93.184.216.34"
PUBLIC_6 = "2606:2800:220:1::1"

BLOCKED_4 = (
    *("0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.0.0.2"),  # noqa: S104
    *("127.1.2.3", "127.255.255.254", "169.254.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.0.1"),
    *("192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.0.1", "192.168.255.255", "198.18.0.1"),
    *("198.19.255.255", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255"),
)  # fmt: skip
BLOCKED_6 = (
    *("::", "::1", "0:0:0:0:0:0:0:1", "0000:0000:0000:0000:0000:0000:0000:0001", "fc00::1", "fd00:ec2::254"),
    *("fd12:3456:789a::1", "fe80::1", "febf::1", "fec0::1", "ff02::1", "ff0e::1", "2001:db8::1", "3fff::1", "100::1"),
    *("2001:2::1", "2001:10::1", "2001:20::1", "5f00::1", "fd00:ec2::23", "fd20:ce::254"),
    *("fd00:c1::a9fe:a9fe", "fd00:42::42"),
)
METADATA = "169.254.169.254"
INSIDE = ("127.0.0.1", "127.0.0.2", METADATA, "10.0.0.1")
"""What is wrapped and disguised."""


def wrapped(address: str) -> list[str]:
    """The IPv6 addresses that carry it: mapped, translated, compatible, NAT64, local NAT64, 6to4, Teredo, ISATAP."""
    number = int(IPv4Address(address))
    high, low = f"{number >> 16:x}", f"{number & 0xFFFF:x}"
    inverted = number ^ 0xFFFFFFFF
    return [
        f"::ffff:{address}",
        f"::ffff:{high}:{low}",
        f"0:0:0:0:0:ffff:{address}",
        f"::FFFF:{high}:{low}",
        f"::ffff:0:{high}:{low}",
        f"::{high}:{low}",
        f"64:ff9b::{address}",
        f"64:ff9b::{high}:{low}",
        f"64:ff9b:1::{high}:{low}",
        f"64:ff9b:1:{high}:{number >> 8 & 0xFF:x}:{(number & 0xFF) << 8:x}::",
        f"2002:{high}:{low}::1",
        str(IPv6Address(0x20010000 << 96 | 0x53AA064C << 64 | inverted)),
        f"2606:2800:220:1::5efe:{high}:{low}",
        f"2606:2800:220:1:200:5efe:{high}:{low}",
    ]


def disguised(address: str) -> list[str]:
    """Other writings that some parser takes for this IPv4 address."""
    a, b, c, d = (int(part) for part in address.split("."))
    number = int(IPv4Address(address))
    return [
        f"{number}",
        f"{number:#x}",
        f"{number:#X}",
        f"0{number:o}",
        f"{a}.{number & 0xFFFFFF}",
        f"{a}.{b}.{c << 8 | d}",
        f"{a:#x}.{b:#x}.{c:#x}.{d:#x}",
        f"0{a:o}.0{b:o}.0{c:o}.0{d:o}",
        f"{a:#x}.{b}.{c}.0{d:o}",
        f"{a:03d}.{b:03d}.{c:03d}.{d:03d}",
        f"0x{a:08x}.{b}.{c}.{d}",
        f"{address}.",
        f"{a}.{b}.{c}.{d}.",
        f"{number + (1 << 32)}",
        address.replace(".", "。"),
        address.translate({ord(str(digit)): 0xFF10 + digit for digit in range(10)}),
        address.replace(".", "%2e"),
    ]


def hosts() -> list[str]:
    """Literals, as they stand in a URL."""
    found = [*BLOCKED_4, *(f"[{six}]" for six in BLOCKED_6)]
    for address in INSIDE:
        found += [f"[{six}]" for six in wrapped(address)]
        found += disguised(address)
    found += ["[fe80::1%25lo]", "[fe80::1%lo]", "[::1%251]", "[0:0:0:0:0:0:0:0]", "0", "[::ffff:0:0]", "[v1.127]"]
    return list(dict.fromkeys(found))


def names() -> dict[str, list[list[str]]]:
    """Names and what the resolver says at each question, the last answer for ever."""
    found = {
        "localhost": [["127.0.0.1", "::1"]],
        "localhost.localdomain": [["127.0.0.1"]],
        "metadata.google.internal": [["169.254.169.254"]],
        "mixed.example": [[PUBLIC, "127.0.0.1"]],
        "mixed-six.example": [[PUBLIC, "::1"]],
        "last-of-many.example": [[*(f"93.184.216.{number}" for number in range(40, 46)), "127.0.0.2"]],
    }
    for number, address in enumerate((*BLOCKED_4, *BLOCKED_6, *(six for four in INSIDE for six in wrapped(four)))):
        found[f"leads-{number}.example"] = [[address]]
    return found


def listed() -> dict[str, list[list[str]]]:
    """Names that the operator lists, and where they lead all the same: to a cloud's metadata."""
    leads = [METADATA, *wrapped(METADATA), "100.100.100.200", "fd00:ec2::254", "fd20:ce::254"]
    return {f"listed-{number}.example": [[address]] for number, address in enumerate(leads)}


def flips(count: int) -> dict[str, list[list[str]]]:
    """Names that are honest at one question and not at the next, in both orders."""
    inside = ("127.0.0.1", "127.0.0.2", "127.1.2.3", "::1", "169.254.169.254", "10.0.0.1")
    found = {}
    for number in range(count):
        good, bad = [PUBLIC if number % 3 else PUBLIC_6], [inside[number % len(inside)]]
        found[f"flips-{number}.example"] = [good, bad] if number % 2 else [bad, good, bad]
    return found


def tricks(port: int) -> Iterator[str]:
    """URLs that two parsers read differently, and schemes that are none of ours."""
    inside = f"127.0.0.1:{port}"
    yield from (
        f"http://allowed.example@{inside}/",
        f"http://allowed.example:443@{inside}/",
        f"https://allowed.example%40{inside}/",
        f"http://allowed.example\\@{inside}/",
        f"http://{inside}\\@allowed.example/",
        f"http://{inside}#@allowed.example/",
        f"https://allowed.example#@{inside}/",
        f"http://{inside}%23@allowed.example/",
        f"http://{inside}?@allowed.example/",
        f"http:/{inside}/",
        f"http:{inside}/",
        f"http:\\\\{inside}\\",
        f"http:///{inside}/",
        f"//{inside}/",
        f" http://{inside}/",
        f"http://{inside}/ ",
        f"http://\t{inside}/",
        f"http://127.0.0.1\n:{port}/",
        f"http://127.0.0.1:{port}\r\nHost: allowed.example/",
        f"http://127.0.0.1%00.allowed.example:{port}/",
        f"http://127.0.0.1\x00.allowed.example:{port}/",
        f"http://127.0.0.1%0d%0a:{port}/",
        f"http://127.0.0.1 allowed.example:{port}/",
        f"http://127.0.0.1;allowed.example:{port}/",
        f"http://127.0.0.1,allowed.example:{port}/",
        f"http://[::1]allowed.example:{port}/",
        f"http://[allowed.example]@{inside}/",
        f"http://127.0.0.1:{port}:80/",
        f"http://127.0.0.1:{port + 65_536}/",
        f"http://127.0.0.1:0{port}/",
        f"http://ⓛocalhost:{port}/",
        f"http://localhost\u200b:{port}/",
        f"http://xn--n3h.127.0.0.1:{port}/",
        f"ftp://{inside}/",
        f"gopher://{inside}/_GET",
        f"dict://{inside}/",
        f"ldap://{inside}/",
        f"tftp://{inside}/",
        f"ws://{inside}/",
        f"wss://{inside}/",
        f"http+unix://{inside}/",
        f"jar:http://{inside}/!/",
        "file:///etc/passwd",
        "data:text/plain,x",
        "javascript:alert(1)",
        "",
        "http://",
        "https://",
        "http://:80/",
    )


def targets(port: int) -> Iterator[str]:
    """What gRPC itself would take for a target."""
    inside = f"127.0.0.1:{port}"
    yield from (
        f"dns:///{inside}",
        f"dns://127.0.0.1:53/{inside}",
        f"ipv4:{inside}",
        f"ipv4:///{inside}",
        f"ipv6:[::1]:{port}",
        f"passthrough:///{inside}",
        f"http://{inside}",
        f"allowed.example:443,{inside}",
        f"{inside},allowed.example:443",
        f"{inside}/",
        f"user@{inside}",
        "unix:/var/run/docker.sock",
        "unix:///var/run/docker.sock",
        "unix-abstract:x",
        "vsock:2:80",
        "xds:///allowed.example",
        "google-c2p:///allowed.example",
        "127.0.0.1",
        "",
    )
