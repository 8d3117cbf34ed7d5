"""What the replay finds, by recording; and as a table by server: `python -m tests.kit.recorded_findings`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import msgspec
from anthropic.types.beta import BetaMessageParam
from openai.types.chat import ChatCompletionAssistantMessageParam
from openai.types.responses import ResponseInputItemParam

from fxai.messages import AnyPart, Response
from tests.kit.recorded_leaves import body_of, lost_leaves, pattern, read_whole, unheard_leaves
from tests.kit.recorded_losses import APART, CHANGED, FOREIGN, LOST, OTHERS, UNHEARD, unexplained
from tests.kit.recorded_turns import differences, items_of, items_sent, recorded_turns
from tests.kit.recordings import WIRES, Replayed, exchanges, replays
from tests.kit.sdkcheck import faults

__all__ = ["Finding", "findings", "table"]


class Finding(NamedTuple):
    """What the replay found of one exchange: places, as the lists of losses name them."""

    replay: Replayed
    lost: frozenset[str]
    changed: frozenset[str]
    others: frozenset[str] | None
    """None where no recorded request holds the answer."""
    unheard: frozenset[str]
    foreign: frozenset[str]
    apart: str
    """How the stream's parts are not those of the whole answer; empty where they are."""

    @property
    def unexplained(self) -> list[str]:
        """Everything that no list explains."""
        wire = self.replay.exchange.wire
        found = [
            *unexplained(self.lost, LOST[wire]),
            *unexplained(self.changed, CHANGED[wire]),
            *unexplained(self.others or (), OTHERS[wire]),
            *unexplained(self.unheard, UNHEARD[wire]),
            *unexplained(self.foreign, FOREIGN[wire]),
        ]
        return found + ([self.apart] if self.apart and self.replay.exchange.file not in APART[wire] else [])


@cache
def findings(wire: str) -> tuple[Finding, ...]:
    """What the replay found of each exchange whose answer is one."""
    turns = {id(exchange): items for exchange, items in recorded_turns(exchanges(wire))}
    return tuple(_finding(one, turns.get(id(one.exchange))) for one in replays(wire) if one.failure is None)


def _finding(replay: Replayed, recorded: list[Any] | None) -> Finding:
    exchange = replay.exchange
    body, events = body_of(exchange)
    read = read_whole(exchange)
    parts = read(body)
    nothing = frozenset[str]()
    if not isinstance(parts, tuple):
        return Finding(replay, nothing, nothing, None, nothing, nothing, f"nobody can read the whole answer: {parts}")
    given = [Response.from_stream(replay.parts).content, *([] if replay.at_once is None else [replay.at_once])]
    apart = [_apart(one, parts) for one in given if tuple(map(_as_whole, one)) != parts]
    sent = [] if replay.next is None else items_sent(exchange.wire, replay.next)
    came = items_of(exchange.wire, body)
    return Finding(
        replay,
        frozenset(map(pattern, lost_leaves(body, read, parts))),
        frozenset(differences(came, sent)),
        None if recorded is None else frozenset(differences(recorded, sent)),
        frozenset(unheard_leaves(events, body)),
        frozenset(str(item.get("type")) for item in sent if _is_foreign(exchange.wire, item)),
        "; ".join(apart),
    )


def _as_whole(part: AnyPart) -> AnyPart:
    """A part of a stream as a whole answer has it: a call that was cut has its text as parameters."""
    if part.type != "tool-call" or part.params_text is None:
        return part
    return msgspec.structs.replace(part, params=part.params_text, params_text=None)


def _apart(streamed: Any, whole: Any) -> str:
    first = next(
        (pair for pair in zip(streamed, whole, strict=False) if pair[0] != pair[1]), (len(streamed), len(whole))
    )
    return f"the stream gave {str(first[0])[:200]}, and the whole answer {str(first[1])[:200]}"


def _is_foreign(wire: str, item: dict[str, Any]) -> bool:
    match wire:
        case "anthropic":
            return bool(faults(BetaMessageParam, {"role": "assistant", "content": [item]}))
        case "responses":
            return bool(faults(ResponseInputItemParam, item))
        case _:
            message = {key: one for key, one in item.items() if key not in ("type", *_THEIRS)}
            return bool(faults(ChatCompletionAssistantMessageParam, message))


# Fields that servers of others write and take back; OpenAI's own API has them not.
_THEIRS = ("annotations", "reasoning", "reasoning_content", "reasoning_details")


def table(wires: Iterable[str] = WIRES) -> str:
    """What was fed, what came whole, and what was lost, by wire and server, as a Markdown table."""
    lines = [
        "| Wire | Server | Fed | Whole | Errors, typed | Lost with a reason | Lost |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for wire in wires:
        rows: dict[str, Counter[str]] = {}
        found = {id(one.replay.exchange): one for one in findings(wire)}
        for replay in replays(wire):
            row = rows.setdefault(replay.exchange.host, Counter())
            one = found.get(id(replay.exchange))
            row["fed"] += 1
            row["errors"] += one is None
            row["whole"] += one is not None and not one.unexplained
            row["lost"] += one is not None and bool(one.unexplained)
            row["reason"] += 0 if one is None else len(one.lost) - len(unexplained(one.lost, LOST[wire]))
        for host, row in sorted(rows.items()):
            counts = (row[name] for name in ("fed", "whole", "errors", "reason", "lost"))
            lines.append(f"| {wire} | {host} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(f"{table(sys.argv[1:] or WIRES)}\n")
