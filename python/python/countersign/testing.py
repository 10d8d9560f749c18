"""For tests of hosts: a gate whose registry, keys and record are in memory. It protects nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from ._native import Gate, Proposals, testing_gate

SERVER = "test"


def gate(
    allow: Iterable[str] = (),
    approve: Iterable[str] = (),
    fault: str | None = None,
    *,
    session: str = "session-1",
    principal: str = "ada@example.com",
    goal: str | None = "Answer ticket T-1001",
    schemas: dict[str, Any] | None = None,
    impacts: dict[str, str] | None = None,
    proposals: Proposals | None = None,
    checks: dict[str, Callable[[str, dict[str, Any]], str | bool | None]] | None = None,
) -> Gate:
    """Opens a gate that allows the tools of `allow`, and those of `approve` with an approval; all are of the server `test`.

    `schemas` has the schema of arguments by tool; any object passes without one. `impacts` has the impact of tools that are not
    `read`, or `write` with an approval. With `fault="check"`, a check panics inside
    the gate: each call is refused.
    """
    needed = dict.fromkeys(allow, "not_required") | dict.fromkeys(approve, "required")
    # An agent has at least one tool.
    needed = needed or {"none": "required"}
    tools = [
        {
            "server": SERVER,
            "name": name,
            "impact": (impacts or {}).get(name, "read" if approval == "not_required" else "write"),
            "approval": approval,
            "args_schema": (schemas or {}).get(name, {"type": "object"}),
        }
        for name, approval in needed.items()
    ]
    agent = {
        "agent": "test-bot",
        "version": 1,
        "registered_by": "test",
        "max_session": "1h",
        "output_tags": [],
        "tools": [{"server": SERVER, "name": tool["name"]} for tool in tools],
    }
    draft = {
        "format": "countersign-registry-1",
        "version": 1,
        "agents": [agent],
        "tools": tools,
        "revoked": {"agents": [], "keys": [], "snapshots": []},
    }
    return testing_gate(
        json.dumps(draft),
        "test-bot",
        session=session,
        principal=principal,
        goal=goal,
        proposals=proposals,
        checks=checks,
        fault=fault,
    )
