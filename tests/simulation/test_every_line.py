"""Whatever single line of a good history is dropped, doubled or swapped with the next of its kind, somebody sees it.

Save what ``UNSEEN`` allows, with the reason. Looked at is a bounded number of lines of every list, spread evenly.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.oracle import acknowledged, runs
from tests.oracle.owed import ABOUT_RUNS
from tests.oracle.records import decode

from .checkers import CHECKERS
from .damages import with_events
from .dumps import Dumps
from .play import leave_behind
from .story import Story
from .test_checkers import everything

LINES_MAX = 6
LISTS = ("commands", "events", "work", "waiting", "letters", "leases", "control", "beats", "rejects", "outputs",
         "runs", "attempts", "failures", "jobs", "calls", "job_events", "history", "audit",
         "version_rows", "listing")  # fmt: skip
HOWS = ("dropped", "doubled", "swapped")
_SET = "its judges compare sets: which place says what is no promise"
_KEYED = "a table has one row for a key: the second is the first"
_PASSING = "what stands on a rung is judged by the work that comes of it"
_BEAT = "one beat more or less is within the lease"
_LIFE = "a life that nobody ended and that held nothing when its line went"
_CLIENT = "not every order has to be acknowledged: without its line the client says less"
UNSEEN = {
    ("waiting", "dropped"): _PASSING,
    ("waiting", "doubled"): _PASSING,
    ("waiting", "swapped"): _PASSING,
    ("beats", "dropped"): _BEAT,
    ("beats", "doubled"): _BEAT,
    ("beats", "swapped"): _BEAT,
    ("leases", "dropped"): _LIFE,
    ("leases", "doubled"): _LIFE,
    ("leases", "swapped"): _LIFE,
    ("letters", "swapped"): _SET,
    ("outputs", "swapped"): _SET,
    ("rejects", "swapped"): _SET,
    ("work", "swapped"): _SET,
    ("control", "swapped"): _SET,
    ("runs", "doubled"): _KEYED,
    ("jobs", "doubled"): _KEYED,
    ("version_rows", "doubled"): _KEYED,
    ("history", "dropped"): _CLIENT,
    ("history", "doubled"): _CLIENT,
    ("history", "swapped"): _CLIENT,
}
_SAID = {
    "runs": ("status", "outcome", "attempt"),
    "attempts": ("outcome", "worker", "token"),
    "failures": ("reason", "error_class", "attempts"),
    "jobs": ("status", "revision"),
    "calls": ("run_id", "attempt"),
    "history": ("result", "status", "answer"),
    "audit": ("actor", "action", "detail"),
    "version_rows": ("status", "stamp_at", "action"),
    "listing": ("kind", "created_at"),
}
"""What two lines swap, where they have no place in a log."""


@pytest.fixture(scope="module")
def good() -> Dumps:
    return leave_behind(everything(), Story())


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("name", LISTS)
def test_one_line_that_is_not_as_it_was_is_seen(good: Dumps, name: str, how: str) -> None:
    if (name, how) in UNSEEN:
        pytest.skip(UNSEEN[name, how])
    tried = [(at, _is_seen(damaged)) for at, damaged in _damaged(good, name, how)]
    if not tried and how == "swapped":
        pytest.skip("the good history has no two of a kind")
    assert tried, "the good history has no such line"
    assert [at for at, is_seen in tried if not is_seen] == []


def _is_seen(dumps: Dumps) -> bool:
    return any(checker(dumps, Counter()) for checker in CHECKERS)


def _damaged(dumps: Dumps, name: str, how: str) -> Iterator[tuple[int, Dumps]]:
    lines = getattr(dumps, name)
    those = [at for at in _that_count(dumps, name, how) if how != "swapped" or _next_of_its_kind(name, lines, at) >= 0]
    for at in those[:: max(1, len(those) // LINES_MAX)]:
        changed = list(lines)
        if how == "dropped":
            del changed[at]
        elif how == "doubled":
            changed.append(_at_the_end(lines, at))
        else:
            other = _next_of_its_kind(name, lines, at)
            changed[at], changed[other] = _swapped(name, lines[at], lines[other])
        yield at, with_events(dumps, changed) if name == "events" else replace(dumps, **{name: changed})


def _that_count(dumps: Dumps, name: str, how: str) -> Sequence[int]:
    """What the reducer ignores is no fact; a call whose attempt did not succeed may have been lost with its process."""
    if name == "events":
        ignored = {id(told.record) for told in runs.tell(dumps.events) if told.after is None}
        counted = [at for at, record in enumerate(dumps.events) if id(record) not in ignored]
        # Among events of no run no order is promised.
        return [at for at in counted if how != "swapped" or decode(dumps.events[at]["value"])[1]["run_id"]]
    if name == "commands":
        return [at for at, record in enumerate(dumps.commands) if _leaves_something(dumps, record, how)]
    if name == "calls":
        ended, _, _ = runs.follow(dumps.events)
        good = {(run_id, run["attempt"]) for run_id, run in ended.items() if run["status"] == "SUCCEEDED"}
        return [at for at, call in enumerate(dumps.calls) if (call["run_id"], call["attempt"]) in good]
    return range(len(getattr(dumps, name)))


def _leaves_something(dumps: Dumps, record: dict[str, Any], how: str) -> bool:
    """Not what changed nothing and answered nobody; in which order two runs of a job are cancelled is no promise."""
    command = decode(record["value"])[1]
    word = acknowledged.verdicts(dumps.commands, dumps.rules)[command["job_id"]][record["offset"]][1]
    is_order_free = how == "swapped" and command["kind"] in ABOUT_RUNS
    return (word != "unchanged" or command["answer"]) and not is_order_free


def _at_the_end(lines: Sequence[Any], at: int) -> Any:
    line = lines[at]
    if not isinstance(line, dict) or "offset" not in line:
        return line
    place = (line["topic"], line["partition"])
    return line | {"offset": 1 + max(each["offset"] for each in lines if (each["topic"], each["partition"]) == place)}


def _next_of_its_kind(name: str, lines: Sequence[Any], at: int) -> int:
    """The next line with which a swap makes a difference; -1: there is none."""
    for other in range(at + 1, len(lines)):
        if name in _SAID:
            if _said(name, lines[other]) != _said(name, lines[at]):
                return other
        elif _kind(name, lines[other]) == _kind(name, lines[at]):
            return other if _asks(name, lines[other]) != _asks(name, lines[at]) else -1
    return -1


def _asks(name: str, line: dict[str, Any]) -> Any:
    """What a line says: of commands not their names, for nobody was promised an order of equal ones."""
    command = decode(line["value"])[1] if name == "commands" else {}
    return [command[part] for part in ("kind", "spec", "payload")] if command else line["value"]


def _kind(name: str, line: dict[str, Any]) -> tuple[Any, ...]:
    """Lines of one order: of a run, of a job, of a topic."""
    of = decode(line["value"])[1]["run_id"] if name == "events" else line["key"]
    return line["topic"], line["partition"], of


def _said(name: str, line: Any) -> list[Any]:
    return [line[part] if isinstance(line, dict) else getattr(line, part) for part in _SAID[name]]


def _swapped(name: str, one: Any, other: Any) -> tuple[Any, Any]:
    parts = _SAID.get(name, ("value", "headers"))
    if isinstance(one, dict):
        return one | {part: other[part] for part in parts}, other | {part: one[part] for part in parts}
    of_other = {part: getattr(other, part) for part in parts}
    return replace(one, **of_other), replace(other, **{part: getattr(one, part) for part in parts})
