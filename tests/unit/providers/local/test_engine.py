"""The engine's replies, with a scripted llama.cpp in place of the real one: what is heard, and where one is stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from fxai.messages import Usage
from fxai.providers.local.engine import Completed, Completion, Engine, Setting
from fxai.providers.local.weights import Description


class Scripted:
    """Says its pieces, a token each, until it is stopped; counts as llama.cpp does."""

    def __init__(self, pieces: Iterable[str], finish: str = "stop") -> None:
        self.pieces = list(pieces)
        self.finish = finish
        self.wrote = 0

    def handle_completions(self, asked: Mapping[str, Any], hear: Callable[[Mapping[str, Any]], bool]) -> None:
        """Calls ``hear`` with each piece, then with why it ended, then with what it took."""
        for piece in self.pieces:
            self.wrote += 1
            chunk: dict[str, Any] = {"choices": [{"text": piece, "finish_reason": None}]}
            if asked["timings_per_token"]:
                chunk["timings"] = {"cache_n": 3, "prompt_n": 4, "predicted_n": self.wrote}
            if hear(chunk):
                return
        hear({"choices": [{"text": "", "finish_reason": self.finish}]})
        hear({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": self.wrote, "total_tokens": 99}})


def _completed(backend: str, server: Scripted, task: Completion) -> tuple[Completed, list[str]]:
    """How the engine completes, and what was heard."""
    on_progress: list[str] = []
    engine = Engine(server, Path("x.gguf"), Setting(), Description(), None)
    return anyio.run(partial(engine.complete, task, on_progress.append), backend=backend), on_progress


ENDLESS = [" It", " costs", " 6."] * 50


def test_a_reply_is_stopped_where_it_repeats_itself(backend: str) -> None:
    """The model is stopped with the second sentence, of which nothing is heard; it ended, and took what it wrote."""
    server = Scripted(ENDLESS)
    done, on_progress = _completed(backend, server, Completion("?", most=200, once=True))

    assert (done.text, done.ended) == (" It costs 6.", "stop")
    assert on_progress == [" It", " costs", " 6."]
    assert server.wrote == 7
    assert done.usage == Usage(7, 7, 3)


def test_a_reply_may_repeat_itself_where_it_is_not_asked_otherwise(backend: str) -> None:
    """JSON under a grammar, and a model with a chat template, say what they say."""
    done, on_progress = _completed(backend, Scripted(ENDLESS), Completion("?", most=200))

    assert done.text == "".join(ENDLESS)
    assert on_progress == ENDLESS


@pytest.mark.parametrize(
    ("pieces", "finish", "text"),
    [
        ([" It", " is", " 6.", " It"], "length", " It is 6. It"),
        ([" It", " is", " 6.", " It", " is", " 6."], "stop", " It is 6."),
        ([" It", " is", " 6.", " It", " is", " 7."], "stop", " It is 6. It is 7."),
    ],
)
def test_what_was_held_back_is_said_at_the_end(pieces: list[str], finish: str, text: str, backend: str) -> None:
    """Words that might have begun a repetition are said when the reply ends, which keeps its own reason."""
    done, on_progress = _completed(backend, Scripted(pieces, finish), Completion("?", most=len(pieces), once=True))

    assert (done.text, done.ended) == (text, finish)
    assert "".join(on_progress) == text
    assert done.usage == Usage(7, len(pieces))
