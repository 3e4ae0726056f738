"""What counts as a visit of a crash point: conditions over one call of the function that the point stands at.

The product knows nothing of it. Rounds of all roles pass the same few functions, so a point in a round says whose round
it means, and what must stand in it; which round a thread is sending is noted around ``Rounds._send``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from waterclock.log.port import Outgoing
from waterclock.transact import Round, Rounds

_under_way = threading.local()


class Call(NamedTuple):
    """One call: its positional arguments, and what it returned (None before the call)."""

    args: tuple[Any, ...]
    result: Any


Only: TypeAlias = Callable[[Call], bool]
"""Whether this call is a visit."""


def any_call(_: Call) -> bool:
    """Every call counts."""
    return True


def filled(call: Call) -> bool:
    """It returned something: rows, records, outcomes."""
    return bool(call.result)


def something(number: int) -> Only:
    """There is something in this argument."""
    return lambda call: bool(call.args[number])


def word(number: int, text: str) -> Only:
    """This argument is this text."""
    return lambda call: bool(call.args[number] == text)


def id_of(role: str) -> Only:
    """The transactional producer (or its Rounds) of this role, told by its transactional id."""
    return lambda call: f".{role}." in _id_of(call.args[0])


def holds_early(call: Call) -> bool:
    """The Rounds have sent records that wait for their commit."""
    return bool(call.args[0].is_early)


def in_round(role: str, carrying: str | None = None) -> Only:
    """Inside ``Rounds._send`` of this role, in a round that carries such a record ("": any record).

    Without ``carrying`` any round counts, also one that does nothing but commit positions.
    """

    def wanted(_: Call) -> bool:
        sending: tuple[str, Round] | None = getattr(_under_way, "round", None)
        if sending is None or f".{role}." not in sending[0]:
            return False
        return carrying is None or any(_is(message, carrying) for message in sending[1].messages)

    return wanted


def note_rounds() -> None:
    """Let ``in_round`` know which round a thread is sending."""
    send = Rounds._send

    def noted(self: Rounds, producer: Any, draft: Round, early: Any) -> None:
        _under_way.round = self.transactional_id, draft
        try:
            send(self, producer, draft, early)
        finally:
            _under_way.round = None

    Rounds._send = noted  # type: ignore[method-assign]


def _is(message: Outgoing, carrying: str) -> bool:
    """By the end of its topic's name or of its type: ``.dlq``, ``run.started``."""
    kind = dict(message.headers).get("ce_type", b"").decode()
    return message.topic.endswith(carrying) or kind.endswith(carrying)


def _id_of(owner: Any) -> str:
    return str(getattr(owner, "transactional_id", "") or getattr(owner, "_name", ""))
