"""Where the checks of the failure path play: real servers and roles, the sink outside, a load, and its rest.

Every check ends the same way: the jobs are deleted, everything that was made comes to its end, the roles stop, and the
same judges look at all of it (``at_rest.py``). A check adds what it provoked, and judges that.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from random import Random
from typing import Any

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.following import Following
from tests.acceptance.orders import Orders
from tests.acceptance.real_stack import RealStack, RoleProcess, wait_for
from tests.acceptance.sink import SECRET, Sink
from tests.oracle.chronicle import Chronicle
from waterclock.log.kafka_topics import ensure_topics
from waterclock.log.port import TopicSpec
from waterclock.model.job import CommandKind, JobSpec

OUTPUTS = "acme.outputs"
"""Where the handlers' records go."""

ROLES = (("dispatcher", "dispatcher-1"), ("retry_router", "retry-router-1"), ("recorder", "recorder-1"))
_STOPPED_AFTER = {"workers": 1, "retry_router": 2, "recorder": 3}
"""Whoever writes first stops first: dispatchers and doors, then those who answer them."""

_REST_WITHIN_S = 120.0
_LOOK_EVERY_S = 0.5
"""Between two looks at the log: whoever looks takes the core that the runs need to come to their end."""


class Scene:
    """One check's stack, sink, load and evidence."""

    def __init__(self, stack: RealStack, evidence: Evidence, seed: int) -> None:
        self.stack = stack
        self.evidence = evidence
        self.dice = Random(seed)
        self.sink = Sink(stack.folder)
        self.workers: list[str] = []
        self.specs: dict[str, JobSpec] = {}
        self._deleted: set[str] = set()
        ensure_topics(stack.bootstrap, [TopicSpec(OUTPUTS, stack.partitions, {})])
        self.following = Following(stack.bootstrap, stack.names.run_events)
        self.orders = Orders(stack)

    def start(self, workers: Mapping[str, Mapping[str, str]], *, module: str = "", **env: str) -> None:
        """All roles, one of each but the workers; each worker with its own environment. Returns when all are ready."""
        for role, instance in ROLES:
            self.stack.role(role, instance, **env)
        for worker, own in workers.items():
            self.add_worker(worker, module=module, **{**env, **own})
        for role_process in self.stack.roles.values():
            role_process.wait_ready()

    def add_worker(self, worker: str, *, module: str = "", args: Sequence[str] = (), **env: str) -> RoleProcess:
        """A worker with the handlers of ``calling_app.py``, which call this scene's sink."""
        app = {
            "WATERCLOCK_WORKER__APP": "tests.acceptance.calling_app:app",
            "WATERCLOCK_WEBHOOK__SECRETS__DEFAULT": SECRET,
            "WATERCLOCK_EGRESS__ALLOW": self.sink.place,
            "SINK_SECRET": SECRET,
            "SINK_PORT": str(self.sink.port),
            "OUTPUTS_TOPIC": OUTPUTS,
        }
        self.workers.append(worker)
        return self.stack.role("workers", worker, module=module, args=args, **{**app, **env})

    def define(self, specs: Mapping[str, JobSpec]) -> None:
        """Create these jobs, and wait until the dispatcher has applied it."""
        for job_id, spec in specs.items():
            self.orders.send(CommandKind.CREATE, job_id, spec)
        self.specs |= specs
        self.apply()

    def apply(self, within_s: float = 60.0) -> None:
        """Wait until every command sent so far is applied."""
        self.orders.flush()
        group, topic = self.stack.names.group("dispatcher"), self.stack.names.commands
        wait_for(
            lambda: dumps.unread(self.stack.bootstrap, group, [topic]) == 0, "commands applied", within_s, every_s=0.2
        )

    def delete(self, job_ids: list[str] | None = None) -> None:
        """End the load: no fire of these jobs (None: of any that is left) is decided any more."""
        for job_id in self._live() if job_ids is None else job_ids:
            self.orders.send(CommandKind.DELETE, job_id)
            self._deleted.add(job_id)
        self.apply()

    def _live(self) -> list[str]:
        """Not deleted yet: a second delete would be refused, and rejects are to stay empty."""
        return [job_id for job_id in self.specs if job_id not in self._deleted]

    def come_to_rest(self, within_s: float = _REST_WITHIN_S, *, watch_s: float = 0.0) -> Chronicle:
        """Delete all jobs, wait until every run has ended and everybody has read it, then stop all roles.

        What is still open in the end is told by the judges, not here: a check that hangs shows no figures.
        ``watch_s``: all roles stay up for so much longer; what somebody repairs meanwhile is seen too.
        """
        self.delete()
        began_s = time.monotonic()
        chronicle = self.following.read_on()
        while chronicle.open and time.monotonic() < began_s + within_s:
            time.sleep(_LOOK_EVERY_S)
            chronicle = self.following.read_on()
        self.evidence.figure("seconds from the end of the load to the last end", round(time.monotonic() - began_s, 1))
        self._all_read()
        if watch_s:
            time.sleep(watch_s)  # nothing is waited for: what must not happen meanwhile is judged afterwards
            self._all_read()
        for role in sorted(self.stack.roles.values(), key=lambda role: _STOPPED_AFTER.get(role.role, 0)):
            role.stop()
        return self.following.read_on()

    def _all_read(self) -> None:
        names, bootstrap = self.stack.names, self.stack.bootstrap
        for group in ("retry-router", "recorder"):
            wait_for(
                lambda group=group: dumps.unread(bootstrap, names.group(group), [names.run_events]) == 0,
                f"{group} read all",
                _REST_WITHIN_S,
                every_s=0.3,
            )

    def close(self) -> None:
        self.following.close()
        self.sink.close()

    def outputs(self) -> list[dict[str, Any]]:
        """The committed records that handlers emitted, with their headers."""
        return [
            {"headers": message.headers() or [], "value": message.value()}
            for message in dumps.messages(self.stack.bootstrap, OUTPUTS, committed=True)
        ]


@contextmanager
def scene(check: str, seed: int | None, *, partitions: int = 4) -> Iterator[Scene]:
    """Servers, sink and evidence of one check; the seed is printed, so that its dice fall again as they did."""
    seed = time.time_ns() % 1_000_000 if seed is None else seed
    with on_stage(check, partitions=partitions) as (stack, evidence), ExitStack() as ends:
        evidence.figure("seed", seed)
        played = Scene(stack, evidence, seed)
        ends.callback(played.close)
        yield played
