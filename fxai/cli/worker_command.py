"""The command `fxai worker`: this process as a worker of a cluster.

>>> worker_command.name
'worker'
>>> _resources(("GPU=1", "memory=8.5"))
{'GPU': 1.0, 'memory': 8.5}
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TextIO

import click

from fxai.cli import option
from fxai.cli.exit import WRONG_USE, CliError, run_command

if TYPE_CHECKING:
    from distributed.security import Security

    from fxai.distributed import ClusterUnavailable, TargetError, WorkerOptions
    from fxai.effects.layer import AnyLayer

_MORE: Final = """\b
Examples:
  dask scheduler --host 127.0.0.1 --dashboard-address 127.0.0.1:8787
  fxai worker tcp://127.0.0.1:8786 shop:desk
  fxai worker tcp://10.0.0.5:8786 shop:desk --threads 64 --resource GPU=1
  fxai worker tls://10.0.0.5:8786 shop:desk --tls-ca ca.pem --tls-cert worker.pem --tls-key worker.key
  fxai worker --queue jobs.db shop:desk
  fxai worker --queue postgresql://ann@db.example.org/jobs shop:desk shop:till

TARGET is module:name of tools with their handlers: a bound toolkit, a function tool or a composite. It is built before
calls come; of Dask, targets that are not named are built when they are first called. Modules are found in the current
folder, too. Ctrl-C lets calls that run end; a second one does not wait.

With --queue there is no scheduler: calls of the targets are taken from a database, and survive the loss of the program
and of its workers. The password of a PostgreSQL database may come from PGPASSWORD or a password file.

Whoever reaches a worker or a scheduler of Dask can run any code there: keep them in a network of their own, or use TLS
with certificates that only they have.

Exit codes: 0 the cluster sent it away, 1 it cannot work, 2 wrong use, 130 and 143 stopped by a signal.
"""


@click.command("worker", cls=option.Command, epilog=_MORE)
@click.argument("arguments", nargs=-1, metavar="[SCHEDULER] [TARGET]...")
@click.option("--queue", metavar="PLACE", help="A work queue: the path of a SQLite database, or postgresql://…")
@click.option(
    "--threads", type=click.IntRange(min=1), default=16, show_default=True, help="How many calls it runs at once."
)
@click.option(
    "--resource", "resources", metavar="NAME=N", multiple=True, help="What calls may take of it; may be repeated."
)
@click.option("--name", metavar="NAME", help="What the cluster calls it; else its address.")
@click.option("--host", metavar="NAME", help="Where to listen; else at the address that reaches SCHEDULER.")
@click.option("--tls-ca", metavar="FILE", type=click.Path(), help="The certificates of who may be in the cluster.")
@click.option("--tls-cert", metavar="FILE", type=click.Path(), help="The certificate of this worker.")
@click.option("--tls-key", metavar="FILE", type=click.Path(), help="The key of that certificate.")
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds that calls have to end, and then their finalizers.",
)
@click.option(
    "--telemetry", is_flag=True, help="Trace the calls, by the providers that OpenTelemetry has for the process."
)
@option.debug
def worker_command(arguments: tuple[str, ...], queue: str | None, debug: bool, **chosen: Any) -> None:
    """Run calls for the cluster of Dask whose scheduler is at SCHEDULER, as tcp://127.0.0.1:8786, or of a --queue."""
    if queue is None:
        run_command(lambda _, err: _work(arguments, err, debug=debug, **chosen), as_json=False, debug=debug)
    else:
        run_command(lambda _, err: _work_for_queue(queue, arguments, err, **chosen), as_json=False, debug=debug)


def _work(arguments: tuple[str, ...], err: TextIO, *, debug: bool, **chosen: Any) -> bool:
    if not arguments:
        raise CliError("a worker has a scheduler or a queue", "name one: tcp://host:8786, or --queue", code=WRONG_USE)
    if find_spec("distributed") is None:
        raise CliError("distributed is not installed", "install fxai[distributed]")
    import logging

    import_module("distributed")  # it sets the level of its log, which is set below
    from fxai.cli.run_program import value_of
    from fxai.distributed import serve_worker

    scheduler, *targets = arguments
    options = _options(targets=tuple(targets), **chosen)
    _see_folder()
    log = logging.getLogger("distributed")
    log.setLevel(logging.INFO if debug else logging.CRITICAL)  # what it says of its start is said below

    def tell(address: str) -> None:
        log.setLevel(logging.INFO if debug else logging.WARNING)
        answers = ", ".join(targets) or "what is called"
        err.write(f"fxai: a worker at {address} answers {answers} for {scheduler} (Ctrl-C ends it)\n")
        err.flush()

    value_of(serve_worker(scheduler, options, tell).map_error(_explain))
    return True


def _work_for_queue(queue: str, targets: tuple[str, ...], err: TextIO, **chosen: Any) -> bool:
    options = _options(targets=targets, **_require_for_queue(targets, chosen))
    if find_spec("dbos") is None:
        raise CliError("dbos is not installed", "install fxai[durable]")
    from fxai.cli.run_program import value_of
    from fxai.distributed import serve_queue
    from fxai.storage.job_table import place_of, read_place

    try:
        words = place_of(read_place(queue))
    except ValueError as error:
        raise CliError(f"--queue: {error}", "give a path or postgresql://…", code=WRONG_USE, cause=error) from error
    _see_folder()

    def tell(name: str) -> None:
        err.write(f"fxai: the worker {name} answers {', '.join(targets)} of the queue in {words} (Ctrl-C ends it)\n")
        err.flush()

    value_of(serve_queue(queue, options, tell).map_error(_explain_queue))
    return True


def _require_for_queue(targets: tuple[str, ...], chosen: dict[str, Any]) -> dict[str, Any]:
    """The options, where a queue has them all."""
    given = [name for name in ("resources", "name", "host", "tls_ca", "tls_cert", "tls_key") if chosen[name]]
    if given:
        option = "--resource" if given[0] == "resources" else f"--{given[0].replace('_', '-')}"
        raise CliError(f"{option} is for clusters of Dask, and --queue for none", "leave one out", code=WRONG_USE)
    if not targets:
        raise CliError("a worker of a queue runs the calls of its targets", "name one: module:name", code=WRONG_USE)
    if "://" in targets[0]:
        raise CliError(f"with --queue there is no scheduler {targets[0]}", "leave one of them out", code=WRONG_USE)
    return chosen


def _see_folder() -> None:
    """Modules are found in the current folder, too."""
    import sys

    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _options(*, resources: tuple[str, ...], telemetry: bool, **chosen: Any) -> WorkerOptions:
    from fxai.distributed import WorkerOptions

    files = {name: chosen.pop(name) for name in ("tls_ca", "tls_cert", "tls_key")}
    wrap = _with_tracer if telemetry else None
    return WorkerOptions(resources=_resources(resources), security=_security(files), wrap=wrap, **chosen)


def _explain(failure: ClusterUnavailable | TargetError) -> CliError:
    from fxai.distributed import TargetError

    if isinstance(failure, TargetError):
        return CliError(str(failure), "name tools with their handlers, as module:name", cause=failure)
    if failure.address.startswith("tls://"):
        return CliError(str(failure), "give --tls-ca, --tls-cert and --tls-key of the cluster's authority")
    return CliError(str(failure), "start one with: dask scheduler --host 127.0.0.1")


def _explain_queue(failure: ClusterUnavailable | TargetError) -> CliError:
    from fxai.distributed import TargetError

    if isinstance(failure, TargetError):
        return _explain(failure)
    return CliError(str(failure), "see that the database is there, and that this user may write to it")


def _with_tracer(layer: AnyLayer) -> AnyLayer:
    """The layer of a target, whose module has been imported by now, under which its calls are traced."""
    from fxai.telemetry import trace

    traced = trace(layer)
    from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

    if isinstance(get_tracer_provider(), ProxyTracerProvider):
        raise RuntimeError(
            "OpenTelemetry has no TracerProvider in this process: set one in a module of the target, or start the "
            "worker by opentelemetry-instrument"
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
            raise CliError(f"{each!r} is no resource", "write NAME=N, such as GPU=1", code=WRONG_USE)
        resources[name] = number
    return resources


def _security(files: dict[str, str | None]) -> Security | None:
    """The certificates; None where no file is named."""
    if not any(files.values()):
        return None
    missing = [f"--{name.replace('_', '-')}" for name, file in files.items() if file is None]
    if missing:
        raise CliError("TLS needs three files", f"give {' and '.join(missing)}, too", code=WRONG_USE)
    for file in files.values():
        if not Path(str(file)).is_file():
            raise CliError(f"there is no file {file}", "give the path of a PEM file", code=WRONG_USE)
    from distributed.security import Security

    made: Any = Security
    security: Security = made(
        tls_ca_file=files["tls_ca"],
        tls_worker_cert=files["tls_cert"],
        tls_worker_key=files["tls_key"],
        require_encryption=True,
    )
    return security
