"""One frozen Settings for every process, checked once at start.

Precedence: what the caller passes (flags) > ``WATERCLOCK_*`` of the environment (``__`` nests:
``WATERCLOCK_KAFKA__BOOTSTRAP``; ``..._FILE`` names a file with the value, see ``setting_sources.py``) >
``./waterclock.toml`` > ``~/.config/waterclock/config.toml`` > the defaults here.
An unknown key in a file, or an unknown ``WATERCLOCK_*`` variable, is an error with a suggestion, never ignored: a
misspelt limit is no limit.

Importing this module costs about 0.1 s (pydantic-settings): commands that need no settings do not import it.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError

from waterclock.model.errors import RequestError
from waterclock.setting_sources import EnvAndFiles, TopicName, unreadable

_GROUP = ConfigDict(frozen=True, extra="forbid")
_SECRET = frozenset({"password", "secrets", "client"})
"""Settings whose values are never repeated in an error."""
_NAME = r"^[a-z0-9][a-z0-9._-]{0,62}$"


class KafkaSettings(BaseModel):
    """Where the log is. ``client`` goes to librdkafka untouched (TLS, SASL).

    ``replication`` and ``min_insync`` are for topics that are made; 0: as the brokers' own defaults say.
    """

    model_config = _GROUP
    bootstrap: str = "127.0.0.1:9092"
    prefix: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,63}$")] = "waterclock"
    """Begins every topic, group and transactional id."""
    client: dict[str, str | int | float | bool] = {}
    replication: Annotated[int, Field(ge=0, le=9)] = 0
    min_insync: Annotated[int, Field(ge=0, le=9)] = 0

    @property
    def properties(self) -> dict[str, str]:
        """``client`` as librdkafka takes it."""
        return {key: str(value) for key, value in self.client.items()}


class CassandraTls(BaseModel):
    """TLS to the store. ``ca_file``: whom to believe (the system's where none is named); the rest is for mTLS."""

    model_config = _GROUP
    enabled: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    check_host: bool = True
    """Whether the certificate must name the address that we connect to."""


class CassandraSettings(BaseModel):
    """Where the store is. ``replication``: copies in ``local_dc``, used once, when the keyspace is made. ``client``
    goes to the driver's Cluster untouched, such as ``connect_timeout``."""

    model_config = _GROUP
    contact_points: Annotated[tuple[str, ...], NoDecode] = ("127.0.0.1",)
    port: Annotated[int, Field(ge=1, le=65_535)] = 9042
    keyspace: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,47}$")] = "waterclock"
    local_dc: str = "datacenter1"
    replication: Annotated[int, Field(ge=1, le=9)] = 1
    user: str = ""
    password: SecretStr = SecretStr("")
    tls: CassandraTls = CassandraTls()
    client: dict[str, str | int | float | bool] = {}

    @field_validator("contact_points", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """``a,b`` as well as a list."""
        return tuple(point.strip() for point in value.split(",")) if isinstance(value, str) else value


class DispatcherSettings(BaseModel):
    """The dispatcher's bounds."""

    model_config = _GROUP
    look_ahead_s: Annotated[int, Field(ge=60, le=600)] = 90
    """How far ahead of the cursor due rows are loaded."""
    grace_s: Annotated[int, Field(ge=1)] = 60
    """A fire that is later than this is a misfire."""
    round_records: Annotated[int, Field(ge=1, le=10_000)] = 2_000
    """At most this many records in one round."""
    catch_up_share: Annotated[float, Field(ge=0.01, le=0.9)] = 0.25
    """Of the dispatch, what a catch-up may take while work that is on time waits; all of it when nothing waits."""
    catch_up_per_s: Annotated[float, Field(ge=0.0)] = 1_000.0
    """At most so many missed runs (and rows without one) a second and process; 0: no bound."""
    herd_fires: Annotated[int, Field(ge=0)] = 1_000
    """So many fires in one instant are a herd: sent up to 0.9 s before, committed at it (ARCHITECTURE.md); 0: never."""


_TRANSACTION_S_MAX = 3.0


class WorkerSettings(BaseModel):
    """The worker's bounds. ``app``: ``module:attribute`` of the user's handlers."""

    model_config = _GROUP
    slots: Annotated[int, Field(ge=1, le=10_000)] = 32
    lease_ttl_s: Annotated[float, Field(ge=3.0)] = 15.0
    pool: Annotated[str, Field(pattern=_NAME)] = "default"
    drain_grace_s: Annotated[float, Field(ge=0.0)] = 10.0
    cancel_grace_s: Annotated[float, Field(ge=0.0, le=3_600.0)] = 10.0
    """How long an attempt that was cancelled, or whose time is over, has to stop by itself before it is forced."""
    round_records: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    app: str = "waterclock.stack.demo_app:app"

    @property
    def transaction_timeout_s(self) -> float:
        """What a killed worker leaves open hides the log's end from everybody until then, or until its name is fenced.

        So it is well below the lease: other deaths are not held up. A slower worker loses a round, not its life.
        """
        return min(_TRANSACTION_S_MAX, self.lease_ttl_s / 2)


class RecorderSettings(BaseModel):
    """The recorder's bounds."""

    model_config = _GROUP
    batch_records: Annotated[int, Field(ge=1, le=200_000)] = 100_000
    """At most this many records are folded before their rows are written; so many only when history lags."""
    writes_in_flight: Annotated[int, Field(ge=1, le=64)] = 2  # each may hold batch_records


class RetryRouterSettings(BaseModel):
    """The retry router's bounds."""

    model_config = _GROUP
    round_records: Annotated[int, Field(ge=1, le=10_000)] = 1_000
    reconcile_every_s: Annotated[float, Field(ge=1.0, le=3_600.0)] = 30.0
    """How often the reconciler looks for runs that nobody will claim."""


class IntakeSettings(BaseModel):
    """What it reads. ``registry_url``: a Confluent schema registry; else ``SCHEMA_REGISTRY_URL``. ``sources``: by topic
    the tenants (``*``: all) whose jobs its records start, begun at ``sources_begin`` where no position is known."""

    model_config = _GROUP
    round_records: Annotated[int, Field(ge=1, le=10_000)] = 500
    tenants: dict[TopicName, Annotated[str, Field(pattern=_NAME)]] = {}
    """Topics beside job-events, or it, and whose jobs their records are about. Who may write there: an ACL."""
    sources: dict[TopicName, list[Annotated[str, Field(pattern=r"^(\*|[a-z0-9][a-z0-9._-]{0,62})$")]]] = {}
    sources_begin: Annotated[str, Field(pattern=r"^(end|beginning)$")] = "end"
    registry_url: str = ""
    registry: dict[str, str] = {}
    """Goes to the registry's client untouched, such as ``basic.auth.user.info``."""


class ApiSettings(BaseModel):
    """The HTTP API. Elsewhere than on loopback it asks for keys, and does not start while there is none.

    ``require_key``: ask for a key on loopback too, also while none was made. ``tls_cert``, ``tls_key``: PEM files.
    """

    model_config = _GROUP
    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=1, le=65_535)] = 8080
    require_key: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    wait_s: Annotated[float, Field(ge=0.0, le=10.0)] = 1.0
    """How long a write waits for the dispatcher's answer."""
    rate_per_s: Annotated[float, Field(gt=0.0)] = 500.0
    """Requests per key, on average."""
    burst: Annotated[int, Field(ge=1)] = 1_000
    queue_max: Annotated[int, Field(ge=1, le=1_000_000)] = 5_000
    """Commands that may wait for the log; then 503."""
    streams_max: Annotated[int, Field(ge=1, le=10_000)] = 200
    threads: Annotated[int, Field(ge=1, le=64)] = 8


class EgressSettings(BaseModel):
    """Calls to other systems. ``allow``: ``host:port`` that may be called although it is not public https.

    ``ca_file``: authorities to believe instead of the system's.
    """

    model_config = _GROUP
    allow: Annotated[tuple[str, ...], NoDecode] = ()
    connections: Annotated[int, Field(ge=1, le=10_000)] = 256
    """At most this many connections of HTTP callbacks in one worker; calls beyond it wait, within their own time."""
    connect_timeout_s: Annotated[float, Field(gt=0.0, le=60.0)] = 5.0
    ca_file: Path | None = None

    @field_validator("allow", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """``a,b`` as well as a list."""
        return tuple(place.strip() for place in value.split(",") if place.strip()) if isinstance(value, str) else value


class WebhookSettings(BaseModel):
    """Signing of HTTP callbacks. ``secrets``: by name, ``whsec_`` and base64; two, with a space, while one goes.

    A job that names no secret is signed with ``default``, and not at all where there is none.
    """

    model_config = _GROUP
    secrets: dict[Annotated[str, Field(pattern=_NAME)], SecretStr] = {}


class ShellSettings(BaseModel):
    """Programs that jobs may run on this worker: whoever may create jobs then owns it. ``allow``: absolute paths."""

    model_config = _GROUP
    enabled: bool = False
    allow: Annotated[tuple[Annotated[str, Field(pattern=r"^/")], ...], NoDecode] = ()
    working_dir: Path = Path("/")
    search_path: str = "/usr/local/bin:/usr/bin:/bin"
    """PATH of the programs; it does not help to name one that is not allowed."""

    @field_validator("allow", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """``a,b`` as well as a list."""
        return tuple(path.strip() for path in value.split(",") if path.strip()) if isinstance(value, str) else value


class KafkaRecordsSettings(BaseModel):
    """Topics that jobs may write to by the executor ``kafka``, with this worker's rights. Empty: to none."""

    model_config = _GROUP
    allow: Annotated[tuple[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")], ...], NoDecode] = ()

    @field_validator("allow", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """``a,b`` as well as a list."""
        return tuple(topic.strip() for topic in value.split(",") if topic.strip()) if isinstance(value, str) else value


class StackSettings(BaseModel):
    """The local stack. ``jars_dir`` and ``heap_mb`` are for machines without Maven, or with little memory.

    ``quick``: servers that start for half the CPU time and carry less; the demo's choice.
    """

    model_config = _GROUP
    data_dir: Path = Path(".waterclock")
    java_home: Path | None = None
    jars_dir: Path | None = None
    maven_url: str = ""
    heap_mb: Annotated[int | None, Field(ge=200)] = None
    quick: bool = False
    dispatchers: Annotated[int, Field(ge=1, le=16)] = 2
    workers: Annotated[int, Field(ge=0, le=64)] = 2


class Settings(BaseSettings):
    """Everything that can be set. ``instance`` is the process slot's stable name, such as ``dispatcher-1``."""

    model_config = SettingsConfigDict(frozen=True, extra="forbid", env_prefix="WATERCLOCK_", env_nested_delimiter="__")
    kafka: KafkaSettings = KafkaSettings()
    cassandra: CassandraSettings = CassandraSettings()
    dispatcher: DispatcherSettings = DispatcherSettings()
    worker: WorkerSettings = WorkerSettings()
    recorder: RecorderSettings = RecorderSettings()
    retry_router: RetryRouterSettings = RetryRouterSettings()
    intake: IntakeSettings = IntakeSettings()
    egress: EgressSettings = EgressSettings()
    webhook: WebhookSettings = WebhookSettings()
    shell: ShellSettings = ShellSettings()
    kafka_records: KafkaRecordsSettings = KafkaRecordsSettings()
    api: ApiSettings = ApiSettings()
    stack: StackSettings = StackSettings()
    production: bool = False
    """Refuse what loses data when one machine does: a single copy, or one that is enough to acknowledge."""
    partitions: int = 4
    """Of every keyed topic: a power of two that divides 256."""
    generation: Annotated[int, Field(ge=1, lt=2**15)] = 1
    """Rises when ``partitions`` changes; the high bits of revisions and fencing tokens."""
    pools: Annotated[tuple[str, ...], NoDecode] = ("default",)
    """Every pool has work topics of its own; `waterclock up` makes those of these."""
    tenant: Annotated[str, Field(pattern=_NAME)] = "default"
    open_runs_max: Annotated[int, Field(ge=1_000, le=10**9)] = 1_000_000  # of a partition, 1 KB each; then a role ends
    instance: Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9._-]{0,62})?$")] = ""
    log_level: Annotated[str, Field(pattern=r"^(debug|info|warning|error)$")] = "info"

    @field_validator("pools", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        """``a,b`` as well as a list; ``default`` is always among them."""
        words = value.split(",") if isinstance(value, str) else value
        if not isinstance(words, list | tuple) or not all(isinstance(w, str) and re.match(_NAME, w) for w in words):
            raise ValueError("use a list of names, such as ['default', 'gpu']")
        return tuple(dict.fromkeys(("default", *words)))

    @field_validator("partitions")
    @classmethod
    def _divides_the_slots(cls, value: int) -> int:
        if value < 1 or 256 % value:
            raise ValueError("use a power of two from 1 to 256: each partition carries an equal share of 256 slots")
        return value

    def ingress(self, job_events: str) -> dict[str, str]:
        """Every topic that the intake reads, and the tenant whose jobs its records are about."""
        return {job_events: "default"} | self.intake.tenants

    def instance_of(self, role: str) -> str:
        """``instance``, or ``<role>-1`` where none is set."""
        return self.instance or f"{role}-1"

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - ours reads the files that it names, too
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - not used: one file less to wonder about
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the same
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """The first source wins, value by value."""
        files = (TomlConfigSettingsSource(settings_cls, toml_file=path) for path in config_files())
        return init_settings, EnvAndFiles(settings_cls), *files


def config_files() -> tuple[Path, Path]:
    """The files that are looked for, the one that wins first."""
    return Path("waterclock.toml"), Path("~/.config/waterclock/config.toml").expanduser()


def load_settings(flags: Mapping[str, Any] | None = None) -> Settings:
    """The settings of this process; ``flags`` are nested as in the file and win over everything.

    Raises RequestError that names the key, where it stands, and what was probably meant.
    """
    try:
        return Settings(**(flags or {}))
    except ValidationError as error:
        raise _told(error) from None
    except tomllib.TOMLDecodeError as error:
        places = " or ".join(str(path) for path in config_files() if path.exists())
        raise RequestError(f"{places} is not TOML: {error}", hint="Correct the file") from None
    except SettingsError as error:
        raise unreadable(error, Settings.model_fields) from None


def _told(error: ValidationError) -> RequestError:
    """The first thing that is wrong, for a person."""
    first = error.errors()[0]
    path = tuple(str(part) for part in first["loc"])
    dotted, pointer = ".".join(path), "/" + "/".join(path)
    if first["type"] == "extra_forbidden":
        meant = difflib.get_close_matches(path[-1], _keys_beside(path), n=1)
        hint = f"Did you mean {meant[0]!r}?" if meant else f"Known here: {', '.join(_keys_beside(path))}"
        return RequestError(f"Unknown setting {dotted!r} ({_origin(path)})", pointer=pointer, hint=hint)
    given = "" if _SECRET.intersection(path) else f", not {first['input']!r}"
    return RequestError(
        f"Setting {dotted!r} ({_origin(path)}): {first['msg']}{given}",
        pointer=pointer,
        hint="Correct it there",
    )


def _keys_beside(path: tuple[str, ...]) -> list[str]:
    """The keys that are allowed where ``path`` ends."""
    model: type[BaseModel] = Settings
    for part in path[:-1]:
        default = model.model_fields[part].default
        if not isinstance(default, BaseModel):
            return []
        model = type(default)
    return sorted(model.model_fields)


def _origin(path: tuple[str, ...]) -> str:
    """The file that has this key, or the environment variable that would."""
    for file in config_files():
        if file.exists() and _has(tomllib.loads(file.read_text()), path):
            return str(file)
    return f"flag, or WATERCLOCK_{'__'.join(path).upper()}"


def _has(tree: Any, path: tuple[str, ...]) -> bool:
    for part in path:
        if not isinstance(tree, dict) or part not in tree:
            return False
        tree = tree[part]
    return True
