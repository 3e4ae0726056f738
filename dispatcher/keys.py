"""Intentions that were served: the idempotency keys of a shard's commands, kept for 24 hours (design §6).

A command of the same job with the same key is a repeat, and is ignored; one with another body is refused, unless both
come of the same HTTP request: what the API merges into the job or looks up for it (calendars) may have changed between
the two, and with it the body. Where there is no key the command's id stands in, so that a producer which sends a record
twice changes nothing the second time.

What must hold: a replayed command decides alike. So whether a command is a repeat follows from stamps and offsets
alone: the first one lies below it in the log (never the command itself, which a replay meets in the state topic), and
at most 24 hours of append time before it. Memory holds that much or more, never less: what is over is dropped later, in
slices, by the commands' stamps. A clock only has it dropped later still: a stamp ahead of it tells of a broker's clock
that is, and the next command may bear an earlier one.

The bounds. A key that somebody gave is a promise: it is never forgotten early, and where ``KEYS_MAX`` of them are kept
a further command with a key is refused as busy. One tenant may hold half of them, so that none locks the others out.
An id that stands in is a courtesy: it reaches back ``ID_OFFSETS``
offsets of the partition at most (a producer's repeats come within seconds), so a bulk load of jobs needs no memory.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from hashlib import blake2b
from typing import NamedTuple, NoReturn

from waterclock.model.document import KEY_MAX
from waterclock.model.errors import Busy, KeyReused, RequestError
from waterclock.model.ids import US_PER_S, Instant, split_job_id
from waterclock.model.job import Command
from waterclock.model.role_state import KeyState
from waterclock.model.stored_spec import spec_to_json
from waterclock.wire import codec
from waterclock.wire.messages import ID_PREFIX, KEY_PREFIX, key_of_state

from .commands import Place

WITHIN_US = 24 * 3_600 * US_PER_S
"""So long after the first a repeat is one, by the brokers' append times."""

KEYS_MAX = 200_000
"""Keys of one shard, about 400 bytes each; one tenant's are at most half."""

ID_OFFSETS = 100_000
"""How many offsets of its partition a command id reaches back."""

EXPIRE_SLICE = 1_000
"""How many are forgotten with one batch of commands: twice as many as a batch can add."""

_GRACE_US = 600 * US_PER_S
"""Kept longer by this: append times of two brokers may differ."""


class Intention(NamedTuple):
    """What a command asks for under which name. ``state_key``: under which it is kept."""

    state_key: str
    body_hash: bytes
    request_hash: bytes


def intention_of(command: Command) -> Intention | None:
    """The command's intention; None where it has neither key nor id. Raises RequestError for one that is too long."""
    for word, value in (
        ("idempotency_key", command.idempotency_key),
        ("command_id", command.command_id),
        ("request_hash", command.request_hash),
    ):
        if len(value) > KEY_MAX:
            raise RequestError(
                f"the {word} is {len(value)} long", pointer=f"/{word}", hint=f"At most {KEY_MAX}: send a hash"
            )
    if not (command.idempotency_key or command.command_id):
        return None
    state_key = key_of_state(command.job_id, command.idempotency_key, command.command_id)
    return Intention(state_key, _body_hash(command), command.request_hash)


def _body_hash(command: Command) -> bytes:
    """Of what is asked for: who asks, when and why are no part of it. On-disk format, for 24 hours.

    Nor is the revision that it was asked of: a door that fills in the one that stands reads another one when the same
    request is made again, after it was served.
    """
    spec = b"" if command.spec is None else spec_to_json(command.spec)
    payload = b"-" if command.payload is None else b"+" + command.payload
    head = f"{command.kind}|{len(spec)}|".encode()
    of_run = b""
    if command.run_id or command.work:
        of_run = f"|{command.run_id}|{command.due_at}|".encode() + (command.work or b"")
    if command.resume_at or command.to_revision:
        of_run += f"|{command.resume_at}|{command.to_revision}".encode()
    if command.from_at or command.backfill_id:
        tier = "" if command.tier is None else command.tier.name
        asked = (command.from_at, command.to_at, command.concurrency, tier, command.backfill_id)
        of_run += b"".join(f"|{part}".encode() for part in asked)
    for use in command.calendars:
        of_run += f"|{use.name}|{use.version}|".encode() + use.compiled.encode()
    if command.triggered_by:
        of_run += f"|{command.triggered_by}".encode()
    if command.rerun_from:
        of_run += f"|{','.join(command.rerun_from)}".encode()
    return blake2b(head + spec + payload + of_run, digest_size=16).digest()


def is_repeat(first: KeyState, place: Place) -> bool:
    """Whether a command at ``place`` comes after ``first`` and soon enough to be its repeat."""
    if first.offset >= place.offset or place.appended_at - first.stamp_at > WITHIN_US:
        return False
    return bool(first.key) or place.offset - first.offset <= ID_OFFSETS


def check_body(first: KeyState, intention: Intention) -> None:
    """Refuse another intention under a key that was served: KeyReused."""
    is_same_request = bool(first.request_hash) and first.request_hash == intention.request_hash
    if first.body_hash != intention.body_hash and not is_same_request:
        word = "idempotency key" if first.key else "command id"
        raise KeyReused(
            f"the {word} {first.key or first.command_id} was used for something else",
            first_command_id=first.command_id,
            pointer="/idempotency_key" if first.key else "/command_id",
            hint="A new intention needs a new key",
        )


class Keys:
    """The intentions of one shard, oldest first. Values are the encoded states: few of them are ever read again."""

    def __init__(self) -> None:
        self._given: OrderedDict[str, bytes] = OrderedDict()
        self._standing_in: OrderedDict[str, bytes] = OrderedDict()
        """Ids apart from given keys, for they end sooner."""
        self._given_by_tenant: Counter[str] = Counter()
        self.forgotten: list[str] = []
        """Keys of the state topic whose tombstones are still to be written, before anything else is."""

    def __len__(self) -> int:
        return len(self._given) + len(self._standing_in)

    def get(self, state_key: str) -> KeyState | None:
        """What is kept under a key of the state topic, also where it is over."""
        value = self._of(state_key).get(state_key)
        return None if value is None else codec.decode_key_state(value)

    def check_room(self, state_key: str, coming: Counter[str]) -> None:
        """Refuse one more given key where a bound is reached: Busy. ``coming``: new ones of this batch, by tenant."""
        kept = self._of(state_key)
        if kept is not self._given or state_key in kept:
            return
        if len(kept) + coming.total() >= KEYS_MAX:
            _refuse_as_busy(f"{KEYS_MAX} idempotency keys", "the most there may be")
        tenant = _tenant_of(state_key)
        if self._given_by_tenant[tenant] + coming[tenant] >= KEYS_MAX // 2:
            _refuse_as_busy(f"{KEYS_MAX // 2} idempotency keys of {tenant}", "the most that one tenant may have")

    def keep(self, state_key: str, value: bytes) -> None:
        """Put a served intention, as its state topic holds it, behind all others."""
        kept = self._of(state_key)
        if kept is self._given and state_key not in kept:
            self._given_by_tenant[_tenant_of(state_key)] += 1
        kept[state_key] = value
        kept.move_to_end(state_key)

    def drop(self, state_key: str) -> None:
        """Forget one: nothing repeats it any more."""
        kept = self._of(state_key)
        if kept.pop(state_key, None) is not None and kept is self._given:
            tenant = _tenant_of(state_key)
            self._given_by_tenant[tenant] -= 1
            if not self._given_by_tenant[tenant]:
                del self._given_by_tenant[tenant]

    def expire(self, offset: int, stamp_at: Instant, now: Instant) -> None:
        """Forget what no command from this place on can repeat, in a slice; not before the last one is written.

        One that a broker has stamped ahead of ``now`` is put behind the others: they are over before.
        """
        if self.forgotten:
            return
        stamp_at = min(stamp_at, now)
        for kept in (self._given, self._standing_in):
            for _ in range(min(EXPIRE_SLICE, len(kept))):
                state_key, value = next(iter(kept.items()))
                state = codec.decode_key_state(value)
                if _is_over(state, offset, stamp_at):
                    self.drop(state_key)
                    self.forgotten.append(state_key)
                elif state.stamp_at > now + _GRACE_US:
                    kept.move_to_end(state_key)
                else:
                    break

    def _of(self, state_key: str) -> OrderedDict[str, bytes]:
        return self._given if state_key.startswith(KEY_PREFIX) else self._standing_in


def _tenant_of(state_key: str) -> str:
    """``key/<tenant>:<name>/<hash>``, as ``key_of_state`` writes it; neither of the two holds a slash or a colon."""
    return split_job_id(state_key.split("/", 2)[1])[0]


def _refuse_as_busy(what: str, why: str) -> NoReturn:
    raise Busy(
        f"{what} of the last 24 hours are kept for this partition, {why}",
        pointer="/idempotency_key",
        hint="Try again later, or send it without a key where a repeat would do no harm",
    )


def _is_over(state: KeyState, offset: int, stamp_at: Instant) -> bool:
    if stamp_at - state.stamp_at > WITHIN_US + _GRACE_US:
        return True
    return not state.key and offset - state.offset > ID_OFFSETS


def is_key_of_state(key: str) -> bool:
    """Whether a record of the state topic is a KeyState, by its key."""
    return key.startswith((KEY_PREFIX, ID_PREFIX))
