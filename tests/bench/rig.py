"""The stack that the bars are held against: every role that the demo has, its logs and its partitions.

One process of each role unless a bench says otherwise: two cores carry no more at full load. Cassandra writes its log
as the nodes of a cluster do (``AS_A_REPLICA``).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

import psutil

from tests.bench import leftover, load, pipeline
from tests.free_ports import free_port
from waterclock.model.timing import Timing

_CALM_WITHIN_S = 30.0
_CALM_CORES = 0.15
WARM_JOBS, WARM_S = 5_000, 40
"""Runs a second, and for how long, before what is measured begins."""
_WARM_LEAD_S, _WARM_AFTER_S = 25.0, 8
DISPATCHER = ("dispatcher", "dispatcher-1")
WORKER = ("workers", "worker-1")
SETTLING = (("retry_router", "retry-router-1"), ("dag_engine", "dag-engine-1"), ("recorder", "recorder-1"))
DOORS = (("intake", "intake-1"), ("api", "api-1"))
ALL_ROLES = (DISPATCHER, WORKER, *SETTLING, *DOORS)


def several(role: str, count: int) -> list[tuple[str, str]]:
    """So many processes of a role."""
    word = {"workers": "worker"}.get(role, role)
    return [(role, f"{word}-{number}") for number in range(1, count + 1)]


class Rig(pipeline.Pipeline):
    """Fresh servers and ``roles``. Raises RoundStillLives where a process of an earlier round does."""

    def __init__(
        self,
        *,
        roles: Sequence[tuple[str, str]] = ALL_ROLES,
        env: Mapping[str, str] = MappingProxyType({}),
        slots: int = 4_000,
        sink: bool = False,
        partitions: int = 4,
    ) -> None:
        leftover.refuse()
        self.api_port = free_port()
        as_in_the_demo = {"WATERCLOCK_LOG_LEVEL": "info", "WATERCLOCK_API__PORT": str(self.api_port)}
        super().__init__(slots=slots, sink=sink, roles=roles, partitions=partitions, env=as_in_the_demo | dict(env))

    def warm_up(self, seconds: int = WARM_S) -> None:
        """A load before the one that is measured: servers that were started just now compile what they serve.

        The jobs have an end, and are done with it: nothing of them falls into what comes after.
        """
        start_at = load.whole_second(_WARM_LEAD_S)
        until = start_at + seconds * load.US_PER_S
        specs = load.specs(load.together(WARM_JOBS, 1, start_at, word="warm"))
        ended = Timing(until_at=until)
        self.create({job_id: replace(spec, timing=ended) for job_id, spec in specs.items()})
        time.sleep(max(0.0, until / load.US_PER_S + _WARM_AFTER_S - time.time()))  # over already, where jobs took long

    def rest(self) -> None:
        """Stop all roles, and wait until the servers have nothing left to do: a raw loop would be measured with it."""
        for process in self.stack.roles.values():
            process.stop()
        until = time.monotonic() + _CALM_WITHIN_S
        while time.monotonic() < until:
            before = self._servers_s()
            time.sleep(1.0)
            if self._servers_s() - before < _CALM_CORES:
                return

    def _servers_s(self) -> float:
        spent = [psutil.Process(server.pid).cpu_times() for server in (self.stack.kafka, self.stack.cassandra)]
        return sum(each.user + each.system for each in spent)
