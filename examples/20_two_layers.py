"""Write handlers once and run them with two layers: a real database, and a dictionary for tests.

A handler names the services that it needs. You choose the layer that supplies them, and you do not patch anything.
Run `python examples/20_two_layers.py`.
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
    """A note."""

    title: str
    text: str


class ByTitle(msgspec.Struct, frozen=True):
    """The title of a note."""

    title: str


class NoSuchNote(msgspec.Struct, frozen=True):
    """No note has this title."""

    title: str


# The handlers need this service. The class is the interface and also the key of the service.


class Notes(Service):
    """A store of notes."""

    @abstractmethod
    def put(self, note: Note) -> Effect[None]:
        """Store a note. It replaces a note with the same title."""

    @abstractmethod
    def get(self, title: str) -> Effect[str, NoSuchNote]:
        """Return the text of a note."""


# You write the tools and their handlers once. `yield from` requests the service and runs its effects.

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
    """Store the note."""
    notes = yield from Notes
    yield from notes.put(note)


def on_read(wanted: ByTitle) -> Gen[str, NoSuchNote, Notes]:
    """Read the note."""
    notes = yield from Notes
    return (yield from notes.get(wanted.title))


handlers = kit.to_layer(write_note.handler(on_write) | read_note.handler(on_read))

# The real layer uses a database file. It opens the file at the start and closes it at the end of the program.


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
    """Return an open database with a table of notes."""
    database = sqlite3.connect(file)
    database.execute("create table if not exists notes (title primary key, text)")
    return database


def live(file: Path) -> Layer[Notes]:
    """Return the layer of the notes in a file."""

    @fx.gen
    def notes() -> Gen[Notes, Never, Scope]:
        opening = fx.sync(lambda: opened(file))
        database = yield from fx.acquire_release(opening, lambda open_one: fx.sync(open_one.close))
        return InDatabase(database)

    return Layer.scoped(Notes, notes())


# The layer for tests uses a dictionary that already contains a note.


class InMemory(Notes):
    """Notes that exist only while the program runs."""

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
    """Return the service with a new dictionary for each run."""
    return InMemory((yield from Ref.make({"milk": "oat, please"})))


test = Layer.effect(Notes, in_memory())

# The program is one value for both layers. It needs the handlers, and the handlers need `Notes`.

wrote = kit.call("write_note", {"title": "bread", "text": "two loaves"})
read = fx.for_each(["bread", "milk"], lambda title: kit.call("read_note", {"title": title}))
program = wrote.and_then(read).provide(handlers)

for outcome in fx.run(program.provide(test)):
    print("In a test:", outcome.result)

with TemporaryDirectory() as folder:
    for outcome in fx.run(program.provide(live(Path(folder, "notes.db")))):
        print("For real: ", outcome.result)

# Without a layer for Notes, the program does not run, and type checkers report an error at `fx.run(program)`.
