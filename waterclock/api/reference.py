"""``/openapi.json`` and ``/docs``: the API's own description, as a page without scripts and without anybody's CDN."""

from __future__ import annotations

from html import escape
from typing import Any

import orjson
from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

routes = APIRouter(include_in_schema=False)

_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { font-size: 1.05rem; margin: 2rem 0 .3rem } code { font-size: .95em } pre { overflow-x: auto }
table { border-collapse: collapse } td, th { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top }
details { margin: .3rem 0 }
"""


@routes.get("/openapi.json")
async def document(request: Request) -> Response:
    """OpenAPI 3.1."""
    return Response(orjson.dumps(request.app.openapi()), media_type="application/json")


@routes.get("/docs")
async def page(request: Request) -> Response:
    """The same for people."""
    return HTMLResponse(_page(request.app.openapi()))


@routes.get("/docs.css")
async def style() -> Response:
    """Its style, apart: the page may hold none (CSP)."""
    return Response(_STYLE, media_type="text/css")


def _page(document: dict[str, Any]) -> str:
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8><title>Waterclock API</title>",
        '<meta name=viewport content="width=device-width"><link rel=stylesheet href="/docs.css">',
        f"<h1>Waterclock API</h1><p>{escape(document['info']['description'])} ",
        '<a href="/openapi.json">openapi.json</a></p>',
    ]
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            parts.append(_operation(method, path, operation))
    parts.append("<h1>Shapes</h1>")
    for name, schema in document["components"]["schemas"].items():
        text = orjson.dumps(schema, option=orjson.OPT_INDENT_2).decode()
        parts.append(f"<details id={escape(name)}><summary>{escape(name)}</summary><pre>{escape(text)}</pre></details>")
    return "\n".join(parts)


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(each['name'])}</code><td>{escape(each['in'])}<td>{escape(each.get('description', ''))}"
        for each in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    answers = [f"{status}{_shape(answer)}" for status, answer in operation["responses"].items()]
    return "".join(
        (
            f"<h2><code>{method.upper()} {escape(path)}</code></h2>",
            f"<p><b>{escape(operation.get('summary', ''))}.</b> {escape(operation.get('description', ''))}</p>",
            f"<table>{''.join(rows)}</table>" if rows else "",
            f"<p>Body: {_link(body)}</p>" if body else "",
            f"<p>Answers: {', '.join(answers)}</p>",
        )
    )


def _shape(answer: dict[str, Any]) -> str:
    schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
    return f" {_link(schema)}" if "$ref" in schema else ""


def _link(schema: dict[str, Any]) -> str:
    name = escape(schema.get("$ref", "").rpartition("/")[2])
    return f'<a href="#{name}">{name}</a>'
