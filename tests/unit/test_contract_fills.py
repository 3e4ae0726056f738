"""The check of the API's contract can ask about something that is there, on every route that names it in its path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.api_contract import Server
from tests.unit.api_world import ApiWorld, until

NO_DEAD_LETTER = "/api/v1/dlq/{run_id}"


class InMemory(Server):
    """The check's own server, asked without a stack."""

    def __init__(self, world: ApiWorld) -> None:
        self._client = world.client
        self.description: dict[str, Any] = world.client.get("/openapi.json").json()

    def send(self, method: str, path: str, **more: Any) -> Any:
        return self._client.request(method, path, **more)


@pytest.fixture(scope="module")
def server() -> Iterator[InMemory]:
    world = ApiWorld(wait_s=10.0, rate_per_s=100_000, burst=100_000)
    world.make_recorder()
    with world:
        yield InMemory(world)


def test_every_path_parameter_has_a_value_under_which_there_is_something(server: InMemory) -> None:
    known = {name: values[0] for name, values in server.make_known().items()}
    changed = server.send("PATCH", "/api/v1/jobs/steady", json={"every": "2h"}, headers={"If-Match": "*"})
    assert changed.status_code == 200, "a second version, that there is a difference"
    named = {name for path in server.description["paths"] for name in re.findall(r"{(\w+)}", path)}
    assert named == set(known)
    asked = [path for path, methods in server.description["paths"].items() if "{" in path and "get" in methods]
    assert NO_DEAD_LETTER in asked
    filled = [path.format(**known) for path in asked if path != NO_DEAD_LETTER]
    for name in ("run_id", "dag_run_id"):
        until(lambda name=name: server.send("GET", f"/api/v1/runs/{known[name]}").status_code == 200)  # history is here
    until(lambda: server.send("GET", f"/api/v1/runs/{known['run_id']}").status_code == 200)  # history has come so far
    until(lambda: server.send("GET", f"/api/v1/backfills/{known['backfill_id']}").status_code == 200)
    assert {path: server.send("GET", path).status_code for path in filled} == dict.fromkeys(filled, 200)
