"""The failures of durable runs, and the questions of a run.

>>> print(RunOwned("order-17"))
the run 'order-17' continues in another program. Wait until that program ends.
>>> question = RunQuestion("order-17", "/clerk/1/0", "doubt", "charge", {"cents": 5}, "the call did not finish")
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
"""The kind of an answer to a question.

`approve`, `deny`: The call may run, or not. `result`, `failure`: the result of the call, in the type that the tool
declares. `again`: the call did not run, or may run twice. `unknown`: the outcome stays unknown, and the model sees
that.
"""

_REPLIES: Final[Mapping[QuestionKind, tuple[ReplyKind, ...]]] = {
    "approval": ("approve", "deny"),
    "result": ("result", "failure"),
    "doubt": ("result", "failure", "again", "unknown"),
}


@final
class RunQuestion(msgspec.Struct, frozen=True, omit_defaults=True):
    """A question to a person about a call of a run."""

    run: str
    """The name of the run."""
    path: str
    """The path of the call in the run."""
    kind: QuestionKind
    """The kind of the question."""
    tool: str
    """The name of the tool, or of the step of the program."""
    params: Any = None
    """The parameters as a JSON value."""
    reason: str = ""
    """The reason for the question."""
    call_id: str = ""
    """The ID that the model gave the call."""
    approval_id: str = ""
    """The ID of the approval request in the history. Empty if the question is not an approval."""
    digest: str = ""
    """The digest of the tool, its schemas, and the parameters. Empty if the question is not an approval."""
    asked: float = 0.0
    """The time of the question, in seconds since 1970."""

    @property
    def id(self) -> str:
        """The ID of the question. It is unique in the run."""
        return blake2b(self.path.encode(), digest_size=5).hexdigest()

    @property
    def replies(self) -> tuple[ReplyKind, ...]:
        """The kinds of answers that the question allows."""
        return _REPLIES[self.kind]

    @override
    def __str__(self) -> str:
        return f"{self.id}  {self.kind} of {self.tool}: {self.reason}"

    @override
    def __hash__(self) -> int:
        return hash((self.run, self.path))


def explain_questions(run: str, questions: Sequence[RunQuestion]) -> str:
    """Return the questions, one in each line, and the command that answers all of them.

    >>> asked = RunQuestion("order-17", "/step mail", "doubt", "mail", None, "the step started but did not finish")
    >>> print(explain_questions("order-17", [asked]))
    1 open question:
      0cb0edd4f8  doubt of mail: the step started but did not finish
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
    """The kind of the answer."""
    value: Any = None
    """A JSON value of the type that the tool declares. Only `result` and `failure` have one."""
    reason: str | None = None
    """The text that the model reads. Only `deny` has one."""

    @staticmethod
    def approve() -> Reply:
        """Return the reply that the call may run."""
        return Reply("approve")

    @staticmethod
    def deny(reason: str | None = None) -> Reply:
        """Return the reply that the call must not run. The model reads the reason."""
        return Reply("deny", None, reason)

    @staticmethod
    def result(value: Any, *, is_failure: bool = False) -> Reply:
        """Return the reply with the result of the call as a JSON value."""
        return Reply("failure" if is_failure else "result", value)

    @staticmethod
    def again() -> Reply:
        """Return the reply that fxai must run a call in doubt again."""
        return Reply("again")

    @staticmethod
    def unknown() -> Reply:
        """Return the reply that the outcome of a call in doubt is unknown.

        The model sees that, and fxai does not run the call again.
        """
        return Reply("unknown")

    @override
    def __hash__(self) -> int:
        return hash(self.kind)


# -- failures


class DurableError(LeftRunError):
    """Stops a durable run from inside. Its `failure` is a `DurableFailure`, or the `OutcomeUnknown` of a call."""

    failure: Any
    """The failure."""


class DurableFailure(msgspec.Struct, frozen=True, tag_field="type"):
    """The failure of a durable run that cannot continue here. Each value has one of the classes in `exact`."""

    run: str
    """The name of the run."""

    @property
    def exact(self) -> AnyDurableFailure:
        """The failure itself, as a union of all classes for an exhaustive `match`."""
        own: Any = self
        exact: AnyDurableFailure = own
        return exact


@final
class RunOwned(DurableFailure, frozen=True, tag="owned"):
    """Another program runs the run."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} continues in another program. Wait until that program ends."


@final
class RunUnknown(DurableFailure, frozen=True, tag="unknown-run"):
    """The run does not exist."""

    location: str
    """The location of the store."""

    @override
    def __str__(self) -> str:
        return f"run {self.run!r} does not exist in {self.location}. To list the runs, run fxai runs list."


@final
class RunWaiting(DurableFailure, frozen=True, tag="waiting"):
    """The run waits for answers. Run it again after the answers are recorded."""

    questions: tuple[RunQuestion, ...]
    """The open questions. Empty if all answers arrived after the program stopped waiting."""

    @override
    def __str__(self) -> str:
        if not self.questions:
            return f"the run {self.run!r} stopped just before its answers arrived. Resume it."
        return f"the run {self.run!r} waits for answers. {explain_questions(self.run, self.questions)}"

    @override
    def __hash__(self) -> int:
        return hash((self.run, self.questions))


@final
class RunAsleep(DurableFailure, frozen=True, tag="asleep"):
    """The run sleeps and is suspended. Only its worker sees this failure."""

    seconds: float
    """Seconds until the end of the sleep."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} sleeps for {self.seconds:g} s. It continues when a program runs it again."


@final
class QuestionUnknown(DurableFailure, frozen=True, tag="unknown-question"):
    """The run has no open question with this ID, or the question does not allow this answer."""

    question: str
    """The ID of the question."""
    why: str
    """The reason."""

    @override
    def __str__(self) -> str:
        return f"cannot answer the question {self.question!r} of the run {self.run!r}: {self.why}"


@final
class RunCancelled(DurableFailure, frozen=True, tag="cancelled"):
    """A user cancelled the run. It does not continue."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} was cancelled. Start another run."


@final
class RunEnded(DurableFailure, frozen=True, tag="ended"):
    """The run ended before the message, so that it cannot read the message."""

    @override
    def __str__(self) -> str:
        return f"the run {self.run!r} has ended and reads no message. Start another run with the message."


@final
class ProgramChanged(DurableFailure, frozen=True, tag="changed"):
    """The program differs from the program that started the run."""

    changes: tuple[str, ...]
    """The differences from the recorded program."""

    @override
    def __str__(self) -> str:
        what = "; ".join(self.changes)
        remedy = "Run the program that started it, or set on_change='continue' to continue with this program."
        return f"the program of the run {self.run!r} changed: {what}. {remedy}"


@final
class JournalFailure(DurableFailure, frozen=True, tag="journal"):
    """The journal of the run cannot be read or written. fxai runs no more steps."""

    description: str
    """The reason."""

    @override
    def __str__(self) -> str:
        journal = f"journal of the run {self.run!r}" if self.run else "store of the runs"
        return f"the {journal}: {self.description}"


AnyDurableFailure: TypeAlias = (
    RunOwned | RunUnknown | RunWaiting | RunAsleep | QuestionUnknown | RunCancelled | ProgramChanged | JournalFailure
)
"""The union of all classes of `DurableFailure`."""
