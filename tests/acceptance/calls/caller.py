"""A worker's executors in a process of their own: makes the calls that a file names, and writes down how they ended.

``python -m tests.acceptance.calls.caller <plan.json> <outcomes.jsonl>``. The plan: ``allow`` (egress.allow),
``answers`` (name -> what the resolver says, question by question), ``passes`` (lists of stored executors, one pass
after the other) and ``rest_s`` between passes: longer than the guard keeps an answer, so that names are asked for anew.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from waterclock.workers.executors.building import executors_of
from waterclock.workers.executors.port import Attempt

from waterclock.app import App
from waterclock.clock import SystemClock
from waterclock.model.events import WorkRecord
from waterclock.model.job import Tier
from waterclock.settings import Settings

_PASS_WITHIN_S = 120.0
_AT_ONCE = 200
FIRE_AT = 1_795_000_000_000_000


class Script:
    """A resolver that says what the plan says, and remembers what it said."""

    def __init__(self, answers: dict[str, list[list[str]]]) -> None:
        self._answers = answers
        self.said: list[tuple[str, list[str]]] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        told = self._answers.get(host)
        if told is None:
            raise OSError("no such name")
        answer = told.pop(0) if len(told) > 1 else told[0]
        self.said.append((host, answer))
        return answer


def attempt(executor: str, number: int, payload: bytes = b'{"probe":true}') -> Attempt:
    run_id = f"acme:probe@20261118T110640Z~{number + 1}"
    work = WorkRecord(run_id, FIRE_AT, FIRE_AT, 1, "acme:probe", 1, Tier.HIGH, "default", "", payload, executor)
    return Attempt(work, FIRE_AT, (1 << 48) + number)


def main(plan_path: str, outcomes_path: str) -> None:
    plan = json.loads(Path(plan_path).read_text())
    script = Script(plan["answers"])
    settings = Settings(egress={"allow": tuple(plan["allow"]), "connect_timeout_s": 5.0})
    executors = executors_of(App(), settings, SystemClock(), lambda _: False, script)
    lines = []
    for at, calls in enumerate(plan["passes"]):
        if at:
            time.sleep(plan["rest_s"])  # until what was resolved in the pass before is asked for anew
        waiting = [attempt(json.dumps(call), number) for number, call in enumerate(calls)]
        of = {each.work.run_id: call for each, call in zip(waiting, calls, strict=True)}
        ended, running, until_s = 0, 0, time.monotonic() + _PASS_WITHIN_S
        while ended < len(calls) and time.monotonic() < until_s:
            room = _AT_ONCE - running
            executors.submit(waiting[:room])
            running += len(waiting[:room])
            del waiting[:room]
            executors.wait(1, 0.1)
            for end in executors.take_ended():
                ended, running = ended + 1, running - 1
                told = {"pass": at, "call": of[end.attempt.work.run_id], "outcome": end.outcome.name}
                lines.append(told | {"class": end.error_class, "message": end.error_message})
    executors.stop(5.0)
    lines += [{"said": host, "addresses": addresses} for host, addresses in script.said]
    Path(outcomes_path).write_text("".join(f"{json.dumps(line)}\n" for line in lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
