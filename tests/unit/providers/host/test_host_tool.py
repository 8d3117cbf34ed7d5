"""A program as a tool: its parameters, its result, what it says on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from fxai.effects import fx
from fxai.models import LanguageModel
from fxai.providers import host
from fxai.providers.host import HostFailure
from fxai.testing import ScriptedModel, call, check_tool
from fxai.tools import HandlerFailed, Tool
from tests.kit.every import every
from tests.kit.hosts import Backend, failed, gone, python, shell


class Sum(msgspec.Struct, frozen=True):
    """What is added."""

    a: int
    b: int


ADDS = 'for m in asked(): say(type="result", value=m["params"]["a"] + m["params"]["b"])'
RAW = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}


def test_a_program_answers_a_call_with_a_value(backend: Backend) -> None:
    """Parameters go to the program as JSON; its value is the typed success."""
    adding = host.tool("add", *python(ADDS), parameters=Sum, success=int, description="Adds.")
    outcome = fx.run(adding.use(lambda kit: kit.call("add", {"a": 2, "b": 3})), backend=backend)

    assert (outcome.result, outcome.is_failure) == (5, False)


def test_a_raw_schema_makes_a_dynamic_tool() -> None:
    """With a raw JSON Schema document the tool is dynamic, and the document is kept as it was given."""
    adding = host.tool("add", *python(ADDS), parameters=RAW)
    opened = fx.run(fx.scoped(adding.open.map(lambda bound: bound.toolkit.tools["add"])))
    outcome = fx.run(adding.use(lambda kit: kit.call("add", {"a": 2, "b": 3})))

    assert Tool.is_dynamic(opened)
    assert opened.json_schema() == RAW
    assert outcome.result == 5


def test_a_program_of_lines_is_a_tool(backend: Backend) -> None:
    """In plain text a string goes as it is, all else as JSON; the answer is the text, or the JSON that it holds."""
    upper = host.tool(
        "upper", *shell("while read line; do echo $line | tr a-z A-Z; done"), parameters=str, success=str, format="text"
    )
    length = host.tool(
        "sum",
        *python("for m in asked(): print(m['a'] + m['b'], flush=True)"),
        parameters=Sum,
        success=int,
        format="text",
    )
    both = upper.merge(length).use(
        lambda kit: fx.all_(kit.call("upper", "hello"), kit.call("sum", {"a": 1, "b": 2}), kit.call("upper", "bye"))
    )
    outcomes = fx.run(both, backend=backend)

    assert [outcome.result for outcome in outcomes] == ["HELLO", 3, "BYE"]


def test_progress_of_the_success_type_is_preliminary(backend: Backend) -> None:
    """What a program says of its progress is shown before the result where it is of the success type."""
    states = """
for m in asked():
    say(type="progress", message="half of it")
    say(type="progress", value=50)
    say(type="result", value=100)
"""
    slow = host.tool("slow", *python(states), parameters=Sum, success=int)
    outcomes = fx.run(slow.use(lambda kit: kit.handle("slow", {"a": 1, "b": 2}).collect()), backend=backend)

    assert [(outcome.result, outcome.preliminary) for outcome in outcomes] == [(50, True), (100, False)]


def test_an_error_of_the_program_is_the_tool_s_typed_failure(backend: Backend) -> None:
    """An error that the program reports is a `HostFailure` in its own words."""
    fails = host.tool("add", *python('for m in asked(): say(type="error", message="no such sum")'), parameters=Sum)
    error = failed(backend, fails.use(lambda kit: kit.call("add", {"a": 2, "b": 3})))

    assert type(error) is HandlerFailed
    failure: Any = error.error
    assert isinstance(failure, HostFailure)
    assert (failure.problem, failure.description) == ("reported", "no such sum")


def test_the_model_is_never_shown_what_the_program_wrote_to_stderr() -> None:
    """In failure mode "return" the model reads what went wrong; the end of stderr is for people."""
    dies = python('print("password=1234", file=sys.stderr)\nsys.exit(3)')
    broken = host.tool("add", *dies, parameters=Sum, failure_mode="return", lifetime="request")
    model = ScriptedModel.make([call("add", {"a": 1, "b": 2}, id="1")])
    program = broken.use(lambda kit: LanguageModel.generate_text("Add", toolkit=kit).provide(model.layer))
    result = fx.run(program).tool_results[0]

    assert result.is_failure
    assert result.result.stderr == "password=1234\n"
    assert result.encoded_result["problem"] == "ended"
    assert result.encoded_result["exit_code"] == 3
    assert "1234" not in str(result.encoded_result)


@every(
    ("states", "why"),
    [
        ('say(type="result", value="five")', "does not match the success type of 'add'"),
        ('say(type="result", text="five")', "does not match the success type of 'add'"),
        ('say(type="result")', "does not match the success type of 'add'"),
        ('say(type="tool_call", name="add")', "a tool must send progress, result, or error, got Called"),
        ('say(type="result", value=5, id=7)', "id of the answer is 7, expected 1"),
    ],
)
def test_a_result_of_another_type_is_a_failure(states: str, why: str) -> None:
    """A value that is not of the success type, and what a tool does not say, are failures with their reason."""
    adding = host.tool("add", *python(f"for m in asked(): {states}"), parameters=Sum, success=int)
    error = failed("asyncio", adding.use(lambda kit: kit.call("add", {"a": 2, "b": 3})))

    assert error.error.problem == "invalid-output"
    assert why in error.error.description


def test_several_lines_are_not_for_a_program_that_reads_one() -> None:
    """A string of several lines is refused where each line is a request of its own."""
    echo = host.tool("echo", "cat", parameters=str, success=str, format="text")
    error = failed("asyncio", echo.use(lambda kit: kit.call("echo", "a\nb")))

    assert error.error.problem == "invalid-input"
    assert 'lifetime="request"' in error.error.description


def test_the_program_lives_as_long_as_the_source_is_open(backend: Backend, tmp_path: Path) -> None:
    """It is started when the source is opened and gone when it is closed, its children too."""
    states = f"""
import subprocess
child = subprocess.Popen(["sleep", "60"])
note("{tmp_path}/pids", os.getpid()); note("{tmp_path}/pids", child.pid)
{ADDS}
"""
    adding = host.tool("add", *python(states), parameters=Sum, success=int)
    two = adding.use(lambda kit: fx.all_(kit.call("add", {"a": 1, "b": 1}), kit.call("add", {"a": 2, "b": 2})))
    outcomes = fx.run(two, backend=backend)

    assert [outcome.result for outcome in outcomes] == [2, 4]
    assert len((tmp_path / "pids").read_text().split()) == 2
    assert gone(tmp_path / "pids")


@pytest.mark.slow
def test_the_tool_keeps_the_laws_of_tools() -> None:
    """What is written of its parameters, results and failures is read back as it was."""
    opened = host.tool("add", "cat", parameters=Sum, success=int).open
    made = fx.run(fx.scoped(opened.map(lambda bound: bound.toolkit.tools["add"])))

    check_tool(made, max_examples=20)


def test_a_program_that_is_not_there_is_known_when_the_source_is_opened(backend: Backend) -> None:
    """Opening fails with a `HostFailure` that names the command."""
    failure: Any = failed(backend, fx.scoped(host.tool("x", "no-such-program-here", parameters=Sum).open))

    assert (failure.problem, failure.program) == ("not-found", "no-such-program-here")
