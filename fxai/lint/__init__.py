"""Floor 6. Lint: what is wrong, or likely to go wrong, with tools, found before any model sees them."""

from __future__ import annotations

from fxai.lint.linter import handler_findings, lint
from fxai.lint.rule import RULES, Finding, Provider, Rule, Severity, Subject

__all__ = ["RULES", "Finding", "Provider", "Rule", "Severity", "Subject", "handler_findings", "lint"]
