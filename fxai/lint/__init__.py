"""Level 6. Lint tools. Use it to find problems of tools before a model sees them."""

from __future__ import annotations

from fxai.lint.linter import handler_findings, lint
from fxai.lint.rule import RULES, Finding, Provider, Rule, Severity, Subject

__all__ = ["RULES", "Finding", "Provider", "Rule", "Severity", "Subject", "handler_findings", "lint"]
