"""Rules for all tests: two tiers, no network, both event loops, and no test that cannot fail."""

from __future__ import annotations

import ast
import gc
import inspect
import ipaddress
import re
import signal
import sys
import textwrap
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest
from hypothesis import HealthCheck, settings

from tests.kit.source import parse_source

# No profile limits the time of an example, because a busy machine says nothing about a law.
# `quick` and `thorough` draw the same examples in every run, so that a commit that passed once passes again.
# `search` draws new ones and prints how to repeat a failure: `nox -s search`.
_EVERY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("quick", _EVERY, max_examples=15, derandomize=True)
settings.register_profile("thorough", _EVERY, max_examples=150, derandomize=True)
settings.register_profile("search", _EVERY, max_examples=500)
settings.load_profile("quick")

# Whoever started the tests may have it ignored, as a shell does in the background; what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Programs that the checkers read, or that tests start in a process of their own: nothing to import here.
collect_ignore_glob = [
    "acceptance/programs/*",
    "benchmarks/*",
    "kit/hanging_target.py",
    "kit/rubbish_target.py",
    "kit/traced_worker.py",
    "mutation/*",
    "typing/messages/*",
    "typing/hover/*",
    "typing/right/*",
    "typing/wrong/*",
]

ARCHITECTURE = Path(__file__).parent / "architecture"
LAWS = Path(__file__).parent / "laws"
QUICK_TIER = "not slow"
SLOW_COMMAND = 'pytest -m "slow or law" --hypothesis-profile=thorough'

_DOCTEST = re.compile(r"^\s*>>> ", re.MULTILINE)
_LEFT_OUT = pytest.StashKey[set[str]]()
_PLAIN = pytest.StashKey[bool]()

_ASSERTING = ("assert", "check", "expect", "fail", "raises", "warns")


class NetworkUsed(AssertionError):
    """A test tried to reach another machine."""


def _is_local(host: object) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).partition("%")[0]).is_loopback
    except ValueError:
        return False


def _refuse_network(event: str, arguments: tuple[Any, ...]) -> None:
    """Refuse names and addresses beyond this machine; local sockets and loopback stay open."""
    if event == "socket.getaddrinfo":
        host: object = arguments[0]
    elif event in ("socket.connect", "socket.sendto"):
        address = arguments[1]
        host = cast("tuple[object, ...]", address)[0] if isinstance(address, tuple) else None
    else:
        return
    if not _is_local(host):
        raise NetworkUsed(f"{event} to {host!r}: tests use no network; give the test a local peer or a scripted one")


sys.addaudithook(_refuse_network)


def slow_tests(source: str) -> list[str]:
    """Return the names of the tests in a module that is slow as a whole; an empty list for any other module."""
    if "mark.slow" not in source or "\npytestmark" not in source:
        return []
    tree = parse_source(source)
    marks = [
        ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == "pytestmark" for target in node.targets)
    ]
    if not any(re.search(r"\bpytest\.mark\.slow\b", mark) for mark in marks):
        return []
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [name for name in functions if name.startswith("test")]


class SlowModule(pytest.File):
    """A module of the slow tier in a run of the quick tier, which reads it and does not import it.

    The module can need packages that the extra `dev` does not install.
    """

    def collect(self) -> Iterator[pytest.Item]:
        """Yield one item for each test function. The option `-m "not slow"` deselects each item."""
        for name in slow_tests(self.path.read_text(encoding="utf-8")):
            yield cast(Any, SlowTest).from_parent(self, name=name)


class SlowTest(pytest.Item):
    """A test function of a module that is not imported."""

    def __init__(self, name: str, parent: SlowModule, **options: Any) -> None:
        cast(Any, super()).__init__(name, parent, **options)
        self.add_marker("slow")

    def runtest(self) -> None:
        """Fail, because the function is not imported."""
        pytest.fail(f"{self.name} is slow and was not deselected. Run `{SLOW_COMMAND}`.", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Pause the garbage collector, which takes more than half of the time of a collection and frees nothing.

    Afterwards it looks more seldom in the quick tier, whose tests make little that is in a cycle.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        if session.config.option.markexpr == QUICK_TIER:
            gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
    """Import a file only for a test of this tier, or for a doctest."""
    collectors = yield
    if file_path.suffix != ".py" or not collectors:
        return collectors
    source = file_path.read_text(encoding="utf-8")
    if parent.config.option.markexpr == QUICK_TIER and slow_tests(source):
        return [cast(Any, SlowModule).from_parent(parent, path=file_path)]
    if _DOCTEST.search(source):
        return collectors
    return [one for one in collectors if type(one).__name__ != "DoctestModule"]


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the list of slow tests that this run leaves out, and choose whether assertions show their values.

    pytest rewrites each assertion so that a failure shows its values. That takes more than half of the time of a
    collection, and each worker collects all tests. A run of the whole quick tier does without: `pytest --lf` runs the
    failed tests again, with values.
    """
    config.stash[_LEFT_OUT] = set()
    worker: dict[str, Any] | None = getattr(config, "workerinput", None)
    option = config.option
    is_complete = config.args_source is pytest.Config.ArgsSource.TESTPATHS and not getattr(option, "lf", False)
    config.stash[_PLAIN] = (
        is_complete and option.markexpr == QUICK_TIER and bool(getattr(option, "tx", None))
        if worker is None
        else worker["plain"]
    )
    if config.stash[_PLAIN]:
        sys.meta_path[:] = [one for one in sys.meta_path if type(one).__name__ != "AssertionRewritingHook"]


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of pytest-xdist whether assertions show their values."""
    node.workerinput["plain"] = node.config.stash[_PLAIN]


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark each property test as a `law`, and keep the tests of the source in one process, which parses it once."""
    if item.path.parent == LAWS or getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
        item.add_marker("law")
    if item.path.parent == ARCHITECTURE:
        item.add_marker(pytest.mark.xdist_group("architecture"))


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Record the slow tests of the modules that this run imports."""
    for item in items:
        if item.get_closest_marker("slow"):
            item.config.stash[_LEFT_OUT].add(item.nodeid.partition("[")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the slow tests that a worker of pytest-xdist left out to the process that writes the summary."""
    output: dict[str, Any] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        left_out = session.config.stash[_LEFT_OUT]
        output["left_out"] = sorted(left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Receive the slow tests that a worker of pytest-xdist left out."""
    node.config.stash[_LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", ()))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> Generator[None, object, object]:
    """State at the end how many slow tests the run left out, and the command that runs them."""
    result = yield
    left_out = len(config.stash[_LEFT_OUT])
    if left_out:
        tests = "1 slow test" if left_out == 1 else f"{left_out} slow tests"
        remedy = f"Run `{SLOW_COMMAND}` to run them and more examples of each law."
        terminalreporter.write_line(f"Left out {tests}. {remedy}")
    if config.stash[_PLAIN] and "failed" in terminalreporter.stats:
        terminalreporter.write_line("Run `pytest --lf` to see the values of the assertions that failed.")
    return result


@pytest.fixture(params=["asyncio", "trio"])
def backend(request: pytest.FixtureRequest) -> str:
    """The name of an event loop to run on: the test runs once on each."""
    return str(request.param)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL server, which is started for the first test that wants it; see `fresh_database`."""
    from tests.kit.postgres import postgres_server  # which few tests need

    with postgres_server() as url:
        yield url


@pytest.fixture
def anyio_backend(backend: str) -> str:
    """The loop of tests marked `anyio`: each runs once on each backend too."""
    return backend


def asserts_something(function: Callable[..., object]) -> bool:
    """Whether the body of a test holds an assertion, or a call that makes one."""
    inner = getattr(getattr(function, "hypothesis", None), "inner_test", function)
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(inner)))
    for node in ast.walk(parse_source(source)):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called.lstrip("_").startswith(_ASSERTING):
                return True
    return False


_ASSERTS: Final[dict[tuple[Path, str], bool]] = {}


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail a test that asserts nothing; pytest itself refuses one that returns something, an effect that nobody ran."""
    name = (pyfuncitem.path, pyfuncitem.originalname)
    if name not in _ASSERTS:  # once for all parameters
        _ASSERTS[name] = asserts_something(pyfuncitem.obj)
    if not _ASSERTS[name]:
        pytest.fail(f"{pyfuncitem.name} asserts nothing: it can never fail", pytrace=False)
