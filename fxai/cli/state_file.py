"""The state of a stateful prompt at the command line: the file that keeps it, and what tells how a run left it.

>>> import tempfile
>>> from fxai.agents.stateful import PromptState
>>> with tempfile.TemporaryDirectory() as folder:
...     file = state_at(f"{folder}/state.json")
...     file.write(PromptState.from_json('{"values": {"mode": "basic"}}').unwrap())
...     file.read().values["mode"], StateFile(Path(folder, "none.json")).read()
('basic', None)

A run is given a memory that notes the state that is committed:

>>> memory = StateMemory(Memory.in_process())
>>> fx.run_sync(memory.commit_with(Prompt.make("Hello"), PromptState()))
>>> memory.state == PromptState(), len(fx.run_sync(memory.load()))
(True, 1)
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final, final

import msgspec
from returns.result import Success
from typing_extensions import override

from fxai.agents.memory import Memory, MemoryFailure
from fxai.agents.state import PromptState, StateError
from fxai.cli.exit import WRONG_USE, CliError, write_obstacle
from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.prompt import Prompt
from fxai.storage.private_file import read_file, replace_file

_OTHER_FILE: Final = "give another file, or move it away to begin with the initial state"


def state_at(path: str, memory: str | None = None) -> StateFile:
    """The state in this file, which need not exist; `memory` is the file of the conversation, which is another one."""
    place = Path(path)
    problem = write_obstacle(place)
    if problem is None and not os.access(place.parent, os.W_OK):  # it is replaced as a whole
        problem = f"nothing may be written in {place.parent}"
    if problem is None and memory is not None and Path(memory).resolve() == place.resolve():
        problem = "it is the file of --memory, which keeps the state by itself"
    if problem is not None:
        said = f"no state can be kept in {path}: {problem}"
        raise CliError(said, "name a file that can be written", code=WRONG_USE)
    return StateFile(place)


@final
class StateFile:
    """A file with the state of a stateful prompt, in JSON; its owner alone can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> PromptState | None:
        """The state; None where there is no such file."""
        try:
            text = read_file(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CliError(_failure_text(self.path, "read", error), _OTHER_FILE, cause=error) from None
        read = PromptState.from_json(text)
        if isinstance(read, Success):
            state: PromptState = read.unwrap()
            return state
        raise CliError(f"{self.path} holds no state of a prompt: {read.failure()}", _OTHER_FILE)

    def write(self, state: PromptState) -> None:
        """Puts the state in place of the one before, on the disk and whole, or not at all."""
        try:
            replace_file(self.path, state.to_json().encode())
        except StateError as error:
            said = f"the state cannot be kept in {self.path}: {error}"
            raise CliError(said, "the file is as it was", cause=error) from None
        except OSError as error:
            said = _failure_text(self.path, "written", error)
            raise CliError(said, "make room, or name another file; it is as it was", cause=error) from None

    def remove(self) -> None:
        """Removes the file, if it is there."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise CliError(_failure_text(self.path, "removed", error), "remove it by hand", cause=error) from None


def _failure_text(path: Path, done: str, error: OSError) -> str:
    return f"the state in {path} could not be {done}: {error.strerror or error}"


def state_data(state: PromptState) -> dict[str, Any]:
    """The values as plain JSON data, to be shown; of what cannot be written so, its text."""
    try:
        data: dict[str, Any] = state.to_data()["values"]
    except StateError:
        data = msgspec.to_builtins(dict(state.values), enc_hook=str)
    return data


@final
class StateMemory(Memory):
    """Another memory, with the state of a file in place of its own where there is one.

    It notes the state that was committed last, and writes it to the file when it is told that the run has succeeded.
    """

    def __init__(self, memory: Memory, file: StateFile | None = None) -> None:
        self._memory = memory
        self._file = file
        self.state: PromptState | None = None
        """The state that was committed last; None before."""

    @override
    def load(self) -> Effect[Prompt, MemoryFailure]:
        return self._memory.load()

    @override
    def load_state(self) -> Effect[PromptState | None, MemoryFailure]:
        def choose(kept: PromptState | None) -> Effect[PromptState | None, MemoryFailure]:
            return self._memory.load_state() if kept is None else fx.succeed(kept)

        file = self._file
        return self._memory.load_state() if file is None else fx.sync(file.read).flat_map(choose)

    @override
    def commit(self, messages: Prompt) -> Effect[None, MemoryFailure]:
        return self.commit_with(messages, None)

    @override
    def commit_with(self, messages: Prompt, state: PromptState | None) -> Effect[None, MemoryFailure]:
        def note(_: Any) -> None:
            self.state = state

        return self._memory.commit_with(messages, state).map(note)

    def save(self) -> Effect[None]:
        """Writes the state that was committed last to the file, if there are both."""

        def write() -> None:
            if self._file is not None and self.state is not None:
                self._file.write(self.state)

        return fx.sync(write)

    @override
    def turns(self) -> Effect[tuple[Prompt, ...], MemoryFailure]:
        return self._memory.turns()

    @override
    def clear(self) -> Effect[None, MemoryFailure]:
        def forget(_: Any) -> None:
            self.state = None
            if self._file is not None:
                self._file.remove()

        return self._memory.clear().map(forget)
