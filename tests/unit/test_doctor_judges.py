"""What the doctor makes of what it sees: each finding's grade, without a server."""

from __future__ import annotations

import pytest

from waterclock.clock import SystemClock
from waterclock.clusters import doctor_cassandra, doctor_clocks, doctor_kafka
from waterclock.clusters.doctor_clocks import Beat
from waterclock.clusters.doctor_kafka import Seen
from waterclock.clusters.finding import Finding, State
from waterclock.clusters.plan import plan_of
from waterclock.log.kafka_cluster import TopicSeen
from waterclock.log.kafka_protocol import release_of
from waterclock.model.errors import AccessRefused
from waterclock.model.zones import TZDATA_VERSION
from waterclock.settings import CassandraSettings, Settings
from waterclock.store.looking import StoreSeen

SETTINGS = Settings()
PLAN = plan_of(SETTINGS)
NOW = 1_800_000_000_000_000
STORE = StoreSeen(
    ("5.0.9",),
    ("datacenter1",),
    ("a",),
    {"class": "org.apache.cassandra.locator.NetworkTopologyStrategy", "datacenter1": "3"},
    0,
    "",
    True,
    NOW,
    NOW,
    NOW,
)


_SCAN = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
BROKER = {"auto.create.topics.enable": "false", _SCAN: "10000"}


def seen(**config: str) -> Seen:
    topics = {
        s.name: TopicSeen(s.name, s.partitions, 3, 0, s.config | {"min.insync.replicas": "2"}) for s in PLAN.topics
    }
    return Seen({1: "a:9092"}, {name: t._replace(config=t.config | config) for name, t in topics.items()}, {})


def states(findings) -> dict[str, State]:
    worst = [State.OK, State.WARN, State.FAIL, State.UNREACHABLE]
    found: dict[str, State] = {}
    for finding in findings:
        found[finding.check] = max(found.get(finding.check, State.OK), finding.state, key=worst.index)
    return found


class NotToBeLookedInto:
    """A cluster whose brokers let this user ask for no topic's settings."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def brokers(self):
        return {1: "a:9092"}

    def broker_settings(self, _):
        return BROKER | {"auto.create.topics.enable": "true"}

    def topics(self, _):
        raise AccessRefused("kafka", "settings: TOPIC_AUTHORIZATION_FAILED")

    def rights(self):
        return None


def test_topics_that_may_not_be_looked_into_are_a_warning_and_stop_no_other_check(monkeypatch):
    monkeypatch.setattr(doctor_kafka, "KafkaCluster", lambda *_, **__: NotToBeLookedInto())
    monkeypatch.setattr(doctor_kafka, "speaks_since", lambda *_: (4, 1))
    found = states(doctor_kafka.examine(PLAN, SETTINGS, str, lambda _: None))
    assert found["topics"] is State.WARN
    assert found["auto-create"] is State.WARN
    assert "rights" in found
    assert found["kafka"] is State.OK


def test_all_as_planned_is_all_well():
    findings = [
        *doctor_kafka.judge_topics(PLAN, seen()),
        *doctor_kafka.judge_copies(seen(), production=True),
        *doctor_kafka.judge_broker(BROKER, production=True),
        *doctor_cassandra.judge(STORE, SETTINGS.cassandra, production=True),
    ]
    assert set(states(findings).values()) == {State.OK}
    assert all(not finding.next_step for finding in findings)


@pytest.mark.parametrize(
    ("change", "check", "state"),
    [
        ({"releases": ("5.0.9", "4.1.3")}, "cassandra", State.FAIL),
        ({"schema_versions": ("a", "b")}, "schema agreement", State.FAIL),
        ({"waiting": 2}, "schema", State.FAIL),
        ({"conflict": "another's"}, "schema", State.FAIL),
        ({"replication": None}, "schema", State.FAIL),
        ({"stamps_allowed": False}, "stamps", State.FAIL),
        ({"datacenters": ("eu",)}, "datacenter", State.FAIL),
        ({"replication": {"class": "x.SimpleStrategy", "replication_factor": "3"}}, "copies of rows", State.WARN),
        ({"replication": {"class": "x.NetworkTopologyStrategy", "eu": "3"}}, "copies of rows", State.FAIL),
        ({"replication": {"class": "x.NetworkTopologyStrategy", "datacenter1": "2"}}, "copies of rows", State.WARN),
        ({"server_at": NOW + 5_000_000}, "cassandra clock", State.WARN),
        ({"server_at": NOW - 5_000_000}, "cassandra clock", State.WARN),
    ],
)
def test_what_is_wrong_with_the_store_is_graded_and_has_a_next_step(change, check, state):
    findings = list(doctor_cassandra.judge(STORE._replace(**change), SETTINGS.cassandra, production=False))
    assert states(findings)[check] is state
    assert all(finding.next_step for finding in findings if finding.state is not State.OK)


def test_the_way_of_the_question_is_no_difference_of_clocks():
    slow = STORE._replace(asked_at=NOW - 3_000_000, told_at=NOW + 3_000_000)
    assert states(doctor_cassandra.judge(slow, SETTINGS.cassandra, production=False))["cassandra clock"] is State.OK


@pytest.mark.parametrize(
    ("broker", "check", "state"),
    [
        ({"auto.create.topics.enable": "true"}, "auto-create", State.WARN),
        ({"unclean.leader.election.enable": "true"}, "unclean election", State.FAIL),
        ({"offsets.retention.minutes": "60"}, "offsets", State.WARN),
        ({_SCAN: "500"}, "dead transactions", State.WARN),
        ({"log.message.timestamp.after.max.ms": "5000"}, "record stamps", State.WARN),
        ({"log.message.timestamp.before.max.ms": "5000"}, "record stamps", State.WARN),
        ({"transaction.state.log.replication.factor": "1"}, "internal topics", State.FAIL),
    ],
)
def test_what_is_wrong_with_a_broker_is_graded(broker, check, state):
    findings = list(doctor_kafka.judge_broker(BROKER | broker, production=True))
    assert states(findings)[check] is state


def test_a_topic_without_leaders_fails_and_a_missing_one_leads_to_init():
    half = seen()
    name = next(iter(half.topics))
    broken = half._replace(topics={name: half.topics[name]._replace(leaderless=2)})
    findings = [each for each in doctor_kafka.judge_topics(PLAN, broken) if each.check == "topics"]
    assert [each.state for each in findings] == [State.FAIL, State.FAIL]
    assert "waterclock init" in findings[0].next_step
    assert "2 partitions without a leader" in findings[1].found


def test_one_copy_is_a_warning_until_it_is_production():
    single = seen()._replace(topics={n: t._replace(replication=1) for n, t in seen().topics.items()})
    assert states(doctor_kafka.judge_copies(single, production=False)) == {"copies": State.WARN}
    assert states(doctor_kafka.judge_copies(single, production=True)) == {"copies": State.FAIL}
    lone = seen(**{"min.insync.replicas": "1"})
    assert states(doctor_kafka.judge_copies(lone, production=True))["copies in sync"] is State.FAIL


@pytest.mark.parametrize(
    ("newest", "release"), [({}, None), ({0: 9, 26: 3}, (3, 0)), ({0: 12, 26: 5}, (4, 0)), ({0: 13, 26: 5}, (4, 1))]
)
def test_a_broker_is_as_old_as_the_requests_that_it_understands(newest, release):
    assert release_of(newest) == release
    expected = State.OK if release is not None and release >= (4, 0) else State.WARN
    assert doctor_kafka.judge_release(release).state is expected


def test_a_broker_ahead_of_us_shows_and_an_old_command_shows_nothing():
    assert doctor_clocks.judge_broker(None, NOW).state is State.OK
    assert doctor_clocks.judge_broker(NOW - 60_000_000, NOW).state is State.OK
    assert doctor_clocks.judge_broker(NOW + 2_000_000, NOW).state is State.WARN


def test_workers_are_compared_in_clock_and_zone_data():
    def judged(*beats: Beat) -> dict[str, Finding]:
        return {each.check: each for each in doctor_clocks.judge_workers(list(beats))}

    assert judged()["workers"].state is State.WARN
    alike = judged(Beat("w", TZDATA_VERSION, 20_000))
    assert {each.state for each in alike.values()} == {State.OK}
    apart = judged(Beat("late", TZDATA_VERSION, 5_000_000), Beat("old", "1999a", 0))
    assert apart["worker clocks"].found == "late is 5 s behind ours"
    assert "1999a" in apart["zone data"].found


def test_a_setting_of_the_store_that_cannot_be_is_a_finding_and_ends_no_look():
    wrong = Settings(cassandra=CassandraSettings(client={"conect_timeout": 5}))

    (found,) = doctor_cassandra.examine(wrong, SystemClock())

    assert (found.check, found.state) == ("cassandra", State.FAIL)
    assert "conect_timeout" in found.found
