"""A receiver in which an effect happens once: ``python receiver.py <port> <database file>``; ``GET /`` counts effects.

The check is ``take``. It needs a store that is kept as long as the effect itself, here SQLite because Python brings it.
Verify the signature before (docs/executors.md).
"""

import json
import sqlite3
import sys
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SCHEMA = "CREATE TABLE IF NOT EXISTS inbox (key TEXT PRIMARY KEY, fence INT, done INT DEFAULT 0);"
SCHEMA += "CREATE TABLE IF NOT EXISTS effects (body TEXT);"
Effect = Callable[[sqlite3.Connection, bytes], object]


def take(path: str, key: str, fence: int, body: bytes, effect: Effect) -> int:
    """The status to answer with: 200 it is done, now or before; 409 a newer attempt is at it."""
    db = sqlite3.connect(path, timeout=10, isolation_level="IMMEDIATE")
    try:
        with db:  # 1. admit: from now on every older attempt is refused
            db.execute("INSERT OR IGNORE INTO inbox (key, fence) VALUES (?, -1)", (key,))
            newest, done = db.execute("SELECT fence, done FROM inbox WHERE key = ?", (key,)).fetchone()
            if done or fence < newest:
                return 200 if done else 409
            db.execute("UPDATE inbox SET fence = ? WHERE key = ?", (fence, key))
        with db:  # 2. effect and key in one transaction, if nobody newer has come meanwhile
            mine = "UPDATE inbox SET done = 1 WHERE key = ? AND fence = ? AND done = 0"
            if db.execute(mine, (key, fence)).rowcount == 0:
                return 409
            effect(db, body)
        return 200
    finally:
        db.close()


def keep(db: sqlite3.Connection, body: bytes) -> object:
    """Your effect, in the same database; what fails here is undone, and a later attempt tries again."""
    return db.execute("INSERT INTO effects VALUES (?)", (json.dumps(json.loads(body)),))


class Handler(BaseHTTPRequestHandler):
    """Key and fence come in headers."""

    path_of_db = ""

    def do_POST(self) -> None:
        """One callback."""
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        key, fence = self.headers.get("Idempotency-Key", ""), self.headers.get("Waterclock-Fence", "")
        try:
            status = take(self.path_of_db, key, int(fence), body, keep) if key and fence.isdigit() else 400
        except ValueError:
            status = 422
        self._answer(status, b"")

    def do_GET(self) -> None:
        """How many effects there are."""
        db = sqlite3.connect(self.path_of_db)
        (count,) = db.execute("SELECT count(*) FROM effects").fetchone()
        db.close()
        self._answer(200, str(count).encode())

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Handler.path_of_db = sys.argv[2]
    first = sqlite3.connect(sys.argv[2])
    first.executescript(SCHEMA)
    first.close()
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
