"""A Celery beat schedule in a Python file, read from its syntax tree: nothing of the file is run.

Found are dicts given to ``beat_schedule`` or ``CELERYBEAT_SCHEDULE`` by assignment, by one entry, by ``update`` or as a
keyword; values are literals, sums and products of them, names of constants in the same file, ``crontab``, ``timedelta``
and ``schedule``. Whatever else makes a value, or changes a schedule, is left out with its line. How it fails:
RequestError where the file is no Python, or holds no schedule.
"""

from __future__ import annotations

import ast
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta

from waterclock.model.errors import RequestError

from .celery_entry import Entry, Fields, Seconds, Timing, Unreadable, about_the_tasks, take_entries
from .gathering import Gathering

_SCHEDULES = {"beat_schedule", "CELERYBEAT_SCHEDULE", "CELERY_BEAT_SCHEDULE"}
_ZONES = {"timezone", "CELERY_TIMEZONE"}
_OPERATIONS: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_POSITIONAL_CRONTAB = ("minute", "hour")
"""Only these: what comes third was the weekday up to one release of Celery, and is the day of the month since."""

_DELTA = ("days", "seconds", "microseconds", "milliseconds", "minutes", "hours", "weeks")
_COMPUTED = Unreadable("its value is only known when the file runs", "Write it out as a literal")
_NUMBER_MAX = 1e12
_VALUES_MAX = 200_000
"""Values of one file: constants that name constants could stand for any number of them."""

_CHANGING = {"append", "clear", "extend", "insert", "pop", "popitem", "remove", "setdefault", "update"}
"""What a dict or a list is changed by where it stands."""

_CONFIGURING = {"update", "Celery", "dict", "add_defaults"}
"""Calls whose keywords are settings of Celery: ``timezone`` is a common word."""


def read_celery_python(text: str, gathering: Gathering, *, zone: str | None) -> None:
    """All schedules of a file. ``zone`` None: as the file says, else UTC, which is Celery's own default."""
    try:
        _File(ast.parse(text)).read(gathering, zone)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise RequestError(
            f"The file is no Python that can be read: {str(error)[:200]}" + (f", line {line}" if line else ""),
            hint="Give the file that sets beat_schedule; one for Python 2 has to be converted first",
        ) from None
    except (RecursionError, MemoryError):
        raise RequestError("The file nests too deeply", hint="Move the schedule into a file of its own") from None


class _NoValue(Exception):
    """A node that is no literal."""


class _File:
    def __init__(self, tree: ast.Module) -> None:
        self._tree = tree
        self._values_left = _VALUES_MAX
        self._constants: dict[str, ast.expr] = {}
        functions = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        self._in_functions = {id(node) for function in functions for node in ast.walk(function)}
        bound = Counter(_bound_names(tree))
        for node in tree.body:
            if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
                name = node.targets[0].id
                if bound[name] == 1:
                    self._constants[name] = node.value
        self._places = {place for place, _ in self._set_whole()}

    def read(self, gathering: Gathering, zone: str | None) -> None:
        given, replaced = list(self._given(_SCHEDULES)), self._replaced()
        entries: list[Entry] = []
        for node in given:
            if id(node) in replaced:
                gathering.left_out(node.lineno, "the schedule", f"line {replaced[id(node)]} sets it again",
                                   "Celery keeps the last one: remove this")  # fmt: skip
            else:
                entries += self._entries(node, gathering)
        calls = self._added_at_run_time(gathering)
        self._changed_at_run_time(gathering)
        if not given and not calls:
            raise RequestError(
                "The file sets no beat_schedule", hint="Give the file that does, such as celery.py or celeryconfig.py"
            )
        take_entries(entries, gathering, self._zone(gathering, zone))
        about_the_tasks(gathering)

    def _given(self, names: set[str]) -> Iterator[ast.expr]:
        """What is given to one of these names, as assignment, keyword, key or ``.update``; in the file's order."""
        found: list[ast.expr] = []
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Assign):
                found += [
                    node.value for target in node.targets if _last_name(target) in names and not self._is_local(target)
                ]
                found += [
                    ast.Dict([target.slice], [node.value], lineno=node.lineno, col_offset=0)
                    for target in node.targets
                    if isinstance(target, ast.Subscript) and _last_name(target.value) in names
                ]
            elif isinstance(node, ast.AnnAssign | ast.AugAssign):  # of these, dicts know `|=`
                if node.value is not None and _last_name(node.target) in names:
                    found.append(node.value)
            elif isinstance(node, ast.Call):
                if names is _SCHEDULES or _last_name(node.func) in _CONFIGURING:
                    found += [keyword.value for keyword in node.keywords if keyword.arg in names]
                if isinstance(node.func, ast.Attribute) and node.func.attr == "update":
                    found += _updates(node) if _last_name(node.func.value) in names else _members(node.args, names)
        # A name that is one of these itself is read where the file sets it.
        read = {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and _is_bound(node)} & names
        found = [node for node in found if not (isinstance(node, ast.Name) and node.id in read)]
        return iter(sorted(found, key=lambda node: (node.lineno, node.col_offset)))

    def _is_local(self, target: ast.expr) -> bool:
        """Whether a ``timezone`` is somebody else's: one of a function, or of what is no ``conf``."""
        if _last_name(target) != "timezone":
            return False
        if isinstance(target, ast.Attribute):
            return _last_name(target.value) != "conf"
        return id(target) in self._in_functions

    def _replaced(self) -> dict[int, int]:
        """Of schedules that the file sets whole again, by id: the line that does."""
        standing: dict[str, list[ast.expr]] = {}
        lines: dict[int, int] = {}
        for place, value in self._set_whole():
            older = standing.setdefault(place, [])
            if not _names(value, place):  # else it takes what stood there along
                lines |= dict.fromkeys(map(id, older), value.lineno)
                older.clear()
            older.append(value)
        return lines

    def _set_whole(self) -> list[tuple[str, ast.expr]]:
        """(place, value) wherever a schedule is assigned, in the file's order."""
        found = [
            (ast.unparse(target), node.value)
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
            if _last_name(target) in _SCHEDULES
        ]
        return sorted(found, key=lambda each: each[1].lineno)

    def _changed_at_run_time(self, gathering: Gathering) -> None:
        """Tells what is done to a schedule beside adding entries. What it changes becomes a job as it stood."""
        for node in ast.walk(self._tree):
            match node:
                case ast.Delete(targets=places):
                    pass
                case ast.Assign(targets=targets):
                    places = [each.value for each in targets if isinstance(each, ast.Subscript) and not _is_entry(each)]
                case ast.Call(func=ast.Attribute(value=place, attr=name)) if name in _CHANGING:
                    places = [] if name == "update" and _last_name(place) in _SCHEDULES else [place]
                case _:
                    continue
            if any(_reaches(place, _SCHEDULES) for place in places):
                gathering.left_out(node.lineno, ast.unparse(node), "it changes the schedule when the file runs",
                                   "Write the entry as it is meant; look at the job that is made of it")  # fmt: skip

    def _entries(self, node: ast.expr, gathering: Gathering) -> Iterator[Entry]:
        node = self._followed(node)
        if not isinstance(node, ast.Dict):
            gathering.left_out(node.lineno, "the schedule", _COMPUTED.why, "Write it as a dict in this file")
            return
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            if key_node is None:  # {**other}
                if ast.unparse(value_node) not in self._places:  # else it is read where the file sets it
                    yield from self._entries(value_node, gathering)
                continue
            line = key_node.lineno
            key = self._plain(key_node)
            value = self._followed(value_node)
            if not isinstance(key, str) or not isinstance(value, ast.Dict):
                gathering.left_out(line, str(key)[:80] if isinstance(key, str) else "an entry", _COMPUTED.why,
                                   "Write key and entry out")  # fmt: skip
                continue
            yield self._entry(line, key, value)

    def _entry(self, line: int, key: str, node: ast.Dict) -> Entry:
        timing: Timing = Unreadable("it has no schedule", 'Give it one, as "schedule"')
        parts: dict[str, object] = {}
        has_schedule = False
        for name_node, value in zip(node.keys, node.values, strict=True):
            name = None if name_node is None else self._plain(name_node)
            if not isinstance(name, str):
                parts["?"] = _COMPUTED
            elif name in parts or (name == "schedule" and has_schedule):
                parts["?"] = Unreadable(f"{name} is given twice", "Python keeps the last one: leave one")
            elif name == "schedule":
                timing, has_schedule = self._timing(value), True
            else:
                parts[name] = self._plain(value)
        return Entry(line, key, timing, parts)

    def _timing(self, node: ast.expr) -> Timing:
        node = self._followed(node)
        if isinstance(node, ast.Call):
            return self._called(node)
        number = self._plain(node)
        is_number = isinstance(number, int | float) and not isinstance(number, bool)
        return Seconds(float(number)) if is_number and isinstance(number, int | float) else _COMPUTED

    def _called(self, call: ast.Call) -> Timing:
        """``crontab(...)`` and so on."""
        arguments = [self._plain(argument) for argument in call.args]
        named = {keyword.arg or "**": self._plain(keyword.value) for keyword in call.keywords}
        is_plain = not any(isinstance(value, Unreadable) for value in (*arguments, *named.values()))
        match _last_name(call.func):
            case "schedule":
                return self._interval(call, is_relative=bool(named.get("relative", any(arguments[1:2]))))
            case "solar":
                return Unreadable("there are no solar schedules", "Write a crontab near it, and let the handler wait")
            case "crontab":
                return _crontab(arguments, named) if is_plain else _COMPUTED
            case "timedelta":
                return _timedelta(arguments, named) if is_plain else _COMPUTED
            case kind:
                why = f"{kind or 'a call'}(...) is no schedule that can be read"
                return Unreadable(why, "Write a crontab or timedelta")

    def _interval(self, call: ast.Call, *, is_relative: bool) -> Timing:
        """``schedule(run_every=..., relative=...)``."""
        every = [keyword.value for keyword in call.keywords if keyword.arg == "run_every"] or call.args[:1]
        if is_relative:
            return Unreadable("schedule(relative=True) fires at whole units", "Write it as crontab(...)")
        return self._timing(every[0]) if every else _COMPUTED

    def _plain(self, node: ast.expr) -> object:
        try:
            return self._value(node)
        except (_NoValue, TypeError, ArithmeticError):  # unhashable keys, mixed types, a division by zero
            return _COMPUTED

    def _value(self, node: ast.expr) -> object:
        """The value of a literal. Raises _NoValue for anything that would have to be run."""
        node = self._followed(node)
        match node:
            case ast.Constant():
                return node.value
            case ast.List() | ast.Tuple():
                return [self._value(item) for item in node.elts]
            case ast.Set():
                return {self._value(item) for item in node.elts}
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return {self._value(key or ast.Name("")): self._value(value) for key, value in pairs}
            case ast.UnaryOp(op=ast.USub()):
                return -self._number(node.operand)
            case ast.BinOp() if type(node.op) in _OPERATIONS:
                return _bounded(_OPERATIONS[type(node.op)](self._number(node.left), self._number(node.right)))
        raise _NoValue

    def _number(self, node: ast.expr) -> float:
        value = self._value(node)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise _NoValue
        return _bounded(value)

    def _followed(self, node: ast.expr) -> ast.expr:
        """What a name stands for, where this file says so once. Every value comes by here, and is counted."""
        self._values_left -= 1
        if self._values_left < 0:
            raise RequestError(
                f"The file stands for more than {_VALUES_MAX} values", hint="Move the schedule into a file of its own"
            )
        for _ in range(8):  # a name of a name of a name: nobody writes more
            if not isinstance(node, ast.Name) or node.id not in self._constants:
                break
            node = self._constants[node.id]
        return node

    def _zone(self, gathering: Gathering, asked: str | None) -> str:
        found = [(node.lineno, self._plain(node)) for node in self._given(_ZONES)]
        if asked is not None:
            return asked
        if len(found) == 1 and isinstance(found[0][1], str):
            return found[0][1]
        line = found[0][0] if found else 0
        why = "the file gives it more than once, or computes it" if found else "the file does not say it"
        gathering.note(line, "time zone", f"crontabs are taken in UTC, Celery's default: {why}",
                       "Give --tz if beat has another one")  # fmt: skip
        return "UTC"

    def _added_at_run_time(self, gathering: Gathering) -> int:
        calls = [
            node
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Call) and _last_name(node.func) in {"add_periodic_task", "periodic_task"}
        ]
        for call in calls:
            hint = "Write it into beat_schedule with the task's name, or define the job by hand"
            gathering.left_out(call.lineno, f"{_last_name(call.func)}(...)", "it is made when the file runs", hint)
        return len(calls)


def _crontab(arguments: list[object], named: dict[str, object]) -> Timing:
    if len(arguments) > len(_POSITIONAL_CRONTAB):
        return Unreadable("releases of Celery disagree on crontab's third unnamed argument", "Name the arguments")
    return Fields(dict(zip(_POSITIONAL_CRONTAB, arguments, strict=False)) | named)


def _timedelta(arguments: list[object], named: dict[str, object]) -> Timing:
    parts: Mapping[str, object] = dict(zip(_DELTA, arguments, strict=False)) | named
    numbers = {name: value for name, value in parts.items() if isinstance(value, int | float)}
    if len(numbers) < len(parts) or not set(numbers) <= set(_DELTA):
        return _COMPUTED
    try:
        return Seconds(timedelta(**numbers).total_seconds())
    except OverflowError:
        return _COMPUTED


def _bounded(value: float) -> float:
    if abs(value) > _NUMBER_MAX:
        raise _NoValue
    return value


def _last_name(node: ast.expr) -> str:
    """``c`` of ``c``, ``a.b.c`` and ``a.b["c"]``; "" of anything else."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name
    return ""


def _updates(call: ast.Call) -> list[ast.expr]:
    """``beat_schedule.update({...}, name={...}, **more)``."""
    found = list(call.args)
    for each in call.keywords:
        key = ast.Constant(each.arg, lineno=each.lineno) if each.arg else None
        found.append(ast.Dict([key], [each.value], lineno=each.lineno, col_offset=each.col_offset))
    return found


def _is_bound(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _bound_names(tree: ast.Module) -> Iterator[str]:
    """Each name as often as something of the file sets it, takes it away, or changes what it stands for."""
    for node in ast.walk(tree):
        match node:
            case ast.Name() if _is_bound(node):
                yield node.id
            case ast.Subscript() | ast.Attribute() if not isinstance(node.ctx, ast.Load):
                yield _root(node)
            case ast.Call(func=ast.Attribute(value=value, attr=name)) if name in _CHANGING:
                yield _root(value)


def _root(node: ast.expr) -> str:
    """``a`` of ``a``, ``a.b`` and ``a["b"].c``; "" of anything else."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _names(node: ast.expr, place: str) -> bool:
    parts = (part for part in ast.walk(node) if isinstance(part, ast.expr) and _last_name(part) in _SCHEDULES)
    return any(ast.unparse(part) == place for part in parts)


def _is_entry(place: ast.Subscript) -> bool:
    """Whether ``place`` is a whole schedule, or one entry of it: both are read where they are set."""
    return _last_name(place) in _SCHEDULES or _last_name(place.value) in _SCHEDULES


def _reaches(node: ast.expr, names: set[str]) -> bool:
    """Whether it is one of these names, or something within it."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        if _last_name(node) in names:
            return True
        node = node.value
    return isinstance(node, ast.Name) and node.id in names


def _members(arguments: list[ast.expr], names: set[str]) -> list[ast.expr]:
    """``conf.update({"beat_schedule": ...})``."""
    return [
        value
        for argument in arguments
        if isinstance(argument, ast.Dict)
        for key, value in zip(argument.keys, argument.values, strict=True)
        if isinstance(key, ast.Constant) and key.value in names
    ]
