"""The supervisor over small programs in place of servers and roles: order, gates, restarts, drain."""

from __future__ import annotations

import asyncio
import os
import pty
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from waterclock.model.errors import Conflict
from waterclock.stack.backoff import CRASH_LOOP_DEATHS, Backoff
from waterclock.stack.child import Child
from waterclock.stack.down import purge, stop_stack
from waterclock.stack.role_process import RoleProcess, RoleSpec
from waterclock.stack.state import birth_of, read_state, sole_owner
from waterclock.stack.supervise import RolePlan, ServerPlan, Supervisor, Whereabouts
from waterclock.stack.trouble import StackTrouble

WHERE = Whereabouts("127.0.0.1:1", "127.0.0.1", 2)

PROGRAM = """\
import os, pathlib, signal, sys, time
story = pathlib.Path(os.environ["STORY"])
me = os.environ["WATERCLOCK_INSTANCE"]
def tell(what):
    with story.open("a") as file:
        file.write(f"{me} {what}\\n")
def end(*_):
    tell("stops")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
tell("starts")
pathlib.Path(os.environ["WATERCLOCK_READY_FILE"]).write_text("READY")
while True:
    time.sleep(0.01)
"""


class Told:
    """Everything the supervisor says."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, line: str) -> None:
        self.lines.append(line)

    def has(self, part: str) -> bool:
        return any(part in line for line in self.lines)


@pytest.fixture
def play(tmp_path):
    """A folder with a module ``part`` to run as a role, and the story that its processes write."""
    (tmp_path / "part.py").write_text(PROGRAM)
    (tmp_path / "story").touch()
    return tmp_path


def role(play: Path, name: str, stop_rank: int = 0, module: str = "part") -> RolePlan:
    env = {**os.environ, "PYTHONPATH": str(play), "STORY": str(play / "story")}
    return RolePlan(name, lambda: RoleProcess(RoleSpec(module, name, stop_rank, {}), env, play / "data"), stop_rank)


def server(play: Path, name: str) -> ServerPlan:
    plan = role(play, name)

    def prepare(_: object) -> str:
        with (play / "story").open("a") as story:
            story.write(f"{name} prepared\n")
        return f"{name} prepared"

    return ServerPlan(name, plan.launch, prepare)


def story(play: Path) -> list[str]:
    return (play / "story").read_text().splitlines()


def supervisor(play: Path, told: Told, servers: list[ServerPlan], roles: list[RolePlan]) -> Supervisor:
    (play / "data").mkdir(exist_ok=True)
    return Supervisor(play / "data", servers, roles, where=lambda: WHERE, say=told)


async def until(condition, within_s: float = 10.0) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_at, f"not within {within_s} s"
        await asyncio.sleep(0.01)


def ask_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_roles_start_after_servers_are_prepared_and_stop_before_them(play):
    told = Told()
    stack = supervisor(
        play, told, [server(play, "store"), server(play, "log")], [role(play, "maker", 0), role(play, "keeper", 1)]
    )

    asyncio.run(stack.run(ask_to_stop))

    lines = story(play)
    at = {line: lines.index(line) for line in lines}
    assert len(lines) == 10
    prepared = max(at["store prepared"], at["log prepared"])
    assert prepared < min(at["maker starts"], at["keeper starts"])
    assert at["maker stops"] < at["keeper stops"] < min(at["store stops"], at["log stops"])
    state = read_state(play / "data")
    assert state.phase == "stopped"
    assert {process.life for process in state.processes} == {"stopped"}


def test_a_role_starts_as_soon_as_the_servers_that_it_needs_are_prepared(play):
    told = Told()
    waits = threading.Event()
    slow = server(play, "store")._replace(prepare=lambda _: str(waits.wait(10)))
    early = role(play, "worker-1")._replace(needs=frozenset({"log"}))
    stack = supervisor(play, told, [slow, server(play, "log")], [early, role(play, "keeper")])

    async def scene() -> None:
        running = asyncio.create_task(stack.run(ask_to_stop))
        await until(lambda: told.has("worker-1 ready"))
        assert "keeper starts" not in story(play)
        waits.set()
        await running

    asyncio.run(scene())
    lines = story(play)
    assert lines.index("log prepared") < lines.index("worker-1 starts") < lines.index("keeper starts")


def test_nothing_is_started_any_more_once_a_server_could_not_be_prepared(play):
    def fail(_: object) -> str:
        raise StackTrouble("no topics", hint="try again")

    failing = server(play, "log")._replace(prepare=fail)
    stack = supervisor(play, Told(), [failing, server(play, "store")], [role(play, "worker-1")])

    with pytest.raises(StackTrouble, match="no topics"):
        asyncio.run(stack.run(lambda: None))

    assert "worker-1 starts" not in story(play)
    assert {process.life for process in read_state(play / "data").processes if process.pid} == {"stopped"}


def test_a_stop_does_not_wait_for_topics_or_tables_that_are_being_made(play):
    begun, ended = threading.Event(), threading.Event()

    def prepare(_: object) -> str:
        begun.set()
        ended.wait(20)  # a broker that was killed meanwhile is asked for as long
        return "too late"

    told = Told()
    stack = supervisor(play, told, [server(play, "log")._replace(prepare=prepare)], [role(play, "worker-1")])

    async def scene() -> None:
        running = asyncio.create_task(stack.run(lambda: None))
        await until(begun.is_set)
        ask_to_stop()
        await running

    try:
        began_s = time.monotonic()
        asyncio.run(scene())
        assert time.monotonic() - began_s < 10
    finally:
        ended.set()
    assert story(play) == ["log starts", "log stops"]
    assert read_state(play / "data").phase == "stopped"
    assert not told.has("too late")


def test_a_killed_role_is_back_within_a_second(play):
    told = Told()
    stack = supervisor(play, told, [], [role(play, "worker-1")])

    async def scene() -> None:
        ready = asyncio.Event()
        running = asyncio.create_task(stack.run(ready.set))
        await ready.wait()
        first = read_state(play / "data").processes[0].pid
        killed_at = time.monotonic()
        os.kill(first, signal.SIGKILL)
        await until(lambda: read_state(play / "data").processes[0].life == "restarting")
        await until(lambda: read_state(play / "data").processes[0].life == "ready")
        assert time.monotonic() - killed_at < 1.0
        process = read_state(play / "data").processes[0]
        assert process.pid != first
        assert process.restart_count == 1
        ask_to_stop()
        await running

    asyncio.run(scene())
    assert told.has("worker-1 ended (killed by signal 9)")
    assert told.has("worker-1 is back")
    assert story(play) == ["worker-1 starts", "worker-1 starts", "worker-1 stops"]


def test_a_role_that_never_gets_ready_fails_the_start_with_its_last_lines(play):
    (play / "broken.py").write_text("import os\nprint('cannot find the handlers')\nos._exit(3)\n")
    told = Told()
    stack = supervisor(play, told, [server(play, "log")], [role(play, "worker-1", module="broken")])

    with pytest.raises(StackTrouble) as trouble:
        asyncio.run(stack.run(lambda: None))

    assert "worker-1 ended with exit code 3" in trouble.value.message
    assert "cannot find the handlers" in trouble.value.message
    assert str(play / "data" / "logs" / "worker-1.log") in trouble.value.message
    assert story(play)[-1] == "log stops"


def test_a_process_that_ignores_sigterm_is_killed_within_ten_seconds(play):
    (play / "deaf.py").write_text(PROGRAM.replace("signal.SIGTERM, end", "signal.SIGTERM, signal.SIG_IGN"))
    told = Told()
    stack = supervisor(play, told, [], [role(play, "deaf-1", module="deaf"), role(play, "deaf-2", 1, module="deaf")])
    asked_at = []

    asyncio.run(stack.run(lambda: (asked_at.append(time.monotonic()), ask_to_stop())))

    assert time.monotonic() - asked_at[0] < 10.0
    assert told.has("deaf-1 did not stop within")
    assert birth_of(read_state(play / "data").processes[0].pid) == ""


def test_children_die_with_a_killed_supervisor(play):
    program = textwrap.dedent(f"""
        import asyncio, os, pathlib, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_stack_supervisor import Told, role, supervisor
        play = pathlib.Path({str(play)!r})
        asyncio.run(supervisor(play, Told(), [], [role(play, "worker-1")]).run(lambda: print("up", flush=True)))
    """)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "up\n"
        pid = read_state(play / "data").processes[0].pid
        assert birth_of(pid)
        parent.kill()
    asyncio.run(until(lambda: not birth_of(pid)))
    assert not read_state(play / "data").alive


def test_down_stops_the_supervisor_of_this_folder_and_purge_deletes_it(play):
    program = textwrap.dedent(f"""
        import asyncio, pathlib, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from test_stack_supervisor import Told, role, supervisor
        from waterclock.stack.state import sole_owner
        play = pathlib.Path({str(play)!r})
        with sole_owner(play / "data"):
            asyncio.run(supervisor(play, Told(), [], [role(play, "worker-1")]).run(lambda: print("up", flush=True)))
    """)
    data = play / "data"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout.readline() == "up\n"
        with pytest.raises(Conflict, match=f"pid {parent.pid}"), sole_owner(data):
            pass
        with pytest.raises(Conflict):
            purge(data)
        # The parent is our own child: reap it when it ends, as a shell would.
        parent_ends = asyncio.run(_stop_and_reap(data, parent))
        assert parent_ends
    assert not stop_stack(data)
    assert purge(data)
    assert not data.exists()


async def _stop_and_reap(data: Path, parent: subprocess.Popen[str]) -> bool:
    stopping = asyncio.create_task(asyncio.to_thread(stop_stack, data))
    await until(lambda: parent.poll() is not None)
    return await stopping


def test_purge_leaves_alone_what_is_not_ours(tmp_path):
    (tmp_path / "thesis.txt").write_text("three years of work")
    with pytest.raises(StackTrouble, match="nothing deleted"):
        purge(tmp_path)
    assert (tmp_path / "thesis.txt").exists()


def test_restarts_are_quick_at_first_and_never_further_apart_than_ten_seconds():
    backoff = Backoff()
    pauses = [backoff.pause_after(0.1) for _ in range(40)]
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == 10.0
    assert backoff.crash_loops
    assert backoff.pause_after(60.0) == 0.1
    assert not backoff.crash_loops
    assert sum(pauses[: CRASH_LOOP_DEATHS - 1]) < 1.0


def test_a_child_gives_way_also_to_other_sessions(tmp_path):
    autogroup = Path("/proc/self/autogroup")
    told = "import os, pathlib, sys; sys.stdin.read(); a = pathlib.Path('/proc/self/autogroup'); "
    told += "g = pathlib.Path(sys.argv[1]); print('here', flush=True)\nwhile not g.exists(): pass\n"
    told += "print(os.nice(0), a.read_text() if a.exists() else '')"
    child = Child("meek", [sys.executable, "-c", told, str(tmp_path / "go")], tmp_path / "log")
    asyncio.run(until(lambda: "here" in child.last_lines()))
    child.give_way(7)
    (tmp_path / "go").touch()
    asyncio.run(until(lambda: child.exit_code() is not None))
    niceness, *of_the_session = child.last_lines().split("here")[-1].split()
    assert int(niceness) == max(7, os.nice(0)), "at least as nice, and never less than whoever asked"
    assert of_the_session[-2:] == (["nice", "7"] if autogroup.exists() else [])


@pytest.mark.skipif(sys.platform != "linux", reason="timer slack is Linux's")
def test_threads_of_a_child_with_timer_slack_may_wake_so_much_late_and_those_of_others_as_ever(tmp_path):
    told = "import ctypes, sys, threading\n"
    told += "def tell(): print(ctypes.CDLL(None).prctl(30, 0, 0, 0, 0))\n"  # PR_GET_TIMERSLACK
    told += "each = threading.Thread(target=tell); each.start(); each.join()"
    program = [sys.executable, "-c", told]
    lazy = Child("lazy", program, tmp_path / "lazy", timer_slack_ns=1_000_000)
    other = Child("other", program, tmp_path / "other")
    asyncio.run(until(lambda: lazy.exit_code() is not None and other.exit_code() is not None))
    assert lazy.last_lines() == "1000000"
    assert int(other.last_lines()) < 1_000_000


def test_roles_share_our_session_servers_have_their_own_and_neither_hears_our_ctrl_c(tmp_path):
    waits = "import sys; print('here', flush=True); sys.stdin.read(); import time; time.sleep(60)"
    server = Child("server", [sys.executable, "-c", waits], tmp_path / "log")
    role = Child("role", [sys.executable, "-c", waits], tmp_path / "log-of-role", own_session=False)
    try:
        for child in (server, role):
            asyncio.run(until(lambda child=child: "here" in child.last_lines()))
        assert os.getsid(server.pid) == server.pid
        assert os.getsid(role.pid) == os.getsid(0)
        assert os.getpgid(role.pid) == role.pid
        before = Path("/proc/self/autogroup").read_text() if Path("/proc/self/autogroup").exists() else ""
        role.give_way(7)
        assert not before or Path("/proc/self/autogroup").read_text() == before
    finally:
        server.kill()
        role.kill()


def test_who_asks_the_terminal_from_within_a_role_is_refused_and_not_stopped(tmp_path):
    asks = "import os, sys; sys.stdin.read(); print('asks', flush=True); os.open('/dev/tty', os.O_RDWR)"
    told = f"""
import pathlib, sys
from waterclock.stack.child import Child
role = Child("role", [sys.executable, "-c", {asks!r}], pathlib.Path({str(tmp_path / "log")!r}), own_session=False)
role._process.wait(30)
"""
    pid, terminal = pty.fork()  # a session with a terminal, as that of whoever types `waterclock up`
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", told])  # noqa: S606 - a program of ours with words of ours
    with os.fdopen(terminal, "rb"):
        _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    said = (tmp_path / "log").read_text()
    assert said.startswith("asks")
    assert "No such device or address: '/dev/tty'" in said


def test_a_program_that_is_not_there_is_told(tmp_path):
    child = Child("nothing", [str(tmp_path / "nothing")], tmp_path / "log")
    asyncio.run(until(lambda: child.exit_code() is not None))
    assert child.exit_code() == 1
    assert "No such file" in child.last_lines()
