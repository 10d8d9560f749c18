"""Pydantic AI, with a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, models
from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from countersign import ApprovalRequest, Gate
from countersign.adapters.pydantic_ai import GateCapability, gated_toolset

models.ALLOW_MODEL_REQUESTS = False


PLACES = ["toolset", "capability", "both"]
everywhere = pytest.mark.parametrize("place", PLACES)


def bot(gate: Gate, desk: Desk, *calls: tuple[str, Any, str], place: str = "toolset") -> Any:
    def answer(messages: Any, info: Any) -> ModelResponse:
        if len(messages) > 1:
            return ModelResponse([TextPart("done")])
        return ModelResponse([ToolCallPart(name, args, tool_call_id=id) for name, args, id in calls])

    toolset: Any = FunctionToolset[Any]([desk.search, desk.refund])
    capabilities = [] if place == "toolset" else [GateCapability(gate)]
    if place != "capability":
        toolset = gated_toolset(toolset, gate)
    return Agent(FunctionModel(answer), toolsets=[toolset], capabilities=capabilities,
                 output_type=[str, DeferredToolRequests])


def returned(result: Any) -> list[str]:
    return [str(part.content) for message in result.all_messages() for part in message.parts
            if isinstance(part, ToolReturnPart)]


@everywhere
async def test_accepted_call_is_one_decision(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    assert returned(await bot(gate, desk, ("search", {"query": "a"}, "c1"), place=place).run("go")) == ["found a"]
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


@everywhere
async def test_fault_is_one_refusal(place: str) -> None:
    gate, desk = desk_gate(fault="check"), Desk()
    result = await bot(gate, desk, ("search", '{"query": "a"}', "c1"), place=place).run("go")
    assert "CHECK_REFUSED" in returned(result)[0]
    assert (desk.runs, codes(gate)) == ([], ["CHECK_REFUSED"])


@everywhere
async def test_value_that_the_host_would_change_is_refused(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    await bot(gate, desk, ("refund", '{"amount": "10"}', "c1"), place=place).run("go")
    assert (desk.runs, codes(gate)) == ([], ["MALFORMED_CALL"])


@everywhere
async def test_refusal_stops_no_parallel_call(place: str) -> None:
    gate, desk = desk_gate(fault=None), Desk()
    calls = [("refund", '{"amount": "10"}', "c1"), ("search", {"query": "a"}, "c2")]
    result = await bot(gate, desk, *calls, place=place).run("go")
    assert "found a" in returned(result) and desk.runs == ["a"]


@everywhere
async def test_repeated_id_runs_once(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    for query in ("a", "a", "b"):
        result = await bot(gate, desk, ("search", {"query": query}, "c1"), place=place).run("go")
    assert "CALL_ID_REUSED" in returned(result)[0]
    assert (desk.runs, codes(gate)) == (["a"], ["accepted", "CALL_ID_REUSED"])


async def test_unknown_name_is_undisclosed_once() -> None:
    gate, desk = desk_gate(), Desk()
    await bot(gate, desk, ("wipe", {}, "c1"), place="both").run("go")
    assert (desk.runs, codes(gate)) == ([], ["UNDISCLOSED_TOOL"])


@everywhere
@pytest.mark.parametrize("answer", ["token", "yes", "edited"])
async def test_only_our_token_lets_a_paused_call_run(answer: str, place: str) -> None:
    gate, desk = desk_gate(), Desk()
    agent = bot(gate, desk, ("refund", {"amount": 5}, "c1"), place=place)
    result = await agent.run("go")
    request = json.dumps(result.output.metadata["c1"]["countersign_request"])
    token = gate.approve(ApprovalRequest.from_json(request), "bob", "5m")
    history = result.all_messages_json()
    if answer == "edited":
        history = history.replace(b'"amount":5', b'"amount":500')
    results = DeferredToolResults(approvals={"c1": True})
    if answer != "yes":
        results.metadata["c1"] = {"countersign_token": token}
    await agent.run(message_history=ModelMessagesTypeAdapter.validate_json(history), deferred_tool_results=results)
    assert desk.runs == ([5.0] if answer == "token" else [])
    assert codes(gate).count("accepted") == (answer == "token")


def test_toolset_gated_twice_is_an_error() -> None:
    gate, toolset = desk_gate(), FunctionToolset[Any]([])
    with pytest.raises(TypeError):
        gated_toolset(gated_toolset(toolset, gate), gate)
