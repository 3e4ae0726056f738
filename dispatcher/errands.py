"""Errands: what is read from the store and written to it beside rounds, so that no fire waits for an answer.

An errand is a generator: it yields calls of the store and is sent their answers. The calls are made by a thread of
their own, and change nothing of a shard; between them the errand runs in the thread that owns everything, between two
rounds.

What must hold: an errand ends as if it had happened at once. So each shard has one at a time, and one is given up, and
begun anew, where its shard is another one by its next answer (``Shard.mark``): a command was applied, rows were written
by somebody else, the window began anew. Where that happens ``GIVEN_UP_MAX`` times in a row, the next one is done at
once, and fires wait: nobody is put off for ever. A call that is given up may still be carried out; it is one that a
crash could have left behind as well.

How it fails: BackendDown out of a call is raised to whoever goes on with the errand, which is over then.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from waterclock.model.errors import BackendDown

from .shard import Shard

GIVEN_UP_MAX = 2

Call: TypeAlias = Callable[[], Any]
_Result = TypeVar("_Result")
Errand: TypeAlias = Generator[Call, Any, _Result]


class Pending(Protocol):
    """A call on its way."""

    @property
    def is_done(self) -> bool:
        """Whether there is an answer."""
        ...

    def result(self) -> Any:
        """The answer; only once there is one. Raises what the call raised."""
        ...


class Beside(Protocol):
    """Whoever makes calls beside the rounds, one after the other, in the order in which they were given."""

    def begin(self, call: Call) -> Pending:
        """Have it made."""
        ...

    def close(self) -> None:
        """Make no more of them."""
        ...


class _UnderWay(NamedTuple):
    shard: Shard
    mark: tuple[object, ...]
    errand: Errand[None]
    pending: Pending


class Errands:
    """Of all shards of one dispatcher."""

    def __init__(self, beside: Beside) -> None:
        self._beside = beside
        self._under_way: dict[int, _UnderWay] = {}
        self._given_up: dict[int, int] = {}

    def has_one(self, shard: Shard) -> bool:
        """Whether one is under way for this shard."""
        under_way = self._under_way.get(shard.partition)
        return under_way is not None and under_way.shard is shard

    def begin(self, shard: Shard, errand: Errand[None]) -> None:
        """Send it off. Raises BackendDown where it has to be done at once."""
        try:
            call = next(errand)
        except StopIteration:
            return  # it had nothing to ask: the turn is still that of whoever was given up
        if self._given_up.get(shard.partition, 0) >= GIVEN_UP_MAX:
            self._given_up[shard.partition] = 0
            _finish(errand, call)
            return
        self._under_way[shard.partition] = _UnderWay(shard, shard.mark, errand, self._beside.begin(call))

    def go_on(self, shard: Shard) -> bool:
        """Go on as far as there are answers; whether one is under way after that. Raises BackendDown."""
        while self.has_one(shard):  # ends: each turn takes one answer, and there is none to the next call yet
            _, mark, errand, pending = self._under_way[shard.partition]
            if not pending.is_done:
                return True
            del self._under_way[shard.partition]
            if shard.mark != mark:
                errand.close()
                self._given_up[shard.partition] = self._given_up.get(shard.partition, 0) + 1
                return False
            try:
                call = errand.send(pending.result())
            except StopIteration:
                self._given_up[shard.partition] = 0
                return False
            except BackendDown:
                errand.close()
                raise
            self._under_way[shard.partition] = _UnderWay(shard, mark, errand, self._beside.begin(call))
        return False

    def close(self) -> None:
        """No more of them."""
        self._under_way.clear()
        self._beside.close()


def do_at_once(errand: Errand[_Result]) -> _Result:
    """All of it now, in this thread, which waits for each answer. Raises what its calls raise."""
    try:
        call = next(errand)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # a generator's value, which StopIteration does not type
    return _finish(errand, call)


def _finish(errand: Errand[_Result], call: Call) -> _Result:
    """All that is left of it, from this call on."""
    try:
        while True:  # ends with the errand
            call = errand.send(call())
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]  # as above
    finally:
        errand.close()


class AtOnce:
    """Beside nothing: each call is made as it is given. For whoever has no thread for it."""

    def begin(self, call: Call) -> Pending:
        return Made(call)

    def close(self) -> None:
        """Nothing is left."""


class Made:
    """A call that was made already, whatever came of it."""

    is_done = True

    def __init__(self, call: Call) -> None:
        self._answer: Any = None
        self._trouble: BackendDown | None = None
        try:
            self._answer = call()
        except BackendDown as trouble:
            self._trouble = trouble

    def result(self) -> Any:
        if self._trouble is not None:
            raise self._trouble
        return self._answer
