"""Lint: what is wrong, or likely to go wrong, with tools before any model sees them."""

from __future__ import annotations

from fxai.cli.lint.finding import Finding, Severity
from fxai.cli.lint.linting import linted
from fxai.cli.lint.rule import RULES, Rule
from fxai.cli.lint.subject import Provider, Subject

__all__ = ["RULES", "Finding", "Provider", "Rule", "Severity", "Subject", "linted"]
