"""Which dead letters somebody means, and how they fall into groups. Pure.

A letter is *open* until it is redriven or discarded; what was done last counts.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from waterclock.model.errors import RequestError
from waterclock.model.ids import Instant, RunId, make_run_id
from waterclock.store.port import FailureRow, LetterRow


class LetterState(StrEnum):
    """How a letter stands. ``ALL``: in a choice, whatever it is."""

    OPEN = "open"
    REDRIVEN = "redriven"
    DISCARDED = "discarded"
    ALL = "all"


class Letter(NamedTuple):
    """A dead letter, as history tells it. ``done``: what was done about it last."""

    failure: FailureRow
    done: LetterRow | None

    @property
    def run_id(self) -> str:
        """The run that was given up."""
        return str(self.run)

    @property
    def run(self) -> RunId:
        """The same in parts."""
        failure = self.failure
        return RunId(failure.job_id, failure.fire_at, failure.series, failure.node)

    @property
    def state(self) -> LetterState:
        """How it stands."""
        return LetterState.OPEN if self.done is None else LetterState(self.done.action.value)


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter. What is empty does not narrow it down; ``since``: the run was given up after it."""

    job_id: str = ""
    error_class: str = ""
    fingerprint: str = ""
    since: Instant | None = None
    state: LetterState = LetterState.OPEN
    run_ids: frozenset[str] = frozenset()

    @property
    def narrows(self) -> bool:
        """Whether it names anything: what acts on letters must not take all of them by an empty filter."""
        return bool(self.job_id or self.error_class or self.fingerprint or self.run_ids or self.since is not None)

    def wants(self, letter: Letter) -> bool:
        """Whether the letter is meant."""
        return self.wants_failure(letter.failure) and self.state in (LetterState.ALL, letter.state)

    def wants_failure(self, failure: FailureRow) -> bool:
        """The same, without what was done about it."""
        run_ids = self.run_ids
        return (
            (not self.job_id or failure.job_id == self.job_id)
            and (not self.error_class or failure.error_class == self.error_class)
            and (not self.fingerprint or failure.fingerprint == self.fingerprint)
            and (not run_ids or make_run_id(failure.job_id, failure.fire_at, failure.series, failure.node) in run_ids)
        )


def state_of(word: str) -> LetterState:
    """The state that a person names. Raises RequestError."""
    try:
        return LetterState(word)
    except ValueError:
        raise RequestError(
            f"{word[:40]!r} is no state of a dead letter", pointer="/state", hint=", ".join(LetterState)
        ) from None


class Group(NamedTuple):
    """Letters of one cause. ``sample``: the run id of the newest; ``jobs``: how many jobs they are of."""

    error_class: str
    fingerprint: str
    error: str
    letter_count: int
    job_count: int
    first_at: Instant
    last_at: Instant
    sample: str


def groups_of(letters: Iterable[Letter]) -> list[Group]:
    """By error class and fingerprint; the largest first."""
    members: dict[tuple[str, str], list[Letter]] = {}
    for letter in letters:
        members.setdefault((letter.failure.error_class, letter.failure.fingerprint), []).append(letter)
    found = [_group(key, each) for key, each in members.items()]
    found.sort(key=lambda group: (-group.letter_count, group.error_class, group.fingerprint))
    return found


def _group(key: tuple[str, str], letters: list[Letter]) -> Group:
    newest = max(letters, key=lambda letter: (letter.failure.ended_at, letter.run_id))
    ended = [letter.failure.ended_at for letter in letters]
    jobs = {letter.failure.job_id for letter in letters}
    return Group(*key, newest.failure.error, len(letters), len(jobs), min(ended), max(ended), newest.run_id)
