"""Receive calls of Waterclock so that each run takes effect once. Python's standard library alone.

    python receiver.py 8099 whsec_...        # then: waterclock job create ... (see docs/receivers/README.md)

The check is `receive`; what stands around it is a server to try it with. SQLite stands for your database: what matters
is that key, fence, effect and answer are one transaction of it.
"""

import base64
import hmac
import json
import sqlite3
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

TABLES = """
create table if not exists calls (key text primary key, fence integer not null, answer text);  -- no answer: not done
create table if not exists invoices (number integer primary key, customer text not null);
"""
TOLERANCE_S = 300


def receive(
    db: sqlite3.Connection, secret: str, headers: Mapping[str, str], body: bytes, now_s: float
) -> tuple[int, str]:
    """Status and body of the answer. `db` is in autocommit mode; `headers` may be looked up in lower case."""
    if not is_signed(secret, headers, body, now_s):
        return 401, "wrong signature"
    key, fence = headers["webhook-id"], int(headers["waterclock-fence"])  # the key is the run id, in every attempt
    with db:  # commits; if an error that we do not know comes out, nothing at all is stored
        db.execute("begin immediate")  # from here on no other call is between these lines
        seen_fence, answer = db.execute("select fence, answer from calls where key = ?", [key]).fetchone() or (0, None)
        if answer is not None:
            return 200, answer  # done before: the same answer, and no second effect
        if fence < seen_fence:
            return 409, "a newer attempt of this run was here"
        # The fence stays also if the effect is refused: an older attempt that is still on its way must not come after.
        db.execute("replace into calls values (?, ?, null)", [key, fence])
        db.execute("savepoint effect")
        try:
            answer = book_invoice(db, body)
        except (ValueError, KeyError, TypeError) as error:
            db.execute("rollback to effect")
            return 422, f"not booked: {type(error).__name__}"
        db.execute("update calls set answer = ? where key = ?", [answer, key])
        return 200, answer


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now_s: float) -> bool:
    """Standard Webhooks 1.0: `v1,<base64 of HMAC-SHA256>`, two of them while a secret is replaced."""
    sent_at = headers.get("webhook-timestamp", "")
    if not (sent_at.isascii() and sent_at.isdecimal()) or abs(now_s - int(sent_at)) > TOLERANCE_S:
        return False
    signed = f"{headers.get('webhook-id', '')}.{sent_at}.".encode() + body
    mac = hmac.digest(base64.b64decode(secret.removeprefix("whsec_")), signed, "sha256")
    right = b"v1," + base64.b64encode(mac)
    given = headers.get("webhook-signature", "").encode().split(b" ")
    return any(hmac.compare_digest(right, one) for one in given)


def book_invoice(db: sqlite3.Connection, body: bytes) -> str:
    """The effect, in the transaction of the check. Yours goes here."""
    number = db.execute("insert into invoices (customer) values (?)", [json.loads(body)["customer"]]).lastrowid
    return json.dumps({"invoice": number})


def serve(port: int, secret: str, database: str) -> HTTPServer:
    """A server on loopback; port 0: any that is free."""
    db = sqlite3.connect(database, isolation_level=None, check_same_thread=False)
    db.executescript(TABLES)

    class Calls(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(min(int(self.headers.get("content-length", 0)), 1 << 20))
            try:
                status, answer = receive(db, secret, self.headers, body, time.time())  # type: ignore[arg-type]
            except (ValueError, KeyError, TypeError):
                status, answer = 400, "a header is missing or no number"
            self.send_response(status)
            self.send_header("content-length", str(len(answer.encode())))
            self.end_headers()
            self.wfile.write(answer.encode())

        def log_message(self, *_: object) -> None:
            """Quiet."""

        def version_string(self) -> str:
            return "receiver"

    class Server(HTTPServer):
        def server_close(self) -> None:
            super().server_close()
            db.close()

    return Server(("127.0.0.1", port), Calls)


if __name__ == "__main__":
    server = serve(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else ":memory:")
    print(f"http://127.0.0.1:{server.server_port}/", flush=True)
    server.serve_forever()
