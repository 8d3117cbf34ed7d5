"""The laws of large results: what the model receives, what it can read, and what the program gets."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from returns.result import Success

from fxai.agents import Agent, Compaction, LargeResults, Memory
from fxai.annotations import MaxResultTokens
from fxai.durable import durable
from fxai.effects import fx
from fxai.messages import Prompt
from fxai.models import ChatStore
from fxai.storage import ResultStore
from fxai.testing import ScriptedModel, call, text
from fxai.tools import Tool, Toolkit
from fxai.ui import Conversations, Turn, UIMessage
from tests.kit.data import is_array, is_object
from tests.kit.trials import examples

find = Tool.make("find", success=object)
KINDS: Final = ("in process", "file", "sqlite")
LEAVES: Final = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=400)
VALUES: Final[st.SearchStrategy[Any]] = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=8), inner, max_size=20),
    max_leaves=60,
)


def _store(kind: str, folder: Path, **options: Any) -> ResultStore:
    if kind == "file":
        return ResultStore.file(folder / "results", **options)
    return ResultStore.sqlite(folder / "r.db", **options) if kind == "sqlite" else ResultStore.in_process(**options)


def _agent(store: ResultStore, most: int) -> Any:
    return Agent.make("a", toolkit=find, large_results=LargeResults(store, max_tokens=most))


def _found(value: Any, store: ResultStore, most: int) -> Any:
    """The answer of a run whose tool found a value, and the requests of its model."""
    model = ScriptedModel.make([call("find", {}), text("Found.")])
    run = (
        _agent(store, most)
        .execute("Find.")
        .provide(find.handler(lambda _: Success[object](value)))
        .provide(model.layer)
    )
    return fx.run(run), model.requests


def _shown(messages: Any) -> Any:
    """The first result of the last message."""
    return [*messages][-1].content[0].result


def _read(history: Prompt, store: ResultStore, most: int, **asked: Any) -> Any:
    """The result of `read_result` in the next run of the conversation."""
    model = ScriptedModel.make([call("read_result", asked), text("Read.")])
    run = _agent(store, most).execute(history + Prompt.make("Read on."))
    answer = fx.run(run.provide(find.handler(lambda _: Success[object](None))).provide(model.layer))
    return answer.steps[0].results[0]


def _follow(value: Any, pointer: str) -> Any:
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if is_array(value) else value[name]
    return value


@settings(max_examples=examples(60, least=20))
@given(VALUES, st.integers(20, 200))
def test_the_model_receives_a_bounded_form_and_the_program_the_whole(value: Any, most: int) -> None:
    """A result within the maximum is unchanged; the form of another result has at most the size of the maximum."""
    answer, requests = _found(value, ResultStore.in_process(), most)
    result = answer.steps[0].results[0]
    shown = _shown(requests[1].prompt)

    assert answer.steps[0].results_of(find)[0].unwrap() == value
    assert shown == result.encoded_result
    if len(msgspec.json.encode(value)) <= 4 * most:
        assert shown == value
    elif not (isinstance(value, str) and len(value) <= most):
        assert shown["handle"].startswith("r_")
        assert len(shown["preview"]) <= max(2 * most, 200)


@settings(max_examples=examples(40, least=15))
@given(VALUES, st.integers(20, 100))
def test_the_pages_together_are_the_whole(value: Any, most: int) -> None:
    """Following `next_offset` and the pointers of large items reads each leaf once, in bounded pages."""
    store = ResultStore.in_process()
    answer, _ = _found(value, store, most)
    shown = answer.steps[0].results[0].encoded_result
    if not (is_object(shown) and {"handle", "preview"} <= shown.keys()):
        return

    handle = str(shown["handle"])

    def read(pointer: str) -> Any:
        offset, parts, text_ = 0, dict[str, Any](), ""
        while True:
            page = _read(answer.history, store, most, handle=handle, pointer=pointer, offset=offset).result
            assert len(page.get("items", ())) <= 1 or len(json.dumps(page, ensure_ascii=False)) <= 12 * most + 800
            if "text" in page:
                text_ += page["text"]
            parts |= page.get("items", {})
            if "next_offset" not in page:
                break
            offset = page["next_offset"]
        here = _follow(value, pointer)
        if not (is_array(here) or is_object(here)):
            return text_ if isinstance(here, str) else json.loads(text_)
        inner: dict[str, Any] = {
            key: read(str(one["pointer"])) if is_object(one) and {"preview", "pointer"} <= one.keys() else one
            for key, one in parts.items()
        }
        return [inner[str(at)] for at in range(len(here))] if is_array(here) else inner

    assert read("") == value


@settings(max_examples=examples(40, least=15))
@given(st.lists(st.text("abc \n", max_size=60), min_size=20, max_size=60), st.text("abc", min_size=1, max_size=3))
def test_a_search_finds_each_place(texts: list[str], wanted: str) -> None:
    """The matches are the places of the text, in order, and the total counts all of them."""
    store = ResultStore.in_process()
    answer, _ = _found(texts * 3, store, 20)
    handle = answer.steps[0].results[0].encoded_result.get("handle")
    found, offset = list[tuple[str, int]](), 0
    while handle is not None:
        page = _read(answer.history, store, 20, handle=handle, search=wanted, offset=offset).result
        found += [(one["pointer"], one["offset"]) for one in page["matches"]]
        if "next_offset" not in page:
            break
        offset = page["next_offset"]
    expected: list[tuple[str, int]] = []
    for at, one in enumerate(texts * 3):
        location = one.find(wanted)
        while location >= 0:
            expected.append((f"/{at}", location))
            location = one.find(wanted, location + len(wanted))

    assert handle is None or found == expected


@pytest.mark.parametrize("asked", [{"pointer": "/nothing"}, {"pointer": "x"}, {"pointer": "/" + "9" * 5000}])
def test_an_invalid_place_is_a_failure_for_the_model(asked: dict[str, Any]) -> None:
    """The arguments come from the model, so that a wrong pointer is a failed result."""
    store = ResultStore.in_process()
    answer, _ = _found(["x" * 100] * 50, store, 50)
    handle = answer.steps[0].results[0].encoded_result["handle"]

    assert _read(answer.history, store, 50, handle=handle, **asked).is_failure
    assert "items" in _read(answer.history, store, 50, handle=handle, offset=10**9).result


@pytest.mark.parametrize("kind", KINDS)
def test_another_conversation_cannot_read_a_handle(kind: str, tmp_path: Path) -> None:
    """Only a conversation that contains the result can read it, also after a restart of the store."""
    answer, _ = _found(["secret"] * 500, _store(kind, tmp_path), 50)
    handle = answer.steps[0].results[0].encoded_result["handle"]
    store = _store(kind, tmp_path)
    forged = Prompt.make(f"I know the handle {handle}.")

    assert _read(forged, store, 50, handle=handle).is_failure
    assert _read(forged, store, 50, handle="../../etc/passwd").is_failure
    if kind != "in process":
        assert not _read(answer.history, store, 50, handle=handle).is_failure
        assert {path.stat().st_mode & 0o77 for path in tmp_path.rglob("*") if path.is_file()} == {0}


@settings(max_examples=examples(30))
@given(st.lists(st.binary(max_size=40), max_size=12), st.integers(1, 100))
def test_a_store_is_bounded_and_keeps_the_newest(results: list[bytes], most: int) -> None:
    """Together the results have at most the maximum size, and a result is missing only if newer results fill it."""
    with TemporaryDirectory() as folder:
        for kind in KINDS:
            store = _store(kind, Path(folder) / kind, max_bytes=most)
            handles = [(store.put(one), one) for one in results if len(one) <= most]
            found = [(store.get(handle), one) for handle, one in handles]
            there = [one for got, one in found if got is not None]

            assert all(got is None or got == one for got, one in found)
            assert sum(map(len, there)) <= most
            if kind != "file":  # files of the same time have no order
                assert there == [one for _, one in handles][len(handles) - len(there) :]
            store.remove([handle for handle, _ in handles])
            assert [store.get(handle) for handle, _ in handles] == [None] * len(handles)


def test_a_result_that_a_compaction_removed_stays_readable() -> None:
    """The note that replaces the preview contains the handle."""
    store = ResultStore.in_process()
    model = ScriptedModel.make([call("find", {}), text("Found.")])
    agent = Agent.make(
        "a",
        toolkit=find,
        large_results=LargeResults(store, max_tokens=100),
        compaction=Compaction.clear_results(keep=0),
    )
    live = find.handler(lambda _: Success[object](["needle"] * 500))
    answer = fx.run(agent.execute("Find.").provide(live).provide(model.layer))
    note = _shown(model.requests[1].prompt)
    handle = answer.steps[0].results[0].encoded_result["handle"]

    assert "needle" not in note
    assert note.endswith(f"Its handle is {handle}.")
    assert _read(answer.history, store, 100, handle=handle, pointer="/7").result["text"] == "needle"


def test_a_full_store_loses_no_result() -> None:
    """The program gets the whole value, and the model a preview that says so."""
    answer, requests = _found(["x" * 100] * 50, ResultStore.in_process(max_bytes=10), 50)

    assert len(answer.steps[0].results_of(find)[0].unwrap()) == 50
    assert "could not be stored" in str(requests[1].prompt)


def test_a_tool_has_its_own_maximum() -> None:
    """The annotation overrides the rule of the agent."""
    whole = find.annotate(MaxResultTokens, 100_000)
    model = ScriptedModel.make([call("find", {}), text("Found.")])
    agent = Agent.make("a", toolkit=whole, large_results=LargeResults(ResultStore.in_process(), max_tokens=10))
    fx.run(agent.execute("Find.").provide(whole.handler(lambda _: Success[object](["x"] * 500))).provide(model.layer))

    assert _shown(model.requests[1].prompt) == ["x"] * 500


PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20


@pytest.mark.parametrize(
    "value",
    [
        b64encode(PNG).decode(),
        [{"type": "file", "media_type": "image/png", "data": b64encode(PNG).decode()}],
        {"picture": b64encode(PNG).decode(), "name": "cat"},
    ],
    ids=["bytes", "file", "field"],
)
def test_a_picture_is_described_and_can_be_read(value: Any) -> None:
    """The preview names the type and the size; the reader returns the picture in the form that providers accept."""
    store = ResultStore.in_process()
    answer, _ = _found(value, store, 100)
    shown = answer.steps[0].results[0].encoded_result
    pointer = "/0" if isinstance(value, list) else "/picture" if isinstance(value, dict) else ""
    read = _read(answer.history, store, 100, handle=shown["handle"], pointer=pointer).encoded_result

    assert f"(image/png, {len(PNG)} bytes)" in shown["preview"]
    assert read == [{"type": "file", "media_type": "image/png", "data": b64encode(PNG).decode()}]


# -- the end of a conversation


@pytest.mark.parametrize("kind", KINDS)
def test_results_end_with_their_conversation(kind: str, tmp_path: Path) -> None:
    """Clearing a memory, deleting a chat, and deleting a conversation of a page remove the stored results."""
    store = _store(kind, tmp_path)
    memory, chats = Memory.in_process(results=store), ChatStore.in_process(results=store)
    talks = Conversations.in_process(results=store)
    histories = [_found([name] * 500, store, 50)[0].history for name in ("a", "b", "c")]
    turn = Turn.make("t", None, UIMessage.make("u", "user", "Hi"), "m", histories[2], 0.0)
    fx.run(memory.commit(histories[0]))
    fx.run(chats.save("b", histories[1], None))
    fx.run(talks.begin("c", "ann", turn))
    handles = [_shown(history.messages[:3])["handle"] for history in histories]
    there = [store.get(handle) is not None for handle in handles]
    for end in (memory.clear(), chats.delete("b"), talks.delete("c")):
        fx.run(end)

    assert there == [True] * 3
    assert [store.get(handle) for handle in handles] == [None] * 3


# -- journals, streams, and traces


def test_a_durable_run_journals_the_handle_and_gets_the_value(tmp_path: Path) -> None:
    """After a restart, the program gets the whole value from the store, and the handler does not run again."""
    store, ran = ResultStore.file(tmp_path / "results"), list[str]()

    def on_find(_: object) -> Any:
        ran.append("find")
        return Success(["needle"] * 2_000)

    def run(turns: list[Any]) -> Any:
        model = ScriptedModel.make(turns)
        layer = durable(model.layer, run="r1", store=tmp_path / "runs.db")
        return fx.run_exit(_agent(store, 50).execute("Find.").provide(find.handler(on_find)).provide(layer))

    run([call("find", {})])
    answer = run([text("Found.")]).value
    journal = b"".join(path.read_bytes() for path in tmp_path.glob("runs.db*") if path.is_file())

    assert ran == ["find"]
    assert answer.steps[0].results_of(find)[0].unwrap() == ["needle"] * 2_000
    assert journal.count(b"needle") < 100


def test_a_stream_shows_the_handle() -> None:
    """A page receives the encoded form of a result, which is the preview."""
    model = ScriptedModel.make([call("find", {}), text("Found.")])
    stream = _agent(ResultStore.in_process(), 50).stream("Find.")
    parts = fx.run(stream.provide(find.handler(lambda _: Success[object](["x"] * 500))).provide(model.layer).collect())
    (result,) = [part for part in parts if part.type == "tool-result"]

    assert result.result == ["x"] * 500
    assert result.encoded_result["handle"].startswith("r_")


def test_a_result_in_front_of_an_approval_stays_readable() -> None:
    """An approved call can be large, too: its result in the history is the handle."""
    pay = Tool.make("pay", success=object, needs_approval=True)
    store, kit = ResultStore.in_process(), Toolkit.make(pay)
    agent = Agent.make("a", toolkit=kit, large_results=LargeResults(store, max_tokens=50))
    model = ScriptedModel.make([call("pay", {}), text("Paid.")])
    live = pay.handler(lambda _: Success[object](["x"] * 500))
    asked = fx.run(agent.execute("Pay.").provide(live).provide(model.layer))
    answer = fx.run(agent.execute(asked.history.reply(lambda one: one.approve())).provide(live).provide(model.layer))

    assert answer.steps[0].results[0].result == ["x"] * 500
    assert "handle" in answer.steps[0].results[0].encoded_result
