"""What ``waterclock up`` does: look, choose ports, fetch jars, then hand a plan to the supervisor.

Servers that run already can be used instead of ours (``bootstrap``, ``contact_points``); then only what is missing is
started. Ports that this folder used before are wanted again. Fails with StackTrouble (one cause, one next step) and
with Conflict where a stack runs in this folder already.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from waterclock.clock import SystemClock
from waterclock.clusters.plan import Plan, plan_of
from waterclock.log.kafka_topics import ensure_topics
from waterclock.settings import Settings
from waterclock.store.access import driver_options
from waterclock.store.migrate import migrate, migrations

from . import cassandra_server, kafka_server
from .banner import machine, other_port, where_to_look
from .demo_stack import APP as DEMO_APP
from .jars import CASSANDRA, KAFKA, Distribution, JarSource, have_jars, jars_of
from .java import find_java
from .kit import Kit
from .member import Process
from .memory import choose_heaps
from .ports import pick_port
from .role_process import RoleProcess, RoleSpec, set_aside
from .server import Server
from .servers import launch_cassandra, launch_kafka
from .state import read_state, sole_owner
from .supervise import RolePlan, ServerPlan, Supervisor, Whereabouts
from .trouble import StackTrouble

_WORKER_DRAIN_S = 3.0
# Those who never touch the store start while Cassandra, which takes longest, is still on its way.
_NEEDS = {f"waterclock.{role}": frozenset({"kafka"}) for role in ("workers", "retry_router", "intake")}

Say = Callable[[str], None]


class Up:
    """One start of the stack. ``*_port``: asked for by the user, refused when taken; 0: the usual one, or another.

    ``began_s``: from when on its words count the seconds, since the epoch; 0: now.
    """

    def __init__(
        self,
        settings: Settings,
        say: Say,
        *,
        kafka_port: int = 0,
        cql_port: int = 0,
        api_port: int = 0,
        began_s: float = 0.0,
    ) -> None:
        self._settings = settings
        self._say = say
        self._data_dir = settings.stack.data_dir.resolve()
        self._kafka_port = kafka_port
        self._cql_port = cql_port
        self._api_port = api_port
        self._own_kafka = "bootstrap" not in settings.kafka.model_fields_set
        self._own_cassandra = "contact_points" not in settings.cassandra.model_fields_set
        self._kit: Kit | None = None
        self._fixed: set[str] = set()
        """Servers whose port cannot change any more: it was asked for, or the roles have been told."""
        self._began_s = began_s or time.time()

    def run(self) -> None:
        """Until Ctrl-C or ``waterclock down``. Raises StackTrouble, Conflict, BackendDown."""
        with sole_owner(self._data_dir):
            if self._own_kafka or self._own_cassandra:
                self._kit = self._find_kit()
            for line in machine(self._kit):
                self._say(line)
            self._choose_ports()
            supervisor = Supervisor(
                self._data_dir, self._servers(), self._roles(), where=self._where, say=self._say_with_time
            )
            self._prepare_foreign()
            asyncio.run(supervisor.run(self._tell_ready))

    # -- before the start -----------------------------------------------------------------------------------------

    def _find_kit(self) -> Kit:
        stack = self._settings.stack
        kit = Kit(
            find_java(stack.java_home),
            choose_heaps(heap_mb=stack.heap_mb),
            JarSource(stack.jars_dir, stack.maven_url),
            quick=stack.quick,
        )
        wanted = [KAFKA] if self._own_kafka else []
        self._fetch([*wanted, CASSANDRA] if self._own_cassandra else wanted, kit.jars)
        return kit

    def _fetch(self, wanted: list[Distribution], source: JarSource) -> None:
        """Before anything starts: Maven may take minutes, the first time."""
        missing = [each for each in wanted if not have_jars(each, source)]
        for each in missing:
            self._say(f"fetching the jars of {each.name} {each.version} through Maven (once; 54 and 67 MB)")
            jars_of(each, source)
        if not missing:
            self._say("jars ok")

    def _choose_ports(self) -> None:
        """The port that was asked for or none; else one that is set; else that of last time, the usual one, another."""
        last, api, cassandra = self._last_ports(), self._settings.api, self._settings.cassandra
        if self._own_kafka:
            usual = last.get("kafka") or kafka_server.DEFAULT_PORT
            self._kafka_port = self._choose("kafka", self._kafka_port, usual, "--kafka-port")
        if self._own_cassandra:
            usual = last.get("cassandra") or cassandra_server.DEFAULT_PORT
            asked, option = self._cql_port, "--cql-port"
            if not asked and "port" in cassandra.model_fields_set:  # where commands will look for it
                asked, option = cassandra.port, "WATERCLOCK_CASSANDRA__PORT"
            self._cql_port = self._choose("cassandra", asked, usual, option)
        usual = api.port if "port" in api.model_fields_set else last.get("api-1") or api.port
        self._api_port = self._choose("api", self._api_port, usual, "--api-port")

    def _last_ports(self) -> dict[str, int]:
        """Where our own servers and the API of this folder were; where somebody else's were is no wish."""
        last = read_state(self._data_dir)
        addresses = {process.name: process.address for process in last.processes} if last else {}
        return {name: int(address.rpartition(":")[2]) for name, address in addresses.items() if address}

    def _choose(self, name: str, asked: int, usual: int, option: str) -> int:
        picked = pick_port(asked or usual)
        if asked:
            self._fixed.add(name)
        if picked.holder is None:
            return picked.port
        if asked:
            raise StackTrouble(
                f"Port {asked} is taken by {picked.holder}",
                hint=f"Stop that process, or leave {option} out to use {picked.port}",
            )
        self._say(other_port(name, picked, option))
        return picked.port

    # -- the plan -------------------------------------------------------------------------------------------------

    def _servers(self) -> list[ServerPlan]:
        plans = []
        if self._own_cassandra:  # first: it takes longest
            plans.append(ServerPlan("cassandra", self._launch_cassandra, lambda _: self._run_schema()))
        if self._own_kafka:
            plans.append(ServerPlan("kafka", self._launch_kafka, lambda _: self._make_topics()))
        return plans

    def _launch_kafka(self) -> Process:
        log_path = self._data_dir / "logs" / "kafka.log"
        set_aside(log_path)
        server = launch_kafka(self._data_dir / "kafka", port=self._kafka_port, kit=self._kit, log_path=log_path)
        self._kafka_port = self._port_of(server, self._kafka_port, "--kafka-port")
        return server

    def _launch_cassandra(self) -> Process:
        log_path = self._data_dir / "logs" / "cassandra.log"
        set_aside(log_path)
        server = launch_cassandra(self._data_dir / "cassandra", port=self._cql_port, kit=self._kit, log_path=log_path)
        self._cql_port = self._port_of(server, self._cql_port, "--cql-port")
        return server

    def _port_of(self, server: Server, expected: int, option: str) -> int:
        """Its port, which may be another than chosen: somebody took that one in between. Raises StackTrouble.

        Once anybody was told the port, a server that had to go elsewhere is of no use.
        """
        if server.port != expected and server.name in self._fixed:
            server.kill()
            raise StackTrouble(
                f"{server.name}: port {expected} was taken by {server.picked.holder} in between",
                hint="Run the command again",
            )
        if server.port != expected:
            self._say(other_port(server.name, server.picked, option))
        return server.port

    def _roles(self) -> list[RolePlan]:
        """What makes work stops first: dispatchers, then workers, then those who settle what is left."""
        stack = self._settings.stack
        grace = {"WATERCLOCK_WORKER__DRAIN_GRACE_S": str(min(_WORKER_DRAIN_S, self._settings.worker.drain_grace_s))}
        specs = [
            *(RoleSpec("waterclock.dispatcher", f"dispatcher-{n}", 0, {}) for n in range(1, stack.dispatchers + 1)),
            *(RoleSpec("waterclock.workers", f"worker-{n}", 1, grace) for n in range(1, stack.workers + 1)),
            RoleSpec("waterclock.intake", "intake-1", 0, {}),
            RoleSpec("waterclock.retry_router", "retry-router-1", 2, {}),
            RoleSpec("waterclock.dag_engine", "dag-engine-1", 2, {}),
            RoleSpec("waterclock.recorder", "recorder-1", 2, {}),
        ]
        roles = (
            RolePlan(spec.instance, self._role_launcher(spec), spec.stop_rank, _NEEDS.get(spec.module))
            for spec in specs
        )
        return [*roles, RolePlan("api-1", self._launch_api, 0)]

    def _role_launcher(self, spec: RoleSpec) -> Callable[[], Process]:
        return lambda: RoleProcess(spec, self._role_env(), self._data_dir)

    def _launch_api(self) -> Process:
        """On its port; on another where a stack beside us has taken it while our servers started."""
        if "api" not in self._fixed:
            self._api_port = self._choose("api", 0, self._api_port, "--api-port")
        env = {"WATERCLOCK_API__PORT": str(self._api_port)}
        spec = RoleSpec("waterclock.api", "api-1", 0, env, self._api_address())
        return RoleProcess(spec, self._role_env(), self._data_dir)

    def _role_env(self) -> Mapping[str, str]:
        """Our surroundings, and what was chosen here; everything else the role reads from the same files as we."""
        settings, where = self._settings, self._where()
        return {
            **os.environ,
            "WATERCLOCK_KAFKA__BOOTSTRAP": where.bootstrap,
            "WATERCLOCK_CASSANDRA__CONTACT_POINTS": where.contact_points,
            "WATERCLOCK_CASSANDRA__PORT": str(where.cassandra_port),
            "WATERCLOCK_PARTITIONS": str(settings.partitions),
            "WATERCLOCK_WORKER__APP": settings.worker.app,
        }

    def _where(self) -> Whereabouts:
        settings = self._settings
        return Whereabouts(
            bootstrap=f"127.0.0.1:{self._kafka_port}" if self._own_kafka else settings.kafka.bootstrap,
            contact_points="127.0.0.1" if self._own_cassandra else ",".join(settings.cassandra.contact_points),
            cassandra_port=self._cql_port if self._own_cassandra else settings.cassandra.port,
            api=self._api_address(),
        )

    def _api_address(self) -> str:
        api = self._settings.api
        host = f"[{api.host}]" if ":" in api.host else api.host  # IPv6
        return f"{'https' if api.tls_cert else 'http'}://{host}:{self._api_port}"

    # -- topics, schema, words ------------------------------------------------------------------------------------

    def _prepare_foreign(self) -> None:
        """Servers that run already: the same preparation, before anything is started."""
        if not self._own_kafka:
            self._say_with_time(self._make_topics())
        if not self._own_cassandra:
            self._say_with_time(self._run_schema())

    def _make_topics(self) -> str:
        self._fixed.add("kafka")
        settings, plan = self._settings, self._plan(alone=self._own_kafka)
        specs, extra = plan.topics, settings.kafka.properties
        made = ensure_topics(self._where().bootstrap, specs, replication_factor=plan.replication, extra=extra)
        return f"topics {len(specs)}/{len(specs)} ({len(made)} made, {settings.partitions} partitions each)"

    def _plan(self, *, alone: bool) -> Plan:
        """``alone``: on one server of ours; what is asked for somebody's cluster cannot be had there."""
        settings = self._settings
        if not alone:
            return plan_of(settings)
        kafka = settings.kafka.model_copy(update={"replication": 1, "min_insync": 0})
        cassandra = settings.cassandra.model_copy(update={"replication": 1})
        return plan_of(settings.model_copy(update={"production": False, "kafka": kafka, "cassandra": cassandra}))

    def _run_schema(self) -> str:
        self._fixed.add("cassandra")
        where, cassandra = self._where(), self._settings.cassandra
        ran = migrate(
            where.contact_points.split(","),
            where.cassandra_port,
            cassandra.keyspace,
            SystemClock(),
            replication=self._plan(alone=self._own_cassandra).keyspace_replication,
            local_dc=cassandra.local_dc,
            options=driver_options(cassandra),
        )
        return f"schema 1..{len(migrations())} in keyspace {cassandra.keyspace} ({len(ran)} run now)"

    def _tell_ready(self) -> None:
        self._fixed.add("api")
        where = self._where()
        self._say_with_time("all ready")
        cassandra = f"{where.contact_points}:{where.cassandra_port}"
        own_app = self._settings.worker.app != DEMO_APP
        for line in where_to_look(where.bootstrap, cassandra, where.api, self._data_dir, own_app=own_app):
            self._say(line)

    def _say_with_time(self, line: str) -> None:
        self._say(f"{time.time() - self._began_s:6.1f} s  {line}")
