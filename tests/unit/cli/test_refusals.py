"""What can be known before is told before, in one line with the remedy: services, models, targets, answers, output."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest
from typing_extensions import override

from fxai.cli.chat_command import slash_command
from fxai.cli.command import cli
from fxai.cli.exit import CliError, Outlet, writable
from fxai.cli.input import Consent, LineInput, PipedInput
from fxai.cli.serve_command import app_options
from fxai.messages import AiError, Pending, RateLimitError
from fxai.tools.type_hints import needed_services
from tests.kit import needy_targets
from tests.kit.command_line import Run
from tests.kit.every import every

NEEDY = str(Path(__file__).parents[2] / "kit" / "needy_targets.py")
FAULTY = str(Path(__file__).parents[2] / "kit" / "targets.py")
CHATS = str(Path(__file__).parents[2] / "kit" / "chat_targets.py")
KIT = f"{NEEDY}:kit"
WAYS = ["generator", "effect", "stream", "context", "coroutine", "decorated", "erased", "wrapped"]

# ---- services


@every("way", WAYS)
def test_a_service_that_is_missing_is_a_fault_of_the_layer(fxai: Run, way: str) -> None:
    """However a handler says that it needs one, `check` finds that no layer gives it."""
    ended = fxai("check", KIT, "--layer", f"{NEEDY}:{way}")

    assert ended.code == 1
    assert "find: error service-missing: its handler requires the service Db, which no layer provides" in ended.out
    assert "Scope" not in ended.out


@pytest.mark.parametrize("way", ["given", "beside", "nobody"])
def test_a_layer_that_gives_all_is_clean(fxai: Run, way: str) -> None:
    """Given to the handler or beside it, or where nobody has to give it, nothing is missing."""
    assert fxai("check", KIT, "--layer", f"{NEEDY}:{way}") == (0, "", "")


@every(
    "command",
    [
        ("call", KIT, "find", "--layer", f"{NEEDY}:generator"),
        ("call", f"{NEEDY}:look", "look", '{"word": "x"}'),
        ("mcp", "serve", KIT, "--layer", f"{NEEDY}:generator"),
        ("mcp", "serve", KIT, "--layer", f"{NEEDY}:generator", "--http", "0"),
        ("mcp", "serve", f"{NEEDY}:look"),
        ("mcp", "serve", f"{NEEDY}:looking"),
        ("run", "x", "--agent", f"{NEEDY}:looking", "--layer", f"{NEEDY}:bare_model"),
        ("chat", "--agent", f"{NEEDY}:looking", "--layer", f"{NEEDY}:bare_model"),
        ("run", "x", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_needy"),
        ("chat", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_needy"),
        ("run", "x", "--agent", f"{NEEDY}:asking", "--layer", f"{NEEDY}:run_needy"),
    ],
    ids=" ".join,
)
def test_a_service_that_is_missing_is_told_before_anything_runs(fxai: Run, command: tuple[str, ...]) -> None:
    """One line with the remedy, and nothing else: no tool was called, no model asked, nothing served."""
    ended = fxai(*command, piped="Hello\n")

    assert (ended.code, ended.out, ended.err.count("\n")) == (1, "", 1)
    assert "service Db is missing: the handler of " in ended.err
    assert "--layer module:name" in ended.err


def test_a_layer_without_a_handler_is_not_served(fxai: Run) -> None:
    """A server that could answer half of its tools does not begin."""
    targets = Path(__file__).parents[2] / "kit" / "targets.py"
    ended = fxai("mcp", "serve", f"{targets}:kit", "--layer", f"{targets}:one_of_two")

    assert (ended.code, ended.out) == (1, "")
    problem = f"missing handlers for tools of {targets}:kit: slow"
    assert ended.err == f"fxai: {problem}. Provide a layer that has a handler for each tool.\n"


def test_with_all_services_it_runs(fxai: Run) -> None:
    """What is given is found: the check refuses nothing that would work."""
    called = fxai("call", KIT, "find", "--layer", f"{NEEDY}:given")
    beside = fxai("call", KIT, "find", "--layer", f"{NEEDY}:beside")
    ran = fxai("run", "x", "-q", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given")
    looked = fxai("run", "x", "-q", "--agent", f"{NEEDY}:looking", "--layer", f"{NEEDY}:with_db")
    asked = fxai("run", "x", "-q", "--agent", f"{NEEDY}:asking", "--layer", f"{NEEDY}:run_given")

    assert (asked.code, asked.out) == (0, "ok\n")
    assert (called.code, called.out) == (beside.code, beside.out) == (0, '"found"\n')
    assert (ran.code, ran.out) == (looked.code, looked.out) == (0, "ok\n")


def test_what_a_handler_needs_is_read_of_what_it_says() -> None:
    """The keys by each form; of a function that says nothing, none."""
    found = [needed_services(f) for f in needy_targets.NEEDY]

    assert [set(keys) for keys in found] == [
        {needy_targets.Db, needy_targets.Log} if n == 1 else {needy_targets.Db} for n in range(7)
    ]
    assert needed_services(needy_targets.by_nobody) == needed_services(len) == ()


# ---- models


@every(
    "command",
    [
        ("run", "x", "--model", "nope:x"),
        ("run", "x", "--json", "--model", "nope:x"),
        ("run", "x", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given", "--model", "nope:x"),
        ("chat", "--model", "nope:x"),
        ("chat", "--json", "--model", "nope:x"),
        ("models", "nope:x"),
        ("models", "--check", "nope:x"),
        ("schema", KIT, "--model", "nope:x"),
        ("schema", KIT, "--provider", "nope"),
        ("check", KIT, "--provider", "nope"),
    ],
    ids=" ".join,
)
def test_a_provider_that_is_not_there_is_wrong_use_everywhere(fxai: Run, command: tuple[str, ...]) -> None:
    """Exit code 2, and the list of those that are there, before anything is opened."""
    ended = fxai(*command, piped="Hello\n")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "'nope'" in ended.err
    assert all(provider in ended.err for provider in ("anthropic", "openai"))


def test_a_model_without_its_key_is_told_before_a_server_is_started(
    fxai: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known without asking anybody stops it first."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    mark = tmp_path / "started"
    ended = fxai("run", "x", "--model", "openai:gpt-5.5", "--mcp", f"{sys.executable} -c 'open({str(mark)!r}, \"w\")'")

    assert (ended.code, ended.err) == (
        1,
        "fxai: model openai:gpt-5.5 is unavailable: no key. To use it, set OPENAI_API_KEY.\n",
    )
    assert not mark.exists()


# ---- targets

RUBBISH: list[tuple[str, str | None, int, str]] = [
    ("../../etc/passwd:x", None, 2, "is no"),
    ("/etc:x", None, 2, "is a directory"),
    ("a b:c", None, 2, "is not a module name"),
    ("a..b:c", None, 2, "is not a module name"),
    (":x", None, 2, "TARGET must be module:name"),
    ("", None, 2, "TARGET must be module:name"),
    ("x" * 3000 + ".py:x", None, 1, "File name too long"),
    ("exits.py:x", "import sys\nsys.exit(3)", 1, "SystemExit: 3. Look at "),
    ("broken.py:x", "def (", 1, "SyntaxError"),
    ("binary.py:x", "\0\x01", 1, "cannot import "),
    ("base.py:x", "raise BaseException('no')", 1, "BaseException: no"),
    ("hook.py:x", "def __getattr__(name): raise RuntimeError(name)", 1, "RuntimeError: x"),
    (
        "value.py:x.p",
        "class X:\n    @property\n    def p(self): raise OSError('no')\nx = X()",
        1,
        "cannot read",
    ),
    ("odd.py:x", "class X:\n    def __getattr__(self, n): raise RuntimeError(n)\nx = X()", 1, "cannot read"),
    ("odd2.py:y", "class X:\n    def __getattr__(self, n): raise RuntimeError(n)\nx = X()", 2, "unknown name 'y'"),
    ("number.py:x", "x = 3", 2, "is a value of type int, not"),
    ("interrupts.py:x", "raise KeyboardInterrupt", 130, "interrupted"),
    ("nothing.json", "", 2, "is empty"),
    ("binary.json", "\x01\x02", 2, "is not valid JSON"),
    ("gone.json", None, 2, "No such file"),
]


@every(("target", "text", "code", "said"), RUBBISH, ids=[each[0][:30] for each in RUBBISH])
@every("command", ["tools", "schema", "check", "call", "mcp serve"])
def test_rubbish_for_a_target_is_one_line(
    fxai: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    target: str,
    text: str | None,
    code: int,
    said: str,
) -> None:
    """Whatever stands in its place: the line says what it is, and what to give; never a traceback."""
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / target.partition(":")[0]).write_text(text)
    ended = fxai(*command.split(), target, *(["x"] if command == "call" else []))

    assert (ended.code, ended.out, ended.err.count("\n")) == (code, "", 1)
    assert said in ended.err


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="there is nothing here that never ends")
def test_what_never_ends_is_one_line(fxai: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parameters and lists of tools from a file without end are refused at a size, and not read on and on."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "zero.json").symlink_to("/dev/zero")

    for command in (("call", KIT, "find", "@/dev/zero"), ("tools", "zero.json")):
        ended = fxai(*command)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert "is larger than 16 MiB" in ended.err


# ---- output


class Full(io.StringIO):
    """A disk without room."""

    @override
    def write(self, _: str, /) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Lazy(io.StringIO):
    """A disk that says so late."""

    @override
    def flush(self) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


class Left(io.StringIO):
    """A pipe that nobody reads."""

    @override
    def write(self, _: str, /) -> int:
        raise BrokenPipeError


COMMANDS = [
    ("--help",),
    ("--version",),
    ("run", "--help"),
    ("tools", KIT),
    ("tools", KIT, "--json"),
    ("schema", KIT),
    ("schema", KIT, "--provider", "openai", "--json"),
    ("check", f"{FAULTY}:kit"),
    ("check", "--rules"),
    ("models",),
    ("call", KIT, "find", "--layer", f"{NEEDY}:given"),
    ("call", KIT, "find", "--json", "--layer", f"{NEEDY}:given"),
    ("run", "x", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given"),
    ("run", "x", "-q", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given"),
    ("run", "x", "--json", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given"),
    ("chat", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given"),
    ("chat", "--json", "--agent", f"{NEEDY}:agent", "--layer", f"{NEEDY}:run_given"),
]


@every("command", COMMANDS, ids=" ".join)
@every("kind", [Full, Lazy, Left])
def test_an_output_that_takes_no_more_is_one_line(
    fxai: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], kind: type[io.StringIO]
) -> None:
    """A full disk is a line with the remedy and exit code 1; a reader that went away is no line and 141."""
    monkeypatch.setattr(sys, "stdout", kind())
    ended = fxai(*command, piped="Hello\n")
    said = "" if kind is Left else "fxai: cannot write the output: No space left on device. Free space, "

    assert ended.code == (141 if kind is Left else 1)
    assert ended.err.startswith(said)
    assert ended.err.count("\n") == (0 if kind is Left else 1)


@every("command", [*COMMANDS, ("models",), ("--version",), ("--help",)], ids=" ".join)
def test_an_output_that_was_closed_takes_no_more(
    fxai: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """After `>&-` there is none: what a command would say is lost, so that it does not end well."""
    monkeypatch.setattr(sys, "stdout", None)
    ended = fxai(*command, piped="Hello\n")

    assert ended.code == 1
    assert ended.err == "fxai: cannot write the output: it is closed. Free space, or write to another file.\n"


@pytest.mark.parametrize("command", [("nope",), ("nope", "--json"), ("tools", "nope:x"), ("tools", "nope:x", "--json")])
def test_where_nothing_can_be_said_the_exit_code_still_says_it(
    fxai: Run, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]
) -> None:
    """Neither stderr nor stdout take anything: the command ends as it would have."""
    monkeypatch.setattr(sys, "stdout", Full())
    monkeypatch.setattr(sys, "stderr", Full())

    assert fxai(*command).code == 2


def test_an_outlet_is_a_stream_like_any_other() -> None:
    """Lines, bytes and texts are cleaned; what it is asked of itself is as of the stream inside."""
    inside = io.StringIO()
    outlet: Any = writable(inside)
    outlet.writelines(["a\x1b", "b\n"])
    outlet.buffer.write(b"c\x9b\xff\n")
    print("d\u202e", file=outlet, flush=True)  # it is what is tested

    assert inside.getvalue() == "a�b\nc��\nd�\n"
    assert writable(outlet) is outlet
    assert (outlet.isatty(), outlet.encoding, outlet.errors, outlet.closed) == (False, "utf-8", "replace", False)
    assert Outlet(Full(), forgiving=True).write("lost") == 4
    with pytest.raises(CliError, match="No space left"):
        Outlet(Full()).write("lost")


# ---- help


def test_each_summary_is_whole() -> None:
    """What a list of commands says of one is what the command says of itself, to its end."""
    for group in (cli, cli.commands["mcp"]):
        assert isinstance(group, click.Group)
        for command in group.commands.values():
            said = command.get_short_help_str()
            assert not said.endswith("...")
            assert said.endswith(".")
            assert " ".join((command.help or "").split()).startswith(said)


# ---- answers


@every(
    ("typed", "said"),
    [
        ("/deny x", "no call is pending for /deny"),
        ("/deny", "no call is pending for /deny"),
        ("/approve", "no call is pending for /approve"),
        ("/APPROVE it", "no call is pending for /approve"),
        ('/answer {"a": 1}', "no call is pending for /answer"),
        ("/deny one\ntwo", "no call is pending for /deny"),
        ("/clear now", "/clear accepts no arguments"),
        ("/q now", "/exit accepts no arguments"),
        ("/tool", "unknown command /tool"),
    ],
)
def test_what_is_no_command_is_not_for_the_model(fxai: Run, typed: str, said: str) -> None:
    """It is told in a line, and a model never sees it."""
    with pytest.raises(CliError, match=said):
        slash_command(typed)
    ended = fxai(
        "chat", "--agent", f"{CHATS}:agent", "--layer", f"{CHATS}:talks", piped=f"{typed.splitlines()[0]}\n/history\n"
    )

    assert said in ended.err
    assert "no messages" in ended.out
    assert ended.code == 1


@every("typed", ["/etc/hosts", "/usr is full", " /deny x", "deny x", "/ deny", "/deny/x"])
def test_what_only_looks_like_one_is_for_the_model(typed: str) -> None:
    """Paths, and what stands behind a space."""
    assert slash_command(typed) is None


class Person(LineInput):
    """Somebody who types, and what they were asked."""

    by_person = True

    def __init__(self, *lines: str) -> None:
        super().__init__()
        self.lines = list(lines)
        self.asked: list[str] = []

    @override
    def line(self, prompt: str, /) -> str | None:
        """The next line."""
        self.asked.append(prompt)
        return self.lines.pop(0)


WAITING = Pending("c1", "wipe", {"disk": "a"}, "a1")


def test_an_answer_that_is_none_is_told_and_asked_for_again() -> None:
    """By whoever sits there: the next question says what was typed, and what is wanted; an empty line is no answer."""
    person = Person("yes please", "", "ok\x1b[2J", "y")
    answer = Consent(person, lambda _: None).answer(WAITING)

    assert getattr(answer, "approved", None) is True
    assert [line.count("run wipe? [y]es") for line in person.asked] == [1, 1, 1, 1]
    assert person.asked[1].startswith("    'yes please' is not a valid answer. y runs the call, n denies it")
    assert person.asked[2].startswith("    y runs the call, n denies it")
    assert "\x1b" not in person.asked[3]


INSIDE: list[tuple[Any, Any]] = [
    ({"calls": [{"name": "look", "args": {}}]}, {"calls": [{"name": "look"}, {"name": "wipe", "args": {}}]}),
    (
        {"calls": [{"name": "all", "args": {"calls": [{"name": "look"}]}}]},
        {"calls": [{"name": "all", "args": {"calls": [{"name": "wipe"}]}}]},
    ),
    (
        {"calls": [{"name": "all", "args": '{"calls": [{"name": "look"}]}'}]},
        {"calls": [{"name": "all", "args": '{"calls": [{"name": "wipe"}]}'}]},
    ),
    ({"name": "look", "arguments": {"at": "a"}}, {"name": "wipe", "arguments": {"at": "a"}}),
]


@pytest.mark.parametrize(("first", "other"), INSIDE, ids=["composite", "nested", "text", "hosted"])
def test_always_holds_for_the_tools_inside_that_were_seen(first: Any, other: Any) -> None:
    """Of a composite, and of a server that the provider asks, other tools are asked about all the same."""
    person = Person("a", "n")
    consent = Consent(person, lambda _: None)
    said = [consent.answer(Pending("c", "kit", params, "a")) for params in (first, first, other)]

    assert [getattr(one, "approved", None) for one in said] == [True, True, False]
    assert len(person.asked) == 2


@every("params", ["a", {"disk": "b"}, None, {"calls": []}, {"name": "b"}])
def test_always_holds_for_a_tool_whatever_it_is_called_with(params: Any) -> None:
    """Nobody is asked again about another call of the same tool; about another tool they are."""
    person = Person("a", "n")
    consent = Consent(person, lambda _: None)
    calls = [
        Pending("c", "wipe", {"disk": "a"}, "a"),
        Pending("d", "wipe", params, "b"),
        Pending("e", "x", params, "c"),
    ]

    assert [getattr(consent.answer(one), "approved", None) for one in calls] == [True, True, False]


@every("line", ["yes", "/approve it", "/aprove", "/approve\x00", "y"])
def test_a_program_is_told_that_its_line_was_no_answer(fxai: Run, line: str) -> None:
    """It denies, and both forms of the output say so."""
    told: list[str] = []
    answer = Consent(PipedInput([line]), lambda _: None, told.append).answer(WAITING)
    chat = ("chat", "--json", "--agent", f"{CHATS}:agent", "--layer", f"{CHATS}:asks")
    objects = [json.loads(each) for each in fxai(*chat, piped=f"Wipe\n{line}\n").out.splitlines()]

    assert getattr(answer, "approved", None) is False
    assert "is not a valid answer. wipe does not run. Answer with /approve or /deny [REASON]." in told[0]
    assert [each["message"] for each in objects if each["type"] == "refused"] == told


@pytest.mark.parametrize(
    ("hosts", "text"),
    [
        ((), "openai.ask: Rate limit exceeded. Wait 7 s and retry, or send fewer requests at a time."),
        (("chat.example.org",), "An error occurred."),
    ],
)
def test_only_a_server_for_this_machine_shows_the_reason_of_a_failure(hosts: tuple[str, ...], text: str) -> None:
    """A proxy can lead strangers to a host name, so they read the masked text."""
    options = app_options(hosts=hosts)

    assert options.stream.error_text(AiError("openai", "ask", RateLimitError(retry_after=7.0))) == text
    assert options.stream.error_text(ValueError("secret")) == "An error occurred."


BEFORE_THE_MODEL = {
    "a service of a handler": (("--agent", f"{NEEDY}:looking", "?"), "service Db is missing"),
    "the URL of a durable store": (("--durable", "r", "--store", "foo://bar", "?"), "--store: URL must be postgresql"),
    "the name of a durable run": (("--durable", "", "?"), "--durable: run must have 1 to 200 characters"),
    "the file of a durable store": (("--durable", "r", "--store", "{folder}", "?"), "is not a regular file"),
}


@every("case", list(BEFORE_THE_MODEL))
def test_wrong_arguments_are_reported_before_the_model_loads(fxai: Run, tmp_path: Path, case: str) -> None:
    """The only line on stderr is the error, because the local model writes a line when it loads."""
    arguments, problem = BEFORE_THE_MODEL[case]
    ended = fxai("run", *(one.format(folder=tmp_path) for one in arguments))

    assert ended.code != 0
    assert ended.err.count("\n") == 1
    assert problem in ended.err


@pytest.mark.parametrize("url", ["http://[::1", "http://x:y/", "http://"])
def test_an_invalid_url_of_a_server_is_wrong_use(fxai: Run, url: str) -> None:
    """The error names the URL and shows no traceback."""
    ended = fxai("tools", f"mcp:{url}")

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"SERVER is not a valid URL: {url!r}" in ended.err
