"""`fxai call`, asked as a user would: JSON in, JSON out, and every way that a call ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.kit.command_line import Ended, Run
from tests.kit.every import every

CALLABLE = str(Path(__file__).parents[2] / "kit" / "callable_tools.py")


@pytest.fixture
def call(fxai: Run) -> Run:
    """Calls a tool of the list of tools."""

    def run(*arguments: str, piped: str | None = None) -> Ended:
        return fxai("call", f"{CALLABLE}:tools", *arguments, piped=piped)

    return run


def test_a_result_is_json_on_stdout_alone(call: Run) -> None:
    """The result is all that stdout holds; what the handler prints goes to stderr."""
    assert call("add", '{"a": 2, "b": 3}') == (0, "5\n", "adding\n")


@pytest.mark.parametrize(
    ("arguments", "out"),
    [(("later",), '"late"\n'), (("blocked",), "5\n"), (("later", "{}"), '"late"\n'), (("later", ""), '"late"\n')],
)
def test_every_kind_of_handler_answers(call: Run, arguments: tuple[str, ...], out: str) -> None:
    """Coroutines and blocking handlers run; without parameters they are an empty object."""
    assert call(*arguments) == (0, out, "")


def test_parameters_come_from_a_file_or_stdin(call: Run, tmp_path: Path) -> None:
    """@file reads a file, and - what is piped in."""
    file = tmp_path / "parameters.json"
    file.write_text('{"a": 40, "b": 2}')

    assert call("add", f"@{file}").out == "42\n"
    assert call("add", "-", piped='{"a": 1}').out == "2\n"


def test_preliminary_results_go_to_stderr(call: Run) -> None:
    """Each preliminary result is a line on stderr as it comes; stdout has the last alone."""
    assert call("steps", '{"n": 2}') == (0, '"there"\n', '… "step 0"\n… "step 1"\n')


def test_json_is_an_object_a_line(call: Run) -> None:
    """With --json preliminary results and the result are lines on stdout."""
    lines = [json.loads(line) for line in call("steps", '{"n": 2}', "--json").out.splitlines()]

    assert lines == [
        {"type": "preliminary", "result": "step 0"},
        {"type": "preliminary", "result": "step 1"},
        {"type": "result", "ok": True, "tool": "steps", "result": "there"},
    ]


FAILS: list[tuple[list[str], int, str]] = [
    (["weather", '{"name": "Ulm"}'], 1, 'weather failed: NoSuchCity: {"name":"Ulm"}. The tool declares this failure.'),
    (["find", '{"name": "Ulm"}'], 1, "find failed: no Ulm. The tool declares this failure."),
    (
        ["add", '{"b": "x"}'],
        1,
        "invalid arguments for 'add': /b: expected integer, found string 'x'; /a: expected",
    ),
    (
        ["add", "[1]"],
        1,
        "'add': expected object, found array of 1 item. To see its parameters, run fxai",
    ),
    (["broken"], 1, "the program raised RuntimeError: inside of it. Run it again with --debug to see the traceback."),
    (["remove", '{"path": "a"}'], 1, "tool 'remove' needs approval. To approve this call, pass --yes"),
    (["remove_some", '{"path": "/a"}'], 1, "tool 'remove_some' needs approval. To approve this call, pass --yes"),
    (["remove_any", '{"path": "a"}'], 1, "tool 'remove_any' needs approval. To approve this call, pass --yes"),
    (["remove_some", '{"pth": "/a"}'], 1, "invalid arguments for 'remove_some': /path: expected string, found"),
    (["ad", "{}"], 2, "has no tool 'ad'. Did you mean 'add'?"),
    (["qqqqqqqq", "{}"], 2, "has no tool 'qqqqqqqq'. Use one of: add, weather, find, "),
    (["add", "{"], 2, "'{' is not valid JSON: "),
    (["add", "@no/such.json"], 2, "cannot read no/such.json: No such file or directory. Pass JSON such as"),
    (["add", "@."], 2, "cannot read .: "),
    (["add", '{"a": NaN}'], 2, "is not valid JSON: /a: expected a finite number, found NaN"),
    (["add", "\udcff"], 2, "is not valid JSON: expected JSON in UTF-8"),
]


@every(("arguments", "code", "said"), FAILS, ids=lambda value: ascii(value)[:60])
def test_a_call_that_fails_is_one_line_with_the_remedy(call: Run, arguments: list[str], code: int, said: str) -> None:
    """Typed failures, parameters that do not fit, defects and approvals end with 1, wrong use with 2; no traceback."""
    ended = call(*arguments)

    assert said in ended.err
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.removeprefix("adding\n").count("\n") == 1
    assert "Traceback" not in ended.err


@every(("arguments", "code", "said"), FAILS[:-1], ids=lambda value: str(value)[:60])
def test_a_call_that_fails_is_json_too(call: Run, arguments: list[str], code: int, said: str) -> None:
    """With --json the closing object has the message and the remedy, the type of failure and what it holds."""
    ended = call(*arguments, "--json")
    closing = json.loads(ended.out)

    assert (ended.code, closing["type"], closing["ok"]) == (code, "result", False)
    assert closing["error"]["message"]
    assert said[:12] in ended.err


def test_a_typed_failure_is_there_as_data(call: Run) -> None:
    """What the failure schema says of a failure is in the closing object; the faults of parameters are too."""
    failed = json.loads(call("weather", '{"name": "Ulm"}', "--json").out)["error"]
    misfit = json.loads(call("add", '{"a": "x"}', "--json").out)["error"]

    assert (failed["type"], failed["kind"], failed["failure"]) == ("handler-failed", "NoSuchCity", {"name": "Ulm"})
    assert (misfit["type"], misfit["faults"][0]["pointer"]) == ("invalid-parameters", "/a")


@pytest.mark.parametrize(
    "arguments", [("remove", '{"path": "a"}', "--yes"), ("remove_some", '{"path": "a"}'), ("remove_none",)]
)
def test_an_approved_call_runs(call: Run, arguments: tuple[str, ...]) -> None:
    """--yes approves; a function, or an effect, that does not ask needs no approval."""
    assert call(*arguments).out.endswith('is gone"\n')


LAYERS: list[tuple[list[str], int, str]] = [
    (
        [f"{CALLABLE}:kit", "unbound"],
        1,
        "tool 'unbound' has no handler. Name the layer of its handler with --layer",
    ),
    ([f"{CALLABLE}:kit", "unbound", "--layer", f"{CALLABLE}:needy"], 1, "service Db is missing"),
    (
        [f"{CALLABLE}:kit", "unbound", "--layer", "tests.kit.faulty_tools:whole"],
        1,
        "tool 'unbound' has no handler. Provide a layer that has a handler for it.",
    ),
    ([f"{CALLABLE}:kit", "unbound", "--layer", f"{CALLABLE}:kit"], 2, "is a value of type Toolkit, not a layer. Try "),
    ([f"{CALLABLE}:kit", "unbound", "--layer", f"{CALLABLE}:wrong"], 1, "a value that its success type does not allow"),
    ([f"{CALLABLE}:external", "external"], 1, "tool 'external' has no handler here"),
    (["-", "add", "-"], 2, "stdin cannot provide both the tools and the arguments"),
]


@every(("arguments", "code", "said"), LAYERS, ids=lambda value: str(value)[-40:])
def test_a_tool_without_an_answer_says_what_is_missing(fxai: Run, arguments: list[str], code: int, said: str) -> None:
    """A handler, a service or a layer that is not there is named, with the option that gives it."""
    given = [*arguments[:2], '{"name": "Ulm"}', *arguments[2:]] if "unbound" in arguments else arguments
    ended = fxai("call", *given)

    assert said in ended.err
    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)


def test_a_layer_gives_the_handler_and_its_services(fxai: Run) -> None:
    """--layer supplies what a toolkit has not."""
    ended = fxai("call", f"{CALLABLE}:kit", "unbound", '{"name": "Ulm"}', "--layer", f"{CALLABLE}:layer")

    assert ended == (0, '"Ulm from the database"\n', "")


def test_a_source_is_open_during_the_call(fxai: Run) -> None:
    """A tool source is opened for the call, and closed after it."""
    from tests.kit import faulty_tools as faulty

    faulty.opened.clear()
    ended = fxai("call", "tests.kit.faulty_tools:source", "add", '{"a": 1, "b": 2}')

    assert (ended, faulty.opened) == ((0, "3\n", ""), ["opened", "closed"])


def test_debug_shows_where_a_handler_broke(call: Run) -> None:
    """The traceback is there for who asks."""
    told = call("broken", "--debug").err

    assert "in broken" in told
    assert told.endswith("with --debug to see the traceback.\n")


def test_json_text_in_parameters_is_read_before_anybody_is_asked(call: Run) -> None:
    """An object that came as text is what it says, for the handler and for what decides about approval."""
    inside, outside = (json.dumps({"target": json.dumps({"path": path})}) for path in ("a", "/etc"))

    assert call("remove_target", inside).out == '"a is gone"\n'
    asked = call("remove_target", outside)
    assert (asked.code, asked.out) == (1, "")
    assert "needs approval" in asked.err
    assert call("remove_target", outside, "--yes").out == '"/etc is gone"\n'
