"""The OpenAI Agents SDK, with a scripted model."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

pytest.importorskip("agents")

from agents import Agent, RunConfig, Runner, RunState, function_tool
from agents.exceptions import ModelBehaviorError
from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call

from countersign import Gate
from countersign.adapters.openai_agents import GateHooks, approval_request, gated_tools, guarded_tools, tools_json


def tools_of(desk: Desk) -> list[Any]:
    async def search(query: str) -> str:
        return desk.search(query)

    async def refund(amount: float) -> str:
        return desk.refund(amount)

    return [function_tool(search), function_tool(refund)]


PLACES = {"tool": gated_tools, "guardrail": guarded_tools}
everywhere = pytest.mark.parametrize("place", PLACES)


async def go(gate: Gate, desk: Desk, *calls: tuple[str, Any, str], place: str = "tool") -> list[str]:
    turn = [function_call(name, json.dumps(args), call_id=id) for name, args, id in calls]
    model = ScriptedModel([ModelStep(output=turn), ModelStep(output=[assistant_message("done")])])
    bot = Agent(name="bot", model=model, tools=PLACES[place](tools_of(desk), gate))
    result = await Runner.run(bot, "go", hooks=GateHooks(gate), run_config=RunConfig(tracing_disabled=True))
    return [str(item.output) for item in result.new_items if item.type == "tool_call_output_item"]


@everywhere
async def test_accepted_call_is_one_decision(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    assert await go(gate, desk, ("search", {"query": "a"}, "c1"), place=place) == ["found a"]
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


@everywhere
async def test_fault_is_one_refusal(place: str) -> None:
    gate, desk = desk_gate(fault="check"), Desk()
    [answer] = await go(gate, desk, ("search", {"query": "a"}, "c1"), place=place)
    assert "CHECK_REFUSED" in answer
    assert (desk.runs, codes(gate)) == ([], ["CHECK_REFUSED"])


@everywhere
async def test_refusal_stops_no_parallel_call(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    [refused, found] = await go(gate, desk, ("refund", {"amount": 5}, "c1"), ("search", {"query": "a"}, "c2"), place=place)
    assert "APPROVAL_REQUIRED" in refused and found == "found a"
    assert desk.runs == ["a"]


async def test_unknown_name_is_undisclosed_once() -> None:
    gate, desk = desk_gate(), Desk()
    with pytest.raises(Exception, match="wipe"):
        await go(gate, desk, ("wipe", {}, "c1"))
    assert (desk.runs, codes(gate)) == ([], ["UNDISCLOSED_TOOL"])


async def test_repeated_id_runs_once() -> None:
    gate, desk = desk_gate(), Desk()
    for _ in range(2):
        assert await go(gate, desk, ("search", {"query": "a"}, "c1")) == ["found a"]
    await go(gate, desk, ("search", {"query": "b"}, "c1"))
    assert (desk.runs, codes(gate)) == (["a"], ["accepted", "CALL_ID_REUSED"])


async def test_guardrail_runs_a_repeated_id_once() -> None:
    gate, desk = desk_gate(), Desk()
    answers = [await go(gate, desk, ("search", {"query": query}, "c1"), place="guardrail") for query in ("a", "a", "b")]
    assert answers[0] == ["found a"] and all("CALL_ID_REUSED" in answer for [answer] in answers[1:])
    assert (desk.runs, codes(gate)[0]) == (["a"], "accepted")


async def test_guardrail_records_that_a_call_returned() -> None:
    from countersign.adapters._shared import calls_of

    gate = desk_gate()
    await go(gate, Desk(), ("search", {"query": "a"}, "c1"), place="guardrail")
    assert not calls_of(gate).started and not calls_of(gate).busy


@pytest.mark.parametrize("outer", [gated_tools, guarded_tools])
@pytest.mark.parametrize("inner", [gated_tools, guarded_tools])
def test_tool_gated_twice_is_an_error(outer: Any, inner: Any) -> None:
    gate = desk_gate()
    with pytest.raises(TypeError):
        outer(inner(tools_of(Desk()), gate), gate)


def test_tools_json_has_closed_schemas() -> None:
    assert all(tool["inputSchema"]["additionalProperties"] is False
               for tool in json.loads(tools_json(tools_of(Desk())))["tools"])


def paused_bot(gate: Gate, desk: Desk, is_first: bool, place: str) -> Any:
    turn = ModelStep(output=[function_call("refund", json.dumps({"amount": 5}), call_id="c1")])
    steps = [turn] if is_first else []
    model = ScriptedModel([*steps, ModelStep(output=[assistant_message("done")])])
    return Agent(name="bot", model=model, tools=PLACES[place](tools_of(desk), gate, pauses=["refund"]))


@everywhere
@pytest.mark.parametrize("answer", ["token", "yes", "edited"])
async def test_only_our_token_lets_a_paused_call_run(answer: str, place: str) -> None:
    gate, desk, config = desk_gate(), Desk(), RunConfig(tracing_disabled=True)
    result = await Runner.run(paused_bot(gate, desk, True, place), "go", hooks=GateHooks(gate), run_config=config)
    [interruption] = result.interruptions
    token = gate.approve(approval_request(gate, interruption), "bob", "5m")
    text = result.to_state().to_string()
    if answer == "edited":
        text = text.replace('\\"amount\\": 5', '\\"amount\\": 500')
        assert "500" in text
    bot = paused_bot(gate, desk, False, place)
    # The host itself fails on the edited one.
    with pytest.raises(ModelBehaviorError) if answer == "edited" else nullcontext():
        state = await RunState.from_string(bot, text)
        if answer != "yes":
            gate.present(token)
        state.approve(state.get_interruptions()[0])
        await Runner.run(bot, state, hooks=GateHooks(gate), run_config=config)
    assert desk.runs == ([5.0] if answer == "token" else [])
    assert codes(gate).count("accepted") == (answer == "token")
