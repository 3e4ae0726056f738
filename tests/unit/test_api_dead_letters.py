"""Dead letters by the API: found, grouped, shown with their bytes, redriven once, put away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.unit.api_world import NAMES, bearer, until
from tests.unit.failing_world import API, FailingWorld
from tests.unit.test_api_jobs import problem
from waterclock.api import pacing
from waterclock.api.problems import busy
from waterclock.dead_letters.acting import REDRIVES_MAX, TRIES_MAX, Asked, redrive_of
from waterclock.dead_letters.choosing import Letter
from waterclock.model.events import DeadLetter, EventKind
from waterclock.model.ids import job_of_run
from waterclock.store.port import LetterAction, LetterRow
from waterclock.wire import codec


@pytest.fixture(scope="module")
def world() -> Iterator[FailingWorld]:
    with FailingWorld() as world:
        world.signs_in()
        yield world


def letters(world: FailingWorld, **query: Any) -> list[dict[str, Any]]:
    answer = world.client.get(f"{API}/dlq", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["letters"]
    return found


def redriven(world: FailingWorld, **body: Any) -> dict[str, Any]:
    """What the API says once the dispatcher has answered: on a busy machine it may not at first, and is asked again."""
    for _ in range(5):
        answer = world.client.post(f"{API}/dlq/redrive", json=body)
        assert answer.status_code == 200, answer.text
        told: dict[str, Any] = answer.json()
        if told["done"] or told["refused"] or body.get("dry_run"):
            break
    return told


def test_a_run_that_was_given_up_is_an_open_letter(world: FailingWorld) -> None:
    world.create(name="plain")
    run_id = world.given_up("plain", "cannot reach 10.0.0.7")
    (letter,) = letters(world, job="plain")

    assert (letter["run_id"], letter["state"], letter["attempts"]) == (run_id, "open", 1)
    assert (letter["error_class"], letter["error"]) == ("ValueError", "cannot reach 10.0.0.7")
    assert letters(world, job="plain", error_class="KeyError") == []


def test_letters_of_one_cause_are_one_group(world: FailingWorld) -> None:
    world.create(name="grouped")
    for number in range(3):
        world.given_up("grouped", f"row {number} is bad")
    newest = world.given_up("grouped", "no such table")
    answer = world.client.get(f"{API}/dlq", params={"job": "grouped", "group": "true"}).json()

    assert answer["is_whole"]
    assert [(group["letters"], group["jobs"]) for group in answer["groups"]] == [(3, 1), (1, 1)]
    assert answer["groups"][1]["sample"] == newest


def test_pages_of_letters_hold_each_of_them_once(world: FailingWorld) -> None:
    world.create(name="paged")
    made = {world.given_up("paged") for _ in range(5)}
    seen: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(4):
        page = world.client.get(f"{API}/dlq", params={"job": "paged", "limit": 2, **cursor}).json()
        seen += [letter["run_id"] for letter in page["letters"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert len(seen) == 5
    assert set(seen) == made


def test_a_letter_is_shown_with_what_it_was_to_do(world: FailingWorld) -> None:
    world.create(name="shown")
    run_id = world.given_up("shown", payload={"row": 7})
    shown = world.client.get(f"{API}/dlq/{run_id}").json()

    assert (shown["state"], shown["work"]["handler"], shown["work"]["payload"]) == ("open", "demo.ping", {"row": 7})
    assert (shown["redrives"], shown["error_class"]) == (0, "ValueError")


def test_a_redrive_is_a_new_run_linked_to_the_one_that_was_given_up(world: FailingWorld) -> None:
    world.create(name="again")
    run_id = world.given_up("again", payload={"row": 1})
    told = redriven(world, run_ids=[run_id])

    (done,) = told["done"]
    assert (told["matched"], told["refused"], told["left"], done["run_id"]) == (1, [], 0, run_id)
    until(lambda: world.client.get(f"{API}/runs/{done['redriven_as']}").status_code == 200)
    made = world.client.get(f"{API}/runs/{done['redriven_as']}").json()
    assert (made["linked_run"], made["made_by"]) == (run_id, "redrive")
    assert world.work_of(done["redriven_as"]).payload == b'{"row":1}'
    until(lambda: letters(world, job="again") == [])  # its row is written beside the run's, not with it
    (letter,) = letters(world, job="again", state="redriven")
    assert letter["redriven_as"] == done["redriven_as"]


def test_a_letter_is_not_redriven_twice_by_accident_and_is_by_force(world: FailingWorld) -> None:
    world.create(name="twice")
    run_id = world.given_up("twice")
    first = redriven(world, run_ids=[run_id])["done"][0]["redriven_as"]
    again = redriven(world, run_ids=[run_id], state="all")["done"][0]["redriven_as"]
    forced = redriven(world, run_ids=[run_id], state="all", force=True)["done"][0]["redriven_as"]

    assert again == first != forced


def test_a_forced_redrive_made_again_before_history_shows_it_makes_no_second_run(world: FailingWorld) -> None:
    world.create(name="forced")
    run_id = world.given_up("forced")
    read, asked = {run_id: letter_of(world, run_id)}, Asked("ann", "c-1", world.clock.now())
    done = LetterRow("default:forced", 0, 0, "", LetterAction.REDRIVEN, "default:forced@x", "", 7)
    (failure,) = [each for each in world.failures() if each.job_id == "default:forced"]

    def key(done: LetterRow | None, command_id: str = "c-1", *, force: bool = True) -> str:
        return redrive_of(
            Letter(failure, done), read, asked._replace(command_id=command_id), force=force
        ).idempotency_key

    assert key(done) == key(done, "c-2") != key(done._replace(at=8))
    assert key(None) != key(None, force=False)


def letter_of(world: FailingWorld, run_id: str) -> DeadLetter:
    found = (codec.decode_dead_letter(record.value) for record in world.all_of(NAMES.dlq))
    return next(letter for letter in found if letter.run_id == run_id)


def test_a_payload_can_be_mended_on_the_way(world: FailingWorld) -> None:
    world.create(name="mended")
    run_id = world.given_up("mended", payload={"row": "bad"})
    made = redriven(world, run_ids=[run_id], payload={"row": "good"})["done"][0]["redriven_as"]

    assert world.work_of(made).payload == b'{"row":"good"}'
    assert world.work_of(run_id).payload == b'{"row":"bad"}'


def test_work_that_goes_round_is_stopped_until_it_is_forced(world: FailingWorld) -> None:
    world.create(name="round")
    run_id = world.given_up("round", redrives=REDRIVES_MAX)
    told = redriven(world, run_ids=[run_id])
    assert (told["done"], [refused["run_id"] for refused in told["refused"]]) == ([], [run_id])

    made = redriven(world, run_ids=[run_id], force=True)["done"][0]["redriven_as"]
    assert world.work_of(made).redrives == REDRIVES_MAX + 1


def test_a_dry_run_changes_nothing_and_counts_by_cause(world: FailingWorld) -> None:
    world.create(name="dry")
    made = [world.given_up("dry", "same cause 1"), world.given_up("dry", "same cause 2")]
    before = len(world.works())
    told = redriven(world, job="dry", dry_run=True)

    assert (told["matched"], told["done"], told["groups"][0]["letters"]) == (2, [], 2)
    assert len(world.works()) == before
    assert {letter["run_id"] for letter in letters(world, job="dry")} == set(made)


def test_a_redrive_beyond_its_cap_goes_on_by_its_cursor(world: FailingWorld) -> None:
    world.create(name="long")
    made = {world.given_up("long") for _ in range(5)}
    body: dict[str, Any] = {"job": "long", "state": "all", "cap": 2}
    seen: list[str] = []
    told: dict[str, Any] = {"next_cursor": ""}
    while told["next_cursor"] is not None:
        told = redriven(world, **body, cursor=told["next_cursor"])
        seen += [done["run_id"] for done in told["done"]]
    assert told["is_whole"]
    assert sorted(seen) == sorted(made)


def test_what_a_redrive_did_not_reach_in_time_lies_behind_its_cursor(
    world: FailingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(name="hasty")
    made = {world.given_up("hasty") for _ in range(5)}
    monkeypatch.setattr("waterclock.api.pacing.WITHIN_S", 0.5)
    first = redriven(world, job="hasty", state="all", rate_per_s=4)
    monkeypatch.undo()
    rest = redriven(world, job="hasty", state="all", cursor=first["next_cursor"])

    assert 0 < first["left"] == 5 - len(first["done"]) == len(rest["done"])
    assert {done["run_id"] for done in [*first["done"], *rest["done"]]} == made


@pytest.mark.parametrize("cursor", ["!", "MTIzfG5vIHJ1bg", "MTIzfHh5eg"])
def test_a_foreign_cursor_is_refused(world: FailingWorld, cursor: str) -> None:
    problem(world.client.get(f"{API}/dlq", params={"cursor": cursor}), 400, "bad-request")
    problem(world.client.post(f"{API}/dlq/redrive", json={"job": "x", "cursor": cursor}), 400, "bad-request")


def test_a_discarded_letter_is_no_longer_open_and_says_who_did_it(world: FailingWorld) -> None:
    world.create(name="away")
    run_id = world.given_up("away")
    answer = world.client.post(f"{API}/dlq/discard", json={"run_ids": [run_id], "note": "known"})

    assert [done["run_id"] for done in answer.json()["done"]] == [run_id]
    until(lambda: letters(world, job="away") == [])
    (letter,) = letters(world, job="away", state="discarded")
    assert letter["done_by"]
    assert world.client.get(f"{API}/dlq/{run_id}").json()["state"] == "discarded"


def test_a_redrive_outlives_its_job(world: FailingWorld) -> None:
    world.create(name="gone")
    run_id = world.given_up("gone")
    assert world.client.delete(f"{API}/jobs/gone").status_code == 200
    made = redriven(world, run_ids=[run_id])["done"][0]["redriven_as"]
    assert job_of_run(made) == "default:gone"
    assert world.work_of(made).redrives == 1


def test_a_letter_that_the_topic_no_longer_has_is_named_and_the_others_go(world: FailingWorld) -> None:
    world.create(name="partly")
    whole = world.given_up("partly")
    bare = world.triggered("partly")
    world.ended(EventKind.ATTEMPT_FAILED, bare, world.started(bare))
    world.event(EventKind.RUN_FAILED, bare, 1, reason="ValueError")
    until(lambda: len(letters(world, job="partly")) == 2)
    told = redriven(world, job="partly")

    assert [done["run_id"] for done in told["done"]] == [whole]
    assert [refused["run_id"] for refused in told["refused"]] == [bare]


def test_a_rate_is_kept(world: FailingWorld) -> None:
    world.create(name="slowly")
    for _ in range(6):
        world.given_up("slowly")
    began_s = world.clock.monotonic_s()
    told = redriven(world, job="slowly", rate_per_s=8)
    assert len(told["done"]) == 6
    assert world.clock.monotonic_s() - began_s >= 4 / 8


def test_a_slow_rate_answers_within_its_bound(world: FailingWorld) -> None:
    world.create(name="slowest")
    for _ in range(3):
        world.given_up("slowest")
    began_s = world.clock.monotonic_s()
    told = redriven(world, job="slowest", rate_per_s=0.1)
    assert (len(told["done"]), told["left"]) == (1, 2)
    assert world.clock.monotonic_s() - began_s < 8


def test_nobody_sees_or_touches_another_tenants_letters(world: FailingWorld) -> None:
    world.create(name="private")
    run_id = world.given_up("private")
    stranger = bearer(world.key(tenant="other"))

    assert world.client.get(f"{API}/dlq", headers=stranger).json()["letters"] == []
    problem(world.client.get(f"{API}/dlq/{run_id}", headers=stranger), 404, "not-found")
    for action in ("redrive", "discard"):
        answer = world.client.post(f"{API}/dlq/{action}", json={"run_ids": [run_id]}, headers=stranger)
        problem(answer, 404, "not-found")
    assert [letter["run_id"] for letter in letters(world, job="private")] == [run_id]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"state": "open"}, ""),
        ({"job": "x", "state": "lost"}, "/state"),
        ({"job": "x", "since": "yesterday"}, "/since"),
        ({"job": "x", "sinse": "1d"}, "/sinse"),
        ({"job": "x", "cap": 100_000}, "/cap"),
        ({"job": "x", "payload_base64": "?"}, "/payload_base64"),
        ({"job": "x", "payload": "x" * 70_000}, "/payload"),
    ],
)
def test_an_unclear_redrive_is_refused_with_the_place(world: FailingWorld, body: dict[str, Any], pointer: str) -> None:
    document = problem(world.client.post(f"{API}/dlq/redrive", json=body), 422, "invalid")
    assert document["errors"][0]["pointer"] == pointer


def test_a_redrive_that_the_limits_of_its_job_drop_is_told_as_refused(world: FailingWorld) -> None:
    world.create(name="limited", overlap="skip")
    run_id = world.given_up("limited")
    world.triggered("limited")
    told = redriven(world, run_ids=[run_id])
    assert told["done"] == []
    (refused,) = told["refused"]
    assert refused["run_id"] == run_id
    assert "the limits of its job have dropped" in refused["why"]
    assert [letter["state"] for letter in letters(world, job="limited")] == ["open"]


def test_a_letter_whose_redrive_was_dropped_can_be_redriven_once_there_is_room(world: FailingWorld) -> None:
    world.create(name="roomy", overlap="skip")
    run_id = world.given_up("roomy")
    busy = world.triggered("roomy")
    for _ in range(2):  # the second one is no repeat of the first
        (refused,) = redriven(world, run_ids=[run_id])["refused"]
        dropped = refused["why"].split("dropped ")[1].partition(",")[0]
        until(lambda dropped=dropped: world.status_of(dropped) == "SKIPPED")
    world.ended(EventKind.ATTEMPT_SUCCEEDED, busy, world.started(busy))
    until(lambda: world.status_of(busy) == "SUCCEEDED")
    (done,) = redriven(world, run_ids=[run_id])["done"]
    until(lambda: world.status_of(done["redriven_as"]) == "PENDING")
    (same,) = redriven(world, run_ids=[run_id], state="all")["done"]
    assert same["redriven_as"] == done["redriven_as"]


def test_a_redrive_that_is_dropped_again_and_again_asks_for_no_endless_chain(world: FailingWorld) -> None:
    """Each try has to ask for all that were before it."""
    world.create(name="shut", overlap="skip")
    run_id = world.given_up("shut")
    world.triggered("shut")
    told = []
    for _ in range(TRIES_MAX + 2):
        (refused,) = redriven(world, run_ids=[run_id])["refused"]
        dropped = refused["why"].split("dropped ")[1].partition(",")[0]
        told.append(dropped)
        until(lambda dropped=dropped: world.status_of(dropped) == "SKIPPED")
    assert told[-1] == told[-2] == told[TRIES_MAX]
    assert len(set(told)) == TRIES_MAX + 1
    assert "make it with force" in refused["why"]


def test_redrives_that_were_dropped_often_are_tried_anew_within_the_time_of_the_request(
    world: FailingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients wait for 10 s; each try has to ask for all that were before it."""
    world.create(name="patient", overlap="skip")
    made = {world.given_up("patient") for _ in range(2)}
    world.triggered("patient")
    for _ in range(3):
        for refused in redriven(world, job="patient", rate_per_s=1_000)["refused"]:
            dropped = refused["why"].split("dropped ")[1].partition(",")[0]
            until(lambda dropped=dropped: world.status_of(dropped) == "SKIPPED")
    monkeypatch.setattr("waterclock.api.pacing.WITHIN_S", 1.0)
    began_s = world.clock.monotonic_s()
    told = redriven(world, job="patient", rate_per_s=2)
    assert world.clock.monotonic_s() - began_s < 3.0, "not a second for each try"
    assert {refused["run_id"] for refused in told["refused"]} == made
    assert "ask again" in told["refused"][-1]["why"]


def test_what_was_redriven_is_told_where_there_is_no_room_to_try_the_dropped_ones_anew(
    world: FailingWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.create(name="crowded", overlap="skip")
    dropped_before = world.given_up("crowded")
    world.triggered("crowded")
    (refused,) = redriven(world, run_ids=[dropped_before])["refused"]
    dropped = refused["why"].split("dropped ")[1].partition(",")[0]
    until(lambda: world.status_of(dropped) == "SKIPPED")
    world.create(name="free")
    first = world.given_up("free")
    asked: list[int] = []
    give_all = pacing.give_all

    async def given(services: Any, commands: Any) -> Any:
        asked.append(len(commands))
        if len(asked) > 1:
            raise busy("full")
        return await give_all(services, commands)

    monkeypatch.setattr(pacing, "give_all", given)
    told = redriven(world, run_ids=[first, dropped_before])
    assert asked == [2, 1]
    assert [done["run_id"] for done in told["done"]] == [first]
    assert [each["run_id"] for each in told["refused"]] == [dropped_before]
    assert "ask again" in told["refused"][0]["why"]
