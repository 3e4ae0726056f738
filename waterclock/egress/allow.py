"""The operator's exceptions: destinations that may be called although they are not public.

``egress.allow = ["127.0.0.1:8080", "billing.internal:443"]``. An entry lifts, for this one host and port, the rules on
addresses, on ports and on https. What must hold: an entry is compared with what the URL says, so an allowed address is
no permission for a foreign name that resolves to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from waterclock.model.errors import RequestError

from .destination import Destination, of_place
from .refusals import EgressRefused


class AllowList:
    """Raises RequestError for an entry that is no ``host:port``."""

    def __init__(self, entries: Iterable[str] = ()) -> None:
        self._places = {_place(entry) for entry in entries}

    def has(self, destination: Destination) -> bool:
        """Whether the operator has listed this host and port."""
        return (destination.host, destination.port) in self._places


def _place(entry: str) -> tuple[str, int]:
    try:
        found = of_place(entry)
    except EgressRefused as refused:
        raise RequestError(
            f"egress.allow: {refused}", pointer="/egress/allow", hint='Such as ["127.0.0.1:8080", "[::1]:8080"]'
        ) from None
    return found.host, found.port
