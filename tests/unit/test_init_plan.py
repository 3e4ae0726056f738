"""The plan of topics, rights and tables: what is in it, what it refuses, and how it reads in other people's forms."""

from __future__ import annotations

import json
import re
import sys

import pytest
import yaml

from waterclock import cli
from waterclock.clusters import render
from waterclock.clusters.acls import Acl, Resource, acls
from waterclock.clusters.drift import drift_of, rights_of
from waterclock.clusters.plan import BROKER_DEFAULT, Plan, plan_of
from waterclock.commands.init import named
from waterclock.log.kafka_cluster import TopicSeen
from waterclock.model.errors import RequestError
from waterclock.settings import Settings
from waterclock.store.migrate import migrations
from waterclock.wire.names import Names, topic_specs


@pytest.fixture(autouse=True)
def own_surroundings(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.environ", {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})


def planned(**settings) -> Plan:
    return plan_of(Settings(**settings))


def users(role: str) -> str:
    return f"wc-{role}"


def test_the_plan_has_every_topic_of_the_roles_every_pool_and_every_bound_ingress():
    plan = planned(pools=["gpu"], intake={"tenants": {"shop.orders": "shop"}})
    names = {spec.name for spec in plan.topics}
    assert {spec.name for spec in topic_specs(Names(), 4)} <= names
    assert {"waterclock.runs.high.gpu", "shop.orders"} <= names


def test_every_right_is_about_a_name_of_the_plan_or_of_the_prefix():
    plan = planned(intake={"tenants": {"shop.orders": "shop"}})
    known = {spec.name for spec in plan.topics}
    for acl in plan.acls:
        if acl.resource is Resource.TOPIC and not acl.prefixed:
            assert acl.name in known, acl
        if acl.prefixed:
            assert acl.name.startswith("waterclock."), acl


def test_nobody_but_roles_may_write_what_decides():
    writers: dict[str, set[str]] = {}
    for acl in acls(Names()):
        if acl.resource is Resource.TOPIC and "Write" in acl.operations:
            writers.setdefault(acl.name, set()).add(acl.role)
    assert writers["waterclock.run-events"] == {"dispatcher", "worker", "retry-router", "dag-engine"}
    assert writers["waterclock.runs."] == {"dispatcher", "retry-router", "dag-engine"}
    assert writers["waterclock.commands"] == {"intake", "api", "operator", "retry-router", "dispatcher"}
    assert writers["waterclock.leases"] == {"worker", "retry-router"}
    assert [name for name, roles in writers.items() if "producer" in roles] == ["waterclock.job-events"]


def test_the_intake_may_read_the_topics_that_start_jobs_and_who_waits_for_them_and_nothing_is_made_of_them():
    plan = planned(intake={"sources": {"shop.orders": ["shop"]}})
    rights = {acl.name: acl.operations for acl in plan.acls if acl.role == "intake"}
    assert (rights["shop.orders"], rights["waterclock.triggers"]) == (("Read", "Describe"), ("Read", "Describe"))
    assert rights["waterclock.intake-sources"] == ("Read", "Describe")
    assert "shop.orders" not in {spec.name for spec in plan.topics}
    assert "waterclock.triggers" not in {acl.name for acl in acls(Names()) if acl.role == "intake"}


def test_each_ingress_topic_has_a_producer_of_its_own_and_each_allowed_topic_the_worker():
    plan = planned(intake={"tenants": {"acme-jobs": "acme", "b-jobs": "b"}}, kafka_records={"allow": "bills,mail"})
    writers: dict[str, set[str]] = {}
    for acl in plan.acls:
        if acl.resource is Resource.TOPIC and "Write" in acl.operations:
            writers.setdefault(acl.name, set()).add(acl.role)
    assert writers["waterclock.job-events"] == {"producer"}
    assert writers["acme-jobs"] == {"producer-acme-jobs"}
    assert writers["b-jobs"] == {"producer-b-jobs"}
    assert writers["bills"] == writers["mail"] == {"worker"}


def test_the_operator_may_look_at_every_topic_that_the_doctor_compares_with_the_plan():
    plan = planned(intake={"tenants": {"acme-jobs": "acme"}}, pools=["gpu"])
    looks = [
        acl for acl in plan.acls if acl.role == "operator" and {"Describe", "DescribeConfigs"} <= {*acl.operations}
    ]
    for spec in plan.topics:
        rights = [acl for acl in looks if acl.resource is Resource.TOPIC and covers(acl, spec.name)]
        assert rights, f"brokers show {spec.name} to nobody who may not describe it: it would be called missing"
    assert "acme-jobs" not in {acl.name for acl in plan.acls if acl.resource is Resource.GROUP}


def covers(acl: Acl, name: str) -> bool:
    return name.startswith(acl.name) if acl.prefixed else name == acl.name


def test_a_role_may_initialise_no_transactional_id_of_another_but_the_lease_keeper_a_workers():
    ids = [(acl.role, acl.name) for acl in acls(Names()) if acl.resource is Resource.TRANSACTIONAL_ID]
    keepers = ("retry-router", Names().transactional_id("worker", ""))
    assert keepers in ids
    ids.remove(keepers)
    for role, name in ids:
        assert [other for other, inner in ids if inner.startswith(name)] == [role]


def test_production_plans_three_copies_and_refuses_one():
    plan = planned(production=True)
    assert plan.replication == 3
    assert plan.keyspace_replication == 3
    assert all(spec.config["min.insync.replicas"] == "2" for spec in plan.topics)
    with pytest.raises(RequestError, match=r"kafka\.replication = 1 is refused in production"):
        planned(production=True, kafka={"replication": 1})
    with pytest.raises(RequestError, match=r"kafka\.min_insync = 1 is refused in production"):
        planned(production=True, kafka={"min_insync": 1})
    with pytest.raises(RequestError, match=r"cassandra\.replication = 1 is refused in production"):
        planned(production=True, cassandra={"replication": 1})


def test_copies_are_the_brokers_matter_unless_they_are_set():
    assert planned().replication == BROKER_DEFAULT
    with pytest.raises(RequestError, match="can never be met"):
        planned(kafka={"replication": 2, "min_insync": 3})


def test_the_cql_is_what_the_migrator_runs_and_notes_that_it_has():
    text = render.cql(planned(cassandra={"keyspace": "jobs", "local_dc": "eu"}))
    assert text.startswith("CREATE KEYSPACE IF NOT EXISTS jobs WITH replication = {'class': 'NetworkTopologyStrategy'")
    for migration in migrations():
        assert all(f"{statement};" in text for statement in migration.statements)
        assert migration.sha256 in text


def test_strimzis_yaml_says_what_the_plan_says():
    plan = planned(kafka={"replication": 3})
    documents = list(yaml.safe_load_all(render.strimzi(plan, users, "main")))
    topics = {each["metadata"]["name"]: each["spec"] for each in documents if each["kind"] == "KafkaTopic"}
    assert {name: (spec["partitions"], spec["replicas"], spec["config"]) for name, spec in topics.items()} == {
        spec.name: (spec.partitions, 3, spec.config) for spec in plan.topics
    }
    rules = [
        (
            each["metadata"]["name"],
            rule["resource"].get("name"),
            rule["resource"].get("patternType"),
            rule["operations"],
        )
        for each in documents
        if each["kind"] == "KafkaUser"
        for rule in each["spec"]["authorization"]["acls"]
    ]
    assert rules == [(users(acl.role), *_strimzi_place(acl), list(acl.operations)) for acl in sorted_by_role(plan)]
    assert {each["metadata"]["labels"]["strimzi.io/cluster"] for each in documents} == {"main"}


def sorted_by_role(plan: Plan):
    roles = list(dict.fromkeys(acl.role for acl in plan.acls))
    return sorted(plan.acls, key=lambda acl: roles.index(acl.role))


def _strimzi_place(acl) -> tuple[str | None, str | None]:
    if acl.resource is Resource.CLUSTER:
        return None, None
    return acl.name, "prefix" if acl.prefixed else "literal"


def test_the_lines_for_kafkas_tools_name_every_topic_and_right():
    plan = planned()
    lines = render.kafka(plan, users).splitlines()
    assert sum(line.startswith("kafka-topics.sh") for line in lines) == len(plan.topics)
    assert sum(line.startswith("kafka-acls.sh") for line in lines) == len(plan.acls)
    assert any("--transactional-id waterclock.worker. --resource-pattern-type prefixed" in line for line in lines)


def test_operations_become_the_brokers_words():
    rights = rights_of(next(acl for acl in acls(Names()) if acl.resource is Resource.CLUSTER), users)
    assert [right.operation for right in rights] == ["DESCRIBE", "DESCRIBE_CONFIGS"]
    assert rights[0].principal == "User:wc-operator"


def test_a_difference_is_said_with_the_line_that_ends_it_and_how_grave_it_is():
    spec = next(each for each in topic_specs(Names(), 4) if each.name == "waterclock.commands")
    as_planned = TopicSeen(spec.name, 4, 1, 0, spec.config)
    assert drift_of(spec, BROKER_DEFAULT, as_planned) == []
    other = as_planned._replace(
        partitions=6, config=spec.config | {"message.timestamp.type": "CreateTime", "retention.ms": "1"}
    )
    found = {each.what: each for each in drift_of(spec, 3, other)}
    assert {what: each.serious for what, each in found.items()} == {
        "6 partitions, not 4": True,
        "1 copies, not 3": True,
        "message.timestamp.type = CreateTime, not LogAppendTime": True,
        "retention.ms = 1, not 2592000000": False,
    }
    assert "--add-config retention.ms=2592000000" in found["retention.ms = 1, not 2592000000"].remedy


def test_a_bound_by_size_that_brokers_have_for_all_topics_is_told():
    spec = next(each for each in topic_specs(Names(), 4) if each.name == "waterclock.runs.low")
    bounded = TopicSeen(spec.name, 4, 1, 0, spec.config | {"retention.bytes": "1073741824"})
    (found,) = drift_of(spec, BROKER_DEFAULT, bounded)
    assert (found.what, found.serious) == ("retention.bytes = 1073741824, not -1", False)


def test_a_principal_is_a_template_of_prefix_and_role():
    assert named(Settings(), "CN={prefix}-{role},O=acme")("api") == "CN=waterclock-api,O=acme"
    for template in ("{user}", "{}", "{prefix", "{prefix.x}", "{prefix[x]}", "{role!x}", "{role:d}", "{role[5]}"):
        with pytest.raises(RequestError, match="no template"):
            named(Settings(), template)


@pytest.mark.parametrize("form", ["json", "cql", "strimzi", "kafka", "table"])
def test_the_plan_is_printed_without_a_server(form, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["waterclock", "init", "--plan", "-o", form])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    out = capsys.readouterr().out
    assert "schema_migrations" in out or "run-events" in out
    if form == "json":
        document = json.loads(out)
        assert {topic["name"] for topic in document["topics"]} == {spec.name for spec in topic_specs(Names(), 4)}
        assert document["acls"]
        assert document["cql"]
    if form == "table":
        assert re.search(r"User:waterclock-dispatcher +topic +waterclock.commands", out)


def test_without_a_terminal_nothing_is_made_unasked(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["waterclock", "init"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    assert "waterclock init --yes" in capsys.readouterr().err
