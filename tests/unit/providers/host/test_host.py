"""One program that is asked again and again: which process answers, what is left of those that did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fxai.effects import Gen, Scope, Succeeded, fx
from fxai.models import LanguageModel
from fxai.providers import host
from fxai.providers.host.host import Host, Program
from tests.kit.hosts import Backend, gone, python, shell

ASKING = LanguageModel.generate_text("Hi").map(lambda response: response.text)


def test_an_error_that_was_reported_leaves_the_process_to_the_next(backend: Backend, tmp_path: Path) -> None:
    """One that reports an error has answered: the same process is asked on."""
    states = """
note(sys.argv[1], os.getpid())
for m in asked():
    if m["id"] == 1: say(type="error", message="no")
    else: say(type="result", text="yes")
"""
    first = ASKING.catch_all(lambda error: fx.succeed(error.message))
    both = fx.all_(first, ASKING).provide(host.model(*python(states, tmp_path / "pids")))
    told, text = fx.run(both, backend=backend)

    assert ("no" in told, text) == (True, "yes")
    assert len((tmp_path / "pids").read_text().split()) == 1
    assert gone(tmp_path / "pids")


@pytest.mark.parametrize("command", [("no-such-program-here",), shell("exit 3")])
def test_a_process_that_did_not_begin_leaves_nothing_to_the_scope(command: tuple[str, ...]) -> None:
    """However often it is tried, the scope around has nothing to end but the process that is there."""

    @fx.gen
    def tried() -> Gen[list[bool], Any, Any]:
        scope = Scope()
        one = Host(Program(command, params="{}", grace=0.1), scope)
        asked = one.exchange(lambda number, _: b"{}\n", lambda _: fx.succeed(None))
        kept: list[bool] = []
        for _ in range(2):
            ended = yield from asked.exit()
            kept += [isinstance(ended, Succeeded), scope.empty]
        return kept

    assert fx.run(tried()) == [False, True, False, True]


def test_a_process_that_was_stopped_is_no_more_of_the_scope(tmp_path: Path) -> None:
    """One that failed is ended at once and taken out; the one that answers stays until the scope closes."""
    states = """
note(sys.argv[1], os.getpid())
for m in asked():
    print("{" if m["id"] == 1 else json.dumps({"text": str(m["id"])}), flush=True)
"""

    @fx.gen
    def tried() -> Gen[list[Any], Any, Any]:
        scope = Scope()
        one = Host(Program(python(states, tmp_path / "pids"), grace=0.1), scope)
        asked = one.exchange(lambda number, _: f'{{"id": {number}}}\n'.encode(), lambda _: fx.succeed(None))
        first = yield from asked.exit()
        seen: list[Any] = [isinstance(first, Succeeded), scope.empty, gone(tmp_path / "pids")]
        second = yield from asked
        seen += [second.text, scope.empty]
        yield from scope.close(Succeeded(None))
        return [*seen, gone(tmp_path / "pids")]

    assert fx.run(tried()) == [False, True, True, "2", False, True]
    assert len((tmp_path / "pids").read_text().split()) == 2


def test_what_a_program_does_not_take_says_how_it_would() -> None:
    """The warning names the word for `takes`."""
    asking = LanguageModel.generate_text("Hi", temperature=0.5).provide(host.model("cat", format="text"))
    (warning,) = fx.run(asking).warnings

    assert warning.message == (
        "temperature was ignored: the program does not declare that it accepts options. "
        "If it does, add 'options' to `takes`."
    )


def test_a_question_about_two_times_is_told_the_nearer_one(backend: Backend) -> None:
    """Of the time of the whole answer and of silence, the one that is over first is named, with its seconds."""
    for options, by in (
        ({"silence": 0.2, "timeout": 30.0}, "`silence`"),
        ({"silence": 30.0, "timeout": 0.2}, "`timeout`"),
        ({"silence": None, "timeout": 0.2}, "`timeout`"),
        ({"silence": 0.2, "timeout": None}, "`silence`"),
    ):
        given: Any = options
        asking = ASKING.provide(host.model("sleep", "60", grace=0.1, **given))
        failure: Any = fx.run_result(asking, backend=backend).failure()

        assert (failure.reason.seconds, by in failure.reason.description) == (0.2, True)
