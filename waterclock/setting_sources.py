"""The environment as a source of settings: ``WATERCLOCK_A__B``, and ``..._FILE`` for what must not stand in it.

A variable that ends in ``_FILE`` names a file, whose text (without its last newline) is the value: passwords then stand
in a mounted secret instead of in the environment, which every child and every crash report sees. Only a name that leads
to a setting counts; ``WATERCLOCK_READY_FILE`` and settings whose own name ends in ``_file`` stay what they are.

A variable ``WATERCLOCK_...`` that leads to no setting is an error with a suggestion, as an unknown key of a file is: a
misspelt ``WATERCLOCK_PRODUCTION`` would otherwise protect nothing, in silence. Those that are read elsewhere stand in
one list here.

How it fails: a file that cannot be read, a setting that is given twice, or one that there is not, raises RequestError
at start.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_settings import EnvSettingsSource
from pydantic_settings.exceptions import SettingsError

from waterclock.model.errors import RequestError

_SUFFIX = "_file"
_SECRET_MAX = 65_536

_READ_ELSEWHERE = re.compile(
    r"ready_file"  # where a process says that it is ready: the supervisor, compose (telemetry.py)
    r"|compiled"  # whether the compiled codecs are used: asked at import, before there are settings (wire/__init__.py)
    r"|run_[a-z_]+"  # what the executor `shell` tells a program about its run; the program may call `waterclock`
    r"|(test|bench|write)_[a-z_]+|first_seed|peers"  # of our checks and benchmarks; their processes inherit it
)
"""Variables behind ``WATERCLOCK_`` that are no settings, by who reads them."""
_SERVICE_LINK = re.compile(r"(\w+_)?(service_(host|port(_\w+)?)|port_\d+_(tcp|udp|sctp)(_(proto|port|addr))?)")
"""What Kubernetes puts into every container of a namespace with a Service that is called ``waterclock...``."""
_LINK_ADDRESS = re.compile(r"(tcp|udp|sctp)://")
"""How the value of a link's ``..._PORT`` begins. Any other may be a misspelt ``WATERCLOCK_API__PORT``."""


TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
"""A topic's name, as the brokers take it."""


class EnvAndFiles(EnvSettingsSource):
    """pydantic's source of the environment, with every ``..._FILE`` read first and nothing unknown passed over."""

    def _load_env_vars(self) -> Mapping[str, str | None]:
        found = with_files(super()._load_env_vars(), self.env_prefix, self.settings_cls)
        refuse_unknown(found, self.env_prefix, self.settings_cls)
        return found


def refuse_unknown(variables: Mapping[str, str | None], prefix: str, settings: type[BaseModel]) -> None:
    """Raises RequestError for the first of ``variables`` (lower case) that is ours and leads to no setting.

    Below a group of settings pydantic looks itself, with the same strictness.
    """
    start = prefix.lower()
    for name in sorted(variables):
        path = name.removeprefix(start)
        if path == name or _is_known(settings, path, variables[name] or ""):
            continue
        meant = difflib.get_close_matches(path.removesuffix(_SUFFIX), [*_paths(settings)], n=1)
        ending = _SUFFIX if path.endswith(_SUFFIX) else ""
        first = ", ".join(f"{word}__..." if _group(field) else word for word, field in settings.model_fields.items())
        raise RequestError(
            f"The variable {name.upper()} leads to no setting",
            hint=f"Did you mean {prefix}{(meant[0] + ending).upper()}?"
            if meant
            else f"Unset it, or correct it. Behind {prefix} stand: {first.upper()}",
        )


def _is_known(settings: type[BaseModel], path: str, value: str) -> bool:
    """Whether ``path`` is a setting, below a group of them (right or not), or read elsewhere."""
    setting = path if value else path.removesuffix(_SUFFIX)  # an empty ..._FILE names no file, and is none
    field = settings.model_fields.get(setting.partition("__")[0])
    if _is_setting(settings, setting) or (field is not None and _group(field) is not None):
        return True
    if _READ_ELSEWHERE.fullmatch(path) or _SERVICE_LINK.fullmatch(path):
        return True
    return path.endswith("port") and _LINK_ADDRESS.match(value) is not None


def _paths(model: type[BaseModel]) -> Iterator[str]:
    """Every setting that a variable may name, as ``a__b``."""
    for name, field in model.model_fields.items():
        yield name
        if (group := _group(field)) is not None:
            yield from (f"{name}__{below}" for below in _paths(group))


def _group(field: FieldInfo) -> type[BaseModel] | None:
    """The group of settings that ``field`` is, if it is one."""
    inner = field.annotation
    return inner if isinstance(inner, type) and issubclass(inner, BaseModel) else None


def with_files(variables: Mapping[str, str | None], prefix: str, settings: type[BaseModel]) -> Mapping[str, str | None]:
    """``variables`` (lower case), those that name a file replaced by what is in it. Raises RequestError."""
    start = prefix.lower()
    found = dict(variables)
    for name, value in variables.items():
        bare = name.removesuffix(_SUFFIX)
        if bare == name or not name.startswith(start) or not value:
            continue
        if _is_setting(settings, name[len(start) :]) or not _is_setting(settings, bare[len(start) :]):
            continue
        if bare in variables:
            raise RequestError(
                f"{bare.upper()} and {name.upper()} are both set", hint="Leave one of them out: they may differ"
            )
        del found[name]
        found[bare] = _text_of(name, Path(value))
    return found


def _is_setting(model: type[BaseModel], path: str) -> bool:
    """Whether ``a__b`` leads to a setting. Below a table of free keys (``kafka.client``) every one word does."""
    word, _, rest = path.partition("__")
    field = model.model_fields.get(word)
    if field is None:
        return False
    if not rest:
        return True
    if get_origin(field.annotation) is dict:
        return not rest.endswith(_SUFFIX)
    group = _group(field)
    return group is not None and _is_setting(group, rest)


def _text_of(name: str, path: Path) -> str:
    try:
        if path.stat().st_size > _SECRET_MAX:
            raise RequestError(f"{name.upper()}: {path} has over {_SECRET_MAX} bytes", hint="Name the secret's file")
        return path.read_text(encoding="utf-8").removesuffix("\n").removesuffix("\r")
    except (OSError, UnicodeDecodeError) as error:
        raise RequestError(f"{name.upper()}: {path} cannot be read: {error}", hint="Check path and rights") from None


def unreadable(error: SettingsError, fields: Mapping[str, FieldInfo]) -> RequestError:
    """A variable that is no JSON where only JSON would do. ``fields``: of the settings, by name."""
    found = re.search(r'field "(\w+)"', str(error))
    if found is None or found[1] not in fields:
        return RequestError(f"A setting in the environment cannot be read: {error}", hint="Write JSON")
    name, group = f"WATERCLOCK_{found[1].upper()}", fields[found[1]].annotation
    if isinstance(group, type) and issubclass(group, BaseModel):
        first = f"{name}__{next(iter(group.model_fields)).upper()}"
        return RequestError(f"{name} is a group of settings, and its value is none", pointer=f"/{found[1]}",
                            hint=f"Set one of them, as {first}, or give all of them as a JSON object")  # fmt: skip
    return RequestError(f"The value of {name} cannot be read", pointer=f"/{found[1]}", hint="Write JSON")
