"""Level 6. Evaluation: cases with laws, judges, and results with confidence. Use them to measure an agent.

>>> calls("search").name
'calls search'
"""

from __future__ import annotations

from fxai.evaluation.evaluation import (
    AnyEvaluation,
    Case,
    Evaluation,
    Judgement,
    RunLaw,
    Verdict,
    answer_contains,
    answer_matches,
    at_most,
    calls,
    calls_in_order,
    model_judge,
    never_calls,
    output_equals,
    output_satisfies,
)
from fxai.evaluation.result import (
    CaseResult,
    EvaluationResult,
    LawResult,
    RateChange,
    RateError,
    compare_rates,
    to_svg,
    wilson,
)

__all__ = [
    "AnyEvaluation",
    "Case",
    "CaseResult",
    "Evaluation",
    "EvaluationResult",
    "Judgement",
    "LawResult",
    "RateChange",
    "RateError",
    "RunLaw",
    "Verdict",
    "answer_contains",
    "answer_matches",
    "at_most",
    "calls",
    "calls_in_order",
    "compare_rates",
    "model_judge",
    "never_calls",
    "output_equals",
    "output_satisfies",
    "to_svg",
    "wilson",
]
