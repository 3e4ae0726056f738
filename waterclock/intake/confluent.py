"""Which of our released schemas a Confluent schema id stands for. The registry is asked once for an id, and no more.

What must hold: a schema is accepted by its fingerprint alone, which must be that of a schema that we released; its text
is read for that and for nothing else. Every answer is kept, in bounded number: an id never changes its meaning, and an
id that the registry does not know (or a foreign schema) is refused from memory for a while, so that no producer can
make a question of every record. How it fails: UndecodableRecord for the record. BackendDown while the registry does
not answer, for at most ``PATIENCE_S``: the role waits, because good records would be lost to rejects; after that
unknown ids are refused until it answers again, because one producer must not hold up all others for ever.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn, Protocol

from waterclock.clock import Clock
from waterclock.model.errors import BackendDown, UndecodableRecord
from waterclock.wire.recognised import recognised
from waterclock.wire.schemata import Schema

PATIENCE_S = 30.0
PROBE_S = 10.0
ASK_AGAIN_S = 60.0
BURST = 20.0
QUESTIONS_PER_S = 5.0
_KNOWN_MAX = 1_000


class Registry(Protocol):
    """A schema registry, at a fixed address."""

    def schema_text(self, prefix: bytes) -> str | None:
        """The Avro schema under a Confluent prefix (id or GUID); None where there is none. Raises BackendDown."""
        ...


class NoRegistry:
    """Where no registry is set."""

    def written_with(self, prefix: bytes) -> Schema:
        """Refuses."""
        _refuse(
            f"the record names schema {prefix[1:].hex()} of a registry, and no registry is set",
            "Send an Avro single object (C3 01 and the schema's fingerprint), or set SCHEMA_REGISTRY_URL",
        )


class RegistryWriters:
    """Asks a registry, and remembers. Made lazily: ``open_registry`` may import a large client."""

    def __init__(self, open_registry: Callable[[], Registry], clock: Clock) -> None:
        self._open_registry = open_registry
        self._registry: Registry | None = None
        self._clock = clock
        self._known: dict[bytes, Schema] = {}
        self._refused: dict[bytes, tuple[float, str]] = {}
        self._silent_since_s: float | None = None
        self._probe_at_s = 0.0
        self._questions_left = BURST
        self._filled_at_s = clock.monotonic_s()

    def written_with(self, prefix: bytes) -> Schema:
        """See ``parse.Writers``."""
        known = self._known.get(prefix)
        if known is not None:
            return known
        until_s, why = self._refused.get(prefix, (0.0, ""))
        if self._clock.monotonic_s() < until_s:
            _refuse(why, _HINT)
        text = self._ask(prefix)
        if text is None:
            self._remember_refusal(prefix, f"the schema registry knows no schema {prefix[1:].hex()}", ASK_AGAIN_S)
        try:
            schema = recognised(text)
        except UndecodableRecord as error:
            self._remember_refusal(prefix, f"schema {prefix[1:].hex()}: {error.message}", ASK_AGAIN_S)
        _make_room(self._known)
        self._known[prefix] = schema
        return schema

    def _ask(self, prefix: bytes) -> str | None:
        asked_at_s = self._clock.monotonic_s()
        self._check_patience(asked_at_s)
        self._take_question(prefix, asked_at_s)
        try:
            if self._registry is None:
                self._registry = self._open_registry()
            text = self._registry.schema_text(prefix)
        except BackendDown as down:
            self._silent_since_s = asked_at_s if self._silent_since_s is None else self._silent_since_s
            self._probe_at_s = self._clock.monotonic_s() + PROBE_S
            if asked_at_s - self._silent_since_s < PATIENCE_S:
                self._questions_left += 1.0  # the record comes back; it has used nothing up
                raise
            _refuse(f"no answer from the schema registry: {down}", _HINT)
        finally:
            self._filled_at_s = self._clock.monotonic_s()
        self._silent_since_s = None
        return text

    def _check_patience(self, now_s: float) -> None:
        """Refuse unasked while the registry has been silent for too long, but for the probes."""
        if self._silent_since_s is None or now_s - self._silent_since_s < PATIENCE_S:
            return
        if now_s < self._probe_at_s:
            _refuse(f"no answer from the schema registry for {now_s - self._silent_since_s:.0f} s", _HINT)

    def _take_question(self, prefix: bytes, now_s: float) -> None:
        filled = self._questions_left + (now_s - self._filled_at_s) * QUESTIONS_PER_S
        self._questions_left, self._filled_at_s = min(BURST, filled), now_s
        if self._questions_left < 1.0:
            _refuse(
                f"schema {prefix[1:].hex()} is not known here, and too many unknown ids came in a short time",
                "Send it again in a while; use one schema id for all records of a kind",
            )
        self._questions_left -= 1.0

    def _remember_refusal(self, prefix: bytes, why: str, for_s: float) -> NoReturn:
        _make_room(self._refused)
        self._refused[prefix] = (self._clock.monotonic_s() + for_s, why)
        _refuse(why, _HINT)


_HINT = "Register the schema that `waterclock schema export` writes, or send Avro single objects"


def _make_room(kept: dict[bytes, Schema] | dict[bytes, tuple[float, str]]) -> None:
    """At the bound the oldest entry goes: it costs one more question, should it come again."""
    while len(kept) >= _KNOWN_MAX:
        kept.pop(next(iter(kept)))


def _refuse(message: str, hint: str) -> NoReturn:
    raise UndecodableRecord(message, hint=hint)
