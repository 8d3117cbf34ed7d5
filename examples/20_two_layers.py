"""Two layers: one toolkit, one set of handlers, and two worlds to run them in: the real one, and one for tests.

A handler says which service it needs and never where that comes from. The layer that supplies it is chosen last, in
one place, and nothing is patched. Run it: `python examples/20_two_layers.py`.
"""

from __future__ import annotations

import sqlite3
from abc import abstractmethod
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Never

import msgspec
from typing_extensions import override

from fxai import Effect, Gen, Layer, Ref, Scope, Service, Tool, Toolkit, fx


class Note(msgspec.Struct, frozen=True):
    """A note to keep."""

    title: str
    text: str


class ByTitle(msgspec.Struct, frozen=True):
    """Which note."""

    title: str


class NoSuchNote(msgspec.Struct, frozen=True):
    """There is no note of this title."""

    title: str


# What the handlers will need: an interface. The class is also the key that it is asked for by.


class Notes(Service):
    """Where notes are kept."""

    @abstractmethod
    def put(self, note: Note) -> Effect[None]:
        """Keeps a note; one of the same title is replaced."""

    @abstractmethod
    def get(self, title: str) -> Effect[str, NoSuchNote]:
        """The text of a note."""


# The tools and their handlers, written once. `yield from` asks for the service and runs its effects.

write_note = Tool.make("write_note", description="Keeps a note.", parameters=Note)
read_note = Tool.make(
    "read_note",
    description="The text of a note.",
    parameters=ByTitle,
    success=str,
    failure=NoSuchNote,
    failure_mode="return",
)
kit = Toolkit.make(write_note, read_note)


def on_write(note: Note) -> Gen[None, Never, Notes]:
    """Keeps the note where notes are kept."""
    notes = yield from Notes
    yield from notes.put(note)


def on_read(wanted: ByTitle) -> Gen[str, NoSuchNote, Notes]:
    """Reads it from there."""
    notes = yield from Notes
    return (yield from notes.get(wanted.title))


handlers = kit.to_layer(write_note.handler(on_write) | read_note.handler(on_read))

# The real world: a database file. It is opened when the layer is built and closed when the program ends, however.


class InDatabase(Notes):
    """Notes in SQLite."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database

    @override
    def put(self, note: Note) -> Effect[None]:
        return fx.sync(lambda: self._put(note))

    def _put(self, note: Note) -> None:
        with self._database:
            self._database.execute("insert or replace into notes values (?, ?)", (note.title, note.text))

    @override
    def get(self, title: str) -> Effect[str, NoSuchNote]:
        found = fx.sync(lambda: self._database.execute("select text from notes where title = ?", (title,)).fetchone())
        return found.flat_map(lambda row: fx.fail(NoSuchNote(title)) if row is None else fx.succeed(str(row[0])))


def opened(file: Path) -> sqlite3.Connection:
    """The database in a file, ready for notes."""
    database = sqlite3.connect(file)
    database.execute("create table if not exists notes (title primary key, text)")
    return database


def live(file: Path) -> Layer[Notes]:
    """The layer of the notes in a file."""

    @fx.gen
    def notes() -> Gen[Notes, Never, Scope]:
        opening = fx.sync(lambda: opened(file))
        database = yield from fx.acquire_release(opening, lambda open_one: fx.sync(open_one.close))
        return InDatabase(database)

    return Layer.scoped(Notes, notes())


# The world of tests: a dictionary, with a note in it to begin with.


class InMemory(Notes):
    """Notes that are gone when the program ends."""

    def __init__(self, notes: Ref[dict[str, str]]) -> None:
        self._notes = notes

    @override
    def put(self, note: Note) -> Effect[None]:
        return self._notes.update(lambda notes: {**notes, note.title: note.text})

    @override
    def get(self, title: str) -> Effect[str, NoSuchNote]:
        def found(notes: dict[str, str]) -> Effect[str, NoSuchNote]:
            return fx.succeed(notes[title]) if title in notes else fx.fail(NoSuchNote(title))

        return self._notes.get().flat_map(found)


@fx.gen
def in_memory() -> Gen[Notes]:
    """A fresh dictionary for each run."""
    return InMemory((yield from Ref.make({"milk": "oat, please"})))


test = Layer.effect(Notes, in_memory())

# One program, which needs the handlers, which need notes. It is the same value in both worlds.

wrote = kit.call("write_note", {"title": "bread", "text": "two loaves"})
read = fx.for_each(["bread", "milk"], lambda title: kit.call("read_note", {"title": title}))
program = wrote.and_then(read).provide(handlers)

for outcome in fx.run(program.provide(test)):
    print("In a test:", outcome.result)

with TemporaryDirectory() as folder:
    for outcome in fx.run(program.provide(live(Path(folder, "notes.db")))):
        print("For real: ", outcome.result)

# Without a layer that supplies Notes it does not run, and both type checkers refuse the line: `fx.run(program)`.
