"""The command `fxai worker`. Use it to run tool calls for a Dask cluster or a work queue.

>>> _resources(("GPU=1", "memory=8.5"))
{'GPU': 1.0, 'memory': 8.5}
"""

from __future__ import annotations

import logging
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from fxai.cli import option
from fxai.cli.exit import CliError, wrong_use
from fxai.cli.run_program import value_of
from fxai.cli.target import see_folder
from fxai.distributed import ClusterUnavailable, TargetError, WorkerOptions, serve_queue, serve_worker
from fxai.effects.layer import AnyLayer
from fxai.storage.job_table import location_of, read_location

if TYPE_CHECKING:
    from distributed.security import Security


def work(_: TextIO, err: TextIO, *, arguments: tuple[str, ...], queue: str | None, **chosen: Any) -> bool:
    """Run calls for a Dask cluster, or for a queue. `arguments` are the scheduler of the cluster and the targets."""
    return _work(arguments, err, **chosen) if queue is None else _work_for_queue(queue, arguments, err, **chosen)


def _work(arguments: tuple[str, ...], err: TextIO, **chosen: Any) -> bool:
    if not arguments:
        raise wrong_use("missing SCHEDULER", "Pass tcp://host:8786, or --queue.")
    if find_spec("distributed") is None:
        raise CliError("package distributed is not installed", "Install fxai[distributed].")
    import_module("distributed")  # the import sets the level of the log, so import it before the line below
    scheduler, *targets = arguments
    options = _options(targets=tuple(targets), **chosen)
    see_folder(Path.cwd())
    log, is_debugged = logging.getLogger("distributed"), click.get_current_context().meta[option.DEBUG]
    log.setLevel(logging.INFO if is_debugged else logging.CRITICAL)  # `tell` reports the start

    def tell(address: str) -> None:
        log.setLevel(logging.INFO if is_debugged else logging.WARNING)
        answers = ", ".join(targets) or "any target"
        err.write(f"fxai: worker at {address} runs calls of {answers} for {scheduler}. Press Ctrl-C to stop.\n")

    remedy = "Start a scheduler: dask scheduler --host 127.0.0.1"
    if scheduler.startswith("tls://"):
        remedy = "Pass --tls-ca, --tls-cert, and --tls-key with the files of the cluster."
    value_of(serve_worker(scheduler, options, tell).map_error(lambda failure: _explain(failure, remedy)))
    return True


def _work_for_queue(queue: str, targets: tuple[str, ...], err: TextIO, **chosen: Any) -> bool:
    for name in ("resources", "name", "host", "tls_ca", "tls_cert", "tls_key"):
        if chosen[name]:
            given = f"--{name.removesuffix('s').replace('_', '-')}"
            raise wrong_use(f"{given} requires a Dask cluster, not --queue", "Remove one of them.")
    if not targets:
        raise wrong_use("missing TARGET", "Name at least one module:name.")
    if "://" in targets[0]:
        raise wrong_use(f"--queue does not use a scheduler, got {targets[0]}", "Remove one of them.")
    options = _options(targets=targets, **chosen)
    if find_spec("dbos") is None:
        raise CliError("package dbos is not installed", "Install fxai[durable].")
    try:
        words = location_of(read_location(queue))
    except ValueError as error:
        raise wrong_use(f"--queue: {error}", "Pass a path or postgresql://…", cause=error) from error
    see_folder(Path.cwd())

    def tell(name: str) -> None:
        err.write(f"fxai: worker {name} runs calls of {', '.join(targets)} from {words}. Press Ctrl-C to stop.\n")

    remedy = "Check that the database exists and that this user can write to it."
    value_of(serve_queue(queue, options, tell).map_error(lambda failure: _explain(failure, remedy)))
    return True


def _explain(failure: ClusterUnavailable | TargetError, remedy: str) -> CliError:
    if isinstance(failure, TargetError):
        return CliError(str(failure), "Name tools with their handlers as module:name.", cause=failure)
    return CliError(str(failure), remedy)


def _options(*, resources: tuple[str, ...], telemetry: bool, **chosen: Any) -> WorkerOptions:
    files = {name: chosen.pop(name) for name in ("tls_ca", "tls_cert", "tls_key")}
    wrap = _with_tracer if telemetry else None
    return WorkerOptions(resources=_resources(resources), security=_security(files), wrap=wrap, **chosen)


def _with_tracer(layer: AnyLayer) -> AnyLayer:
    """Return the layer of a target with tracing. The module of the target is already imported."""
    from fxai.telemetry import trace

    traced = trace(layer)
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        raise RuntimeError(
            "OpenTelemetry has no TracerProvider in this process. Set a provider in a module of the target, or start "
            "the worker with opentelemetry-instrument."
        )
    return traced


def _resources(given: tuple[str, ...]) -> dict[str, float]:
    resources: dict[str, float] = {}
    for each in given:
        name, _, amount = each.partition("=")
        try:
            number = float(amount)
        except ValueError:
            number = 0.0
        if not name or not number > 0:
            raise wrong_use(f"--resource must be NAME=N, got {each!r}", "Write, for example, GPU=1.")
        resources[name] = number
    return resources


def _security(files: dict[str, str | None]) -> Security | None:
    """Return the TLS settings, or None if no file is named."""
    if not any(files.values()):
        return None
    missing = [f"--{name.replace('_', '-')}" for name, file in files.items() if file is None]
    if missing:
        raise wrong_use("TLS requires three files", f"Add {' and '.join(missing)}.")
    for file in files.values():
        if not Path(str(file)).is_file():
            raise wrong_use(f"file {file} does not exist", "Pass the path of a PEM file.")
    from distributed.security import Security

    made: Any = Security
    security: Security = made(
        tls_ca_file=files["tls_ca"],
        tls_worker_cert=files["tls_cert"],
        tls_worker_key=files["tls_key"],
        require_encryption=True,
    )
    return security
