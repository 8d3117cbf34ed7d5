"""A cluster with certificates: who has one of its authority is in it, and everybody else is told why not, at once."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("distributed", reason="fxai[distributed] is not installed")

from distributed.security import Security

from fxai.distributed import Cluster, ClusterUnavailable, distribute
from fxai.effects import Backend, fx
from tests.kit import cluster_tools as tools
from tests.kit.certificates import Authority
from tests.kit.cluster_tools import kit
from tests.kit.clusters import Process

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("cluster")]

TARGET = "tests.kit.cluster_tools:desk"


class Secured(msgspec.Struct, frozen=True):
    """A cluster of one worker, and certificates of its authority and of another one."""

    address: str
    ours: Authority
    other: Authority


@pytest.fixture(scope="module")
def secured(folder: None, tmp_path_factory: pytest.TempPathFactory) -> Generator[Secured]:
    """Started as users start it: `dask scheduler` and `fxai worker` with their options of TLS."""
    location = tmp_path_factory.mktemp("certificates")
    ours, other = Authority(location / "ours"), Authority(location / "other")
    with ExitStack() as stack:

        def start(*command: str) -> Process:
            process = Process(("-m", *command))
            stack.callback(process.end)
            return process

        certificate, key = ours.sign("scheduler")
        files = ("--tls-ca-file", ours.ca, "--tls-cert", certificate, "--tls-key", key)
        scheduler = start(
            "distributed.cli.dask_scheduler",
            *("--host", "127.0.0.1", "--port", "0", "--protocol", "tls", "--dashboard-address", "127.0.0.1:0"),
            *files,
        )
        address = scheduler.found(re.compile(r"tls://127\.0\.0\.1:[1-9]\d*"))
        worker = start("fxai", "worker", address, TARGET, *_options(ours, "worker"))
        worker.found(re.compile(r"worker at tls://127\.0\.0\.1:[1-9]\d* runs calls"))
        yield Secured(address, ours, other)


def _options(authority: Authority, name: str) -> tuple[str, ...]:
    certificate, key = authority.sign(name)
    return ("--tls-ca", authority.ca, "--tls-cert", certificate, "--tls-key", key)


def _security(authority: Authority, files: tuple[str, str] | None = None, ca: str = "") -> Security:
    certificate, key = files or authority.sign("program")
    made: Any = Security
    security: Security = made(
        tls_ca_file=ca or authority.ca, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
    )
    return security


def _run(address: str, security: Security | None, program: Any, backend: Backend = "asyncio") -> Any:
    live = distribute(tools.desk, TARGET).provide(Cluster.layer(address, security=security))
    return fx.run_exit(program.provide(live), backend=backend)


def test_a_program_with_a_certificate_is_in_the_cluster(secured: Secured, backend: Backend) -> None:
    """Results and preliminary values come over TLS."""
    security = _security(secured.ours)
    assert _run(secured.address, security, kit.call("add", {"a": 1, "b": 2}), backend).value.result == 3
    shown = _run(secured.address, security, kit.handle("count", 3).collect(), backend).value
    assert [one.result for one in shown] == [0, 1, 2, 3]


def _unfit(secured: Secured, tmp_path: Path) -> dict[str, tuple[str, Security | None, str]]:
    """Programs that are no members: their address, their certificates, and what they are told."""
    ours, other = secured.ours, secured.other
    plain = secured.address.replace("tls://", "tcp://")
    return {
        "without any": (
            secured.address,
            None,
            "the scheduler requires TLS, and no certificate is given. Set `tls_ca_file`, `tls",
        ),
        "of another authority": (
            secured.address,
            _security(other, ca=ours.ca),
            "the certificates do not match: each must",
        ),
        "trusting another": (secured.address, _security(other), "the certificates do not match: each must be valid"),
        "over": (
            secured.address,
            _security(ours, ours.sign("old", hours=-1)),
            "the certificates do not match: each must",
        ),
        "with the key of another": (
            secured.address,
            _security(ours, (ours.sign("one")[0], ours.sign("two")[1])),
            "the certificates cannot be used: ",
        ),
        "without the file": (
            secured.address,
            _security(ours, (str(tmp_path / "none.pem"), str(tmp_path / "none.key"))),
            "the certificates cannot be used: ",
        ),
        "without TLS": (
            plain,
            None,
            "the connection was closed. If the scheduler requires TLS, use an address with tls://.",
        ),
    }


CASES = [
    "without any",
    "of another authority",
    "trusting another",
    "over",
    "with the key of another",
    "without the file",
    "without TLS",
]


@pytest.mark.parametrize("case", CASES)
def test_a_program_that_is_no_member_is_told_why(secured: Secured, case: str, tmp_path: Path) -> None:
    """By a typed failure, long before the time is up for which a scheduler is waited for; nothing is left open."""
    address, security, said = _unfit(secured, tmp_path)[case]
    live = distribute(tools.desk, TARGET).provide(Cluster.layer(address, security=security, seconds=3600))

    failed = fx.run_result(kit.call("add", {"a": 1, "b": 2}).provide(live)).failure()
    assert isinstance(failed, ClusterUnavailable)
    assert failed.address == address
    assert failed.reason.startswith(said)


def test_a_worker_that_is_no_member_is_told_why(secured: Secured) -> None:
    """In one line, and at once."""
    mixed = (*_options(secured.other, "mixed")[2:], "--tls-ca", secured.ours.ca)
    for options in (_options(secured.other, "stranger"), mixed, ()):
        process = Process(("-m", "fxai", "worker", secured.address, TARGET, *options))
        try:
            assert process.wait() == 1
            output = process.output
        finally:
            process.end()
        (line,) = output.splitlines()
        assert ("the certificates do not match" if options else "requires TLS") in line
        assert "Pass --tls-ca, --tls-cert, and --tls-key" in line


def test_nobody_else_is_in_a_local_cluster(folder: None, tmp_path: Path) -> None:
    """It has certificates for its session: programs with others, or with none, are told so; its own calls are run."""
    stranger = _security(Authority(tmp_path / "other"))

    def refused(cluster: Cluster) -> list[Any]:
        layers = [Cluster.layer(cluster.address, security=security) for security in (None, stranger)]
        return [fx.run_result(fx.service(Cluster).provide(layer)).failure() for layer in layers]

    @fx.gen
    def program() -> Any:
        cluster = yield from fx.service(Cluster)
        outcome = yield from kit.call("add", {"a": 1, "b": 2}).provide(distribute(tools.desk, TARGET))
        strangers = yield from fx.in_thread(lambda: refused(cluster))
        return cluster.address, outcome.result, [re.split("[.:]", one.reason)[0] for one in strangers]

    address, result, reasons = fx.run(program().provide(Cluster.local_layer(workers=1, threads=2)))

    assert address.startswith("tls://127.0.0.1:")
    assert result == 3
    assert reasons == ["the scheduler requires TLS, and no certificate is given", "the certificates do not match"]


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_what_is_no_scheduler_is_told_apart(answer: bytes) -> None:
    """A server of something else answers with rubbish, or never: neither hangs, and no memory is taken for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.sendall(answer)
                while connection.recv(4096):
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        failed = fx.run_result(fx.service(Cluster).provide(Cluster.layer(address, seconds=0.5))).failure()
        thread.join(10)
    assert isinstance(failed, ClusterUnavailable)
    assert "scheduler answers" in failed.reason
