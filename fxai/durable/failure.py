"""Failures of durable runs, and the questions that they wait for.

>>> print(RunOwned("order-17"))
the run 'order-17' goes on in another program; wait until that has ended
>>> question = Question("order-17", "/clerk/1/0", "doubt", "charge", {"cents": 5}, "it was begun, and not seen to end")
>>> question.id, question.replies
('...', ('result', 'failure', 'again', 'unknown'))
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from shlex import quote
from typing import Any, Final, Literal, TypeAlias, final

import msgspec
from typing_extensions import override

from fxai.models.interceptor import LeftRunError
from fxai.schema.display import in_line, one_line

QuestionKind: TypeAlias = Literal["approval", "result", "doubt"]
"""The kind of a question: may a call run, what did an external call return, or how did a call in doubt end?"""

ReplyKind: TypeAlias = Literal["approve", "deny", "result", "failure", "again", "unknown"]
"""How a question may be answered.

`approve`, `deny`: the call may run, or not. `result`, `failure`: what the call came to, as the tool declares it.
`again`: it did not run, or may run twice. `unknown`: nobody knows, and the model is told so.
"""

_REPLIES: Final[Mapping[QuestionKind, tuple[ReplyKind, ...]]] = {
    "approval": ("approve", "deny"),
    "result": ("result", "failure"),
    "doubt": ("result", "failure", "again", "unknown"),
}


@final
class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call that a run waits for a person about."""

    run: str
    path: str
    """The path of the call in the run."""
    kind: QuestionKind
    tool: str
    """The name of the tool, or of the step of the program."""
    params: Any = None
    """The parameters, as plain JSON data."""
    reason: str = ""
    """Why it is asked."""
    call_id: str = ""
    """The model's id of the call."""
    approval_id: str = ""
    """Of an approval: what the request in the history is called."""
    digest: str = ""
    """Of an approval: what it is bound to, the tool with its schemas and the parameters."""
    asked: float = 0.0
    """When, in seconds since 1970."""

    @property
    def id(self) -> str:
        """A short name, unique in the run."""
        return blake2b(self.path.encode(), digest_size=5).hexdigest()

    @property
    def replies(self) -> tuple[ReplyKind, ...]:
        """How it may be answered."""
        return _REPLIES[self.kind]

    @override
    def __str__(self) -> str:
        return f"{self.id}  {self.kind} of {self.tool}: {self.reason}"

    @override
    def __hash__(self) -> int:
        return hash((self.run, self.path))


def explain_questions(run: str, questions: Sequence[Question]) -> str:
    """Return the questions, one in each line, and the command that answers all of them.

    >>> asked = Question("order-17", "/step mail", "doubt", "mail", None, "it was begun, and not seen to end")
    >>> print(explain_questions("order-17", [asked]))
    1 open question:
      0cb0edd4f8  doubt of mail: it was begun, and not seen to end
    Answer all in one command, then run the program again:
      fxai runs answer order-17 0cb0edd4f8=REPLY
    REPLY: again, unknown, or the result as JSON, for a doubt.
    A step or call that may run twice needs no answer: step(…, idempotent=True), or annotate the tool with Idempotent.
    """
    number = len(questions)
    lines = [f"{number} open question{'s' * (number != 1)}:"]
    for one in questions:
        params = "" if one.params is None else f" {in_line(one.params)}"
        lines.append(f"  {one.id}  {one.kind} of {one_line(one.tool)}{params}: {one.reason}")
    pairs = " ".join(f"{one.id}=REPLY" for one in questions)
    lines += ["Answer all in one command, then run the program again:", f"  fxai runs answer {quote(run)} {pairs}"]
    kinds: dict[QuestionKind, None] = dict.fromkeys(one.kind for one in questions)
    lines.append("REPLY: " + "; ".join(_HOW[kind] for kind in kinds) + ".")
    if "doubt" in kinds:
        lines.append(_IDEMPOTENT)
    return "\n".join(lines)


_HOW: Final[Mapping[QuestionKind, str]] = {
    "approval": "approve or deny, for an approval",
    "result": "the result as JSON, for a result from outside",
    "doubt": "again, unknown, or the result as JSON, for a doubt",
}
_IDEMPOTENT: Final = (
    "A step or call that may run twice needs no answer: step(…, idempotent=True), or annotate the tool with Idempotent."
)


@final
class Reply(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer to a question."""

    kind: ReplyKind
    value: Any = None
    """Of `result` and `failure`: plain JSON data that fits what the tool declares."""
    reason: str | None = None
    """Of `deny`: what the model reads."""

    @staticmethod
    def approve() -> Reply:
        """The call may run."""
        return Reply("approve")

    @staticmethod
    def deny(reason: str | None = None) -> Reply:
        """The call may not run; the model reads why."""
        return Reply("deny", None, reason)

    @staticmethod
    def result(value: Any, *, is_failure: bool = False) -> Reply:
        """What the call gave, as plain JSON data."""
        return Reply("failure" if is_failure else "result", value)

    @staticmethod
    def again() -> Reply:
        """A call in doubt is to be run again."""
        return Reply("again")

    @staticmethod
    def unknown() -> Reply:
        """Nobody knows what became of a call in doubt: the model reads that, and the call is not run again."""
        return Reply("unknown")

    @override
    def __hash__(self) -> int:
        return hash(self.kind)


# -- failures


class DurableError(LeftRunError):
    """Leaves a durable run from inside; its `failure` is a `DurableFailure`, or the `OutcomeUnknown` of a call."""

    failure: Any


class DurableFailure(msgspec.Struct, frozen=True, tag_field="type"):
    """A durable run does not go on here. One class, as checkers write out unions; each is one of those in `exact`."""

    run: str

    @property
    def exact(self) -> AnyDurableFailure:
        """Itself, as one of all that there are: what a `match` takes that is to leave out none."""
        own: Any = self
        exact: AnyDurableFailure = own
        return exact


@final
class RunOwned(DurableFailure, frozen=True, tag="owned"):
    """Another program goes on with the run."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} goes on in another program; wait until that has ended"


@final
class RunUnknown(DurableFailure, frozen=True, tag="unknown-run"):
    """There is no such run."""

    place: str

    @override
    def __str__(self) -> str:
        return f"there is no run {self.run!r} in {self.place}; `fxai runs list` shows what there is"


@final
class RunWaiting(DurableFailure, frozen=True, tag="waiting"):
    """The run waits for answers; it goes on when they are there and it is run again."""

    questions: tuple[Question, ...]
    """The open questions; empty if all were answered after the program stopped waiting for them."""

    @override
    def __str__(self) -> str:
        if not self.questions:
            return f"the run {self.run!r} stopped just before its answers arrived; resume it"
        return f"the run {self.run!r} waits for answers. {explain_questions(self.run, self.questions)}"

    @override
    def __hash__(self) -> int:
        return hash((self.run, self.questions))


@final
class RunAsleep(DurableFailure, frozen=True, tag="asleep"):
    """The run sleeps long, and leaves its worker meanwhile; no other program sees this."""

    seconds: float
    """How long it sleeps."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} sleeps for {self.seconds:g} s, and goes on when it is run again"


@final
class QuestionUnknown(DurableFailure, frozen=True, tag="unknown-question"):
    """The run has no such open question, or it cannot be answered so."""

    question: str
    why: str

    @override
    def __str__(self) -> str:
        return f"the question {self.question!r} of the run {self.run!r} cannot be answered: {self.why}"


@final
class RunCancelled(DurableFailure, frozen=True, tag="cancelled"):
    """Somebody cancelled the run; it does not go on."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} was cancelled; begin another one"


@final
class ProgramChanged(DurableFailure, frozen=True, tag="changed"):
    """The program is not the one that began the run."""

    changes: tuple[str, ...]

    @override
    def __str__(self) -> str:
        what = "; ".join(self.changes)
        remedy = "run the program that began it, or say on_change='continue' to go on with this one"
        return f"the program of the run {self.run!r} changed: {what}; {remedy}"


@final
class JournalFailure(DurableFailure, frozen=True, tag="journal"):
    """The journal of the run could not be read or written: nothing more is run."""

    description: str

    @override
    def __str__(self) -> str:
        return f"the journal of the run {self.run!r}: {self.description}"


AnyDurableFailure: TypeAlias = (
    RunOwned | RunUnknown | RunWaiting | RunAsleep | QuestionUnknown | RunCancelled | ProgramChanged | JournalFailure
)
"""Every `DurableFailure` that there is."""
