"""Structured logs on standard error: one JSON object a line, or lines for people on a terminal."""

from __future__ import annotations

import logging
import sys
from typing import Any, Literal, TextIO

import structlog


def configure(
    level: str = "info", form: Literal["json", "console"] = "json", stream: TextIO | None = None, **bound: Any
) -> None:
    """Set up logging for this process; ``bound`` (service, cluster) stands in every line."""
    out = stream or sys.stderr
    threshold = getattr(logging, level.upper())
    render: Any = structlog.processors.JSONRenderer(sort_keys=True)
    if form == "console":
        render = structlog.dev.ConsoleRenderer(colors=out.isatty())
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            render,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.PrintLoggerFactory(out),
        cache_logger_on_first_use=False,
    )
    logging.basicConfig(level=max(threshold, logging.WARNING), stream=out, format="%(name)s: %(message)s", force=True)
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(**bound)
