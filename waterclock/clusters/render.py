"""A plan in other people's forms: CQL, shell lines for Kafka's own tools, Strimzi's YAML, JSON. Pure.

For places where nobody hands out the right to make topics: the plan is reviewed, committed, and applied by whoever
may. Rendering twice gives the same text. Nothing secret is in it: users are named, their passwords never.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .acls import Acl, Resource
from .plan import BROKER_DEFAULT, Plan

Principal = Callable[[str], str]
"""A role's name as the cluster knows it, without the ``User:`` before it."""

_STRIMZI_API = "kafka.strimzi.io/v1"
_STRIMZI_TYPE = {Resource.TRANSACTIONAL_ID: "transactionalId"}


def document(plan: Plan, principal: Principal) -> dict[str, Any]:
    """The plan as one JSON document."""
    return {
        "topics": [
            {"name": s.name, "partitions": s.partitions, "replication": _copies(plan), "config": s.config}
            for s in plan.topics
        ],
        "acls": [
            {
                "principal": f"User:{principal(acl.role)}",
                "resource": acl.resource.value,
                "name": acl.name,
                "pattern": "prefixed" if acl.prefixed else "literal",
                "operations": list(acl.operations),
            }
            for acl in plan.acls
        ],
        "cql": list(plan.statements),
    }


def cql(plan: Plan) -> str:
    """For ``cqlsh``: may run twice, one runner at a time."""
    return "\n\n".join(f"{statement};" for statement in plan.statements)


def kafka(plan: Plan, principal: Principal) -> str:
    """Lines for ``kafka-topics.sh`` and ``kafka-acls.sh``; ``$BOOTSTRAP`` and ``$CLIENT`` (a file) are the caller's."""
    lines = ["# BOOTSTRAP=host:port CLIENT=client.properties"]
    lines += [_topic_line(plan, number) for number in range(len(plan.topics))]
    lines += [_acl_line(acl, principal(acl.role)) for acl in plan.acls]
    return "\n".join(lines)


def strimzi(plan: Plan, principal: Principal, cluster: str) -> str:
    """KafkaTopic and KafkaUser resources (Strimzi 0.49 and later); ``cluster``: the Kafka resource they belong to."""
    labels = {"strimzi.io/cluster": cluster}
    documents = [*_strimzi_topics(plan, labels), *_strimzi_users(plan, principal, labels)]
    return "\n---\n".join("\n".join(_yaml(each)) for each in documents)


def _copies(plan: Plan) -> int | None:
    return None if plan.replication == BROKER_DEFAULT else plan.replication


def _topic_line(plan: Plan, number: int) -> str:
    spec = plan.topics[number]
    words = ["--create", "--if-not-exists", "--topic", spec.name, "--partitions", str(spec.partitions)]
    copies = _copies(plan)
    words += ["--replication-factor", str(copies)] if copies else []
    words += [word for key, value in spec.config.items() for word in ("--config", f"{key}={value}")]
    return f'kafka-topics.sh --bootstrap-server "$BOOTSTRAP" --command-config "$CLIENT" {shlex.join(words)}'


def _acl_line(acl: Acl, user: str) -> str:
    words = ["--add", "--allow-principal", f"User:{user}"]
    words += [word for operation in acl.operations for word in ("--operation", operation)]
    words += ["--cluster"] if acl.resource is Resource.CLUSTER else [f"--{acl.resource.value}", acl.name]
    words += ["--resource-pattern-type", "prefixed"] if acl.prefixed else []
    return f'kafka-acls.sh --bootstrap-server "$BOOTSTRAP" --command-config "$CLIENT" {shlex.join(words)}'


def _strimzi_topics(plan: Plan, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    copies = _copies(plan)
    for spec in plan.topics:
        sizes = {"partitions": spec.partitions} | ({"replicas": copies} if copies else {})
        yield {
            "apiVersion": _STRIMZI_API,
            "kind": "KafkaTopic",
            "metadata": {"name": spec.name, "labels": labels},
            "spec": sizes | {"config": spec.config},
        }


def _strimzi_users(plan: Plan, principal: Principal, labels: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    for role in dict.fromkeys(acl.role for acl in plan.acls):
        rules = [_strimzi_rule(acl) for acl in plan.acls if acl.role == role]
        yield {
            "apiVersion": _STRIMZI_API,
            "kind": "KafkaUser",
            "metadata": {"name": principal(role), "labels": labels},
            "spec": {
                "authentication": {"type": "scram-sha-512"},
                "authorization": {"type": "simple", "acls": rules},
            },
        }


def _strimzi_rule(acl: Acl) -> dict[str, Any]:
    resource: dict[str, str] = {"type": _STRIMZI_TYPE.get(acl.resource, acl.resource.value)}
    if acl.resource is not Resource.CLUSTER:
        resource |= {"name": acl.name, "patternType": "prefix" if acl.prefixed else "literal"}
    return {"resource": resource, "operations": list(acl.operations)}


def _yaml(value: Mapping[str, Any], indent: str = "") -> Iterator[str]:
    """Block YAML of plain trees; texts in JSON's quotes, which YAML reads alike."""
    for key, inner in value.items():
        name = f"{indent}{_scalar(key)}:"
        if isinstance(inner, Mapping):
            yield name
            yield from _yaml(inner, f"{indent}  ")
        elif isinstance(inner, Sequence) and not isinstance(inner, str):
            yield name
            yield from _yaml_list(inner, f"{indent}  ")
        else:
            yield f"{name} {_scalar(inner)}"


def _yaml_list(items: Sequence[Any], indent: str) -> Iterator[str]:
    for item in items:
        if isinstance(item, Mapping):
            first, *rest = _yaml(item, f"{indent}  ")
            yield f"{indent}- {first.strip()}"
            yield from rest
        else:
            yield f"{indent}- {_scalar(item)}"


def _scalar(value: object) -> str:
    plain = isinstance(value, str) and value.replace("-", "").replace("/", "").replace(".", "").isalpha()
    return (
        str(value) if plain and value not in {"true", "false", "null", "yes", "no", "on", "off"} else json.dumps(value)
    )
