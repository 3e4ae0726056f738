"""The suite is worth as much as its likeness: what passed in memory is what passed on the real node."""

from __future__ import annotations

import pytest


def test_both_sides_passed_the_same_cases(passed: dict[str, set[str]], request: pytest.FixtureRequest) -> None:
    collected = {item.name for item in request.session.items if "conformance/store/" in item.nodeid}
    if not any("[cassandra" in name for name in collected):
        pytest.skip("only one side was asked for")
    if not passed["cassandra"]:
        pytest.skip("NOT TESTED: the real side had no server")

    assert passed["memory"] == passed["cassandra"]
    print(f"\nboth stores passed the same {len(passed['memory'])} cases")
