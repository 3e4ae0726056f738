"""After the last fault: nothing but waiting, until everything stands still. No hand is lent, nothing restarted by us.

What must come by itself, each within a bound: every process ready, every order answered, every run ended, lag 0 by
Kafka's own tool, no open transaction anywhere, no hanging one by Kafka's own tool.
"""

from __future__ import annotations

import subprocess
import time

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.acceptance import dumps, lag_zero
from tests.acceptance.evidence import Evidence
from tests.acceptance.scene import Scene
from tests.chaos.cast import Client
from tests.chaos.director import Director
from tests.chaos.stage import Stage
from tests.oracle.chronicle import Chronicle
from waterclock.model.job import CommandKind
from waterclock.stack.jars import KAFKA, JarSource, jars_of
from waterclock.stack.java import find_java

_READY_S = 120.0
_ANSWERED_S = 150.0
_APPLIED_S = 120.0
_ENDED_S = 300.0
_LAG_S = 120.0
_READ_S = 5.0
_TOOL_S = 60.0


def come_to_rest(scene: Scene, stage: Stage, director: Director, client: Client) -> Chronicle:
    """Wait for all of it, then stop the roles; what takes how long is told. Raises TimeoutError at a bound."""
    evidence = scene.evidence
    healed_s = time.monotonic()
    director.wait_for(lambda: director.supervisor.is_whole, "everything ready after the last fault", _READY_S)
    evidence.figure("seconds from the last heal until all are ready", _since(healed_s))
    client.ask_to_end()
    director.wait_for(lambda: client.has_ended, "the client's orders answered", _ANSWERED_S)
    _end_the_load(scene, stage, director)
    began_s = time.monotonic()
    director.wait_for(lambda: _all_ended(scene), "every run ended", _ENDED_S, every_s=1.0)
    evidence.figure("seconds from the end of the load to the last end", _since(began_s))
    director.wait_for(lambda: not _lagging(stage), "lag 0 by Kafka's own tool", _LAG_S, every_s=1.0)
    lags = lag_zero.lags_of_the_resting(stage)
    evidence.figure(
        "partitions with lag 0", sum(lag.lag == "0" for lag in lags), of=len(lag_zero.all_that_is_read(stage))
    )
    evidence.none_of(lag_zero.what_lags(stage, lags), "partitions whose lag is not 0")
    evidence.figure("seconds from the last heal to rest", _since(healed_s))
    _judge_transactions(stage, evidence)
    for role in stage.roles.values():
        role.stop()
    return scene.following.read_on()


def _since(began_s: float) -> float:
    return round(time.monotonic() - began_s, 1)


def _all_ended(scene: Scene) -> bool:
    """Read on for a while, and no longer: the supervisor has to look around meanwhile."""
    try:
        return not scene.following.read_on(_READ_S).open
    except TimeoutError:
        return False


def _end_the_load(scene: Scene, stage: Stage, director: Director) -> None:
    """Delete every job; from then on nothing is due."""
    for job_id in list(scene.specs):
        scene.orders.send(CommandKind.DELETE, job_id)
    scene.orders.flush()
    group, topic = stage.names.group("dispatcher"), stage.names.commands
    director.wait_for(lambda: dumps.unread(stage.bootstrap, group, [topic]) == 0, "the deletes applied", _APPLIED_S)


def _lagging(stage: Stage) -> list[str]:
    """What lags but ``heartbeats``: workers beat for ever, so that is looked at by itself, and several times."""
    beats = f"'{stage.names.heartbeats}'"
    return [each for each in lag_zero.what_lags(stage, lag_zero.lags_by_tool(stage)) if beats not in each]


def _judge_transactions(stage: Stage, evidence: Evidence) -> None:
    """The last stable offset is the high watermark everywhere, and Kafka's own tool finds nothing hanging."""
    admin = AdminClient(dumps.client(stage.bootstrap))
    found = admin.list_topics(timeout=10).topics
    places = [
        TopicPartition(topic, at)
        for topic, told in found.items()
        if topic.startswith((f"{stage.names.prefix}.", "acme."))
        for at in told.partitions
    ]
    stable, high = (
        {(place.topic, place.partition): answer.result(10).offset for place, answer in answers.items()}
        for answers in (
            admin.list_offsets({place: OffsetSpec.latest() for place in places}, isolation_level=level)
            for level in (IsolationLevel.READ_COMMITTED, IsolationLevel.READ_UNCOMMITTED)
        )
    )
    beating = (stage.names.heartbeats, stage.names.leases)
    # Plain beats go on between the two questions; they stand in no transaction.
    open_ones = [f"{at}: {stable[at]} of {high[at]}" for at in high if stable[at] != high[at] and at[0] not in beating]
    evidence.figure("partitions without an open transaction", len(high) - len(open_ones), of=len(high))
    evidence.none_of(open_ones, "partitions with an open transaction at rest")
    hanging = _hanging(stage)
    evidence.figure("hanging transactions by Kafka's own tool", len(hanging))
    evidence.none_of(hanging, "hanging transactions")


_AT_ONCE = ("--max-transaction-timeout", "0")
"""Otherwise the tool passes over what has been open for less than a quarter of an hour: all of a short play."""


def _hanging(stage: Stage) -> list[str]:
    """The lines of ``TransactionsCommand find-hanging`` below its heading."""
    lib = jars_of(KAFKA, JarSource())
    quick = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    tool = ["-cp", f"{lib}/*", "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", stage.bootstrap]
    done = subprocess.run(
        [str(find_java().program), *quick, *tool, "find-hanging", "--broker-id", "1", *_AT_ONCE],
        capture_output=True,
        text=True,
        timeout=_TOOL_S,
        check=True,
    )
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if not lines or "Topic" not in lines[0]:
        raise RuntimeError(f"find-hanging said {done.stdout!r} {done.stderr!r}")
    return lines[1:]
