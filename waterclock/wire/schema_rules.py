"""What an Avro schema of ours must be, and how it may change. Pure: documents in, complaints out.

The form keeps schemas readable (a doc everywhere) and decoding harmless: five hostile bytes for an ``array<null>`` cost
over a gigabyte, a recursive record ends the process. The change rules are FULL_TRANSITIVE: every release reads what any
other wrote. Whole files are compared, for a fingerprint sees neither defaults nor logical types.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

Node: TypeAlias = Any
Named: TypeAlias = dict[str, Node]

NAMESPACE = "io.waterclock.events"

_PRIMITIVES = frozenset({"boolean", "int", "long", "bytes", "string"})
_INSTANT = {"type": "long", "logicalType": "timestamp-micros"}
_MISSING = object()


def complaints(document: Node) -> list[str]:
    """Everything about the form of one schema that is not allowed; [] where all is well."""
    found = [] if document.get("namespace") == NAMESPACE else [f"the namespace is not {NAMESPACE}"]
    return found + list(_form(document, document["name"], {}, ()))


def breaches(old: Node, new: Node) -> list[str]:
    """Why ``old`` and ``new`` would misread each other, in either direction; [] if they don't."""
    return list(_change(old, new, old["name"], (named_types(old), named_types(new))))


def named_types(node: Node) -> Named:
    """The records and enums that a schema defines, by name."""
    if isinstance(node, list):
        return {name: each for branch in node for name, each in named_types(branch).items()}
    if not isinstance(node, dict):
        return {}
    found = {node["name"]: node} if node["type"] in {"record", "enum"} else {}
    for part in (node.get("items"), *(field["type"] for field in node.get("fields", ()))):
        found |= named_types(part)
    return found


def _form(node: Node, where: str, named: Named, open_records: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, list):
        yield from _form_of_union(node, where, named, open_records)
    elif isinstance(node, str):
        if node in open_records:
            yield f"{where}: recursion through {node}"
        elif node not in _PRIMITIVES and node not in named:
            yield f"{where}: {node} is no type that we use"
    elif node["type"] == "record":
        yield from _form_of_record(node, where, named, open_records)
    elif node["type"] == "enum":
        yield from _form_of_enum(node, where)
        named[node["name"]] = node
    elif node["type"] == "array":
        yield from _form(node["items"], f"{where}[]", named, open_records)
        if _least_bytes(node["items"], named) == 0:
            yield f"{where}: items of no bytes let a few bytes ask for any amount of memory"
    elif node != _INSTANT:
        yield f"{where}: {node} is no type that we use (no maps, no fixed, no decimals, no other logical type)"


def _form_of_union(node: Node, where: str, named: Named, open_records: tuple[str, ...]) -> Iterator[str]:
    if len(node) != 2 or node[0] != "null":
        yield f'{where}: a union is ["null", T] and nothing else'
    for branch in node[1:]:
        yield from _form(branch, where, named, open_records)


def _form_of_record(node: Node, where: str, named: Named, open_records: tuple[str, ...]) -> Iterator[str]:
    if not node.get("doc"):
        yield f"{where}: no doc"
    for field in node["fields"]:
        inside = f"{where}.{field['name']}"
        if not field.get("doc"):
            yield f"{inside}: no doc"
        if isinstance(field["type"], list) and field.get("default", _MISSING) is not None:
            yield f"{inside}: a union's default is null"
        if (field["name"].rpartition("_")[2] == "at") != (_INSTANT in (field["type"], *_branches(field["type"]))):
            yield f"{inside}: instants are timestamp-micros named at or _at, and nothing else is"
        yield from _form(field["type"], inside, named, (*open_records, node["name"]))
    named[node["name"]] = node


def _form_of_enum(node: Node, where: str) -> Iterator[str]:
    if node["symbols"][0] != "UNKNOWN" or node.get("default") != "UNKNOWN":
        yield f"{where}: an enum has UNKNOWN first and as its default"
    for symbol in node["symbols"]:
        if symbol not in node.get("doc", ""):
            yield f"{where}: the doc does not say what {symbol} means"


def _branches(node: Node) -> list[Node]:
    return node if isinstance(node, list) else []


def _least_bytes(node: Node, named: Named) -> int:
    """The fewest bytes that a value of this type takes: 0 or (at least) 1."""
    if isinstance(node, str):
        node = named.get(node, node)
    if node == "null":
        return 0
    if isinstance(node, dict) and node["type"] == "record":
        return max((_least_bytes(field["type"], named) for field in node["fields"]), default=0)
    return 1


def _change(old: Node, new: Node, where: str, named: tuple[Named, Named]) -> Iterator[str]:
    old, new = _resolved(old, named[0]), _resolved(new, named[1])
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for old_branch, new_branch in zip(old, new, strict=True):
            yield from _change(old_branch, new_branch, where, named)
    elif isinstance(old, dict) and isinstance(new, dict) and _identity(old) == _identity(new):
        if old["type"] == "record":
            yield from _change_of_record(old, new, where, named)
        elif old["type"] == "enum":
            yield from _change_of_enum(old, new, where)
        elif old["type"] == "array":
            yield from _change(old["items"], new["items"], f"{where}[]", named)
    elif old != new:
        yield f"{where}: its type has changed"


def _change_of_record(old: Node, new: Node, where: str, named: tuple[Named, Named]) -> Iterator[str]:
    before = {field["name"]: field for field in old["fields"]}
    after = {field["name"]: field for field in new["fields"]}
    for name in before.keys() - after.keys():
        if "default" not in before[name]:
            yield f"{where}.{name}: removed, but it had no default"
    for name in after.keys() - before.keys():
        if "default" not in after[name]:
            yield f"{where}.{name}: added without a default"
    for name in before.keys() & after.keys():
        if before[name].get("default", _MISSING) != after[name].get("default", _MISSING):
            yield f"{where}.{name}: its default has changed"
        yield from _change(before[name]["type"], after[name]["type"], f"{where}.{name}", named)


def _change_of_enum(old: Node, new: Node, where: str) -> Iterator[str]:
    if new["symbols"][: len(old["symbols"])] != old["symbols"]:
        yield f"{where}: symbols may only be added, at the end"
    if old.get("default") != new.get("default"):
        yield f"{where}: its default symbol has changed"


def _identity(node: Node) -> tuple[Node, Node, Node]:
    return node["type"], node.get("name"), node.get("logicalType")


def _resolved(node: Node, named: Named) -> Node:
    return named.get(node, node) if isinstance(node, str) else node
