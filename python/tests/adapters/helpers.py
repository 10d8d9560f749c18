"""What the tests of all hosts share."""

from __future__ import annotations

from typing import Any

from countersign import Gate
from countersign.testing import gate as testing_gate

REFUND = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"],
          "additionalProperties": False}


class Desk:
    """A help desk: its tools count how often they ran, and with which amounts."""

    def __init__(self) -> None:
        self.runs: list[Any] = []

    def search(self, query: str) -> str:
        self.runs.append(query)
        return f"found {query}"

    def refund(self, amount: float) -> str:
        self.runs.append(amount)
        return f"refunded {amount}"


def desk_gate(**options: Any) -> Gate:
    return testing_gate(["search"], ["refund"], **options)


def codes(gate: Gate) -> list[str]:
    """Decisions on record: the code of each refusal, `accepted` else."""
    return [decision["code"] or "accepted" for decision in gate.decisions()]
