"""The one door for calls to other systems: resolve once, check every address, hand out addresses to connect to.

What must hold:

* every outbound call asks ``Guard.passage`` and connects to an address of the passage it got, never to a name: what
  was checked is what is called, whatever DNS says a moment later;
* all addresses of a name are checked; one that is blocked refuses the whole answer (an honest name has none);
* https on port 443 or 80, to public addresses; anything else only where the operator has listed the host and port;
* ``check_socket`` judges once more, at the moment at which a socket is made, so that a client library which goes its
  own way is stopped too.

How it fails: EgressRefused and Unreachable, before anything is sent.
"""

from __future__ import annotations

from typing import NamedTuple

from waterclock.clock import Clock

from .addresses import NEVER, blocked_as
from .allow import AllowList
from .destination import Destination
from .refusals import EgressRefused
from .resolving import Answers, Resolver, SystemResolver

_PORTS = (443, 80)
_EXCEPTED_MAX = 4_096


class Passage(NamedTuple):
    """Leave to call ``destination`` at one of ``addresses`` (checked literals, the preferred first)."""

    destination: Destination
    addresses: tuple[str, ...]


class Guard:
    """``keep_s``: how long an answer of the resolver is used; ``timeout_s`` bounds asking for one."""

    def __init__(
        self,
        allow: AllowList,
        clock: Clock,
        *,
        resolver: Resolver | None = None,
        keep_s: float = 10.0,
        timeout_s: float = 5.0,
    ) -> None:
        self._allow = allow
        self._answers = Answers(resolver or SystemResolver(), clock, keep_s=keep_s, timeout_s=timeout_s)
        self._excepted: dict[tuple[str, int], None] = {}

    async def passage(self, destination: Destination, *, within_s: float | None = None) -> Passage:
        """Leave to call, or the reason why not; ``within_s``: how long its caller may wait for it.

        Raises EgressRefused, Unreachable, TimeoutError.
        """
        listed = self._allow.has(destination)
        if not listed:
            _check_road(destination)
        addresses = (destination.host,) if destination.literal else await self._answers.of(destination, within_s)
        for address in addresses:
            reason = blocked_as(address)
            if reason and not (listed and (destination.literal or reason not in NEVER)):
                raise _refused(destination, address, reason)
            if reason:
                self._except(address, destination.port)
        return Passage(destination, addresses)

    def check_socket(self, address: str, port: int) -> None:
        """The last look, when a socket to this address is made. Raises EgressRefused."""
        reason = blocked_as(address)
        if reason and (address, port) not in self._excepted:
            raise EgressRefused(f"{address} port {port} is {reason}, and no checked call wants to go there")

    def _except(self, address: str, port: int) -> None:
        if (address, port) not in self._excepted:
            if len(self._excepted) >= _EXCEPTED_MAX:
                self._excepted.pop(next(iter(self._excepted)))
            self._excepted[address, port] = None


def _check_road(destination: Destination) -> None:
    if not destination.tls:
        raise EgressRefused(f"{destination.place} would be called in clear text: use TLS{_or_list(destination)}")
    if destination.port not in _PORTS:
        raise EgressRefused(f"{destination.place}: only ports 443 and 80 may be called{_or_list(destination)}")


def _refused(destination: Destination, address: str, reason: str) -> EgressRefused:
    if destination.literal:
        return EgressRefused(
            f"{destination.place} is {reason}: only public addresses may be called{_or_list(destination)}"
        )
    if reason in NEVER:
        return EgressRefused(f"{destination.place} leads to {address}, which is {reason}: no name may lead there")
    leads = f"{destination.place} leads to {address}, which is {reason}"
    return EgressRefused(f"{leads}: only public addresses may be called{_or_list(destination)}")


def _or_list(destination: Destination) -> str:
    return f", or let the operator list {destination.place} in egress.allow"
