"""Records: what the journal of a run holds, and what they come to, by the paths of its parts.

A part of a run has a path: the agent, the step, the call, and in the call of a sub-agent the same again. Records only
add to each other, so that a journal which was cut anywhere says what is known: `Begun` without an `Ended` is in doubt.

>>> known = Known("order-17")
>>> known.add(Begun("/clerk/1/0", "charge"), 1)
>>> known.parts["/clerk/1/0"].in_doubt, known.status
(True, 'stopped')
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, final

import msgspec

from fxai.durable.failure import Question, Reply
from fxai.schema.data import JSON_ERRORS

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled", "stopped"]
"""How a run stands.

`queued`: a worker will begin it, or go on with it. `running`: a program goes on with it. `waiting`: for answers.
`done`: it ended well. `failed`: its program failed, and may be run again. `cancelled`: by somebody. `stopped`: its
program ended in the middle, and it can be resumed.
"""

FORM: Final = 2
"""The form of journals. In form 1, parts were identified by their content, so parallel parts could change places."""

OutcomeKind: TypeAlias = Literal["success", "failure", "error", "told", "refused", "broken", "value", "again"]
"""How a part ended.

`success`, `failure`: an outcome with a value of the tool's success or failure type. `error`: a failure of that type in
the error channel. `told`: a failure that is none of the tool's, and that the model read. `refused`: the handler was not
asked, so that asking again comes to the same. `broken`: a defect, or a result that did not fit. `value`: of a step, or
of other work. `again`: of work whose value is no data, so that it is done again.
"""


class Record(msgspec.Struct, frozen=True, tag_field="record", omit_defaults=True, forbid_unknown_fields=True):
    """One record; the name of its kind is in the field `record`."""


class TimedRecord(Record, frozen=True, kw_only=True):
    """A record that notes the time, and the parts that the program reached before it."""

    time: float = 0.0
    """When it was written, in seconds of the run: those in which a program went on with it."""
    reached: dict[str, str] = {}
    """New parts that the program reached since the record before, with a digest of their content."""
    aside: bool = False
    """True if the sequence had stopped waiting for an answer. With the answer, a program may take another way."""


@final
class Opened(Record, frozen=True, tag="opened"):
    """A program has begun the run, or goes on with it."""

    at: float
    version: str = ""
    process: int = 0
    form: int = 1
    """The form of the journal. `FORM` is the form that this version of fxai writes and reads."""


@final
class Submitted(Record, frozen=True, tag="submitted"):
    """A worker is to begin the run, or to go on with it."""

    at: float
    program: str
    """What workers call the program of the run."""
    job: str
    """The id of the job on their queue."""
    priority: int = 0


@final
class Input(Record, frozen=True, tag="input"):
    """What the command line began the run with, so that it can be resumed by its name."""

    prompt: str
    options: dict[str, Any] = {}


@final
class Entered(TimedRecord, frozen=True, tag="entered"):
    """A run of an agent has begun whose time is limited."""

    path: str


@final
class Turn(TimedRecord, frozen=True, tag="turn"):
    """A model's turn: its parts, and what the request was like."""

    path: str
    parts: list[Any]
    request: dict[str, str]
    """Digests by what they are of: `instructions`, `tools`, and the last message."""
    trace: str = ""
    """The `traceparent` of the span that it was asked for in; empty: it was not traced."""
    failures: tuple[dict[str, Any], ...] = ()
    """Why the turn failed, each as the data of an `AiError`. Empty if it succeeded."""


@final
class Begun(TimedRecord, frozen=True, tag="begun"):
    """A part is about to be run."""

    path: str
    name: str
    params: Any = None
    repeats: bool = False
    """True if the part may run again, so that no person must know its outcome."""


@final
class Ended(TimedRecord, frozen=True, tag="ended"):
    """A part has run."""

    path: str
    kind: OutcomeKind
    value: Any = None
    state: dict[str, Any] = {}
    """What it changed in the state of a stateful prompt."""
    json_text: tuple[str, ...] = ()


@final
class Timer(TimedRecord, frozen=True, tag="timer"):
    """A program sleeps until then, in seconds since 1970."""

    path: str
    until: float


@final
class Asked(Record, frozen=True, tag="asked"):
    """A question was asked."""

    question: Question


@final
class Answered(Record, frozen=True, tag="answered"):
    """A question was answered; None: by the program itself."""

    path: str
    reply: Reply | None
    at: float = 0.0


@final
class CancelWish(Record, frozen=True, tag="cancelled"):
    """Somebody wants the run to end."""

    at: float


@final
class Closed(TimedRecord, frozen=True, tag="closed"):
    """The program that had the run has ended."""

    at: float
    status: RunStatus
    text: str = ""
    """The text of the last answer, or what failed."""


AnyRecord: TypeAlias = (
    Opened | Submitted | Input | Entered | Turn | Begun | Ended | Timer | Closed | Asked | Answered | CancelWish
)
"""Every record that there is."""

_RECORD: Final[msgspec.json.Decoder[AnyRecord]] = msgspec.json.Decoder(AnyRecord)
_ENCODE: Final = msgspec.json.Encoder().encode


def encode(record: AnyRecord) -> str:
    """The record as JSON text."""
    return _ENCODE(record).decode()


def decode(text: bytes) -> AnyRecord:
    """The record of a JSON text.

    Raises:
        OSError: it is none; a newer version may have written it.
    """
    try:
        return _RECORD.decode(text)
    except JSON_ERRORS as error:
        raise OSError(f"it holds no record of a run ({error}); a newer version of fxai may have written it") from error


@final
class RunState(msgspec.Struct, frozen=True):
    """What is known of a run without its journal being read, for lists."""

    run: str
    status: RunStatus
    version: str
    began: float
    changed: float
    questions: int = 0
    text: str = ""


class Part(msgspec.Struct, eq=False):
    """What is known of a part of a run."""

    begun: Begun | None = None
    began: int = 0
    """The number of the record `begun`."""
    ended: Ended | None = None
    number: int = 0
    """Of the record that it ended with, by which the order of ends is known."""
    entered: Entered | None = None
    turn: Turn | None = None
    until: float | None = None
    question: Question | None = None
    reply: Reply | None = None
    answered: bool = False
    last: int = 0
    """The number of its last record. Questions and answers do not count."""
    given_up: bool = False
    """Whether this program stopped waiting for the answer. The journal does not store this."""
    again: int = 0
    """How often a person has said that it is to be run again."""

    @property
    def in_doubt(self) -> bool:
        """Whether it was begun, and what became of it is not known."""
        return self.begun is not None and (self.ended is None or self.ended.kind == "broken")

    @property
    def is_open(self) -> bool:
        """True if the outcome is unknown, must be known, and no person has stated it."""
        return self.begun is not None and self.in_doubt and not self.begun.repeats and not self.answered


@final
class Known:
    """What the records of a run come to."""

    __slots__ = (
        "before",
        "cancelled",
        "closed",
        "contents",
        "input",
        "last",
        "opened",
        "parts",
        "queued",
        "run",
        "steps",
        "submitted",
        "time",
    )

    def __init__(self, run: str) -> None:
        self.run: str = run
        self.parts: dict[str, Part] = {}
        self.steps: dict[str, list[Part]] = {}
        """The parts that have ended, by the path of what they are in, in the order in which they ended."""
        self.contents: dict[str, str] = {}
        """The digests of the contents of parts that programs have reached, by path."""
        self.opened: list[Opened] = []
        self.submitted: list[Submitted] = []
        self.queued: bool = False
        """Whether it was submitted, and no worker has begun it, or gone on with it, since then."""
        self.input: Input | None = None
        self.closed: Closed | None = None
        self.cancelled: CancelWish | None = None
        self.before: int = 0
        """The number of the last record before this program had the run."""
        self.last: int = 0
        """The number of the last record."""
        self.time: float = 0.0
        """How many seconds programs have gone on with it, as far as records say."""

    def part(self, path: str) -> Part:
        """What is known of a part, which need not be there yet."""
        return self.parts.setdefault(path, Part())

    def add(self, record: AnyRecord, number: int) -> None:
        """Takes a record in."""
        self.last = max(self.last, number)
        if isinstance(record, TimedRecord):
            self.time = max(self.time, record.time)
            self.contents.update(record.reached)
        match record:
            case Opened():
                self.opened.append(record)
                self.closed, self.queued = None, False
            case Submitted():
                self.submitted.append(record)
                self.queued = True
            case Input():
                self.input = record
            case CancelWish():
                self.cancelled = record
            case Closed():
                self.closed = record
                if record.status == "failed":
                    self._forget_last_failures()
            case _:
                self._add_to_part(record, number)

    def _add_to_part(self, record: Entered | Turn | Begun | Ended | Timer | Asked | Answered, number: int) -> None:
        part = self.part(record.question.path if isinstance(record, Asked) else record.path)
        if isinstance(record, TimedRecord):
            part.last = number
        match record:
            case Entered():
                part.entered = record
            case Turn():
                part.turn = record
            case Begun():
                part.begun, part.began, part.ended = record, number, None
                part.question, part.reply, part.answered = None, None, False  # what was answered is used up
            case Ended():
                self._end(record, number)
            case Timer():
                part.until = record.until
            case Asked():
                part.question, part.reply, part.answered, part.given_up = record.question, None, False, False
            case Answered():
                part.reply, part.answered = record.reply, True
                part.again += record.reply is not None and record.reply.kind == "again"

    def _end(self, record: Ended, number: int) -> None:
        part = self.part(record.path)
        part.ended, part.number = record, number
        if record.state:
            self.steps.setdefault(record.path.rpartition("/")[0], []).append(part)

    def _forget_last_failures(self) -> None:
        """Let the next program request the turns again that ended this run: failed turns that no part follows.

        If a part follows a failed turn, the program took its way because of it. The next program must take that way.
        """
        parts = [*self.parts.items()]
        for path, part in parts:
            if part.turn is None or not part.turn.failures:
                continue
            if not any(other.last > part.last and _follows(name, other, path) for name, other in parts):
                part.turn = None

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that are open, in the order in which they were asked; none of a run that is cancelled."""
        return () if self.cancelled is not None else tuple(self._open_questions())

    @property
    def unheard(self) -> tuple[Question, ...]:
        """The open questions, and those that another process answered after this program had stopped waiting.

        Such an answer can arrive at any moment. The run must continue with it, so it counts as a question until then.
        """
        return () if self.cancelled is not None else tuple(self._open_questions(unheard=True))

    def _open_questions(self, *, unheard: bool = False) -> Iterator[Question]:
        for part in [*self.parts.values()]:  # a thread may add one meanwhile
            if part.question is None:
                continue
            if not part.answered or (unheard and part.given_up and part.reply is not None):
                yield part.question

    @property
    def status(self) -> RunStatus:
        """How it stands, unless a program goes on with it."""
        if self.closed is not None and self.closed.status == "done":
            return "done"
        if self.cancelled is not None:
            return "cancelled"
        if self.queued:
            return "queued"
        if self.closed is None:
            return "stopped"
        return "stopped" if self.closed.status == "waiting" and not self.questions else self.closed.status

    def state(self, now: float) -> RunState:
        """What lists show of it."""
        first = self.opened[0] if self.opened else self.submitted[0] if self.submitted else None
        began = now if first is None else first.at
        version = self.opened[-1].version if self.opened else ""
        text = "" if self.closed is None else self.closed.text
        return RunState(self.run, self.status, version, began, now, len(self.questions), text)


_BRANCHES: Final = re.compile(r"(each|all|race|fork|timeout)(\+\d+)?")


def _follows(name: str, part: Part, path: str) -> bool:
    """Return whether a part is in a sequence that goes on after the part at a path, or ended because of it."""
    names, places = name.split("/"), path.split("/")
    for index, (one, other) in enumerate(zip(names, places, strict=False)):
        if one != other:
            return not _BRANCHES.fullmatch(names[index - 1])
    runs_again = part.ended is not None and part.ended.kind in ("broken", "refused")
    return len(names) < len(places) and not runs_again
