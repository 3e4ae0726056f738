"""How every verb of the HTTP client asks: changes that count once and are followed to their end, and lists in pages.

What must hold: a change carries an ``Idempotency-Key`` (one is made where none is given), so that a try that got no
answer can be made again and counts once. A change that the API accepts but has not seen applied yet (202) is followed
until it is, for ``timeout_s``. How it fails: as ``exchange.py`` says; NotYetApplied where it was accepted and is still
open, or could not be asked for: it will be obeyed, so look at the job, and do not send it again under another key.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from waterclock.model.errors import BackendDown, Conflict, NotFound, RequestError

from .exchange import Answer, Exchange

_LOOK_AGAIN_S = 0.2
_PAGE = 200


class NotYetApplied(BackendDown):
    """The command was accepted and nobody has obeyed it in time. ``operation_id`` names it: it is not lost."""

    def __init__(self, operation_id: str, job_id: str) -> None:
        super().__init__("the dispatcher", f"the command {operation_id} for {job_id} was accepted and waits")
        self.operation_id = operation_id
        self.job_id = job_id


class Verbs:
    """Of one API. ``timeout_s``: for how long a change that was accepted is followed."""

    def __init__(self, exchange: Exchange, timeout_s: float) -> None:
        self._exchange = exchange
        self._timeout_s = timeout_s

    def ask(self, path: str) -> Any:
        """The document at ``path``. Raises NotFound."""
        return self._exchange.ask("GET", path).body

    def change(
        self, method: str, path: str, body: Mapping[str, Any] | None, idempotency_key: str, match: str = ""
    ) -> Answer:
        """Ask for a change and follow it until it is over. ``match``: the value of ``If-Match``."""
        headers = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        if match:
            headers["If-Match"] = match
        answer = self._exchange.ask(method, path, body, headers, has_body=body is not None)
        return self._followed(answer) if answer.status == 202 else answer

    def _followed(self, accepted: Answer) -> Answer:
        """The operation, once it is over, in the form of what it stands for."""
        operation = accepted.body
        until_s = time.monotonic() + self._timeout_s
        while operation["status"] == "pending":
            if time.monotonic() > until_s:
                raise NotYetApplied(operation["operation_id"], operation["job_id"])
            time.sleep(_LOOK_AGAIN_S)
            where = f"/operations/{quote(operation['operation_id'], safe='')}"
            try:
                operation = self._exchange.ask("GET", where).body
            except (BackendDown, NotFound) as error:  # what became of it is not known, and it stands in the log
                raise NotYetApplied(operation["operation_id"], operation["job_id"]) from error
        if operation["status"] == "refused":
            raise _refused(operation.get("problem") or {})
        return Answer(200, operation, {})

    def shown(self, path: str, operation: Mapping[str, Any]) -> Any:
        """What an operation that is over has made, once history shows it. Raises NotYetApplied."""
        until_s = time.monotonic() + self._timeout_s
        while True:  # ends at ``until_s``
            try:
                return self.ask(path)
            except (BackendDown, NotFound) as error:
                if time.monotonic() > until_s or not isinstance(error, NotFound):
                    raise NotYetApplied(operation["operation_id"], operation["job_id"]) from error
            time.sleep(_LOOK_AGAIN_S)

    def pages(
        self, path: str, field: str, choice: Mapping[str, str] = MappingProxyType({}), limit: int = _PAGE
    ) -> Iterator[Any]:
        """What a list holds, asked for page by page as it is taken."""
        cursor: str | None = None
        while True:
            asked = {**choice, "limit": str(limit), **({"cursor": cursor} if cursor else {})}
            page = self._exchange.ask("GET", f"{path}?{urlencode(asked)}").body
            yield from page[field]
            cursor = page["next_cursor"]
            if cursor is None:
                return

    def close(self) -> None:
        """Give the connection up."""
        self._exchange.close()


def place(what: str, safe: str = ":") -> str:
    """An id as one step of a path. Raises RequestError for what would be none, or another one."""
    if what in ("", ".", ".."):
        raise RequestError(f"{what!r} names nothing", hint="Give a name or an id")
    return quote(what, safe=safe)


def _refused(problem: Mapping[str, Any]) -> RequestError:
    detail = str(problem.get("detail") or "the command was refused")
    slug = str(problem.get("type", "")).rpartition(":")[2]
    kind: type[RequestError] = {"not-found": NotFound, "stale": Conflict, "exists": Conflict}.get(slug, RequestError)
    return kind(detail)
