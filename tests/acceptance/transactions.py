"""No transaction is left open: the last stable offset is the high watermark everywhere, and Kafka's tool finds none."""

from __future__ import annotations

import subprocess

from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.acceptance import dumps
from tests.acceptance.evidence import Evidence
from tests.acceptance.real_stack import RealStack
from waterclock.stack.jars import KAFKA, JarSource, jars_of
from waterclock.stack.java import find_java

_ANSWER_S = 10.0
_TOOL_S = 60.0
_AT_ONCE = ("--max-transaction-timeout", "0")
"""Otherwise the tool passes over what has been open for less than a quarter of an hour: all of a short play."""


def judge_transactions(stack: RealStack, evidence: Evidence) -> None:
    """Of every topic of ours and of handlers, ``leases`` and ``heartbeats`` too."""
    stuck, count = open_ones(stack)
    evidence.figure("partitions without an open transaction", count - len(stuck), of=count)
    evidence.demand(count > 0, "no partition was looked at")
    evidence.none_of(stuck, "partitions with an open transaction at rest")
    hanging = _hanging(stack)
    evidence.figure("hanging transactions by Kafka's own tool", len(hanging))
    evidence.none_of(hanging, "hanging transactions")


def open_ones(stack: RealStack) -> tuple[list[str], int]:
    """(partitions whose last stable offset stands below their high watermark, how many were looked at)."""
    admin = AdminClient(dumps.client(stack.bootstrap))
    found = admin.list_topics(timeout=_ANSWER_S).topics
    places = [
        TopicPartition(topic, at)
        for topic, told in found.items()
        if topic.startswith((f"{stack.names.prefix}.", "acme."))
        for at in told.partitions
    ]
    # In this order: what is written between the two questions (workers beat for ever) can only raise the second.
    high, stable = (
        {
            (place.topic, place.partition): answer.result(_ANSWER_S).offset
            for place, answer in admin.list_offsets(
                {place: OffsetSpec.latest() for place in places}, isolation_level=level
            ).items()
        }
        for level in (IsolationLevel.READ_UNCOMMITTED, IsolationLevel.READ_COMMITTED)
    )
    return [f"{at}: {stable[at]} of {high[at]}" for at in high if stable[at] < high[at]], len(high)


def _hanging(stack: RealStack) -> list[str]:
    """The lines of ``TransactionsCommand find-hanging`` below its heading."""
    lib = jars_of(KAFKA, JarSource())
    quick = ["-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    tool = ["-cp", f"{lib}/*", "org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", stack.bootstrap]
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
