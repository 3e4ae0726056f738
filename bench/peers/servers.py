"""The peers' servers: each started fresh on the loopback, in a folder that goes with the round."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from bench.peers import processes
from waterclock.stack.ports import any_port

STARTS_WITHIN_S = 60.0
LOOPBACK = "127.0.0.1"


class Lacking(Exception):
    """The machine has not what a peer needs; the message says what, and how to get it."""


def server(kind: str, folder: Path, env: Mapping[str, str], target: Path) -> str:
    """Start a server of that kind; its address, in the form that drivers want.

    Raises:
        Lacking: its program is not installed.
        TimeoutError: it does not answer.
    """
    return _KINDS[kind](folder, env, target)


def _redis(folder: Path, env: Mapping[str, str], _target: Path) -> str:
    port = any_port()
    program = _program("redis-server", "apt install redis-server")
    durable = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
    argv = [program, "--bind", LOOPBACK, "--port", str(port), "--dir", str(folder), *durable]
    _started(argv, port, folder, env, lambda: _answers(port, b"PING\r\n", b"+PONG"))
    return f"redis://{LOOPBACK}:{port}/0"


def _rabbitmq(folder: Path, env: Mapping[str, str], _target: Path) -> str:
    found = shutil.which("rabbitmq-server", path="/usr/lib/rabbitmq/bin:" + os.environ["PATH"])
    if found is None:
        raise Lacking("no rabbitmq-server: apt install rabbitmq-server")
    port, distribution, mapper = any_port(), any_port(), any_port()
    (folder / "rabbitmq.conf").write_text(f"listeners.tcp.default = {LOOPBACK}:{port}\nlog.console = false\n")
    (folder / "plugins").write_text("[].\n")
    mine = {
        "HOME": str(folder),
        "RABBITMQ_NODENAME": f"peer{port}@localhost",
        "RABBITMQ_DIST_PORT": str(distribution),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
        "ERL_EPMD_PORT": str(mapper),
        "ERL_EPMD_ADDRESS": LOOPBACK,
    }
    greets = b"\x01"  # a frame of a method, Connection.Start: AMQP 0-9-1, 2.2.4
    _started([found], port, folder, {**env, **mine}, lambda: _answers(port, b"AMQP\x00\x00\x09\x01", greets))
    return f"amqp://guest:guest@{LOOPBACK}:{port}/"


def _postgres(folder: Path, env: Mapping[str, str], _target: Path, scheme: str = "postgresql://") -> str:
    places = ":".join(sorted((str(path) for path in Path("/usr/lib/postgresql").glob("*/bin")), reverse=True))
    program = shutil.which("postgres", path=f"{places}:{os.environ['PATH']}")
    if program is None:
        raise Lacking("no postgres: apt install postgresql")
    user = "postgres" if os.geteuid() == 0 else None
    data, port = folder / "data", any_port()
    data.mkdir()
    if user:
        os.chown(data, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        folder.chmod(0o755)
    initdb = [str(Path(program).with_name("initdb")), "-D", str(data), "-A", "trust", "-U", "peer", "-E", "UTF8"]
    subprocess.run([*initdb, "--locale=C"], check=True, capture_output=True, user=user, cwd=data)
    settings = {
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "max_connections": "200",
        "shared_buffers": "512MB",
        "max_wal_size": "4GB",
    }
    argv = [program, "-D", str(data), "-p", str(port), *(f"--{name}={value}" for name, value in settings.items())]
    asks = [str(Path(program).with_name("pg_isready")), "-q", "-h", LOOPBACK, "-p", str(port)]
    _started(argv, port, folder, env, lambda: _succeeds(asks, env), user=user)
    login = "?user=peer" if scheme.startswith("jdbc:") else ""
    return f"{scheme}{'' if login else 'peer@'}{LOOPBACK}:{port}/postgres{login}"


def _temporal(folder: Path, env: Mapping[str, str], target: Path) -> str:
    program = target / "bin" / "temporal"
    if not program.exists():
        raise Lacking("no temporal: its dev server could not be built")
    port = any_port()
    argv = [str(program), "server", "start-dev", "--headless", "--log-level", "error", "--ip", LOOPBACK]
    argv += ["--port", str(port), "--http-port", str(any_port()), "--metrics-port", str(any_port())]
    argv += ["--db-filename", str(folder / "temporal.db")]
    argv += ["--sqlite-pragma", "journal_mode=WAL", "--sqlite-pragma", "synchronous=NORMAL"]
    # Its limits of requests a second are meant for servers that several share.
    for limit in ("frontend.rps", "frontend.namespaceRPS", "frontend.namespaceRPS.visibility", "history.rps"):
        argv += ["--dynamic-config-value", f"{limit}=100000"]
    asks = [str(program), "operator", "cluster", "health", "--address", f"{LOOPBACK}:{port}"]
    _started(argv, port, folder, env, lambda: _succeeds(asks, env))
    return f"{LOOPBACK}:{port}"


def _memory(_folder: Path, _env: Mapping[str, str], _target: Path) -> str:
    return "memory"


_KINDS: dict[str, Callable[[Path, Mapping[str, str], Path], str]] = {
    "redis": _redis,
    "rabbitmq": _rabbitmq,
    "postgres": _postgres,
    "postgres+sqlalchemy": lambda folder, env, _target: _postgres(folder, env, _target, "postgresql+psycopg://"),
    "postgres+jdbc": lambda folder, env, _target: _postgres(folder, env, _target, "jdbc:postgresql://"),
    "temporal": _temporal,
    "memory": _memory,
}


def _program(name: str, remedy: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise Lacking(f"no {name}: {remedy}")
    return found


def _started(
    argv: list[str],
    port: int,
    folder: Path,
    env: Mapping[str, str],
    serves: Callable[[], bool],
    user: str | None = None,
) -> None:
    """Start it, and wait until it says itself that it serves: some listen for a while before they do."""
    process = processes.start(argv, env=env, log=folder / "server.log", user=user)
    until = time.monotonic() + STARTS_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        if serves():
            return
        time.sleep(0.05)  # between two questions
    last = (folder / "server.log").read_text(errors="replace")[-2000:]
    raise TimeoutError(f"{Path(argv[0]).name} does not serve at port {port}; its log ends with: {last}")


def _answers(port: int, question: bytes, answer: bytes) -> bool:
    """Whether what listens there answers these bytes with something that begins with those."""
    try:
        with socket.create_connection((LOOPBACK, port), timeout=1.0) as asked:
            asked.sendall(question)
            return asked.recv(64).startswith(answer)
    except OSError:
        return False


def _succeeds(argv: list[str], env: Mapping[str, str]) -> bool:
    try:
        return subprocess.run(argv, env=dict(env), capture_output=True, timeout=10.0, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False
