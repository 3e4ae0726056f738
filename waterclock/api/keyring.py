"""Whose request this is: keys looked up in the store, and remembered for a few seconds.

What must hold: nothing is believed longer than ``KEPT_S``, so a revoked key is dead within five seconds; also a key
that does not exist is remembered, so that guessing costs Cassandra nothing; the memory is bounded. Without any key in
the store everybody is let in, and only where the listener is on loopback (``serving.py`` refuses to start elsewhere);
as soon as there is one, a key is needed everywhere. How it fails: Cassandra away is BackendDown (503), never a yes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.store.port import Access, ApiKey

from . import keys
from .problems import Problem

KEPT_S = 5.0
_KEPT_MAX = 10_000


class Caller(NamedTuple):
    """Who asks. ``key``: the prefix of their key, "" where none is needed."""

    tenant: str
    scopes: str
    key: str = ""
    name: str = ""

    @property
    def actor(self) -> str:
        """As commands and audit name them."""
        return f"api:{self.name or self.key or 'open'}"


class Keyring:
    """Belongs to the event loop. ``call`` runs a blocking function elsewhere."""

    def __init__(
        self,
        store: Access,
        clock: Clock,
        call: Callable[..., Awaitable[object]],
        *,
        tenant: str,
        require_key: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._call = call
        self._open = Caller(tenant, "admin")
        self._require_key = require_key
        self._kept: dict[str, tuple[float, ApiKey | None]] = {}
        self._closed_until_s = -1.0
        self._open_until_s = -1.0

    async def caller(self, authorization: str | None) -> Caller:
        """Whose request it is. Raises Problem (401), BackendDown."""
        if authorization is None:
            if await self.is_open():
                return self._open
            raise _unauthorized("This needs a key")
        scheme, _, text = authorization.partition(" ")
        token = keys.read_token(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise _unauthorized("This is no key of ours")
        key = await self._key(token.prefix)
        if key is None or not keys.opens(key, token.secret, self._clock.now()):
            raise _unauthorized("The key is unknown, expired or revoked")
        return Caller(key.tenant, key.scopes, key.prefix, key.name)

    async def is_open(self) -> bool:
        """Whether no key is needed: none was ever made, and the settings ask for none."""
        if self._require_key:
            return False
        now_s = self._clock.monotonic_s()
        if now_s < self._open_until_s:
            return True
        if now_s >= self._closed_until_s:
            if not await self._call(self._store.keys, 1):
                self._open_until_s = now_s + KEPT_S
                return True
            self._closed_until_s = now_s + KEPT_S
        return False

    async def still_opens(self, caller: Caller) -> bool:
        """Whether who was let in would be let in again: for what outlasts a request. True while the store is away."""
        try:
            if not caller.key:
                return await self.is_open()
            key = await self._key(caller.key)
        except (BackendDown, Problem):
            return True  # asked again soon
        return key is not None and keys.in_force(key, self._clock.now())

    async def _key(self, prefix: str) -> ApiKey | None:
        now_s = self._clock.monotonic_s()
        kept = self._kept.get(prefix)
        if kept is not None and now_s < kept[0]:
            return kept[1]
        found = await self._call(self._store.key, prefix)
        assert found is None or isinstance(found, ApiKey)
        if len(self._kept) >= _KEPT_MAX:
            self._kept.clear()
        self._kept[prefix] = now_s + KEPT_S, found
        return found


def _unauthorized(detail: str) -> Problem:
    return Problem(
        "unauthorized",
        detail,
        hint="Send `Authorization: Bearer wck_...`; `waterclock key create` makes a key",
        headers={"WWW-Authenticate": 'Bearer realm="waterclock"'},
    )
