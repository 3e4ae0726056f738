"""Dags in Python: ``with Dag("nightly", cron="0 5 * * *") as dag:``, nodes, and ``a >> [b, c] >> d``.

What comes out is the job document that any other door takes (:attr:`Dag.definition`); it is checked by the same door
(:meth:`Dag.check`), so that a mistake is told in the caller's own process. Nothing is sent: a client does that,
``client.create(**dag.definition)``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from types import TracebackType
from typing import Any, Self, TypeAlias

from waterclock.model.document import KINDS, spec_from_document
from waterclock.model.errors import RequestError
from waterclock.model.ids import make_job_id
from waterclock.model.job import JobSpec


class Node:
    """One node of a :class:`Dag`. ``a >> b``: b comes after a; ``a >> [b, c]``: both do. What is right of ``>>`` is
    what the expression is, so chains read from left to right.
    """

    def __init__(self, name: str, words: dict[str, Any]) -> None:
        self.name = name
        self._words = words
        self._after: list[str] = []

    def __rshift__(self, other: _Nodes) -> _Nodes:
        for node in _each(other):
            node.comes_after(self)
        return other

    def __rrshift__(self, others: Iterable[Node]) -> Node:
        """``[a, b] >> self``."""
        self.comes_after(*others)
        return self

    def __lshift__(self, other: _Nodes) -> _Nodes:
        self.comes_after(*_each(other))
        return other

    def comes_after(self, *parents: Node) -> None:
        """Make these its parents, beside those that it has; one that it has already changes nothing."""
        self._after += [parent.name for parent in parents if parent.name not in self._after]

    @property
    def definition(self) -> dict[str, Any]:
        """As the document has it."""
        after = {"after": list(self._after)} if self._after else {}
        return {"name": self.name, **self._words, **after}


_Nodes: TypeAlias = Node | list[Node] | tuple[Node, ...]


class Dag:
    """A Dag. ``words``: the rest of a job document (``cron``, ``tier``, ``retry`` ...), and the limits of the Dag:
    ``max_active_nodes``, ``timeout``. Leaving the ``with`` block checks it: RequestError. One without a schedule may
    get it later; who saves it wants one, or ``on``.
    """

    _LIMITS = ("max_active_nodes", "timeout")

    def __init__(self, name: str, **words: Any) -> None:
        self.name = name
        self._limits = {key: words.pop(key) for key in self._LIMITS if key in words}
        self._words = words
        self._nodes: list[Node] = []

    def node(self, name: str, handler: str | None = None, **words: Any) -> Node:
        """Add a node: ``handler``, or one of ``http``, ``grpc``, ``shell``, ``kafka``, and the rest of its words.

        ``inputs`` and ``map["over"]`` may name nodes by their objects. Other nodes come before it by ``>>`` or
        ``after=[...]``.
        """
        after = words.pop("after", [])
        given = ({} if handler is None else {"handler": handler}) | words
        if "inputs" in given:
            given["inputs"] = [_name(each) for each in given["inputs"]]
        if isinstance(given.get("map"), dict) and "over" in given["map"]:
            over = given["map"]["over"]
            given["map"] = {**given["map"], "over": over.name if isinstance(over, Node) else over}
        node = Node(name, given)
        self._nodes.append(node)
        node.comes_after(*(each if isinstance(each, Node) else Node(each, {}) for each in after))
        return node

    @property
    def definition(self) -> dict[str, Any]:
        """The job document, with its name."""
        dag = {"nodes": [node.definition for node in self._nodes], **self._limits}
        return {"name": self.name, **self._words, "dag": dag}

    def check(self, tenant: str = "default") -> JobSpec:
        """The spec that this defines. Raises RequestError, as every door does."""
        return spec_from_document(self._document, job_id=make_job_id(tenant, self.name))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            spec_of_dag(self._document, make_job_id("default", self.name))

    @property
    def _document(self) -> dict[str, Any]:
        return {key: value for key, value in self.definition.items() if key != "name"}

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)


def chain(*nodes: _Nodes) -> None:
    """``a >> b >> c``, also where lists follow each other: all of the one come before all of the next."""
    for left, right in pairwise(nodes):
        for node in _each(right):
            node.comes_after(*_each(left))


def spec_of_dag(document: dict[str, Any], job_id: str) -> tuple[JobSpec, bool]:
    """The spec of a document that may get its schedule later, and whether it names what starts it. RequestError."""
    has_start = any(key in document for key in (*KINDS, "on"))
    return spec_from_document(document if has_start else {**document, "every": "1h"}, job_id=job_id), has_start


def _each(nodes: _Nodes) -> tuple[Node, ...]:
    each = (nodes,) if isinstance(nodes, Node) else tuple(nodes)
    for node in each:
        if not isinstance(node, Node):
            raise RequestError(f"{node!r} is no node", hint="Make it by dag.node(...)")
    return each


def _name(node: Node | str) -> str:
    return node.name if isinstance(node, Node) else node
