"""Dead letters are found behind any number of others, by name and by filter, each of them once."""

from __future__ import annotations

import pytest

from waterclock.clock import ManualClock
from waterclock.dead_letters import finding
from waterclock.dead_letters.acting import Asked, redrive_of
from waterclock.dead_letters.choosing import Choice, Letter, LetterState
from waterclock.dead_letters.finding import Mark, find, mark_of_run, read_letters
from waterclock.log.memory import MemoryLog
from waterclock.log.memory_cluster import MemoryCluster
from waterclock.model.errors import NotFound, RequestError
from waterclock.model.events import DeadLetter, Origin, Outcome, RunStatus
from waterclock.model.ids import make_run_id
from waterclock.model.job import Tier
from waterclock.store.memory import MemoryStore
from waterclock.store.port import FailureRow, History, LetterAction, LetterRow, RunRow
from waterclock.wire.messages import dead_letter_message
from waterclock.wire.names import Names

NOW = 1_795_000_000_000_000
NAMES = Names("waterclock")
ALL = LetterState.ALL


class Shelf:
    """A history of failures. Pages hold ten."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        self.store = MemoryStore(self.clock)

    def failed(self, name: str, series: int, ended_at: int, *, redriven: bool = False) -> str:
        job_id = f"acme:{name}"
        run = RunRow(job_id, NOW, series, 1, Tier.HIGH, Origin.SCHEDULE, RunStatus.FAILED, Outcome.FAILED, 1, NOW, NOW,
                     ended_at, "w", 1, "", None, "", "", "", 0, 0, NOW)  # fmt: skip
        failure = FailureRow(job_id, NOW, series, "", ended_at, "ValueError", "f", NOW)
        done = [LetterRow(job_id, NOW, series, "", LetterAction.REDRIVEN, "again", "", NOW)] if redriven else []
        self.store.record(History([run], failures=[failure], letters=done)).wait(1)
        return make_run_id(job_id, NOW, series)

    def find(self, choice: Choice, limit: int = 1_000, after: Mark | None = None, most: int = 20) -> finding.Found:
        return find(self.store, "acme", choice, limit, after, most)


@pytest.fixture(autouse=True)
def short_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_PAGE", 10)


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_STRETCH", 10)
    monkeypatch.setattr(finding, "_SEARCHED_MAX", 30)


def test_letters_behind_a_bound_are_reached_by_going_on() -> None:
    shelf = Shelf()
    for number in range(50):
        shelf.failed("noisy", number + 1, NOW - number, redriven=True)
    quiet = [shelf.failed("noisy", 100 + number, NOW - 1_000 - number) for number in range(5)]

    found, turns = shelf.find(Choice(job_id="acme:noisy")), 0
    while not found.letters:
        assert not found.is_whole
        assert found.next_at is not None
        found, turns = shelf.find(Choice(job_id="acme:noisy"), after=found.next_at), turns + 1
    seen = [letter.run_id for letter in found.letters]
    while found.next_at is not None:
        found = shelf.find(Choice(job_id="acme:noisy"), after=found.next_at)
        seen += [letter.run_id for letter in found.letters]
    assert (seen, turns, found.is_whole) == (quiet, 2, True)


def test_a_letter_is_found_by_its_name_behind_any_number_of_others() -> None:
    shelf = Shelf()
    for number in range(50):
        shelf.failed("noisy", number + 1, NOW - number)
    old = shelf.failed("quiet", 7, NOW - 29 * 86_400_000_000)
    found = shelf.find(Choice(state=ALL, run_ids=frozenset([old])))

    assert [letter.run_id for letter in found.letters] == [old]
    assert found.is_whole
    assert shelf.find(Choice(run_ids=frozenset([old]), since=NOW - 1_000)).letters == []
    assert shelf.find(Choice(run_ids=frozenset([old]), job_id="acme:noisy")).letters == []


def test_letters_of_one_instant_are_each_found_once_however_many_they_are() -> None:
    shelf = Shelf()
    made = {shelf.failed(f"job-{number % 7}", number + 1, NOW - 5) for number in range(45)}
    last = shelf.failed("job-0", 99, NOW - 6)
    found = shelf.find(Choice(), most=1_000)

    assert {letter.run_id for letter in found.letters} == {*made, last}
    assert (len(found.letters), found.letters[-1].run_id) == (46, last)


def test_named_letters_beyond_the_limit_are_reached_by_going_on() -> None:
    shelf = Shelf()
    made = [shelf.failed("named", number + 1, NOW - number) for number in range(5)]
    choice = Choice(run_ids=frozenset(made))
    first = shelf.find(choice, 3)
    assert first.next_at is not None
    rest = shelf.find(choice, 3, first.next_at)

    assert [letter.run_id for letter in [*first.letters, *rest.letters]] == made
    assert rest.is_whole


def test_going_on_behind_a_run_wants_one_that_was_given_up() -> None:
    shelf = Shelf()
    run = shelf.failed("known", 1, NOW - 3)
    assert mark_of_run(shelf.store, run) == Mark(NOW - 3, run)
    with pytest.raises(NotFound):
        mark_of_run(shelf.store, "acme:known@20261121T090000Z")


class Topic:
    """Dead letters as a router writes them, one a minute, all of one partition."""

    def __init__(self) -> None:
        self.clock = ManualClock(NOW)
        cluster = MemoryCluster(self.clock)
        cluster.create_topic(NAMES.dlq, 1)
        self.log = MemoryLog(cluster, "router")

    def give_up(self, series: int, *, clock_ahead_us: int = 0) -> Letter:
        self.clock.advance(60_000_000)
        now = self.clock.now()
        run_id, ended_at = make_run_id("acme:nightly", NOW, series), now + clock_ahead_us
        letter = DeadLetter(run_id, "acme:nightly", "lost", "", "", "f", 1, ended_at, ended_at, now, None)
        self.log.appender().append(dead_letter_message(NAMES, letter))
        return Letter(FailureRow("acme:nightly", NOW, series, "", ended_at, "lost", "f", now), None)

    def give_up_behind_a_flood(self, series: int) -> Letter:
        """A hundred others come first."""
        for number in range(100):
            self.give_up(10 + number)
        return self.give_up(series)

    def has(self, *letters: Letter) -> list[bool]:
        found = read_letters(self.log, NAMES, letters)
        return [found.get(letter.run_id) is not None for letter in letters]


def test_a_letter_of_a_worker_whose_clock_is_ahead_is_read() -> None:
    topic = Topic()
    letter = topic.give_up(1, clock_ahead_us=600_000_000)
    assert topic.has(letter) == [True]


@pytest.mark.usefixtures("short_search")
def test_letters_before_and_behind_a_flood_are_read_together() -> None:
    topic = Topic()
    before = topic.give_up(1)
    behind = topic.give_up_behind_a_flood(2)
    assert topic.has(behind, before) == [True, True]


@pytest.mark.usefixtures("short_search")
def test_a_letter_that_is_gone_hides_none_behind_a_flood() -> None:
    topic = Topic()
    gone = Letter(FailureRow("acme:nightly", NOW, 1, "", 0, "lost", "f", NOW - 86_400_000_000), None)
    behind = topic.give_up_behind_a_flood(2)
    assert topic.has(gone, behind) == [False, True]


@pytest.mark.usefixtures("short_search")
def test_who_was_not_read_so_far_is_not_told_that_its_letter_is_gone() -> None:
    topic = Topic()
    meant = [topic.give_up(number) for number in range(100)][::12]
    found = read_letters(topic.log, NAMES, meant)

    said = [found.get(letter.run_id, "gone") for letter in meant]
    assert "gone" not in said
    assert None not in said[:3]
    assert said[3:] == [None] * 6
    with pytest.raises(RequestError, match="not read as far"):
        redrive_of(meant[-1], found, Asked("me", "c1", NOW))
