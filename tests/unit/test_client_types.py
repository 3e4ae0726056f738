"""The types of the clients: a program that is checked by them may say all that the API takes, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, TypedDict, Union, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from pydantic import BaseModel

from waterclock.api import shapes
from waterclock.api.backfill_shapes import Backfill, BackfillBody
from waterclock.api.cancelling import CancelManyBody
from waterclock.api.dag_run_shapes import DagRunInFull
from waterclock.api.letter_views import DeadLetter_, DiscardBody, RedriveBody
from waterclock.api.part_shapes import Retry
from waterclock.clients.backfills import BackfillChoice, BackfillView
from waterclock.clients.dag_runs import DagRunView
from waterclock.clients.definition import JobChanges, JobDefinition
from waterclock.clients.http import JobView, LetterChoice, LetterView, RedriveChoice, RunChoice, RunView, StatusView
from waterclock.model.document import spec_from_document

SAID_OTHERWISE = {"name", "from", "to"}
"""What is an argument of its own in the client."""


class Asked(BackfillChoice, total=False):
    """``create`` and ``count`` are two verbs, where the API has a flag."""

    dry_run: bool


def options(hint: Any) -> Iterator[Any]:
    """What a hint allows, one by one; words as themselves, None left out."""
    if get_origin(hint) in (Union, UnionType):
        for each in get_args(hint):
            yield from options(each)
    elif get_origin(hint) is Literal:
        yield from get_args(hint)
    elif hint is not NoneType:
        yield hint


def keys(hint: type) -> dict[str, Any]:
    if is_typeddict(hint):
        return get_type_hints(hint)
    model: type[BaseModel] = hint
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}


def left_out(ours: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Where ``theirs``, a hint of the API's, allows what ``ours``, one of the client's, does not."""
    known = [*options(ours)]
    for option in options(theirs):
        if Any in known or option in known or (isinstance(option, str) and str in known):
            continue
        if option is bool and place.endswith("/retry"):  # the shape cannot say `false` alone; the door refuses `true`
            assert False in known
        elif get_origin(option) in (list, dict):
            same = [each for each in known if get_origin(each) is get_origin(option)]
            found = [[*left_out(get_args(each)[-1], get_args(option)[-1], f"{place}/")] for each in same]
            yield from min(found, key=len, default=[f"{place}: {option}"])
        elif isinstance(option, type) and issubclass(option, BaseModel):
            found = [[*differences(each, option, place)] for each in known if is_typeddict(each)]
            yield from min(found, key=len, default=[f"{place}: {option}"])
        else:
            yield f"{place}: {option!r}"


def differences(ours: type, theirs: type[BaseModel], place: str = "") -> Iterator[str]:
    """What only one of them knows, and what the client's refuses although the API's allows it."""
    mine, asked = keys(ours), {key: hint for key, hint in keys(theirs).items() if place or key not in SAID_OTHERWISE}
    yield from (f"{place}/{key}" for key in mine.keys() ^ asked.keys())
    for key in mine.keys() & asked.keys():
        yield from left_out(mine[key], asked[key], f"{place}/{key}")


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (JobDefinition, shapes.JobDefinition),
        (JobChanges, shapes.JobChange),
        (RunChoice, CancelManyBody),
        (LetterChoice, DiscardBody),
        (RedriveChoice, RedriveBody),
        (Asked, BackfillBody),
    ],
)
def test_the_types_of_a_request_are_those_of_its_description(ours: type, theirs: type[BaseModel]) -> None:
    assert [*differences(ours, theirs)] == []


def test_a_change_may_take_away_whatever_a_definition_may_say() -> None:
    assert JobChanges.__annotations__.keys() == JobDefinition.__annotations__.keys()
    hints = get_type_hints(JobChanges).values()
    assert all(hint is Any or NoneType in get_args(hint) for hint in hints)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (JobView, shapes.Job),
        (StatusView, shapes.Status),
        (RunView, shapes.RunInFull),
        (LetterView, DeadLetter_),
        (DagRunView, DagRunInFull),
        (BackfillView, Backfill),
    ],
)
def test_what_the_api_answers_the_types_know(ours: type, theirs: type[BaseModel]) -> None:
    assert keys(theirs).keys() <= keys(ours).keys()


class ShortRetry(TypedDict, total=False):
    backoff: Literal["fixed"]
    pause: str


class ShortJob(TypedDict, total=False):
    retry: ShortRetry | Literal[False]


class Shape(BaseModel):
    retry: Retry | bool | None


def test_a_missing_word_and_a_key_of_ones_own_are_seen() -> None:
    found = {*differences(ShortJob, Shape)}
    assert {"/retry/pause", "/retry/delay", "/retry/backoff: 'list'"} <= found
    assert "/retry/backoff: 'fixed'" not in found


def fits(hint: Any, value: Any) -> bool:
    """Whether a type checker would let ``value`` pass as ``hint``."""
    inner = get_args(hint)
    if get_origin(hint) in (Union, UnionType):
        return any(fits(each, value) for each in inner)
    if get_origin(hint) is Literal:
        return value in inner
    if is_typeddict(hint):
        parts = get_type_hints(hint)
        return isinstance(value, dict) and all(key in parts and fits(parts[key], value[key]) for key in value)
    if get_origin(hint) in (list, dict):
        items = value.values() if isinstance(value, dict) else value
        return isinstance(value, get_origin(hint)) and all(fits(inner[-1], each) for each in items)
    return hint is Any or isinstance(value, hint)


@pytest.mark.parametrize(
    "words",
    [
        {"on": {"all": [{"topic": "shop.orders", "headers": {"type": "placed"}}, {"job": "stock"}], "within": "2h"}},
        {"on": {"any": [{"topic": "shop.orders"}, {"job": "stock", "ended": "any"}]}},
        {"cron": "0 9 * * *", "jitter": {"window": "10m", "placement": "balanced", "offset": "7s"}},
        {"cron": "0 9 * * *", "jitter": "10m", "calendars": [], "on_calendar": "skip"},
    ],
)
def test_what_the_door_takes_the_types_allow(words: dict[str, Any]) -> None:
    document = {"handler": "bill", **words}
    spec_from_document(document)
    assert fits(JobDefinition, document)
    assert not fits(JobDefinition, {**document, "on_calender": "skip"})
