"""Whose request this is: keys looked up in the store, and remembered for a few seconds.

What must hold: nothing is believed longer than ``KEPT_S``, so a revoked key is dead within five seconds; the memory is
bounded, and what is none of ours never takes the place of a key that is. Without any key in the store everybody is let
in, and only where the listener is on loopback (``serving.py`` refuses to start elsewhere); as soon as there is one, a
key is needed everywhere. How it fails: Cassandra away is BackendDown (503), never a yes.

Guessing costs Cassandra little: of prefixes that were never seen to be a key's, a few a second are looked up by
themselves; where more come, all keys are read together, at most once in ``KEPT_S``, and tell. So who has a good key
finds it among them, however many strangers try theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown
from waterclock.store.port import Access, ApiKey

from . import keys
from .problems import Problem, busy
from .rates import Rates

KEPT_S = 5.0
_KEPT_MAX = 20_000

_STRANGERS_PER_S = 10.0
_STRANGERS_AT_ONCE = 40
"""Prefixes that are looked up although nobody has seen their key, of all callers together."""

_TOGETHER_MAX = 10_000
"""Keys that are read together. Where there are more, one that is not among them has to come again."""


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
        self._kept: dict[str, tuple[float, ApiKey]] = {}
        """Keys there are, also those that must be looked up again."""
        self._unknown: dict[str, float] = {}
        """Prefixes that are no key's, and until when that is believed."""
        self._strangers = Rates(clock, _STRANGERS_PER_S, _STRANGERS_AT_ONCE)
        self._reading = asyncio.Lock()
        self._read_until_s = -1.0
        """Until when ``_kept`` holds all keys; ``_is_whole``: it does, for they were not too many."""
        self._is_whole = False
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
        if now_s < self._unknown.get(prefix, -1.0):
            return None
        if kept is None and self._strangers.take(""):
            return await self._key_among_all(prefix)
        found = await self._call(self._store.key, prefix)
        assert found is None or isinstance(found, ApiKey)
        if found is None:
            self._kept.pop(prefix, None)
            self._remember_unknown(prefix, now_s)
            return None
        self._make_room(1)
        self._kept[prefix] = now_s + KEPT_S, found
        return found

    async def _key_among_all(self, prefix: str) -> ApiKey | None:
        """Raises Problem (503) where that cannot tell."""
        async with self._reading:
            if self._clock.monotonic_s() >= self._read_until_s:
                await self._read_all()
        kept = self._kept.get(prefix)
        if kept is None and not self._is_whole:
            raise busy("Too many keys are tried that nobody has used here lately")
        return None if kept is None else kept[1]

    async def _read_all(self) -> None:
        until_s = self._clock.monotonic_s() + KEPT_S
        found = await self._call(self._store.keys, _TOGETHER_MAX)
        assert isinstance(found, list)
        self._is_whole = len(found) < _TOGETHER_MAX
        self._make_room(len(found))
        self._kept.update({key.prefix: (until_s, key) for key in found})
        self._read_until_s = until_s

    def _make_room(self, count: int) -> None:
        if len(self._kept) + count > _KEPT_MAX:
            self._kept.clear()
            self._read_until_s = -1.0

    def _remember_unknown(self, prefix: str, now_s: float) -> None:
        """Bounded by how many are looked up in ``KEPT_S``."""
        if len(self._unknown) >= _STRANGERS_AT_ONCE + int(_STRANGERS_PER_S * KEPT_S):
            self._unknown = {known: until_s for known, until_s in self._unknown.items() if now_s < until_s}
        self._unknown[prefix] = now_s + KEPT_S


def _unauthorized(detail: str) -> Problem:
    return Problem(
        "unauthorized",
        detail,
        hint="Send `Authorization: Bearer wck_...`; `waterclock key create` makes a key",
        headers={"WWW-Authenticate": 'Bearer realm="waterclock"'},
    )
