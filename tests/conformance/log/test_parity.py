"""The fake earns its trust: what holds in memory holds on the broker, case by case."""

from __future__ import annotations

import pytest

from .conftest import WORLDS, case_of, passed_key


def test_both_worlds_passed_the_same_cases(request: pytest.FixtureRequest) -> None:
    collected: dict[str, set[str]] = {name: set() for name in WORLDS}
    for item in request.session.items:
        case = case_of(item)
        if case is not None:
            collected[case[0]].add(case[1])
            assert not list(item.iter_markers("xfail")), f"{case[1]} is expected to fail"
    if not all(collected.values()):
        pytest.skip("NOT COMPARED: cases of one world alone were asked for")
    assert collected["memory"] == collected["kafka"]
    passed = request.config.stash[passed_key]
    if not passed["kafka"]:
        pytest.skip("NOT COMPARED: nothing ran on a real broker")
    assert passed["memory"] == passed["kafka"] == collected["memory"]
