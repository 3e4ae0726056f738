"""From settings to the executors of one worker: the one place where they meet egress, secrets and handlers."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from waterclock.app import App
from waterclock.clock import Clock
from waterclock.egress.allow import AllowList
from waterclock.egress.grpc_client import GrpcClient
from waterclock.egress.guard import Guard
from waterclock.egress.http_client import HttpClient
from waterclock.egress.resolving import Resolver
from waterclock.egress.signing import Secrets
from waterclock.settings import Settings
from waterclock.wire.names import Names

from .basket import Basket
from .by_kind import ExecutorsByKind
from .capture import Capture
from .emitting import Outlet
from .grpc_call import GrpcCalls
from .http_call import HttpCalls
from .kafka_record import KafkaRecords
from .python import PythonExecutors
from .shell_command import ShellCommands


def executors_of(
    app: App,
    settings: Settings,
    clock: Clock,
    topic_exists: Callable[[str], bool],
    resolver: Resolver | None = None,
    *,
    capture: Capture | None = None,
) -> ExecutorsByKind:
    """Handlers of ``app``, and calls as far as the settings allow them. Raises RequestError for a bad setting.

    ``topic_exists`` says where records may go (it may raise BackendDown); ``resolver``: the system's, unless a test
    brings its own. ``capture`` keeps what programs print.
    """
    egress, shell = settings.egress, settings.shell
    guard = Guard(AllowList(egress.allow), clock, resolver=resolver)
    http = HttpClient(
        guard,
        connections_max=egress.connections,
        connect_timeout_s=egress.connect_timeout_s,
        ca_file=egress.ca_file,
    )
    secrets = Secrets({name: value.get_secret_value().split() for name, value in settings.webhook.secrets.items()})
    names = Names(settings.kafka.prefix)
    outlet = Outlet(names.prefix, topic_exists, settings.ingress(names.job_events))
    basket = Basket()
    return ExecutorsByKind(
        PythonExecutors(app.handlers, clock, threads_max=settings.worker.slots, basket=basket, outlet=outlet),
        basket,
        clock,
        http=HttpCalls(http, secrets, clock, version("waterclock")),
        grpc=GrpcCalls(GrpcClient(guard, ca_file=egress.ca_file)),
        shell=ShellCommands(
            enabled=shell.enabled,
            allow=shell.allow,
            working_dir=shell.working_dir,
            search_path=shell.search_path,
            capture=capture,
        ),
        kafka=KafkaRecords(outlet, settings.kafka_records.allow),
    )
