"""A program as a model: what it is told, what becomes of what it says."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec
import pytest

from fxai import BoundToolkit, tool
from fxai.effects import Gen, fx
from fxai.messages import (
    FilePart,
    InvalidRequestError,
    InvalidUserInputError,
    ModelUnavailableError,
    Prompt,
    Reasoning,
    StreamPart,
    UnknownError,
    Usage,
    UserMessage,
    WarningPart,
)
from fxai.models import LanguageModel, ToolChoice
from fxai.providers import host
from tests.kit.every import every
from tests.kit.hosts import Backend, asked, failed, gone, python, shell

REPEATS = 'for m in asked(): say(type="result", text=json.dumps({k: v for k, v in m.items() if k != "type"}))'


class City(msgspec.Struct, frozen=True):
    """An answer."""

    name: str
    people: int


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


ADDING = BoundToolkit.make(add)


def told(backend: Backend, said: Any = "Hello", **options: Any) -> Any:
    """What a program that reads JSON is told."""
    return msgspec.json.decode(asked(backend, python(REPEATS), said, **options).text)


def test_a_program_of_lines_answers_a_line_with_a_line(backend: Backend) -> None:
    """Plain text: the last thing that the user said is a line, the answer is the next line."""
    response = asked(backend, shell('read line; echo "You said $line."'), format="text")

    assert response.text == "You said Hello."
    assert response.finish_reason == "stop"
    assert response.warnings == ()


def test_all_that_a_program_for_one_request_writes_is_its_answer(backend: Backend) -> None:
    """A process for one request reads until its input ends, and answers with all that it writes."""
    response = asked(backend, ("sort",), "b\nc\na", format="text", lifetime="request")

    assert response.text == "a\nb\nc"


def test_a_program_that_reads_json_gets_the_whole_conversation(backend: Backend) -> None:
    """The request has a number, the last text of the user, and every message."""
    prompt = Prompt.make("Hi").set_system("Be brief.")
    message = told(backend, prompt)

    assert message == {"id": 1, "prompt": "Hi", "messages": prompt.to_data()}


def test_a_program_gets_what_it_takes(backend: Backend) -> None:
    """Tools, their choice, and options are sent to a program that takes them, and nothing is warned of."""
    asking = LanguageModel.generate_text("Hi", toolkit=ADDING.toolkit, temperature=0.5, tool_choice="none")
    model = host.model(*python(REPEATS), takes=("tools", "options"))
    response = fx.run(asking.provide(ADDING.layer).provide(model), backend=backend)
    message = msgspec.json.decode(response.text)

    assert [one["name"] for one in message["tools"]] == ["add"]
    assert message["tools"][0]["parameters"] == ADDING.toolkit.tools["add"].json_schema()
    assert message["tool_choice"] == "none"
    assert message["options"] == {"temperature": 0.5}
    assert response.warnings == ()


def test_a_choice_of_tools_is_told_by_mode_and_names() -> None:
    """`ToolChoice` is told as its mode and its names."""
    asking = LanguageModel.generate_text("Hi", toolkit=ADDING.toolkit, tool_choice=ToolChoice.tool("add"))
    response = fx.run(asking.provide(ADDING.layer).provide(host.model(*python(REPEATS), takes=["tools"])))

    assert msgspec.json.decode(response.text)["tool_choice"] == {"mode": "tool", "names": ["add"]}


def test_options_for_hosts_alone_are_always_told() -> None:
    """What `provider_options` has under "host" is sent as it is."""
    asking = LanguageModel.generate_text("Hi", provider_options={"host": {"depth": 3}, "openai": {"a": 1}})
    response = fx.run(asking.provide(host.model(*python(REPEATS))))

    assert msgspec.json.decode(response.text)["provider_options"] == {"depth": 3}


def test_what_a_program_does_not_take_is_warned_of() -> None:
    """Tools, options and a schema that a program does not take are warnings, each by its name."""
    asking = LanguageModel.generate_object("Hi", City, toolkit=ADDING.toolkit, temperature=0.5, max_tokens=9)
    states = 'for m in asked(): say(type="result", value={"name": "Oslo", "people": 3}, model=",".join(sorted(m)))'
    answer = fx.run(asking.provide(ADDING.layer).provide(host.model(*python(states))))

    assert answer.value == City("Oslo", 3)
    assert answer.response.model == "id,messages,prompt,type"
    assert [(one.kind, one.subject) for one in answer.response.warnings] == [
        ("unsupported-tool", "add"),
        ("unsupported-option", "response_schema"),
        ("unsupported-option", "max_tokens"),
        ("unsupported-option", "temperature"),
    ]


def test_what_cannot_be_said_in_a_line_is_warned_of() -> None:
    """A program of lines gets neither instructions nor earlier messages nor tools, and the response says so."""
    prompt = Prompt.make([{"role": "user", "content": "One"}, {"role": "assistant", "content": "Two"}])
    asking = LanguageModel.generate_text(prompt.concat("Three").set_system("Be brief."), toolkit=ADDING.toolkit)
    response = fx.run(asking.provide(ADDING.layer).provide(host.model("cat", format="text")))

    assert response.text == "Three"
    assert [one.subject for one in response.warnings] == ["system", "history", "add"]
    assert 'format="json"' in response.warnings[0].message


@pytest.mark.parametrize(
    ("said", "options", "why"),
    [
        ("one\ntwo", {"format": "text"}, 'lifetime="request"'),
        (Prompt.empty.set_system("Be brief."), {"format": "text"}, "Add a message of the user"),
        (Prompt((UserMessage.make("See", FilePart("image/png", b"1")),)), {"format": "text"}, "cannot receive files"),
    ],
)
def test_what_a_program_of_lines_cannot_be_asked_is_a_failure(said: Any, options: Any, why: str) -> None:
    """Several lines for a program that reads one, files, or nothing at all: refused before it is asked."""
    reason = failed("asyncio", LanguageModel.generate_text(said).provide(host.model("cat", **options)))

    assert isinstance(reason, InvalidUserInputError)
    assert why in reason.description


def test_pieces_of_an_answer_come_as_they_are_said(backend: Backend) -> None:
    """Pieces, reasoning, progress, warnings and usage are parts of the stream, in order."""
    states = """
for m in asked():
    say(type="progress", message="Looking it up", value=3)
    say(type="reasoning", text="Hm")
    say(type="reasoning", text="m.")
    say(type="delta", text="It is ")
    say(type="delta", text="fine.", id=m["id"])
    say(type="warning", message="no sources", subject="sources")
    say(type="result", text="It is fine. Really.", finish_reason="length", usage={"input_tokens": 3, "new": 1})
"""
    response = asked(backend, python(states))

    assert response.text == "It is fine. Really."
    assert [part.text for part in response.content if isinstance(part, Reasoning)] == ["Looking it up", "Hmm."]
    assert response.content[1].metadata == {"host": {"type": "progress", "value": 3}}
    assert [part for part in response.content if isinstance(part, WarningPart)] == [
        WarningPart("no sources", subject="sources")
    ]
    assert (response.finish_reason, response.usage) == ("length", Usage(3, None))


def test_a_program_calls_tools_and_gets_their_results(backend: Backend) -> None:
    """A program that takes tools may call them; the next request has the results among its messages."""
    states = """
for m in asked():
    last = m["messages"][-1]
    if last["role"] == "tool": say(type="result", text=f"It is {last['content'][0]['result']}.")
    else:
        say(type="tool_call", name="add", params={"a": 2, "b": 3})
        say(type="result")
"""
    model = host.model(*python(states), takes=["tools"])

    @fx.gen
    def both() -> Gen[list[Any], Any, Any]:
        first = yield from LanguageModel.generate_text("2 + 3?", toolkit=ADDING.toolkit)
        history = Prompt.make("2 + 3?").with_response(first.content)
        second = yield from LanguageModel.generate_text(history, toolkit=ADDING.toolkit)
        return [first, second]

    program = both().provide(ADDING.layer).provide(model)
    first, second = fx.run(program, backend=backend)

    assert [(one.name, one.result) for one in first.tool_results] == [("add", 5)]
    assert first.finish_reason == "tool-calls"
    assert second.text == "It is 5."


def test_one_process_answers_one_request_after_another(backend: Backend, tmp_path: Path) -> None:
    """The program is started once, asked again and again, also from several places at once, and ended at last."""
    states = 'note(sys.argv[1], os.getpid())\nfor m in asked(): say(type="result", text=str(m["id"]))'
    asking = LanguageModel.generate_text("Hi").map(lambda response: response.text)
    program = fx.for_each(range(5), lambda _: asking, concurrency=5)
    model = host.model(*python(states, tmp_path / "pids"))
    texts = fx.run(program.provide(model), backend=backend)

    assert sorted(texts) == ["1", "2", "3", "4", "5"]
    assert len((tmp_path / "pids").read_text().split()) == 1
    assert gone(tmp_path / "pids")


def test_a_process_for_each_request_answers_side_by_side(backend: Backend, tmp_path: Path) -> None:
    """With a process for each request, requests do not wait for each other."""
    states = f"""
note("{tmp_path}/pids", os.getpid())
import time
while len(open("{tmp_path}/pids").read().split()) < 2: time.sleep(0.01)
for m in asked(): say(type="result", text="both are here")
"""
    asking = LanguageModel.generate_text("Hi").map(lambda response: response.text)
    program = fx.for_each([1, 2], lambda _: asking, concurrency=2).provide(
        host.model(*python(states), lifetime="request")
    )

    assert fx.run(program, backend=backend) == ["both are here"] * 2
    assert gone(tmp_path / "pids")


def test_a_program_is_told_its_params_and_acknowledges_them(backend: Backend) -> None:
    """`params` are the first thing that a program is told; what it takes it may say in its answer."""
    states = """
stream = asked()
first = next(stream)
say(type="init_ack", takes=["options", "something newer"])
for m in stream: say(type="result", text=json.dumps([first, m.get("options")]))
"""
    response = asked(backend, python(states), params={"model": "large"}, temperature=0.5)

    assert msgspec.json.decode(response.text) == [
        {"type": "init", "version": 1, "params": {"model": "large"}},
        {"temperature": 0.5},
    ]
    assert response.warnings == ()


def test_a_program_for_one_request_is_told_its_params_too(backend: Backend) -> None:
    """In plain text as well, `init` and its acknowledgement are JSON; what follows is the answer."""
    script = shell("""read init; echo '{"type":"init_ack"}'; cat""")

    assert asked(backend, script, "a\nb", format="text", lifetime="request", params={}).text == "a\nb"


def test_a_program_may_refuse_its_params(backend: Backend) -> None:
    """An error in answer to `init` is a failure of the layer, with the program's own words."""
    refuses = host.model(*python('next(asked()); say(type="error", message="bad config")'), params={})
    reason = failed(backend, LanguageModel.generate_text("Hi").provide(refuses))

    assert isinstance(reason, InvalidRequestError)
    assert reason.parameter == "params"
    assert "bad config" in reason.description


def test_a_program_that_is_not_there_is_known_when_the_layer_is_built(backend: Backend) -> None:
    """A command that does not exist, and a directory that does not, are a model that is unavailable."""
    built = fx.scoped(host.model("no-such-program-here").build())
    reason = failed(backend, built)
    elsewhere = failed(backend, fx.scoped(host.model("cat", cwd="no/such/directory").build()))

    assert isinstance(reason, ModelUnavailableError)
    assert reason.model == "no-such-program-here"
    assert isinstance(elsewhere, ModelUnavailableError)


def test_an_error_of_the_program_is_a_failure_in_its_own_words(backend: Backend) -> None:
    """A reported error is typed, and the same program is asked on; it says whether asking again helps."""
    states = """
for m in asked():
    if m["id"] == 1: say(type="error", message="no such topic")
    elif m["id"] == 2: say(type="error", message="busy", retry_after=0.5)
    else: say(type="result", text=str(m["id"]))
"""
    asking = LanguageModel.generate_text("Hi").map(lambda response: response.text)
    failing = asking.map(str).catch_all(fx.succeed)
    three = fx.all_(failing, failing, failing).provide(host.model(*python(states)))
    first, second, third = cast("tuple[Any, Any, Any]", fx.run(three, backend=backend))

    assert isinstance(first.reason, UnknownError)
    assert "no such topic" in first.message
    assert not first.is_retryable
    assert (second.is_retryable, second.retry_after) == (True, 0.5)
    assert third == "3"


def test_a_program_sees_its_variables_and_its_directory(tmp_path: Path) -> None:
    """`env` is added to the variables of this process, and `cwd` is where it runs."""
    response = asked(
        "asyncio", shell('echo "$GREETING $(pwd) ${PATH:+path}"'), format="text", env={"GREETING": "Hi"}, cwd=tmp_path
    )

    assert response.text == f"Hi {tmp_path} path"


def test_a_stream_gives_the_parts_while_the_program_still_speaks(backend: Backend, tmp_path: Path) -> None:
    """Each piece is given when it is said: the program goes on when the reader of its first piece has made a file."""
    states = """
import time
next(asked())
say(type="delta", text="a")
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
say(type="result", text="ab")
"""
    seen: list[StreamPart] = []

    def keep(part: StreamPart) -> None:
        seen.append(part)
        if part.type == "text-delta":
            (tmp_path / "heard").touch()

    model = host.model(*python(states, tmp_path / "heard"), silence=30.0)
    stream = LanguageModel.stream_text("Hi").provide(model)
    fx.run(stream.for_each(lambda part: fx.sync(lambda: keep(part))), backend=backend)

    assert [part.type for part in seen] == [
        "response-metadata",
        "text-start",
        "text-delta",
        "text-delta",
        "text-end",
        "finish",
    ]


@every(
    ("options", "why"),
    [
        ({"format": "xml"}, "format must be .*, got 'xml'"),
        ({"lifetime": "day"}, "lifetime must be .*, got 'day'"),
        ({"silence": 0}, "silence must be greater than 0, got 0"),
        ({"max_line": -1}, "max_line must be greater than 0, got -1"),
        ({"grace": -1}, "grace must be at least 0, got -1"),
        ({"takes": ["files"]}, "takes contains unknown files"),
        ({"format": "text", "takes": ["tools"]}, "takes must be empty for a host that reads plain text"),
    ],
)
def test_an_option_without_meaning_is_refused_at_once(options: Any, why: str) -> None:
    """A value that an option cannot have is refused before anything runs."""
    with pytest.raises(ValueError, match=why):
        host.model("cat", **options)


def test_an_unknown_option_is_refused_at_once() -> None:
    """An option that there is none of is named, with those that there are."""
    unknown: Any = {"colour": "red"}

    with pytest.raises(TypeError, match=r"unknown option of a host: colour. Use one of: format, .*grace"):
        host.model("cat", **unknown)


def test_one_that_takes_schemas_is_sent_none_where_there_is_none(backend: Backend) -> None:
    """A question for plain text is asked of it as of any other."""
    states = 'for m in asked(): say(type="result", text=str("schema" in m))'

    assert asked(backend, python(states), takes=["schema"]).text == "False"


def test_half_surrogate_pairs_are_replaced_with_a_warning(backend: Backend) -> None:
    """A program reads UTF-8, by lines or as JSON."""
    line = asked(backend, shell('read line; echo "You said $line."'), "caf\udce9", format="text")
    record = asked(backend, python(REPEATS), "caf\udce9")

    assert line.text == "You said caf\ufffd."
    assert msgspec.json.decode(record.text)["prompt"] == "caf\ufffd"
    assert [one.kind for response in (line, record) for one in response.warnings] == ["history", "history"]
