"""What a run printed, as the API and the command line show it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any
from urllib.parse import quote

import pytest

from tests.unit.api_world import ApiWorld, bearer
from waterclock import cli
from waterclock.clock import SystemClock
from waterclock.commands import run_logs
from waterclock.commands.visible import visible
from waterclock.model.events import Outcome, RunStatus
from waterclock.model.ids import US_PER_S, make_run_id
from waterclock.model.job import Tier
from waterclock.model.run_log import NOTE_SEQ, LogStream
from waterclock.settings import Settings
from waterclock.store.memory import MemoryStore, MemoryTables
from waterclock.store.port import History, LogRow, RunRow

JOB = "default:nightly"
FIRE_AT = SystemClock().now() // US_PER_S * US_PER_S - 3_600 * US_PER_S
RUN = make_run_id(JOB, FIRE_AT)
FENCE = 281_474_976_710_700


def _row(status: RunStatus = RunStatus.SUCCEEDED, attempt: int = 2, rank: int = 32) -> RunRow:
    outcome = {RunStatus.SUCCEEDED: Outcome.SUCCEEDED, RunStatus.FAILED: Outcome.FAILED}.get(status, Outcome.NONE)
    parts: dict[str, Any] = {
        "job_id": JOB, "fire_at": FIRE_AT, "series": 0, "revision": 1, "tier": Tier.HIGH, "origin": "SCHEDULE",
        "status": status, "outcome": outcome, "attempt": attempt, "dispatched_at": FIRE_AT, "started_at": FIRE_AT,
        "ended_at": FIRE_AT + 1, "worker": "w-1", "fence": FENCE + attempt, "error": "", "result": None, "reason": "",
        "zone": "UTC", "tzdata": "", "skipped_count": 0, "skipped_to": 0, "wts": FIRE_AT + attempt * 64 + rank,
    }  # fmt: skip
    return RunRow(**parts)


def _line(seq: int, text: str, attempt: int = 1, stream: LogStream = LogStream.STDOUT) -> LogRow:
    return LogRow(RUN, attempt, FENCE + attempt, seq, FIRE_AT + seq, stream, text, FIRE_AT + seq)


LINES = [
    _line(1, "hello"),
    _line(2, "INFO charged amount=12", stream=LogStream.LOG),
    _line(NOTE_SEQ, "7 more lines", stream=LogStream.NOTE),
    _line(1, "again \x1b[31mred\x1b[0m", attempt=2),
]


# The API -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def world() -> Iterator[ApiWorld]:
    with ApiWorld() as world:
        with world.lock:
            world.store.record(History([_row()])).wait(1)
            world.store.keep_lines(LINES).wait(1)
        yield world


def _get(world: ApiWorld, run: str = RUN, **query: Any) -> Any:
    return world.client.get(f"/api/v1/runs/{quote(run, safe='')}/logs", params=query)


def test_the_lines_of_a_run_are_told_attempt_by_attempt(world: ApiWorld) -> None:
    answer = _get(world).json()

    assert [(line["attempt"], line["stream"], line["text"]) for line in answer["lines"]] == [
        (1, "stdout", "hello"),
        (1, "log", "INFO charged amount=12"),
        (1, "note", "7 more lines"),
        (2, "stdout", "again \x1b[31mred\x1b[0m"),
    ]
    assert (answer["run_id"], answer["more"], answer["final"]) == (RUN, False, True)
    assert answer["lines"][0]["fencing_token"] == FENCE + 1


def test_one_attempt_can_be_asked_for(world: ApiWorld) -> None:
    assert [line["text"] for line in _get(world, attempt=1).json()["lines"]] == [line.text for line in LINES[:3]]
    assert _get(world, attempt=7).json()["lines"] == []


def test_whoever_hands_after_back_gets_what_has_come_since(world: ApiWorld) -> None:
    after = _get(world).json()["after"]
    assert _get(world, after=after).json()["lines"] == []
    with world.lock:
        world.store.keep_lines([_line(2, "later", attempt=2)]).wait(1)

    answer = _get(world, after=after).json()
    assert [line["text"] for line in answer["lines"]] == ["later"]


def test_whoever_follows_misses_no_late_line_of_an_earlier_attempt(world: ApiWorld) -> None:
    after = _get(world).json()["after"]  # behind the first line of attempt 2
    with world.lock:
        world.store.keep_lines([_line(3, "what it died of"), _line(2, "later", attempt=2)]).wait(1)
    told = _get(world, after=after).json()
    assert [line["text"] for line in told["lines"]] == ["what it died of", "later"]
    assert _get(world, after=told["after"]).json()["lines"] == []


def test_whoever_follows_misses_no_earlier_attempt_of_which_nothing_had_come_yet() -> None:
    with ApiWorld() as world:
        with world.lock:
            world.store.record(History([_row(attempt=3)])).wait(1)
            world.store.keep_lines([_line(1, "again", attempt=2)]).wait(1)
        told = _get(world).json()
        assert [line["text"] for line in told["lines"]] == ["again"]
        with world.lock:
            world.store.keep_lines([_line(1, "what it died of")]).wait(1)
        told = _get(world, after=told["after"]).json()
        assert [line["text"] for line in told["lines"]] == ["what it died of"]
        assert _get(world, after=told["after"]).json()["lines"] == []


def test_pages_can_be_small(world: ApiWorld) -> None:
    texts: list[str] = []
    query: dict[str, Any] = {"limit": 1}
    for _ in range(10):
        answer = _get(world, **query).json()
        texts += [line["text"] for line in answer["lines"]]
        query["after"] = answer["after"]
        if not answer["more"]:
            break
    assert texts == [line.text for line in LINES]


def test_another_tenants_lines_are_not_there(world: ApiWorld) -> None:
    path = f"/api/v1/runs/{quote(RUN, safe='')}/logs"
    assert world.client.get(path, headers=bearer(world.key("read"))).status_code == 200
    assert world.client.get(path, headers=bearer(world.key("read", tenant="other"))).status_code == 404


@pytest.mark.parametrize("run", ["default:none@20261121T090000Z", "no run", "default:nightly"])
def test_lines_of_a_run_that_is_unknown_are_a_404(world: ApiWorld, run: str) -> None:
    answer = _get(world, run)
    assert (answer.status_code, answer.json()["type"]) == (404, "urn:waterclock:problem:not-found")


@pytest.mark.parametrize("query", [{"after": "x"}, {"after": "1.2"}, {"limit": 0}, {"attempt": 0}, {"atempt": 1}])
def test_a_question_that_cannot_be_read_is_refused(world: ApiWorld, query: dict[str, Any]) -> None:
    assert _get(world, **query).status_code == 400


# The command line --------------------------------------------------------------------------------------------------


class Desk:
    """The command in this process, on a store in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = MemoryStore(SystemClock(), MemoryTables(SystemClock()))
        self._monkeypatch, self._capsys = monkeypatch, capsys
        monkeypatch.setattr(run_logs, "here", Settings)
        monkeypatch.setattr(run_logs, "open_store", lambda _: nullcontext(self.store))
        monkeypatch.setattr(run_logs, "time", self)
        self.steps: list[Callable[[], None]] = []
        self._now_s = 0.0

    def monotonic(self) -> float:
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Between two looks one more thing happens."""
        self._now_s += seconds
        if self.steps:
            self.steps.pop(0)()

    def put(self, *lines: LogRow, row: RunRow | None = None) -> None:
        if row:
            self.store.record(History([row])).wait(1)
        if lines:
            self.store.keep_lines(lines).wait(1)

    def run(self, *words: str) -> tuple[int, str, str]:
        self._monkeypatch.setattr(sys, "argv", ["waterclock", "run", "logs", *words])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        out, err = self._capsys.readouterr()
        return int(ended.value.code or 0), out, err


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Desk:
    return Desk(monkeypatch, capsys)


def test_lines_are_headed_by_their_attempt_and_keep_terminals_safe(desk: Desk) -> None:
    desk.put(*LINES, row=_row())
    code, out, _ = desk.run(RUN, "-o", "table")
    lines = out.splitlines()

    assert code == 0
    assert lines[0].startswith("--- attempt 1, ")
    assert [line.split(maxsplit=1)[1] for line in lines[1:4]] == [
        "out  hello", "log  INFO charged amount=12", "note 7 more lines"
    ]  # fmt: skip
    assert lines[4].startswith("--- attempt 2 on w-1, ")
    assert lines[5].endswith("out  again \\x1b[31mred\\x1b[0m")
    assert "\x1b" not in out


def test_a_program_gets_lines_as_json(desk: Desk) -> None:
    desk.put(*LINES, row=_row())
    code, out, _ = desk.run(RUN, "--attempt", "2")

    (line,) = [json.loads(text) for text in out.splitlines()]
    assert (code, line["attempt"], line["stream"], line["text"]) == (0, 2, "stdout", LINES[3].text)


def test_a_run_that_is_unknown_says_what_to_do(desk: Desk) -> None:
    code, _, err = desk.run(RUN)
    assert code == 3
    assert "waterclock run list default:nightly" in err


def test_following_ends_with_the_run_and_its_last_lines(desk: Desk) -> None:
    desk.put(_line(1, "first"), row=_row(RunStatus.RUNNING, 1, rank=8))

    desk.steps = [lambda: desk.put(row=_row(RunStatus.SUCCEEDED, 1)), lambda: None, lambda: desk.put(_line(2, "last"))]
    code, out, _ = desk.run(RUN, "-f")

    assert code == 0
    assert [json.loads(text)["text"] for text in out.splitlines()] == ["first", "last"]


def test_following_goes_from_attempt_to_attempt_and_tells_a_failure(desk: Desk) -> None:
    desk.put(_line(1, "one"), row=_row(RunStatus.RUNNING, 1, rank=8))
    late = _line(2, "two, late")

    desk.steps = [
        lambda: desk.put(_line(1, "retried", attempt=2), row=_row(RunStatus.RUNNING, 2, rank=8)),
        lambda: desk.put(late, _line(NOTE_SEQ, "9 more", attempt=2, stream=LogStream.NOTE)),
        lambda: desk.put(row=_row(RunStatus.FAILED, 2)),
    ]
    code, out, err = desk.run(RUN, "-f")

    assert code == 7
    assert [json.loads(text)["text"] for text in out.splitlines()] == ["one", "retried", "two, late", "9 more"]
    assert "ended FAILED" in err


def test_following_has_an_end_also_where_the_run_has_none(desk: Desk) -> None:
    desk.put(row=_row(RunStatus.RUNNING, 1, rank=8))
    code, _, err = desk.run(RUN, "-f", "--within", "0.1")

    assert code == 6
    assert "has not ended within 0.1 s: RUNNING" in err


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain, ümlaut 👩\N{ZERO WIDTH JOINER}🔬", "plain, ümlaut 👩\N{ZERO WIDTH JOINER}🔬"),
        ("a\tb", "a\tb"),
        ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
        ("\r\x00\x7f\x9b", "\\x0d\\x00\\x7f\\x9b"),
        ("\N{RIGHT-TO-LEFT OVERRIDE}x\N{LINE SEPARATOR}", "\\u202ex\\u2028"),
    ],
)
def test_what_could_steer_a_terminal_is_spelt_out(text: str, shown: str) -> None:
    assert visible(text) == shown
