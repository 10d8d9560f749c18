"""Plain functions."""

from __future__ import annotations

import asyncio
import inspect
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

import countersign
from countersign import ApprovalRequest, ApprovalRequired, Rejected, gated
from countersign.adapters import _shared
from countersign.adapters.functions import call_id


def test_accepted_function_runs_with_its_signature() -> None:
    gate, desk = desk_gate(), Desk()
    search = gated(gate)(desk.search)
    assert search("T-1") == "found T-1"
    assert inspect.signature(search) == inspect.signature(desk.search)
    assert codes(gate) == ["accepted"]


async def test_accepted_async_function_runs() -> None:
    gate = desk_gate()

    @gated(gate)
    async def search(query: str) -> str:
        return query

    assert inspect.iscoroutinefunction(search)
    assert await search(query="T-1") == "T-1"


def test_undisclosed_function_does_not_run() -> None:
    gate, desk = desk_gate(), Desk()
    with pytest.raises(Rejected) as refused:
        gated(gate, name="wipe")(desk.search)("T-1")
    assert refused.value.code == "UNDISCLOSED_TOOL"
    assert (desk.runs, codes(gate)) == ([], ["UNDISCLOSED_TOOL"])


@pytest.mark.parametrize("is_async", [False, True])
def test_fault_in_a_check_is_one_refusal(is_async: bool) -> None:
    gate, desk = desk_gate(fault="check"), Desk()

    async def asearch(query: str) -> str:
        return desk.search(query)

    search: Any = gated(gate, name="search")(asearch if is_async else desk.search)
    for _ in range(3):
        with call_id("c1"), pytest.raises(Rejected) as refused:
            asyncio.run(search("T-1")) if is_async else search("T-1")
        assert refused.value.code == "CHECK_REFUSED"
    assert (desk.runs, codes(gate)) == ([], ["CHECK_REFUSED"])


def test_fault_of_the_gate_itself_is_a_refusal() -> None:
    gate, desk = desk_gate(), Desk()

    class Broken:
        def __getattr__(self, name: str) -> Any:
            raise RuntimeError("broken")

    with pytest.raises(Rejected) as refused:
        gated(Broken())(desk.search)("T-1")  # type: ignore[arg-type]
    assert (refused.value.code, desk.runs, codes(gate)) == ("INTERNAL", [], [])


def test_approved_call_runs_once_after_json() -> None:
    gate, desk = desk_gate(), Desk()
    refund = gated(gate)(desk.refund)
    with pytest.raises(ApprovalRequired) as refused:
        refund(5)
    request = ApprovalRequest.from_json(refused.value.request.to_json())
    gate.present(gate.approve(request, "bob", "5m"))
    for _ in range(2):
        with call_id(request.call_id):
            assert refund(5) == "refunded 5"
    assert (desk.runs, codes(gate)) == ([5], ["APPROVAL_REQUIRED", "accepted"])


def test_changed_arguments_are_refused() -> None:
    gate, desk = desk_gate(), Desk()
    refund = gated(gate)(desk.refund)
    with call_id("c1"), pytest.raises(ApprovalRequired) as refused:
        refund(5)
    gate.present(gate.approve(refused.value.request, "bob", "5m"))
    with call_id("c1"), pytest.raises(Rejected) as changed:
        refund(500)
    assert (changed.value.code, desk.runs) == ("CALL_ID_REUSED", [])


def test_denied_call_does_not_run() -> None:
    gate, desk = desk_gate(), Desk()
    refund = gated(gate)(desk.refund)
    with call_id("c1"), pytest.raises(ApprovalRequired) as refused:
        refund(5)
    gate.deny(refused.value.request, "bob")
    with call_id("c1"), pytest.raises(Rejected):
        refund(5)
    assert desk.runs == []


def test_failed_call_does_not_run_again() -> None:
    gate, runs = desk_gate(), []

    @gated(gate)
    def search(query: str) -> str:
        runs.append(query)
        raise LookupError("the tool's own")

    with call_id("c1"), pytest.raises(LookupError):
        search("T-1")
    for _ in range(3):
        with call_id("c1"), pytest.raises(Rejected):
            search("T-1")
    assert (len(runs), codes(gate)) == (1, ["accepted", "CALL_ID_REUSED"])


def test_parallel_tries_of_one_call_run_it_once() -> None:
    gate, desk = desk_gate(), Desk()
    search = gated(gate)(desk.search)

    def attempt(_: int) -> bool:
        with call_id("c1"):
            try:
                return search("T-1") == "found T-1"
            except Rejected:
                return False

    with ThreadPoolExecutor(16) as pool:
        assert any(pool.map(attempt, range(64)))
    assert desk.runs == ["T-1"]


def test_calls_of_a_call_have_ids_of_their_own() -> None:
    gate = countersign.testing.gate(["outer", "inner"])  # type: ignore[attr-defined]

    @gated(gate)
    def inner(x: int) -> int:
        return x

    @gated(gate)
    def outer(x: int) -> int:
        return inner(x) + inner(x)

    with call_id("c1"):
        assert outer(1) == 2
    assert len({decision["call_id"] for decision in gate.decisions()}) == 3


@pytest.mark.parametrize("args", [{"query": ("T-1",)}, {"query": float("nan")}, {"query": object()}])
def test_argument_that_is_no_json_is_refused(args: dict[str, Any]) -> None:
    gate, desk = desk_gate(), Desk()
    with pytest.raises(Rejected) as refused:
        gated(gate)(desk.search)(**args)
    assert (refused.value.code, desk.runs, codes(gate)) == ("MALFORMED_CALL", [], ["MALFORMED_CALL"])


def test_function_gated_twice_is_an_error() -> None:
    gate, desk = desk_gate(), Desk()
    with pytest.raises(TypeError, match="gated already"):
        gated(gate)(gated(gate)(desk.search))


def test_function_without_names_for_arguments_is_an_error() -> None:
    with pytest.raises(TypeError, match="without names"):
        gated(desk_gate())(lambda *rest: rest)


def test_kept_results_are_bounded() -> None:
    gate, desk = desk_gate(), Desk()
    search = gated(gate)(desk.search)
    for number in range(_shared.KEPT + 10):
        with call_id(f"c{number}"):
            search("T-1")
    calls = _shared.calls_of(gate)
    assert len(calls.kept) == len(calls.seen) == _shared.KEPT
    with call_id("c0"), pytest.raises(Rejected):
        search("T-1")


@pytest.mark.parametrize(("sent", "arrived", "same"), [
    ({"a": 5}, {"a": 5.0, "b": None}, True),
    ({"a": "10"}, {"a": 10.0}, False),
    ({"a": 1}, {"a": True}, False),
    ({"a": 1}, {}, False),
    ({"a": [{"b": 1}]}, {"a": ({"b": 1, "c": 2},)}, True),
    ({"a": [1, 2]}, {"a": [1]}, False),
    ({"a": None}, {"a": 0}, False),
    ({"a": 2**53 + 1}, {"a": float(2**53)}, False),
])
def test_arrived_values_are_those_that_were_sent(sent: Any, arrived: Any, same: bool) -> None:
    assert _shared.is_same(sent, arrived) is same
    assert _shared.is_same(json.dumps(sent), arrived) is same
