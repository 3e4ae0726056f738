"""The page's own routes: four files, read once at the start, for anybody; they hold nothing of anybody's.

What must hold: the browser asks for them anew after an upgrade (ETag). That it runs nothing but them is said by the
headers that ``app.py`` puts on every answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files

from fastapi import APIRouter, Request
from starlette.responses import Response

_FILES = {
    "/": ("index.html", "text/html"),
    "/page.js": ("page.js", "text/javascript"),
    "/page.css": ("page.css", "text/css"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}


def _serve(name: str, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    body = files(__package__).joinpath(name).read_bytes()
    etag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'

    async def serve(request: Request) -> Response:
        headers = {"ETag": etag, "Cache-Control": "no-cache"}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(body, 200, headers, media_type)

    return serve


routes = APIRouter(include_in_schema=False)
for _path, (_name, _media_type) in _FILES.items():
    routes.add_route(_path, _serve(_name, _media_type), methods=["GET"], include_in_schema=False)
