"""Addresses and destinations: what is public, and that a host has one reading."""

from __future__ import annotations

from ipaddress import ip_address
from random import Random

import pytest

from waterclock.egress.addresses import NEVER, blocked_as
from waterclock.egress.destination import Destination, of_target, of_url
from waterclock.egress.refusals import EgressRefused

BLOCKED = {
    "0.0.0.0": "unspecified",  # noqa: S104 - nobody binds to it here
    "0.1.2.3": "unspecified",
    "10.0.0.1": "private",
    "172.16.0.1": "private",
    "172.31.255.255": "private",
    "192.168.1.1": "private",
    "100.64.0.1": "carrier-grade NAT",
    "100.127.255.255": "carrier-grade NAT",
    "127.0.0.1": "loopback",
    "127.255.255.254": "loopback",
    "169.254.169.254": "link-local",
    "168.63.129.16": "a cloud's metadata",
    "100.100.100.200": "a cloud's metadata",
    "192.0.0.192": "a cloud's metadata",
    "192.0.0.193": "reserved",
    "192.88.99.1": "reserved",
    "240.0.0.1": "reserved",
    "255.255.255.255": "reserved",
    "192.0.2.1": "documentation",
    "198.51.100.1": "documentation",
    "203.0.113.1": "documentation",
    "198.18.0.1": "benchmarking",
    "224.0.0.1": "multicast",
    "::": "unspecified",
    "::1": "loopback",
    "::ffff:127.0.0.1": "IPv4-mapped",
    "::ffff:8.8.8.8": "IPv4-mapped",
    "::ffff:0:8.8.8.8": "IPv4-mapped",
    "::7f00:1": "IPv4-compatible",
    "64:ff9b::7f00:1": "NAT64",
    "64:ff9b::808:808": "NAT64",
    "64:ff9b:1::7f00:1": "NAT64",
    "2002:7f00:1::": "6to4",
    "2001:0:53aa:64c:0:fbff:80ff:fffe": "Teredo",
    "2001:db8::1": "documentation",
    "2001:10::1": "reserved",
    "3fff::1": "documentation",
    "fc00::1": "private",
    "fd00:ec2::254": "a cloud's metadata",
    "fd00:ec2::23": "a cloud's metadata",
    "fd20:ce::254": "a cloud's metadata",
    "fd00:c1::a9fe:a9fe": "a cloud's metadata",
    "fd00:42::42": "a cloud's metadata",
    "fd00:ec3::254": "private",
    "2606:4700::5efe:808:808": "ISATAP",
    "2606:4700::200:5efe:a00:1": "ISATAP",
    "fd12::5efe:a00:1": "private",
    "fe80::1": "link-local",
    "fe80::1%lo": "link-local",
    "2606:4700::1%lo": "link-local",
    "fec0::1": "site-local",
    "ff02::1": "multicast",
    "4000::1": "reserved",
    "100::1": "reserved",
    "5f00::1": "reserved",
    "localhost": "no address",
    "": "no address",
}


@pytest.mark.parametrize(("address", "reason"), BLOCKED.items())
def test_what_is_not_public_is_blocked_by_its_name(address: str, reason: str) -> None:
    assert blocked_as(address) == reason


METADATA = "169.254.169.254"
WRAPPED = {
    "::ffff:169.254.169.254": "mapped",
    "::ffff:a9fe:a9fe": "mapped",
    "::ffff:0:169.254.169.254": "translated",
    "::a9fe:a9fe": "compatible",
    "64:ff9b::a9fe:a9fe": "NAT64",
    "64:ff9b:1::a9fe:a9fe": "NAT64 for local use, /96",
    "64:ff9b:1:a9fe:a9:fe00::": "the same, /48",
    "64:ff9b:1:77a9:fe:a9fe::": "the same, /56",
    "64:ff9b:1:7777:a9:fea9:fe00:0": "the same, /64",
    "64:ff9b:1:a9fe:ffa9:feff:ffff:ffff": "the same, /48, with what should be zero",
    "2002:a9fe:a9fe::": "6to4",
    "2002:808:808::5efe:a9fe:a9fe": "ISATAP in 6to4",
    "2001:0:808:808:0:fbff:5601:5601": "a Teredo client",
    "2001:0:a9fe:a9fe:0:fbff:f7f7:f7f7": "a Teredo server",
    "2606:4700::5efe:a9fe:a9fe": "ISATAP",
    "2606:4700::200:5efe:a9fe:a9fe": "ISATAP",
    "fd12::5efe:169.254.169.254": "ISATAP in a private network",
}


@pytest.mark.parametrize("address", WRAPPED, ids=WRAPPED.values())
def test_what_wraps_an_address_that_no_name_may_lead_to_is_refused_as_that(address: str) -> None:
    assert blocked_as(address) == blocked_as(METADATA) == "link-local"
    assert blocked_as(address) in NEVER


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("::ffff:168.63.129.16", "a cloud's metadata"),
        ("64:ff9b::100.100.100.200", "a cloud's metadata"),
        ("2002:e000:1::", "multicast"),
        ("::ffff:0.0.0.0", "unspecified"),
    ],
)
def test_whatever_no_name_may_lead_to_is_seen_through_its_wrapping(address: str, reason: str) -> None:
    assert blocked_as(address) == reason


@pytest.mark.parametrize(
    "address", ["64:ff9b:1::a01:203", "64:ff9b:1:a01:2:300::", "64:ff9b:1:770a:1:203::", "64:ff9b:1:7777:a:102:300:0"]
)
def test_a_private_address_behind_local_nat64_stays_one_that_may_be_listed(address: str) -> None:
    """10.1.2.3 in each of its places: what stands in the others is padding, and no reason of its own."""
    assert blocked_as(address) == "NAT64"


@pytest.mark.parametrize("address", ["8.8.8.8", "93.184.216.34", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111"])
def test_public_addresses_may_be_called(address: str) -> None:
    assert blocked_as(address) == ""


def test_nothing_is_public_that_python_calls_private() -> None:
    dice = Random(7)
    for _ in range(20_000):
        bits = 32 if dice.random() < 0.5 else 128
        head = dice.choice([0, 0x7F, 0x0A, 0xA9, 0xAC, 0xC0, 0xC6, 0xCB, 0x20, 0x64, 0xFC, 0xFE, 0xFF, 0x08])
        number = (head << (bits - 8)) | dice.getrandbits(bits - 8)
        address = str(ip_address(number.to_bytes(bits // 8, "big")))
        if not blocked_as(address):
            assert ip_address(address).is_global, address


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "path"),
    [
        ("https://hooks.example/a?b=c", "hooks.example", 443, True, "/a?b=c"),
        ("HTTPS://HOOKS.example.", "hooks.example", 443, True, "/"),
        ("http://hooks.example:8080?x", "hooks.example", 8080, False, "/?x"),
        ("https://93.184.216.34/", "93.184.216.34", 443, True, "/"),
        ("https://[2606:4700:0::1111]:8443/x", "2606:4700::1111", 8443, True, "/x"),
    ],
)
def test_a_url_is_read_in_one_way(url: str, host: str, port: int, tls: bool, path: str) -> None:
    destination, rest = of_url(url)
    assert destination[:3] == (host, port, tls)
    assert rest == path


def test_the_host_header_names_the_port_only_where_it_is_not_the_schemes_own() -> None:
    assert Destination("h.example", 443, True).authority == "h.example"
    assert Destination("h.example", 80, True).authority == "h.example:80"
    assert Destination("::1", 80, False).authority == "[::1]"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.1/",
        "https://0x7f.0.0.1/",
        "https://0x7f000001/",
        "https://2130706433/",
        "https://0177.0.0.1/",
        "https://127.0.0.01/",
        "https://127.0.0.1.2/",
        "https://1.2.3.0x4/",
        "https://256.1.1.1/",
        "https://a.b.99/",
        "https://[fe80::1%25lo]/",
        "https://[::ffff:127.0.0.1/",
        "https://user@hooks.example/",
        "https://user:word@hooks.example/",
        "https://hooks.example\\@127.0.0.1/",
        "https://hooks.example#@127.0.0.1/",
        "https://127%2e0.0.1/",
        "https://①②⑦.⓪.⓪.①/",
        "https://hooks.example:0/",
        "https://hooks.example:99999/",
        "https://hooks.example: 80/",
        "https://hooks .example/",
        "https://hooks.example/\r\nx: y",
        "https://-hooks.example/",
        "https://hooks..example/",
        "https:///path",
        "//hooks.example/",
        "ftp://hooks.example/",
        "file:///etc/passwd",
        "gopher://hooks.example/",
        "",
    ],
)
def test_what_two_parsers_could_read_differently_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused):
        of_url(url)


def test_a_refusal_never_shows_user_password_or_query() -> None:
    with pytest.raises(EgressRefused) as refused:
        of_url("https://someone:hunter2@127.1/?token=hunter3")
    assert "hunter" not in str(refused.value)


@pytest.mark.parametrize(
    "target", ["hooks.example", "hooks.example:", "dns:///hooks.example:443", "unix:/x", "127.1:443"]
)
def test_a_grpc_target_is_a_host_and_a_port_and_nothing_else(target: str) -> None:
    with pytest.raises(EgressRefused):
        of_target(target, tls=True)
