"""Listeners that count who connects: on addresses that must never be reached, and on those that may be."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections import Counter
from concurrent import futures
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import grpc

FORBIDDEN_4 = ("127.0.0.1", "127.0.0.2", "127.1.2.3", "127.255.255.254")


class Forbidden:
    """One port on several loopback addresses of both kinds. ``count`` is what arrived, by address."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self._selector = selectors.DefaultSelector()
        self._stopping = threading.Event()
        self.port = self._bind()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _bind(self) -> int:
        first = socket.create_server((FORBIDDEN_4[0], 0), backlog=1_024)
        port = int(first.getsockname()[1])
        listeners = {FORBIDDEN_4[0]: first}
        for address in FORBIDDEN_4[1:]:
            listeners[address] = socket.create_server((address, port), backlog=1_024)
        if socket.has_ipv6:
            with contextlib.suppress(OSError):  # a machine without IPv6: the ledger still sees who tries
                listeners["::1"] = socket.create_server(("::1", port), family=socket.AF_INET6, backlog=1_024)
        for address, listener in listeners.items():
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, address)
        self.addresses = tuple(listeners)
        return port

    def _accept(self) -> None:
        while not self._stopping.is_set():
            for key, _ in self._selector.select(0.1):
                taken, _ = key.fileobj.accept()  # type: ignore[union-attr]
                self.count[key.data] += 1
                taken.close()

    def close(self) -> None:
        self._stopping.set()
        self._thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()


class HttpSink:
    """Answers ``/`` with 200 and ``/to/<status>/<which>`` with a redirect to one of ``leads``."""

    def __init__(self, leads: tuple[str, ...] = ()) -> None:
        self.paths: list[str] = []
        sink = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("content-length", "0")))
                sink.paths.append(self.path)
                parts = self.path.split("/")
                self.send_response(int(parts[2]) if parts[1] == "to" else 200)
                if parts[1] == "to":
                    lead = leads[int(parts[3])]
                    for name in ("Location", "Content-Location", "Alt-Svc", "Link"):
                        self.send_header(name, lead)
                    self.send_header("Refresh", f"0;url={lead}")
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.place = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class GrpcSink(grpc.GenericRpcHandler):
    """Any method, plain bytes."""

    def __init__(self) -> None:
        self.calls_count = 0
        self._server = grpc.server(futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))
        self.place = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, _call: Any) -> Any:
        def unary(request: bytes, _context: object) -> bytes:
            self.calls_count += 1
            return request

        return grpc.unary_unary_rpc_method_handler(unary)

    def close(self) -> None:
        self._server.stop(None).wait(5.0)

    def __enter__(self) -> Self:
        return self
