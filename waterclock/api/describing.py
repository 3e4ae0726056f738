"""The OpenAPI document: what FastAPI finds out by itself, and what only we know (bodies, keys, the one error form).

The document is committed as docs/openapi.json; a test fails when it drifts.
"""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from . import backfill_shapes, bulk, calendar_shapes, cancelling, dag_run_shapes, history, letter_views, shapes

VERSION = "1"
_REF = "#/components/schemas/{model}"
_MORE_BODIES: tuple[type[BaseModel], ...] = (
    bulk.BulkBody,
    cancelling.CancelBody,
    cancelling.CancelManyBody,
    history.RollbackBody,
    letter_views.DiscardBody,
    letter_views.RedriveBody,
    *calendar_shapes.BODIES,
    *dag_run_shapes.BODIES,
    *backfill_shapes.BODIES,
)
_OPEN_PATHS = ("/healthz", "/readyz")


def describe(app: FastAPI) -> dict[str, Any]:
    """The document, made once."""
    if app.openapi_schema is None:
        document = get_openapi(
            title="Waterclock",
            version=VERSION,
            description="Define jobs, see them run. Errors are RFC 9457 problems; every change is idempotent by key.",
            routes=app.routes,
        )
        _add_bodies(document)
        _add_keys(document)
        _drop_fastapis_errors(document)
        app.openapi_schema = document
    return app.openapi_schema


def _add_bodies(document: dict[str, Any]) -> None:
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    models: tuple[type[BaseModel], ...] = (*shapes.BODIES, *_MORE_BODIES, shapes.Problem)
    for model in models:
        schema = model.model_json_schema(ref_template=_REF)
        schemas.update(schema.pop("$defs", {}))
        schemas[model.__name__] = schema
    document["components"]["schemas"] = dict(sorted(schemas.items()))


def _add_keys(document: dict[str, Any]) -> None:
    scheme = {"type": "http", "scheme": "bearer", "description": "`wck_...`, from `waterclock key create`"}
    document["components"]["securitySchemes"] = {"key": scheme}
    for path, operations in document["paths"].items():
        if path not in _OPEN_PATHS:
            for operation in operations.values():
                operation["security"] = [{"key": []}]


def _drop_fastapis_errors(document: dict[str, Any]) -> None:
    """FastAPI describes its own 422 for routes with parameters; ours is a 400 problem."""
    ours = {"HTTPValidationError", "ValidationError"}
    schemas = document["components"]["schemas"]
    for name in ours:
        schemas.pop(name, None)
    for operations in document["paths"].values():
        for operation in operations.values():
            content = operation.get("responses", {}).get("422", {}).get("content", {})
            if content.get("application/json", {}).get("schema", {}).get("$ref", "").endswith("HTTPValidationError"):
                del operation["responses"]["422"]
