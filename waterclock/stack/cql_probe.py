"""Asks a Cassandra for its release version, in the few frames of CQL v4 that this takes.

So readiness costs no driver, no threads and no control connection (the Store alone imports the driver), and it means
that a query was answered. Every read is bounded by the socket's timeout.
"""

from __future__ import annotations

import socket
import struct

_STARTUP, _READY, _QUERY, _RESULT = 0x01, 0x02, 0x07, 0x08
_ROWS = 2
_QUESTION = b"SELECT release_version FROM system.local"
_FRAME_MAX = 64 * 1024


def release_version(port: int, host: str = "127.0.0.1", timeout_s: float = 2.0) -> str | None:
    """The version that the node on ``host:port`` answers with, or None when it does not (yet) answer a query."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            option = _text(b"CQL_VERSION") + _text(b"3.0.0")
            if _ask(connection, _STARTUP, struct.pack(">H", 1) + option)[0] != _READY:
                return None
            query = struct.pack(">i", len(_QUESTION)) + _QUESTION + struct.pack(">HB", 1, 0)  # consistency ONE
            opcode, body = _ask(connection, _QUERY, query)
            return _first_cell(body) if opcode == _RESULT else None
    except (OSError, struct.error, ValueError):
        return None


def listening(port: int, host: str = "127.0.0.1", timeout_s: float = 2.0) -> str | None:
    """The address, if somebody listens there: of a node that answers only those whom it knows we ask no more."""
    try:
        with socket.create_connection((host, port), timeout=timeout_s):
            return f"{host}:{port}"
    except OSError:
        return None


def _ask(connection: socket.socket, opcode: int, body: bytes) -> tuple[int, bytes]:
    connection.sendall(struct.pack(">BBhBi", 4, 0, 0, opcode, len(body)) + body)
    _, _, _, answer, length = struct.unpack(">BBhBi", _exactly(connection, 9))
    if not 0 <= length <= _FRAME_MAX:
        raise ValueError(f"a frame of {length} bytes is not an answer to this question")
    return answer, _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = connection.recv(count - len(data))
        if not part:
            raise ValueError("the connection ended inside a frame")
        data += part
    return data


def _text(word: bytes) -> bytes:
    return struct.pack(">H", len(word)) + word


def _first_cell(body: bytes) -> str:
    """The only cell of the only row: behind kind, flags, column count, keyspace, table, column name and type."""
    kind, _, columns = struct.unpack_from(">iii", body)
    at = 12
    for _ in range(3):  # keyspace and table (the flag for one global table spec is always set here), column
        at += 2 + struct.unpack_from(">H", body, at)[0]
    at += 2  # the column's type, text
    rows, length = struct.unpack_from(">ii", body, at)
    if (kind, columns, rows) != (_ROWS, 1, 1):
        raise ValueError("not one row of one column")
    return body[at + 8 : at + 8 + length].decode()
