"""At rest every group's lag is 0 by Kafka's own tool, also after each role was restarted; plain kcat tells a run.

All roles, a small load that ends. Half a minute after the last run, and again after each role was stopped and started,
``ConsumerGroupCommand`` must show every partition of every group with a lag of 0: none missing, none without position.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from typing import Any, NamedTuple

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence, on_stage
from tests.acceptance.orders import Orders
from tests.acceptance.real_stack import RealStack, wait_for
from tests.oracle import runs as reducer
from waterclock.model.ids import US_PER_S
from waterclock.model.job import CommandKind, Every, JobSpec, Once, Tier
from waterclock.stack.jars import KAFKA, JarSource, jars_of
from waterclock.stack.java import find_java
from waterclock.wire.names import RUNGS

ROLES = {
    "dispatcher-1": "dispatcher",
    "dispatcher-2": "dispatcher",
    "worker-1": "workers",
    "worker-2": "workers",
    "retry-router-1": "retry_router",
    "recorder-1": "recorder",
    "intake-1": "intake",
}
_TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TOOL_S = 60.0
_WITHIN_S = 60.0
_STORY = ["pending", "started", "succeeded"]
_ONCE = "acme:told-by-kcat"
_LOOKS_AT_BEATS = 8


class Size(NamedTuple):
    """How much of it: this many runs of each job, if all are on time.

    ``rest_s``: how long after the last run the lag must be 0; 0: it must come to it, some time.
    """

    jobs: int
    runs_each: int
    rest_s: float


WHOLE = Size(40, 10, 30.0)
SHORT = Size(12, 4, 0.0)


class Lag(NamedTuple):
    """One line of Kafka's tool."""

    group: str
    topic: str
    partition: int
    lag: str


def main(short: bool = False) -> None:
    size = SHORT if short else WHOLE
    with on_stage("lag-zero") as (stack, evidence):
        for instance, role in ROLES.items():
            stack.role(role, instance)
        for role_process in stack.roles.values():
            role_process.wait_ready()
        run_count = _load(stack, size)
        evidence.figure("runs, all ended", run_count)
        evidence.demand(run_count >= size.jobs * size.runs_each, "there was no load")
        _judge_lag(stack, evidence, "after the last run", size.rest_s)
        for instance in ROLES:
            _restart(stack, evidence, instance, judge_each=not short)
        _judge_lag(stack, evidence, "after the last restart", size.rest_s)
        _tell_story(stack, evidence)


def _load(stack: RealStack, size: Size) -> int:
    """Runs on every tier until there are enough, then none; returns how many there were, once all have ended."""
    orders = Orders(stack)
    job_ids = [f"acme:load-{number}" for number in range(size.jobs)]
    for number, job_id in enumerate(job_ids):
        orders.send(CommandKind.CREATE, job_id, JobSpec("demo.ping", Every(US_PER_S), Tier(number % 3)))
    at = time.time_ns() // 1_000 + 2 * US_PER_S
    orders.send(CommandKind.CREATE, _ONCE, JobSpec("demo.ping", Once(at), Tier.HIGH))
    orders.flush()
    enough, names, bootstrap = size.jobs * size.runs_each, stack.names, stack.bootstrap
    wait_for(lambda: len(_made(bootstrap, names.run_events)) >= enough, "a load", every_s=1.0)
    for job_id in job_ids:
        orders.send(CommandKind.DELETE, job_id)
    orders.flush()
    dispatcher = names.group("dispatcher")
    wait_for(lambda: dumps.unread(bootstrap, dispatcher, [names.commands]) == 0, "the deletes applied", every_s=0.5)

    def ended() -> int:
        made = _made(bootstrap, names.run_events)
        return len(made) if made and all(run["status"] == "SUCCEEDED" for run in made) else 0

    return int(wait_for(ended, "all runs ended", every_s=1.0))


def _made(bootstrap: str, run_events: str) -> list[dict[str, Any]]:
    runs, _, _ = reducer.follow(dumps.dump(bootstrap, run_events))
    return [run for run in runs.values() if run["status"] != "SKIPPED"]


def _restart(stack: RealStack, evidence: Evidence, instance: str, *, judge_each: bool) -> None:
    role = stack.roles[instance]
    code = role.stop()
    evidence.demand(code == 0, f"{instance} drained with {code}")
    role.start().wait_ready()
    if judge_each:
        began_s = time.monotonic()
        _await_no_lag(stack, f"after {instance} was restarted")
        evidence.figure(f"seconds to lag 0 after {instance} was restarted", round(time.monotonic() - began_s, 1))


def _judge_lag(stack: RealStack, evidence: Evidence, when: str, rest_s: float) -> None:
    if rest_s:
        time.sleep(rest_s)
        when = f"{rest_s:.0f} s {when}"
    else:
        _await_no_lag(stack, when)
    found = lags_of_the_resting(stack)
    evidence.figure(
        f"partitions with lag 0, {when}", sum(lag.lag == "0" for lag in found), of=len(all_that_is_read(stack))
    )
    evidence.none_of(what_lags(stack, found), f"partitions whose lag is not 0, {when}")


def _await_no_lag(stack: RealStack, when: str) -> None:
    wait_for(lambda: not what_lags(stack, lags_by_tool(stack)), f"lag 0 {when}", _WITHIN_S, every_s=0.2)


def lags_of_the_resting(stack: RealStack) -> list[Lag]:
    """One look at all, and more at ``heartbeats``: workers beat for ever, so its lag is 0 now and then, not always."""
    found = lags_by_tool(stack)
    for _ in range(_LOOKS_AT_BEATS):
        late = {(lag.topic, lag.partition) for lag in found if lag.topic == stack.names.heartbeats and lag.lag != "0"}
        if not late:
            break
        caught_up = [lag for lag in lags_by_tool(stack) if (lag.topic, lag.partition) in late and lag.lag == "0"]
        found = [
            lag for lag in found if (lag.topic, lag.partition) not in {each[1:3] for each in caught_up}
        ] + caught_up
    return found


def what_lags(stack: RealStack, lags: list[Lag]) -> list[str]:
    """What keeps the lag from being 0 everywhere."""
    found = {(lag.group, lag.topic, lag.partition): lag.lag for lag in lags}
    wanted = all_that_is_read(stack)
    return [f"{place}: {found.get(place, 'not listed')}" for place in found | wanted if found.get(place) != "0"]


def all_that_is_read(stack: RealStack) -> dict[tuple[str, str, int], str]:
    """Every partition that some group reads, by the design's table of roles."""
    names = stack.names
    reads = [
        (names.group("dispatcher"), names.commands),
        (names.group("retry-router"), names.run_events),
        (names.group("recorder"), names.run_events),
        (names.group("recorder_logs"), names.run_logs),
        (names.group("recorder"), names.commands),
        (names.group("intake"), names.job_events),
        (names.group("lease-keeper"), names.heartbeats),
        *((f"{names.group('retry-ladder')}.{rung}", names.delay(rung)) for rung in RUNGS),
        *((names.worker_group(tier), names.runs(tier)) for tier in Tier),
    ]
    return {(group, topic, at): "0" for group, topic in reads for at in range(stack.partitions)}


def lags_by_tool(stack: RealStack) -> list[Lag]:
    """What Kafka's own tool shows of all groups."""
    lib = jars_of(KAFKA, JarSource())
    quick = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [str(find_java().program), *quick, "-cp", f"{lib}/*", _TOOL]
    asked = ["--bootstrap-server", stack.bootstrap, "--describe", "--all-groups"]
    said = subprocess.run([*command, *asked], capture_output=True, text=True, timeout=_TOOL_S, check=True).stdout
    lines = re.findall(r"^(\S+)\s+(\S+)\s+(\d+)\s+(?:\d+|-)\s+(?:\d+|-)\s+(\d+|-)\s", said, re.MULTILINE)
    return [Lag(group, topic, int(at), lag) for group, topic, at, lag in lines]


def _tell_story(stack: RealStack, evidence: Evidence) -> None:
    """The one-off's run by its text headers alone, in the order of the log."""
    lines = [line for line in _kcat(stack, evidence) if _ONCE in line]
    for line in lines:
        print(f"    {line}")
    told = [found[1] for line in lines if (found := re.search(r"ce_type=io\.waterclock\.run\.([a-z-]+)", line))]
    evidence.figure("story of one run", told)
    evidence.demand(told == _STORY, f"the story reads {told}, not {_STORY}")


def _kcat(stack: RealStack, evidence: Evidence) -> list[str]:
    topic = stack.names.run_events
    kcat = shutil.which("kcat") or shutil.which("kafkacat")
    if kcat is None:
        evidence.figure("told by", "a raw consumer: kcat is not installed")
        return [
            f"{message.key().decode()} | {','.join(f'{k}={v.decode()}' for k, v in message.headers() or ())}"
            for message in dumps.messages(stack.bootstrap, topic, committed=True)
        ]
    command = [kcat, "-b", stack.bootstrap, "-t", topic, "-C", "-e", "-q", "-f", "%k | %h\\n"]
    evidence.figure("told by", " ".join(["kcat", *command[1:]]))
    return subprocess.run(command, capture_output=True, text=True, timeout=_TOOL_S, check=True).stdout.splitlines()
