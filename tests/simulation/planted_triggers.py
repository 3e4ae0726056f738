"""Bugs of what the ends of runs start: patches of the product for one play. See ``planted.py``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from waterclock.dispatcher.emit import Emitter
from waterclock.retry_router.listeners import Listeners

from waterclock.log.port import Outgoing
from waterclock.model.flow_state import RunFlow
from waterclock.model.ids import Instant
from waterclock.model.job import JobVersion
from waterclock.transact import Round, Rounds
from waterclock.wire.names import Names

from .planted_failures import Planted

_COMMANDS = Names().commands
_TURNS_APART = 5


@contextmanager
def sent_after_the_round() -> Iterator[None]:
    """What ends start is sent in the round after the one that commits the positions behind them."""
    right = Rounds.commit
    waiting: dict[int, list[Outgoing]] = {}

    def commit(self: Rounds, draft: Round) -> None:
        if ".retry-router." in self.transactional_id:
            starts = [message for message in draft.messages if message.topic == _COMMANDS]
            rest = [message for message in draft.messages if message.topic != _COMMANDS]
            draft.messages = [*waiting.pop(id(self), ()), *rest]
            waiting[id(self)] = starts
        right(self, draft)

    with mock.patch.object(Rounds, "commit", commit):
        yield


@contextmanager
def listeners_unread() -> Iterator[None]:
    """Ends are answered by what was read of ``triggers`` some time ago."""
    turns: Counter[int] = Counter()

    def look(self: Listeners) -> None:
        turns[id(self)] += 1
        if turns[id(self)] % _TURNS_APART == 1:
            right(self)

    right = Listeners.look
    with (
        mock.patch.object(Listeners, "ask"),
        mock.patch.object(Listeners, "caught_up", True),
        mock.patch.object(Listeners, "look", look),
    ):
        yield


@contextmanager
def cause_lost_with_a_wait() -> Iterator[None]:
    """A run that was HELD does not say any more what started it."""

    def release(self: Emitter, version: JobVersion, run: RunFlow, now: Instant) -> None:
        right(self, version, run._replace(triggered_by="", hops=0), now)

    right = Emitter.release
    with mock.patch.object(Emitter, "release", release):
        yield


PLANTED_TRIGGERS: dict[str, Planted] = {
    "what an end starts sent after its round": sent_after_the_round,
    "ends answered before it is known who waits": listeners_unread,
    "cause lost with a wait": cause_lost_with_a_wait,
}
