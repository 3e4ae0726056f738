"""Looks at Kafka and judges: does everything stand that the roles rest on? Changes nothing.

Each check is a line of its own and none stops another: where the user may not ask, that is said as a warning, because
the roles need fewer rights than a doctor. Only a broker that does not answer ends the round of questions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from waterclock.log.kafka_cluster import KafkaCluster, TopicSeen
from waterclock.log.kafka_protocol import speaks_since
from waterclock.log.port import TopicPartition
from waterclock.model.errors import AccessRefused, BackendDown
from waterclock.settings import Settings

from .drift import drift_of, rights_of
from .finding import Finding, State, ok, unless
from .plan import Plan
from .render import Principal

TRIED = (4, 0)
"""The oldest generation of brokers that speaks as the one does with which everything is tried."""

STALL_S = 2.0
"""A round takes milliseconds and may take its transaction's 10 s; what stands still for so long is worth a line."""

_DAY_MINUTES = 1_440
_SCAN = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
_SCAN_MS = 10_000
_SCAN_S_MIN = 10.0
_STAMP = "log.message.timestamp.{}.max.ms"
_STAMP_S_MIN = 60.0
"""Clocks of machines that nobody looks after are apart by less; what lies beyond is refused, and its round with it."""

_WEEK_MINUTES = 7 * _DAY_MINUTES


class Seen(NamedTuple):
    """What was asked once. ``settings``: of one broker, None where we may not ask."""

    brokers: Mapping[int, str]
    topics: Mapping[str, TopicSeen]
    settings: Mapping[str, str] | None


def examine(plan: Plan, settings: Settings, principal: Principal, wait: Callable[[float], object]) -> Iterator[Finding]:
    """Every finding about Kafka. ``wait`` sleeps between two looks at open transactions."""
    kafka = settings.kafka
    try:
        with KafkaCluster(kafka.bootstrap, client_id=f"{kafka.prefix}-doctor", extra=kafka.properties) as cluster:
            yield from _examine(cluster, plan, settings, principal, wait)
    except AccessRefused as refused:
        yield Finding("kafka", State.FAIL, str(refused), "Check [kafka.client]: user, password, ssl.ca.location; ACLs")
    except BackendDown as down:
        yield Finding(
            "kafka", State.UNREACHABLE, str(down), f"Is {kafka.bootstrap} right? WATERCLOCK_KAFKA__BOOTSTRAP names it"
        )


def _examine(
    cluster: KafkaCluster, plan: Plan, settings: Settings, principal: Principal, wait: Callable[[float], object]
) -> Iterator[Finding]:
    brokers = cluster.brokers()
    yield ok("kafka", f"{len(brokers)} broker{'s'[: len(brokers) != 1]}: {', '.join(brokers.values())}")
    yield judge_release(speaks_since(settings.kafka.bootstrap, settings.kafka.properties))
    try:
        of_one = cluster.broker_settings(min(brokers))
    except AccessRefused as refused:
        of_one = None
        yield Finding("broker settings", State.WARN, str(refused), "Give this user DescribeConfigs on the cluster")
    yield from _topics(cluster, plan, Seen(brokers, {}, of_one), wait, production=settings.production)
    if of_one is not None:
        yield from judge_broker(of_one, production=settings.production)
    yield from _rights(cluster, plan, principal, production=settings.production)


def _topics(
    cluster: KafkaCluster, plan: Plan, seen: Seen, wait: Callable[[float], object], *, production: bool
) -> Iterator[Finding]:
    try:
        seen = seen._replace(topics=cluster.topics([spec.name for spec in plan.topics]))
    except AccessRefused as refused:
        yield Finding("topics", State.WARN, str(refused), "Give this user Describe and DescribeConfigs on the topics")
        return
    yield from judge_topics(plan, seen)
    yield from judge_copies(seen, production=production)
    yield from _open_transactions(cluster, seen, wait)


def judge_release(since: tuple[int, int] | None) -> Finding:
    """``since``: from which release on brokers speak as this one does."""
    if since is None:
        return Finding("kafka release", State.WARN, "it does not show", "Waterclock is tried with Kafka 4.3.1")
    return unless(
        since >= TRIED,
        "kafka release",
        f"{since[0]}.{since[1]} or later" if since >= TRIED else "before 4.0",
        "Waterclock is tried with Kafka 4.3.1; brokers before 4.0 may do, nobody has tried",
        State.WARN,
    )


def judge_topics(plan: Plan, seen: Seen) -> Iterator[Finding]:
    """Present, led, and as planned; each difference a line."""
    missing = [spec.name for spec in plan.topics if spec.name not in seen.topics]
    yield unless(
        not missing,
        "topics",
        f"{len(plan.topics) - len(missing)} of {len(plan.topics)}"
        + (f", without {', '.join(missing)}" * bool(missing)),
        "waterclock init --plan shows what is missing, waterclock init makes it",
    )
    for topic in seen.topics.values():
        if topic.leaderless:
            found = f"{topic.name}: {topic.leaderless} partitions without a leader"
            yield Finding("topics", State.FAIL, found, "kafka-topics.sh --describe --unavailable-partitions")
    drifts = [
        each
        for spec in plan.topics
        if spec.name in seen.topics
        for each in drift_of(spec, plan.replication, seen.topics[spec.name])
    ]
    for each in drifts:
        yield Finding("drift", State.FAIL if each.serious else State.WARN, f"{each.topic}: {each.what}", each.remedy)
    if seen.topics and not drifts:
        yield ok("drift", "every topic is as planned; commands have the brokers' append time")


def judge_copies(seen: Seen, *, production: bool) -> Iterator[Finding]:
    """What one machine's loss would do."""
    if not seen.topics:
        return
    single = sorted(topic.name for topic in seen.topics.values() if topic.replication < 2)
    lone = sorted(t.name for t in seen.topics.values() if t.config.get("min.insync.replicas", "1") == "1")
    grave = State.FAIL if production else State.WARN
    yield unless(
        not single,
        "copies",
        f"{len(single)} topics have one copy: gone with their machine" if single else "every topic has two or more",
        "kafka.replication = 3 before init; later kafka-reassign-partitions.sh",
        grave,
    )
    if not single:
        yield unless(
            not lone,
            "copies in sync",
            f"{len(lone)} topics are acknowledged by one copy" if lone else "two or more acknowledge",
            "kafka.min_insync = 2 before init; later kafka-configs.sh",
            grave,
        )


def judge_broker(settings: Mapping[str, str], *, production: bool) -> Iterator[Finding]:
    """Settings of the brokers themselves."""
    made = settings.get("auto.create.topics.enable", "true")
    yield unless(
        made == "false",
        "auto-create",
        f"auto.create.topics.enable = {made}",
        "Set it to false: a misspelt topic is otherwise made, with the brokers' number of partitions",
        State.WARN,
    )
    unclean = settings.get("unclean.leader.election.enable", "false")
    yield unless(
        unclean == "false",
        "unclean election",
        f"unclean.leader.election.enable = {unclean}",
        "Set it to false: a leader that lacks records loses committed rounds",
    )
    minutes = int(settings.get("offsets.retention.minutes") or _WEEK_MINUTES)
    yield unless(
        minutes >= _DAY_MINUTES,
        "offsets",
        f"positions of a group without members are kept for {minutes / _DAY_MINUTES:g} d",
        "offsets.retention.minutes = 10080: with its position a stopped dispatcher loses its cursor",
        State.WARN,
    )
    scan_s = int(settings.get(_SCAN) or _SCAN_MS) / 1_000
    yield unless(
        scan_s >= _SCAN_S_MIN,
        "dead transactions",
        f"brokers look every {scan_s:g} s for transactions whose time is over",
        f"{_SCAN} = {_SCAN_MS}, Kafka's default: a broker that starts and looks at once leaves them open for ever",
        State.WARN,
    )
    yield from _stamps(settings)
    for name in ("offsets.topic.replication.factor", "transaction.state.log.replication.factor"):
        copies = settings.get(name, "")
        if production and copies == "1":
            remedy = f"{name} = 3, and add copies to the topic that exists"
            yield Finding("internal topics", State.FAIL, f"{name} = 1", remedy)


def _stamps(settings: Mapping[str, str]) -> Iterator[Finding]:
    """How far from a broker's clock a record's stamp may lie: all topics but commands take that of whoever wrote it."""
    for side, word, default_ms in (("after", "ahead of", 3_600_000), ("before", "behind", 2**63 - 1)):
        name = _STAMP.format(side)
        may_s = int(settings.get(name) or default_ms) / 1_000
        if may_s < _STAMP_S_MIN:
            found = f"brokers refuse records that are stamped over {may_s:g} s {word} their clock"
            remedy = f"{name} = {default_ms}, Kafka's default: a role whose clock is so far off cannot write at all"
            yield Finding("record stamps", State.WARN, found, remedy)


def _open_transactions(cluster: KafkaCluster, seen: Seen, wait: Callable[[float], object]) -> Iterator[Finding]:
    """Where readers of committed records stand still before the end: somebody's open transaction holds them."""
    places = [TopicPartition(t.name, n) for t in seen.topics.values() for n in range(t.partitions) if not t.leaderless]
    try:
        before = cluster.ends(places, committed=True)
        ends = cluster.ends(places, committed=False)
        held = [place for place in places if before[place] < ends[place]]
        if held:
            wait(STALL_S)
            after = cluster.ends(held, committed=True)
            held = [place for place in held if after[place] == before[place]]
    except AccessRefused as refused:
        yield Finding("open transactions", State.WARN, str(refused), "Give this user Describe on the topics")
        return
    yield unless(
        not held,
        "open transactions",
        f"{len(held)} partitions held for {STALL_S:g} s or more, such as {held[0].topic}[{held[0].partition}] at "
        f"{before[held[0]]}"
        if held
        else "none holds readers back",
        "kafka-transactions.sh list; a dead client's ends by itself within its transaction.timeout.ms",
        State.WARN,
    )


def _rights(cluster: KafkaCluster, plan: Plan, principal: Principal, *, production: bool) -> Iterator[Finding]:
    try:
        there = cluster.rights()
    except AccessRefused as refused:
        yield Finding("rights", State.WARN, str(refused), "Give this user Describe on the cluster")
        return
    if there is None:
        yield unless(
            not production,
            "rights",
            "the brokers have no authorizer: everybody may write everything, run-events too",
            "authorizer.class.name on the brokers, then waterclock init",
            State.WARN,
        )
        return
    missing = {acl.role for acl in plan.acls for right in rights_of(acl, principal) if right not in there}
    yield unless(
        not missing,
        "rights",
        f"as planned for {len({acl.role for acl in plan.acls})} users"
        if not missing
        else f"not all that is planned for {', '.join(sorted(principal(role) for role in missing))}",
        "waterclock init gives them; other names: --principal",
        State.WARN,
    )
