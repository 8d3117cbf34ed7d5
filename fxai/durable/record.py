"""The records in the journal of a run, and the state of the run that follows from them.

Each part of a run has a path: the agent, the step, and the call, and the same again for the call of a sub-agent. A
record never replaces an earlier record. Therefore a journal that ends at any record is valid: `Begun` without `Ended`
means that the outcome of the part is unknown.

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

from fxai.durable.failure import Reply, RunQuestion
from fxai.messages.prompt import Prompt
from fxai.schema.data import JSON_ERRORS, JsonObject

RunStatus: TypeAlias = Literal["queued", "running", "waiting", "done", "failed", "cancelled", "stopped"]
"""The status of a run.

`queued`: a worker will start or resume it. `running`: a program runs it. `waiting`: it waits for answers. `done`: it
succeeded. `failed`: its program failed, and you can run it again. `cancelled`: a user cancelled it. `stopped`: its
program ended early, and you can resume it.
"""

FORM: Final = 2
"""The form of journals. Form 1 identified parts by their content, so that parallel parts could be exchanged."""

OutcomeKind: TypeAlias = Literal["success", "failure", "error", "told", "refused", "broken", "value", "again"]
"""The end of a part.

`success`, `failure`: an outcome with a value of the success or failure type of the tool. `error`: a failure of that
type in the error channel. `told`: another failure, which the model has read. `refused`: the handler did not start, so
that the call can run again. `broken`: a defect, or an invalid result. `value`: the value of a step or of other work.
`again`: the value is not a JSON value, so that the work runs again.
"""


class Record(msgspec.Struct, frozen=True, tag_field="record", omit_defaults=True, forbid_unknown_fields=True):
    """A record. The field `record` contains the name of its kind."""


class TimedRecord(Record, frozen=True, kw_only=True):
    """A record with its time and with the parts that the program reached before it."""

    time: float = 0.0
    """The time in seconds of the run. Only the seconds in which a program runs it count."""
    reached: dict[str, str] = {}
    """The parts that the program reached first since the last record, with the digest of their content."""
    aside: bool = False
    """True if the sequence had stopped waiting for an answer. With the answer, a program can take another path."""


@final
class Opened(Record, frozen=True, tag="opened"):
    """A program has started or resumed the run."""

    at: float
    version: str = ""
    process: int = 0
    form: int = 1
    """The form of the journal. This version of fxai writes and reads the form `FORM`."""


@final
class Submitted(Record, frozen=True, tag="submitted"):
    """A worker must start or resume the run."""

    at: float
    program: str
    """The name that workers use for the program of the run."""
    job: str
    """The ID of the job in the queue."""
    priority: int = 0


@final
class Input(Record, frozen=True, tag="input"):
    """The prompt and the options from the command line, so that the command line can resume the run by its name."""

    prompt: str
    options: dict[str, Any] = {}


@final
class Entered(TimedRecord, frozen=True, tag="entered"):
    """A run of an agent with a deadline has started."""

    path: str


@final
class TurnRecord(TimedRecord, frozen=True, tag="turn"):
    """A turn of the model: its parts, and the digests of its request."""

    path: str
    parts: list[Any]
    request: dict[str, str]
    """Digests of the request, by the keys `instructions`, `tools`, and so on."""
    trace: str = ""
    """The `traceparent` of the span of the request. Empty if the request was not traced."""
    failures: tuple[JsonObject, ...] = ()
    """The failures of the turn, each as the data of an `AiError`. Empty if the turn succeeded."""


@final
class Begun(TimedRecord, frozen=True, tag="begun"):
    """A part will start now."""

    path: str
    name: str
    params: Any = None
    repeats: bool = False
    """True if the part can run again, so that no person must know its outcome."""


@final
class Ended(TimedRecord, frozen=True, tag="ended"):
    """A part has ended."""

    path: str
    kind: OutcomeKind
    value: Any = None
    state: JsonObject = {}
    """The changes in the state of a stateful prompt."""
    json_text: tuple[str, ...] = ()
    handle: str = ""
    """The handle of a stored large result, or an empty string. `value` is then a preview."""


@final
class Timer(TimedRecord, frozen=True, tag="timer"):
    """A program sleeps until this time, in seconds since 1970."""

    path: str
    until: float


@final
class Asked(Record, frozen=True, tag="asked"):
    """fxai asked a question."""

    question: RunQuestion


@final
class Answered(Record, frozen=True, tag="answered"):
    """A question was answered. The reply is None if the program itself answered it."""

    path: str
    reply: Reply | None
    at: float = 0.0


@final
class CancelWish(Record, frozen=True, tag="cancelled"):
    """A user has cancelled the run."""

    at: float


@final
class Sent(Record, frozen=True, tag="sent"):
    """A program has sent a message to the run, for the inbox of the program that runs it."""

    id: str
    """The id of the message. A second message with this id has no effect."""
    delivery: Literal["steer", "queue"]
    """The time of the delivery, see `Inbox`."""
    messages: list[Any]
    """The user messages, in the form of `Prompt.to_data`."""
    at: float
    """The time of the record, in seconds since 1970."""

    @property
    def text(self) -> str:
        """The text of the messages."""
        return " ".join(message.text for message in Prompt.make(self.messages) if message.role == "user")


@final
class Closed(TimedRecord, frozen=True, tag="closed"):
    """The program of the run has ended."""

    at: float
    status: RunStatus
    text: str = ""
    """The text of the last answer, or the failure."""


AnyRecord: TypeAlias = (
    Opened
    | Submitted
    | Input
    | Entered
    | TurnRecord
    | Begun
    | Ended
    | Timer
    | Closed
    | Asked
    | Answered
    | Sent
    | CancelWish
)
"""The union of all records."""

_RECORD: Final[msgspec.json.Decoder[AnyRecord]] = msgspec.json.Decoder(AnyRecord)
_ENCODE: Final = msgspec.json.Encoder().encode


def encode(record: AnyRecord | RunState) -> str:
    """Return a record or the state of a run as JSON text."""
    return _ENCODE(record).decode()


def decode(text: bytes) -> AnyRecord:
    """Return the record in a JSON text.

    Raises:
        OSError: If the text is not a record. A newer version of fxai may have written it.
    """
    try:
        return _RECORD.decode(text)
    except JSON_ERRORS as error:
        raise OSError(f"not a record of a run ({error}); a newer version of fxai may have written it") from error


@final
class RunState(msgspec.Struct, frozen=True):
    """The state of a run for lists. Reading it does not require the journal."""

    run: str
    """The name of the run."""
    status: RunStatus
    """The status of the run."""
    version: str
    """The version of the program that started the run."""
    began: float
    """The start time, in seconds since 1970."""
    changed: float
    """The time of the last change, in seconds since 1970."""
    questions: int = 0
    """The number of open questions."""
    text: str = ""
    """The text of the answer or of the failure."""


class Part(msgspec.Struct, eq=False):
    """The state of a part of a run."""

    begun: Begun | None = None
    began: int = 0
    """The number of the record `begun`."""
    ended: Ended | None = None
    number: int = 0
    """The number of the record `ended`. It gives the order of the ends."""
    entered: Entered | None = None
    turn: TurnRecord | None = None
    until: float | None = None
    question: RunQuestion | None = None
    reply: Reply | None = None
    answered: bool = False
    last: int = 0
    """The number of the last record of the part, without questions and answers."""
    given_up: bool = False
    """True if this program stopped waiting for the answer. The journal does not contain this."""
    again: int = 0
    """Number of answers that fxai must run the part again."""

    @property
    def in_doubt(self) -> bool:
        """True if the part started and its outcome is unknown."""
        return self.begun is not None and (self.ended is None or self.ended.kind == "broken")

    @property
    def is_open(self) -> bool:
        """True if the outcome is unknown, must be known, and no person has stated it."""
        return self.begun is not None and self.in_doubt and not self.begun.repeats and not self.answered


@final
class Known(msgspec.Struct, eq=False):
    """The state of a run that follows from its records."""

    run: str
    parts: dict[str, Part] = {}
    steps: dict[str, list[Part]] = {}
    """The parts that have ended, by the path of their parent, in the order of their ends."""
    contents: dict[str, str] = {}
    """The digests of the contents of the parts that programs have reached, by path."""
    opened: list[Opened] = []
    submitted: list[Submitted] = []
    queued: bool = False
    """True if the run was submitted, and no worker has started or resumed it since."""
    input: Input | None = None
    sent: dict[str, Sent] = {}
    """The messages to the run from other programs, by their ids."""
    closed: Closed | None = None
    cancelled: CancelWish | None = None
    before: int = 0
    """The number of the last record before this program owned the run."""
    last: int = 0
    """The number of the last record."""
    time: float = 0.0
    """Seconds in which programs have run the run, according to the records."""

    def part(self, path: str) -> Part:
        """Return the state of a part. A new part has an empty state."""
        return self.parts.setdefault(path, Part())

    def add(self, record: AnyRecord, number: int) -> None:
        """Add a record to the state."""
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
            case Sent():
                _ = self.sent.setdefault(record.id, record)
            case CancelWish():
                self.cancelled = record
            case Closed():
                self.closed = record
                if record.status == "failed":
                    self._forget_last_failures()
            case _:
                self._add_to_part(record, number)

    def _add_to_part(
        self, record: Entered | TurnRecord | Begun | Ended | Timer | Asked | Answered, number: int
    ) -> None:
        part = self.part(record.question.path if isinstance(record, Asked) else record.path)
        if isinstance(record, TimedRecord):
            part.last = number
        match record:
            case Entered():
                part.entered = record
            case TurnRecord():
                part.turn = record
            case Begun():
                part.begun, part.began, part.ended = record, number, None
                part.question, part.reply, part.answered = None, None, False  # the new start has used the answer
            case Ended():
                part.ended, part.number = record, number
                if record.state:
                    self.steps.setdefault(record.path.rpartition("/")[0], []).append(part)
            case Timer():
                part.until = record.until
            case Asked():
                part.question, part.reply, part.answered, part.given_up = record.question, None, False, False
            case Answered():
                part.reply, part.answered = record.reply, True
                part.again += record.reply is not None and record.reply.kind == "again"

    def _forget_last_failures(self) -> None:
        """Let the next program request the turns again that ended this run: failed turns that no part follows.

        If a part follows a failed turn, the program took its path because of it. The next program must take that path.
        """
        parts = [*self.parts.items()]
        for path, part in parts:
            if part.turn is None or not part.turn.failures:
                continue
            if not any(other.last > part.last and _follows(name, other, path) for name, other in parts):
                part.turn = None

    @property
    def unread(self) -> tuple[Sent, ...]:
        """The messages from other programs that no inbox of the run has read, in the order of their arrival."""
        if not self.sent:
            return ()
        values: list[Any] = [one.ended.value for path, one in [*self.parts.items()] if "/inbox " in path and one.ended]
        read: set[str] = {one[1] for value in values for one in value}
        return tuple([one for one in [*self.sent.values()] if one.id not in read])

    @property
    def questions(self) -> tuple[RunQuestion, ...]:
        """The open questions, in the order in which they were asked. A cancelled run has none."""
        return () if self.cancelled is not None else tuple(self._open_questions())

    @property
    def unheard(self) -> tuple[RunQuestion, ...]:
        """The open questions, and those that another process answered after this program had stopped waiting.

        Such an answer can arrive at any moment. The run must continue with it, so it counts as a question until then.
        """
        return () if self.cancelled is not None else tuple(self._open_questions(unheard=True))

    def _open_questions(self, *, unheard: bool = False) -> Iterator[RunQuestion]:
        for part in [*self.parts.values()]:  # another thread can add a part
            if part.question is None:
                continue
            if not part.answered or (unheard and part.given_up and part.reply is not None):
                yield part.question

    @property
    def status(self) -> RunStatus:
        """The status of the run if no program runs it now."""
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
        """Return the state of the run for lists."""
        first = self.opened[0] if self.opened else self.submitted[0] if self.submitted else None
        began = now if first is None else first.at
        version = self.opened[-1].version if self.opened else ""
        text = "" if self.closed is None else self.closed.text
        return RunState(self.run, self.status, version, began, now, len(self.questions), text)


_BRANCHES: Final = re.compile(r"(each|all|race|fork|timeout)(\+\d+)?")


def _follows(name: str, part: Part, path: str) -> bool:
    """Return True if a part is in a sequence that continues after the part at a path, or ended because of it."""
    names, locations = name.split("/"), path.split("/")
    for index, (one, other) in enumerate(zip(names, locations, strict=False)):
        if one != other:
            return not _BRANCHES.fullmatch(names[index - 1])
    runs_again = part.ended is not None and part.ended.kind in ("broken", "refused")
    return len(names) < len(locations) and not runs_again
