"""JSON of what user code hands us: what orjson itself makes of good values, and no crash over bad ones."""

from __future__ import annotations

import subprocess
import sys
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from enum import Enum, Flag, IntEnum, StrEnum
from typing import Any, ClassVar
from uuid import UUID
from zoneinfo import ZoneInfo

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from waterclock.model.plain_json import NotJson, to_json


@dataclass
class Order:
    number: int
    at: datetime | None = None
    lines: Any = field(default_factory=list)
    _hidden: int = 1
    kind: ClassVar[str] = "order"
    seed: InitVar[int] = 3


@dataclass(slots=True)
class Line:
    name: str
    amount: Any = None
    _hidden: int = 1
    kind: ClassVar[str] = "line"


@dataclass(slots=True)
class Gift(Line):
    wrapping: str = "paper"


@dataclass
class Box(Line):
    """Slots below, a ``__dict__`` above: orjson writes what stands in the latter."""

    size: int = 1


class Colour(Enum):
    RED = "red"
    DAY = date(2026, 11, 21)
    PAIR = (1, "two")


class Level(IntEnum):
    LOW = 1


class Word(StrEnum):
    HELLO = "hello"


class Bits(Flag):
    A = 1
    B = 2


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Rows(list[Any]):
    pass


class Table(dict[Any, Any]):
    pass


def _filled(order: Order, extra: Any) -> Order:
    order.extra = extra  # type: ignore[attr-defined]
    return order


_ZONES = st.sampled_from(
    [
        None,
        UTC,
        *(ZoneInfo(name) for name in ("Europe/Berlin", "Asia/Kathmandu", "America/St_Johns", "Africa/Monrovia")),
    ]
) | st.integers(-1_439, 1_439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
_MOMENTS = st.datetimes(timezones=_ZONES, allow_imaginary=True)
_TEXTS = st.text(max_size=8)
_INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)
_TIMES = st.times().filter(lambda found: not 10_000 <= found.microsecond < 100_000)
"""orjson writes those others wrong, see below."""
_WRITTEN = _MOMENTS | st.dates() | _TIMES | st.uuids() | st.sampled_from([*Colour, *Level, *Word, Bits.A | Bits.B])
_SUBCLASSED = _TEXTS.map(Text) | _INTEGERS.map(Number)
_LEAVES = st.none() | st.booleans() | _INTEGERS | st.floats() | _TEXTS | _WRITTEN | _SUBCLASSED


def _nested(inner: st.SearchStrategy[Any], keys: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    dicts = st.dictionaries(keys, inner, max_size=4)
    lists = st.lists(inner, max_size=4)
    return (
        dicts
        | dicts.map(Table)
        | dicts.map(OrderedDict)
        | dicts.map(lambda found: defaultdict(int, found))
        | lists
        | lists.map(tuple)
        | lists.map(Rows)
        | st.builds(Order, _INTEGERS, _MOMENTS, inner)
        | st.builds(_filled, st.builds(Order, _INTEGERS), inner)
        | st.builds(Line, _TEXTS, inner)
        | st.builds(Gift, _TEXTS, inner)
        | st.builds(Box, _TEXTS, inner)
    )


_VALUES = st.recursive(_LEAVES, lambda inner: _nested(inner, _TEXTS), max_leaves=12)
# No two keys of one text: orjson writes both, and a reader keeps the later one, as a dict does at once.
_KEYS = st.none() | st.booleans() | _INTEGERS | _TEXTS.map(lambda text: f"t{text}") | st.dates() | _MOMENTS | st.uuids()
_KEYED = st.recursive(_LEAVES, lambda inner: _nested(inner, _KEYS), max_leaves=12)


@settings(max_examples=600)
@given(_VALUES)
def test_good_values_are_written_as_orjson_writes_them(value: Any) -> None:
    assert to_json(value) == orjson.dumps(value)


@settings(max_examples=600)
@given(_KEYED)
def test_so_they_are_with_keys_of_all_kinds(value: Any) -> None:
    assert to_json(value, any_keys=True) == orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


@pytest.mark.parametrize(
    "value",
    [
        {Colour.RED: 1, Level.LOW: 2, Word.HELLO: 3, Text("t"): 4, Number(5): 6, time(1, 2): 7, 1.5: 8, True: 9},
        {"nested": [{Colour.DAY: [Level.LOW, {None: Word.HELLO}]}]},
        datetime(1880, 1, 1, tzinfo=ZoneInfo("Europe/Amsterdam")),
        [datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=seconds))) for seconds in (1_170, 1_169, -1_172, -1)],
        [
            datetime(5, 1, 1, tzinfo=UTC).replace(tzinfo=None),
            datetime(2026, 1, 1, 1, 2, 3, 4, UTC),
            time(1, 2, 3, 4),
            date(1, 1, 1),
            UUID(int=7),
        ],
        Box("b", size=2),
        orjson.Fragment(b'{"a":[1,2.5]}'),
        [float("nan"), 1e300, -0.0, 1 << 63],
    ],
)
def test_so_are_the_rare_ones(value: Any) -> None:
    assert to_json(value, any_keys=True) == orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS)


def test_a_time_of_day_keeps_its_microseconds() -> None:
    """Where orjson leaves a zero out: 12 milliseconds became 120."""
    assert to_json(time(1, 2, 3, 12_000)) == b'"01:02:03.012000"'


def test_a_rounded_offset_carries_over_to_the_hour() -> None:
    """Where orjson writes ``+00:60``, which nobody reads."""
    at = datetime(2026, 1, 1, tzinfo=timezone(timedelta(seconds=3_599)))
    assert to_json(at) == b'"2026-01-01T00:00:00+01:00"'


# Bad ones -----------------------------------------------------------------------------------------------------------


class Stuck(tzinfo):
    def utcoffset(self, _: datetime | None) -> timedelta:
        raise KeyError("no zone file")


class Undecided(tzinfo):
    def utcoffset(self, _: datetime | None) -> None:
        return None


class Broken(Enum):
    A = 1

    @property
    def value(self) -> Any:
        raise OSError("no value")


class Unprintable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no")


class Odd(Enum):
    A = 1

    @property
    def value(self) -> Any:
        raise Unprintable


def _unset() -> Line:
    return object.__new__(Line)


def _endless() -> Any:
    found: list[Any] = [Level.LOW]
    found.append(found)
    return found


def _deep(levels: int) -> Any:
    found: Any = Level.LOW
    for _ in range(levels):
        found = [found]
    return found


Pair = namedtuple("Pair", "a b")  # noqa: PYI024 - the very kind that user code has


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_unset, "reading it raised AttributeError: 'Line' object has no attribute 'name'"),
        (lambda: [datetime(2026, 1, 1, tzinfo=Stuck())], "reading it raised KeyError: 'no zone file'"),
        (lambda: {"a": Broken.A}, "reading it raised OSError: no value"),
        (lambda: Odd.A, "reading it raised Unprintable: <the exception could not be printed>"),
        (lambda: object.__new__(UUID), "reading it raised AttributeError: "),
        (lambda: {Broken.A: 1}, "reading it raised OSError: no value"),
        (lambda: orjson.Fragment(b"no json"), "reading it raised JSONDecodeError: "),
        (lambda: orjson.Fragment(b'{"a":'), "reading it raised JSONDecodeError: "),
        (_endless, "nested too deeply, or holds itself"),
        (lambda: _deep(5_000), "nested too deeply, or holds itself"),
        (lambda: _deep(300), "Recursion limit reached"),
        (object, "Type is not JSON serializable: object"),
        (lambda: Pair(1, 2), "Type is not JSON serializable: Pair"),
        (lambda: {1, 2}, "not JSON serializable: set"),
        (lambda: b"bytes", "not JSON serializable: bytes"),
        (lambda: time(1, tzinfo=UTC), "must not have tzinfo"),
        (lambda: {(1, 2): Level.LOW}, "Dict key must be text or another scalar, not tuple"),
        (lambda: {Colour.PAIR: 1}, "Dict key must be text or another scalar, not Colour"),
        (lambda: [Level.LOW, 1 << 64], "Integer exceeds 64-bit range"),
        (lambda: [Word.HELLO, "\ud800"], "not valid UTF-8"),
    ],
)
def test_a_bad_value_is_refused_with_its_reason(make: Callable[[], Any], why: str) -> None:
    with pytest.raises(NotJson) as refused:
        to_json(make(), any_keys=True)
    assert why in str(refused.value)


def test_keys_are_text_where_nothing_else_was_asked_for() -> None:
    for value in ({1: 2}, {Colour.RED: 1}, [{Text("a"): Level.LOW}]):
        with pytest.raises(NotJson, match="Dict key must be str"):
            to_json(value)


def test_a_zone_without_an_opinion_makes_a_time_without_a_zone() -> None:
    assert to_json(datetime(2026, 1, 1, tzinfo=Undecided())) == b'"2026-01-01T00:00:00"'


def test_what_leaves_the_process_is_not_caught() -> None:
    class Leaving(Enum):
        A = 1

        @property
        def value(self) -> Any:
            raise SystemExit

    with pytest.raises(SystemExit):
        to_json(Leaving.A)


_CRASHING = """
import dataclasses, datetime, enum, uuid
from tests.unit.executor_world import attempt_of
from waterclock.model.errors import EmitRefused
from waterclock.workers.executors import ending
from waterclock.workers.executors.emitting import Emissions, Outlet

@dataclasses.dataclass(slots=True)
class Unset:
    name: str

class Stuck(datetime.tzinfo):
    def utcoffset(self, _): raise KeyError("no zone file")

class Broken(enum.Enum):
    A = 1
    @property
    def value(self): raise OSError("no value")

value = {expression}
ended = ending.succeeded(attempt_of(""), value)
print(ended.outcome.name, ended.result, ended.reason)
try:
    Emissions(Outlet("waterclock", lambda _: True), attempt_of("").work).emit("mail", "k", value)
except EmitRefused as refused:
    print(refused)
"""


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("[object.__new__(Unset)]", "has no attribute 'name'"),
        ("{'at': datetime.datetime(2026, 1, 1, tzinfo=Stuck())}", "no zone file"),
        ("Broken.A", "no value"),
        ("object.__new__(uuid.UUID)", "AttributeError"),
    ],
)
def test_what_takes_the_encoder_down_costs_its_handler_the_result_and_nobody_else_anything(
    expression: str, why: str
) -> None:
    """In a process of its own, because it is one that would die."""
    code = _CRASHING.replace("{expression}", expression)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    returned, emitted = done.stdout.splitlines()
    assert returned.startswith("SUCCEEDED b'' result not kept: ")
    assert why in returned
    assert emitted.startswith("The value is neither bytes, text nor JSON: ")
    assert why in emitted
