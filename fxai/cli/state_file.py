"""The state of a stateful prompt on the command line. Use `StateFile` to store it and `StateMemory` to observe it.

>>> import tempfile
>>> from fxai.agents.stateful import PromptState
>>> with tempfile.TemporaryDirectory() as folder:
...     file = state_at(f"{folder}/state.json")
...     file.write(PromptState.from_json('{"values": {"mode": "basic"}}').unwrap())
...     file.read().values["mode"], StateFile(Path(folder, "none.json")).read()
('basic', None)

`StateMemory` is the memory of a run. It notes the state that the run commits:

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
from fxai.cli.exit import WRONG_USE, CliError, why_unwritable
from fxai.effects import fx
from fxai.effects.effect import Effect
from fxai.messages.prompt import Prompt
from fxai.storage.private_file import read_file, replace_file

_OTHER_FILE: Final = "Pass another file, or move this file away to start with the initial state."


def state_at(path: str, memory: str | None = None) -> StateFile:
    """Return the state file at `path`, which can be missing. `memory` is the file of the conversation, if any."""
    location = Path(path)
    problem = why_unwritable(location)
    if problem is None and not os.access(location.parent, os.W_OK):  # each write replaces the whole file
        problem = f"no permission to write in {location.parent}"
    if problem is None and memory is not None and Path(memory).resolve() == location.resolve():
        problem = "the file of --memory already stores the state"
    if problem is not None:
        message = f"cannot store the state in {path}: {problem}"
        raise CliError(message, "Name a file that you can write.", code=WRONG_USE)
    return StateFile(location)


@final
class StateFile:
    """A JSON file with the state of a stateful prompt. Only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> PromptState | None:
        """Return the state, or None if the file does not exist."""
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
        raise CliError(f"{self.path} is not a valid state of a prompt: {read.failure()}", _OTHER_FILE)

    def write(self, state: PromptState) -> None:
        """Replace the state on the disk completely, or leave the file unchanged."""
        try:
            replace_file(self.path, state.to_json().encode())
        except StateError as error:
            message = f"cannot store the state in {self.path}: {error}"
            raise CliError(message, "The file is unchanged.", cause=error) from None
        except OSError as error:
            message = _failure_text(self.path, "write", error)
            raise CliError(message, "Free space, or name another file. The file is unchanged.", cause=error) from None

    def remove(self) -> None:
        """Remove the file if it exists."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise CliError(_failure_text(self.path, "remove", error), "Remove it yourself.", cause=error) from None


def _failure_text(path: Path, done: str, error: OSError) -> str:
    return f"cannot {done} the state in {path}: {error.strerror or error}"


def state_data(state: PromptState) -> dict[str, Any]:
    """Return the values as JSON values for display. A value that JSON cannot express becomes a string."""
    try:
        data: dict[str, Any] = state.to_data()["values"]
    except StateError:
        data = msgspec.to_builtins(dict(state.values), enc_hook=str)
    return data


@final
class StateMemory(Memory):
    """A memory that wraps another memory. If a state file exists, the state of the file has priority.

    It notes the last committed state. `save` writes this state to the file after a successful run.
    """

    def __init__(self, memory: Memory, file: StateFile | None = None) -> None:
        self._memory = memory
        self._file = file
        self.state: PromptState | None = None
        """The last committed state, or None before the first commit."""

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
        """Return an effect that writes the last committed state to the file, if both exist."""

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
