"""Who plays, and what is to be done: all roles, several of each that shares work; jobs of every kind; the client.

Nothing here is set otherwise than an operator could: short leases and graces, and slots enough for a backlog.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from tests.acceptance.conservation import KINDS
from tests.acceptance.scene import Scene
from tests.chaos.client import PAYLOAD
from tests.chaos.schedule import CAST, FAKED, LEASE_S, WORKERS
from tests.chaos.stage import Stage
from tests.free_ports import free_port
from waterclock.model.document import spec_from_document
from waterclock.model.ids import US_PER_S
from waterclock.model.job import Every, JobSpec, Tier
from waterclock.stack import leash as leash_program
from waterclock.wire.codec import decode_command

GRACE_S = 20
"""Fires that are later are a misfire: the longer outages of a broker are longer."""

_TENANT = "acme:"
"""Of the jobs that fire all the time; the client outside has another."""

_EVERY_S = 2
_LEAD_S = 4
_SHARES = {"well": 12, "again": 4, "never": 1, "over": 1, "aged": 1, "long": 1}
"""Jobs of each kind, of twenty. Most runs are to end well: those that don't cost several attempts each."""

_WORKER = {
    "WATERCLOCK_WORKER__LEASE_TTL_S": str(LEASE_S),
    "WATERCLOCK_WORKER__SLOTS": "128",
    "WATERCLOCK_WORKER__CANCEL_GRACE_S": "0.5",
    "WATERCLOCK_WORKER__DRAIN_GRACE_S": "2.0",
}
_DISPATCHER = {"WATERCLOCK_DISPATCHER__GRACE_S": str(GRACE_S)}


class Client:
    """The process of the client outside, seen from here."""

    def __init__(self, stage: Stage, api_port: int, seed: int) -> None:
        self.history = stage.folder / "history.jsonl"
        leash = [sys.executable, "-I", "-S", leash_program.__file__, str(os.getpid())]
        bootstrap = stage.env["WATERCLOCK_KAFKA__BOOTSTRAP"]
        words = [str(stage.folder), str(api_port), bootstrap, stage.names.job_events, str(seed)]
        with (stage.folder / "client.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*leash, sys.executable, "-m", "tests.chaos.client", *words], stdout=log, stderr=log
            )

    def ask_to_end(self) -> None:
        """It deletes its jobs first, and waits for the answers."""
        self._process.terminate()

    @property
    def has_ended(self) -> bool:
        """Raises RuntimeError where it fell over: a history with a hole says nothing."""
        code = self._process.poll()
        if code:
            raise RuntimeError(f"the client outside ended with {code}: see client.log")
        return code == 0

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


def enter(scene: Scene, stage: Stage) -> int:
    """Start the whole cast; returns the API's port. Who is ready, or must be started again, the supervisor sees."""
    port = free_port()
    for instance in CAST:
        faked = stage.faked_env() if instance == FAKED else {}
        if instance in WORKERS:
            scene.add_worker(instance, **_WORKER, **faked)
        else:
            role = stage.role_of(instance)
            own = {"api": {"WATERCLOCK_API__PORT": str(port)}, "dispatcher": _DISPATCHER}.get(role, {})
            stage.role(role, instance, **own, **faked)
    return port


def jobs(runs_per_s: float, dice: Random) -> dict[str, JobSpec]:
    """So many jobs that about so many runs are due in a second."""
    begin = (time.time_ns() // 1_000 // US_PER_S + _LEAD_S) * US_PER_S
    kinds = [kind for kind, share in _SHARES.items() for _ in range(share)]
    return {
        f"{_TENANT}{kinds[number % len(kinds)]}-{number}": JobSpec(
            "calls.async" if number % 7 else "calls.sync",
            Every(_EVERY_S * US_PER_S, begin + dice.randrange(_EVERY_S * US_PER_S)),
            Tier(number % 3),
            payload=KINDS[kinds[number % len(kinds)]][0].encode(),
            policy=KINDS[kinds[number % len(kinds)]][1],
        )
        for number in range(round(runs_per_s * _EVERY_S))
    }


def jobs_of(commands: Iterable[Mapping[str, Any]]) -> dict[str, JobSpec]:
    """The same, from a dump of ``commands``."""
    made = (decode_command(record["value"]) for record in commands)
    return {each.job_id: each.spec for each in made if each.spec is not None and each.job_id.startswith(_TENANT)}


def clients_spec() -> JobSpec:
    """What the runs of the client's jobs do; their schedules change all the time."""
    return spec_from_document({"every": "1h", "handler": "calls.async", "payload": PAYLOAD})
