"""Findings as one self-contained, interactive HTML page."""

from __future__ import annotations

from equipoise.audit.report.page import render

__all__ = ["render"]
