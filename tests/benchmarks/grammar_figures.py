"""Our grammars beside those of llama.cpp's own converter, llguidance: `python tests/benchmarks/grammar_figures.py`.

First the calls of the prompts of `local_prompts.json`: seconds in all, and whether the texts are the same. Then schemas
that small models stumble over, each sampled at two temperatures: how many replies are valid, and how many end.
"""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, cast

from returns.result import Failure

from fxai.providers.local import assemble, grammar
from fxai.schema import JsonSchema

PROMPTS = Path(__file__).with_name("local_prompts.json")
GUIDANCE = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": ", "coerce_one_of": True}
NODE = {
    "type": "object",
    "properties": {
        "v": {"type": "integer", "minimum": 0, "maximum": 9},
        "k": {"type": "array", "items": {"$ref": "#/$defs/n"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["v"],
}
DATED = {"type": "string", "format": "date-time"}
FIELDS: dict[str, Any] = {
    "number above 0": {"type": "number", "exclusiveMinimum": 0},
    "number up to 0.55": {"type": "number", "exclusiveMinimum": 0, "maximum": 0.55},
    "integer of 60 kinds": {"anyOf": [{"type": "integer", "minimum": n} for n in range(60)]},
    "date-time": DATED,
    "pattern of 40 characters": {"type": "string", "pattern": "^([a-z]{2,5}-){3,9}x$", "maxLength": 40},
    "tree": {"$ref": "#/$defs/n"},
    "text of 400 to 900 characters": {"type": "string", "minLength": 400, "maxLength": 900},
    "3,000 listed values": {"enum": [f"value {n}" for n in range(3_000)]},
}
SCHEMAS: dict[str, Any] = {
    name: {"type": "object", "properties": {"v": field}, "required": ["v"], "$defs": {"n": NODE}}
    for name, field in FIELDS.items()
}
SCHEMAS["800 optional properties"] = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(800)}}


def guidance(schema: Any) -> str:
    """The same schema as llama.cpp converts it, its objects closed and its texts and arrays bounded as ours are."""
    whole = {**closed(schema), "x-guidance": GUIDANCE}
    return f'%llguidance {{}}\nstart: " " value\nvalue: %json {json.dumps(whole)}'


def closed(schema: Any) -> Any:
    """The schema with `additionalProperties: false`, `maxLength` and `maxItems` put in."""
    if schema.__class__ is list:
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {key: closed(value) for key, value in cast("dict[str, Any]", schema).items()}
    if inner.get("type") == "object" and "properties" in inner:
        inner["additionalProperties"] = False
    if inner.get("type") == "string" and not inner.keys() & {"enum", "pattern", "format"}:
        inner.setdefault("maxLength", 1000)
    if inner.get("type") == "array":
        inner.setdefault("maxItems", 16)
    return inner


def server() -> Any:
    """The default weights, loaded."""
    xllamacpp: Any = import_module("xllamacpp")
    params = xllamacpp.CommonParams()
    params.model.path = str(assemble())
    params.n_ctx, params.n_parallel, params.warmup, params.verbosity = 2048, 1, False, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1  # two wait for each other on a busy machine
    return xllamacpp.Server(params)


def complete(model: Any, prompt: str, text: str, temperature: float = 0.0) -> tuple[str, str, float]:
    """What the model writes within a grammar, why it ended, and the seconds."""
    started = time.perf_counter()
    options = {"max_tokens": 300, "temperature": temperature, "seed": 3, "cache_prompt": True, "grammar": text}
    choice = model.handle_completions({"prompt": prompt, **options})["choices"][0]
    return choice["text"], choice["finish_reason"], time.perf_counter() - started


def calls(model: Any) -> None:
    """The calls of the prompts, by both."""
    seconds, same, count = {"ours": 0.0, "llguidance": 0.0}, 0, 0
    for data in json.loads(PROMPTS.read_text("utf-8")).values():
        for request, name, _ in data["prompts"]:
            if name is None:
                continue
            tool = data["tools"][name]
            shown = "".join(f"{e['request']} -> {json.dumps(e['parameters'])}\n" for e in tool["input_examples"])
            ours = complete(model, f"{shown}{request} ->", grammar(tool["parameters"]).unwrap().after(" ").text)
            theirs = complete(model, f"{shown}{request} ->", guidance(tool["parameters"]))
            seconds = {"ours": seconds["ours"] + ours[2], "llguidance": seconds["llguidance"] + theirs[2]}
            same, count = same + (ours[0] == theirs[0]), count + 1
    print(f"{count} calls, {same} alike: ours {seconds['ours']:.1f} s, llguidance {seconds['llguidance']:.1f} s")


def judge(model: Any, schema: Any, text: str) -> str:
    """How many of two replies end and are valid, and the seconds of both."""
    valid = ended = 0
    seconds = 0.0
    for temperature in (0.0, 1.2):
        reply, why, took = complete(model, "A thing as JSON:", text, temperature)
        seconds, ended = seconds + took, ended + (why == "stop")
        with suppress(ValueError):
            valid += JsonSchema.of(schema).validate(json.loads(reply)) == ()
    return f"{ended}/2 end, {valid}/2 valid, {seconds:.1f} s"


def main() -> int:
    """Print both tables."""
    model = server()
    complete(model, "A:", grammar({"type": "null"}).unwrap().text)
    first = complete(model, "A:", guidance({"type": "null"}))[2]
    print(f"the first use of llguidance in a process: {first:.1f} s")
    calls(model)
    for name, schema in SCHEMAS.items():
        made = grammar(schema)
        ours = "refused" if isinstance(made, Failure) else judge(model, schema, made.unwrap().after(" ").text)
        print(f"{name}: ours {ours}; llguidance {judge(model, schema, guidance(schema))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
