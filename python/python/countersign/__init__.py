"""Every tool call, countersigned: the gate between an agent's decision to call a tool and the call."""

from __future__ import annotations

import atexit as _atexit
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from ._errors import AnswerError, ApprovalRequired, LoadError, Rejected, RequestError, SessionError
from ._native import ApprovalRequest, Approvals, Call, Countersign, Gate, Log, Proposals, digest, settle
from ._tools import tools_json

if _TYPE_CHECKING:
    from .adapters.functions import gated

__all__ = [
    "AnswerError",
    "ApprovalRequest",
    "ApprovalRequired",
    "Approvals",
    "Call",
    "Countersign",
    "Gate",
    "LoadError",
    "Log",
    "Proposals",
    "Rejected",
    "RequestError",
    "SessionError",
    "digest",
    "gated",
    "settle",
    "tools_json",
]

# Outcomes of calls that no one finished are recorded before the process ends.
_atexit.register(settle)


def __getattr__(name: str) -> _Any:
    if name == "gated":
        # Loaded when it is first used.
        from .adapters.functions import gated

        return gated
    raise AttributeError(name)
