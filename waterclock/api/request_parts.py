"""What requests carry beside their path, for the OpenAPI document: headers and bodies."""

from __future__ import annotations

from typing import Any

_REPEAT_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same request again gets the same answer, for a day and more",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}
_PREFER = {
    "name": "Prefer",
    "in": "header",
    "description": "`respond-async`: do not wait until the change is applied",
    "schema": {"type": "string"},
}
_IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "description": "The job's ETag: only if nobody changed it meanwhile; `*`: whatever stands",
    "schema": {"type": "string"},
}


def headers(*, if_match: bool = False) -> dict[str, Any]:
    """What every change takes."""
    return {"parameters": [_REPEAT_KEY, _PREFER, *([_IF_MATCH] if if_match else [])]}


def body(name: str, *, if_match: bool = False, required: bool = True) -> dict[str, Any]:
    """The same, and a body."""
    schema = {"$ref": f"#/components/schemas/{name}"}
    content = {"application/json": {"schema": schema}}
    return {**headers(if_match=if_match), "requestBody": {"required": required, "content": content}}
