"""Names of topics, groups, transactional ids and clients, and how the topics are made.

One prefix covers all of them, so one prefixed ACL of each kind covers a role. Lower case, dots between the parts,
hyphens inside, never an underscore (``.`` and ``_`` collide in Kafka's metric names). Names are on-disk format.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from waterclock.log.port import TopicSpec
from waterclock.model.errors import RequestError
from waterclock.model.ids import SLOT_COUNT
from waterclock.model.job import Tier

_WORD = re.compile(r"[a-z0-9][a-z0-9.-]*\Z")
_PREFIX_MAX = 64
_DAY_MS = 86_400_000
_MESSAGE_MAX = 1_048_576
_WORK_DAYS = 7
_SEGMENT_DAYS = 7
"""A record leaves with its segment, which brokers close after a week: so long after its own time at the most. Cancels
of work, on a topic of their own, have to stand for as long as that, or it runs for whoever claims it then."""

RUNGS: dict[str, int] = {"1s": 1, "5s": 5, "30s": 30, "2m": 120, "10m": 600, "1h": 3_600}
"""The retry ladder: by the word in its topic's name, how long a record stands on the rung, in seconds."""

ROLES_WITH_STATE = ("dispatcher", "retry-router", "dag-engine", "recorder")
"""Roles that keep a state topic today."""


class Names:
    """Every name under one prefix. Raises RequestError for a prefix that cannot be one."""

    def __init__(self, prefix: str = "waterclock") -> None:
        if len(prefix) > _PREFIX_MAX or not _WORD.match(prefix):
            raise RequestError(
                f"{prefix[:100]!r} cannot be a prefix",
                pointer="/prefix",
                hint=f"Use 1 to {_PREFIX_MAX} of a-z, 0-9, '.' and '-'",
            )
        self.prefix = prefix
        self.job_events = f"{prefix}.job-events"
        self.commands = f"{prefix}.commands"
        self.run_events = f"{prefix}.run-events"
        self.control = f"{prefix}.control"
        self.leases = f"{prefix}.leases"
        self.heartbeats = f"{prefix}.heartbeats"
        self.dlq = f"{prefix}.dlq"
        self.rejects = f"{prefix}.rejects"
        self.run_logs = f"{prefix}.run-logs"
        self.triggers = f"{prefix}.triggers"

    def runs(self, tier: Tier, pool: str = "default") -> str:
        """The topic of a tier's work: ``<prefix>.runs.high``, with ``.<pool>`` for a named pool."""
        return f"{self.prefix}.runs.{_lane(tier, pool)}"

    def is_of_named_pool(self, topic: str) -> bool:
        """Whether a topic of this prefix is a named pool's."""
        lane = topic.removeprefix(f"{self.prefix}.runs.")
        return lane != topic and "." in lane

    def delay(self, rung: str) -> str:
        """The topic of a rung, such as ``<prefix>.delay.30s``."""
        return f"{self.prefix}.delay.{rung}"

    def state(self, role: str) -> str:
        """The compacted topic of a role's open state."""
        return f"{self.prefix}.state.{_word(role)}"

    def group(self, role: str) -> str:
        """The consumer group of a role (not a worker's: see ``worker_group``)."""
        return f"{self.prefix}.{_word(role)}"

    def worker_group(self, tier: Tier, pool: str = "default") -> str:
        """The consumer group of one tier's workers. One group per run topic, never two."""
        return f"{self.prefix}.workers.{_lane(tier, pool)}"

    def worker_group_of(self, topic: str) -> str:
        """The group of the workers that read this run topic."""
        return f"{self.prefix}.workers.{topic.removeprefix(f'{self.prefix}.runs.')}"

    def transactional_id(self, role: str, instance: str) -> str:
        """Stable for a process slot, so that a restart fences its predecessor."""
        return f"{self.prefix}.{_word(role)}.{instance}"

    def client_id(self, role: str, instance: str) -> str:
        """What the broker's logs and metrics call a client."""
        return f"{self.prefix}-{_word(role)}-{instance}"


def topic_specs(
    names: Names, partitions: int, pools: Sequence[str] = ("default",), ingress: Iterable[str] = ()
) -> list[TopicSpec]:
    """The topics that the roles of this release use.

    ``ingress``: topics that the intake reads beside job-events, made as that one is.

    Raises RequestError where ``partitions`` is no power of two that divides 256, or two pools would share topics.
    """
    if partitions < 1 or SLOT_COUNT % partitions:
        raise RequestError(
            f"{partitions} partitions are not possible",
            pointer="/partitions",
            hint="Choose a power of two from 1 to 256: 4 on one box, 32 to begin with in production",
        )
    named: dict[str, str] = {}
    for pool in pools:
        other = named.setdefault(names.runs(Tier.HIGH, pool), pool)
        if other != pool:
            raise RequestError(
                f"the pools {other!r} and {pool!r} would have the same topics, and each would take the other's work",
                pointer="/pools",
                hint="In the names of topics '_' is '-': call one of them something else",
            )
    work = [names.runs(tier, pool) for pool in pools for tier in Tier]
    configs = {
        # Stored as it was said: a batch that was packed a thousandfold must not be unpacked in the intake's memory.
        # The broker unpacks it, sees that it is over the limit, and refuses it.
        **{topic: _kept(7) | {"compression.type": "uncompressed"} for topic in (names.job_events, *ingress)},
        names.commands: _kept(30) | {"message.timestamp.type": "LogAppendTime"},
        names.run_events: _kept(30),
        **{topic: _kept(_WORK_DAYS) for topic in work},
        names.control: _kept(_WORK_DAYS + _SEGMENT_DAYS + 1),
        names.leases: _COMPACTED,
        names.heartbeats: _kept(1),
        names.dlq: _kept(30),
        names.rejects: _kept(30),
        # A delayed record that retention took would be a lost retry: kept far longer than anything stands there.
        **{names.delay(rung): _kept(7) for rung in RUNGS},
        names.run_logs: _kept(7),
        **{names.state(role): _COMPACTED for role in ROLES_WITH_STATE},
    }
    size = {"max.message.bytes": str(_MESSAGE_MAX)}
    specs = [TopicSpec(name, partitions, config | size) for name, config in configs.items()]
    # One partition: whoever needs it reads all of it, and asks for its end before each decision.
    return [*specs, TopicSpec(names.triggers, 1, _COMPACTED | size)]


def _kept(days: int) -> dict[str, str]:
    # By time alone: a bound by size that brokers have for all topics would take what is not read, or is open.
    return {"cleanup.policy": "delete", "retention.ms": str(days * _DAY_MS), "retention.bytes": "-1"}


# Small segments: the active one is never compacted, and every start reads the whole topic.
_COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "16777216", "min.cleanable.dirty.ratio": "0.2"}


def _lane(tier: Tier, pool: str) -> str:
    return tier.word if pool == "default" else f"{tier.word}.{_word(pool)}"


def _word(name: str) -> str:
    return name.replace("_", "-")
