"""What every test stands on: no network, both backends, and guards against tests that cannot fail."""

from __future__ import annotations

import ast
import gc
import inspect
import ipaddress
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, settings

# How fast a machine is says nothing of a law, and many run beside each other on it: no law has a time limit.
settings.register_profile("fxai", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fxai")

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
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.Assert):
            return True
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called.lstrip("_").startswith(_ASSERTING):
                return True
    return False


def _parsed(source: str) -> ast.AST:
    collects = gc.isenabled()
    gc.disable()  # where the collector runs a finalizer in the middle, CPython 3.11 takes the parse for broken
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Fail a test that asserts nothing; pytest itself refuses one that returns something, an effect that nobody ran."""
    if not asserts_something(pyfuncitem.obj):
        pytest.fail(f"{pyfuncitem.name} asserts nothing: it can never fail", pytrace=False)
