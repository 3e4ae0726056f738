"""A client that asks the API again under the same key until somebody says what became of it.

Imports nothing of ours. ``None`` for whoever did not answer: a refused or broken connection, half an answer, silence.
"""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple


class Answer(NamedTuple):
    """What came back. ``document``: the body's JSON object, empty where there is none."""

    status: int
    etag: str
    document: dict[str, Any]

    @property
    def says_later(self) -> bool:
        """The server's own trouble, or another request under way with the same key: asking again is right."""
        return self.status >= 500 or self.status in (409, 429)


def ask(port: int, method: str, path: str, body: bytes, headers: dict[str, str], *, within_s: float) -> Answer | None:
    """One request to the API on this machine, on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=within_s)
    try:
        connection.request(method, path, body or None, {"Content-Type": "application/json", **headers})
        response = connection.getresponse()
        text = response.read()
        told = json.loads(text) if text else {}
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()
    return Answer(response.status, response.headers.get("ETag", ""), told if isinstance(told, dict) else {})
