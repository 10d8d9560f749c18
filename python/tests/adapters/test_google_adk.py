"""Google ADK, with a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

pytest.importorskip("google.adk")

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from countersign import ApprovalRequest, Gate
from countersign.adapters.google_adk import GatePlugin, gated_tools, tools_json


class Script(BaseLlm):
    """Asks for the calls once, and ends."""

    calls: list[Any] = []
    turns: int = 0

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.turns += 1
        parts = [types.Part(text="done")] if self.turns > 1 else [
            types.Part(function_call=types.FunctionCall(name=name, args=args, id=id)) for name, args, id in self.calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


class Bot:
    """An agent with its session."""

    def __init__(self, gate: Gate, tools: list[Any], *calls: tuple[str, Any, str], plugin: bool = False,
                 decides: bool = False) -> None:
        agent = LlmAgent(name="bot", model=Script(model="script", calls=list(calls)), tools=tools)
        plugins: list[Any] = [GatePlugin(gate, decides=decides)] if plugin or decides else []
        self.runner = InMemoryRunner(agent=agent, app_name="desk", plugins=plugins)

    async def run(self, part: types.Part | None = None) -> list[Any]:
        """Runs one turn and returns what the tools answered."""
        service = self.runner.session_service
        if await service.get_session(app_name="desk", user_id="u", session_id="s") is None:
            await service.create_session(app_name="desk", user_id="u", session_id="s")
        message = types.Content(role="user", parts=[part or types.Part(text="go")])
        self.events = [event async for event in self.runner.run_async(user_id="u", session_id="s", new_message=message)]
        return [response.response for event in self.events for response in event.get_function_responses()]

    def question(self) -> Any:
        """The host's call for a confirmation."""
        return next(call for event in self.events for call in event.get_function_calls() if call.name == "adk_request_confirmation")


def gated(gate: Gate, desk: Desk) -> list[Any]:
    return gated_tools([desk.search, desk.refund], gate)


everywhere = pytest.mark.parametrize("place", ["tool", "plugin"])


def bot_at(place: str, gate: Gate, desk: Desk, *calls: tuple[str, Any, str]) -> Bot:
    """A bot whose calls are decided inside the tools, or by the plugin."""
    if place == "tool":
        return Bot(gate, gated(gate, desk), *calls)
    return Bot(gate, [desk.search, desk.refund], *calls, decides=True)


async def test_accepted_call_is_one_decision() -> None:
    gate, desk = desk_gate(), Desk()
    answers = await Bot(gate, gated(gate, desk), ("search", {"query": "a"}, "c1"), plugin=True).run()
    assert (answers, desk.runs, codes(gate)) == ([{"result": "found a"}], ["a"], ["accepted"])


@everywhere
async def test_call_decided_in_one_place_is_one_decision(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    answers = await bot_at(place, gate, desk, ("search", {"query": "a"}, "c1")).run()
    assert (answers, desk.runs, codes(gate)) == ([{"result": "found a"}], ["a"], ["accepted"])


@everywhere
async def test_fault_is_one_refusal(place: str) -> None:
    gate, desk = desk_gate(fault="check"), Desk()
    [answer] = await bot_at(place, gate, desk, ("search", {"query": "a"}, "c1")).run()
    assert "CHECK_REFUSED" in answer["error"]
    assert (desk.runs, codes(gate)) == ([], ["CHECK_REFUSED"])


@pytest.mark.parametrize("args", [{"amount": "10"}, {"amount": 5, "to": "me"}])
@everywhere
async def test_value_that_the_host_would_change_is_refused(args: Any, place: str) -> None:
    gate, desk = desk_gate(), Desk()
    await bot_at(place, gate, desk, ("refund", args, "c1")).run()
    assert desk.runs == []
    assert "accepted" not in codes(gate)


async def test_unknown_name_is_recorded_once() -> None:
    gate, desk = desk_gate(), Desk()
    calls = [("wipe", {}, "c1"), ("search", {"query": "a"}, "c2")]
    answers = await Bot(gate, gated(gate, desk), *calls, plugin=True).run()
    assert "UNDISCLOSED_TOOL" in answers[0]["error"]
    assert (desk.runs, sorted(codes(gate))) == (["a"], ["UNDISCLOSED_TOOL", "accepted"])


async def test_tool_that_is_not_gated_does_not_run_with_the_plugin() -> None:
    gate, desk = desk_gate(), Desk()
    [answer] = await Bot(gate, [desk.search], ("search", {"query": "a"}, "c1"), plugin=True).run()
    assert "MALFORMED_CALL" in answer["error"]
    assert (desk.runs, codes(gate)) == ([], ["MALFORMED_CALL"])


@everywhere
@pytest.mark.parametrize("answer", ["token", "yes", "no"])
async def test_only_our_token_lets_a_paused_call_run(answer: str, place: str) -> None:
    gate, desk = desk_gate(), Desk()
    bot = bot_at(place, gate, desk, ("refund", {"amount": 5}, "c1"))
    await bot.run()
    question = bot.question()
    payload = question.args["toolConfirmation"]["payload"]
    token = gate.approve(ApprovalRequest.from_json(json.dumps(payload["countersign_request"])), "bob", "5m")
    response: dict[str, Any] = {"confirmed": answer != "no"}
    if answer != "yes":
        response["payload"] = {"countersign_token": token}
    await bot.run(types.Part(function_response=types.FunctionResponse(id=question.id, name=question.name, response=response)))
    assert desk.runs == ([5] if answer == "token" else [])
    assert codes(gate).count("accepted") == (answer == "token")


async def test_call_that_ran_does_not_run_again() -> None:
    gate, desk = desk_gate(), Desk()
    tools = gated(gate, desk)
    for _ in range(2):
        await Bot(gate, tools, ("search", {"query": "a"}, "c1")).run()
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


async def test_plugin_runs_a_repeated_id_once_and_no_unknown_name() -> None:
    gate, desk = desk_gate(), Desk()
    for query in ("a", "a", "b"):
        answers = await bot_at("plugin", gate, desk, ("search", {"query": query}, "c1"), ("wipe", {}, "c2")).run()
    assert "CALL_ID_REUSED" in answers[0]["error"] and "UNDISCLOSED_TOOL" in answers[1]["error"]
    assert desk.runs == ["a"] and codes(gate).count("accepted") == 1


async def test_plugin_records_how_a_call_ended() -> None:
    from countersign.adapters._shared import calls_of

    gate, desk = desk_gate(), Desk()
    await bot_at("plugin", gate, desk, ("search", {"query": "a"}, "c1")).run()

    def search(query: str) -> str:
        raise LookupError("no")

    with pytest.raises(LookupError):
        await Bot(gate, [search], ("search", {"query": "b"}, "c2"), decides=True).run()
    assert not calls_of(gate).started


def test_tool_gated_twice_is_an_error() -> None:
    gate = desk_gate()
    with pytest.raises(TypeError):
        gated_tools(gated(gate, Desk()), gate)


def test_listed_tools_have_closed_schemas() -> None:
    listed = json.loads(tools_json(gated(desk_gate(), Desk())))["tools"]
    assert [tool["name"] for tool in listed] == ["search", "refund"]
    assert listed[0]["inputSchema"]["properties"].keys() == {"query"}
    assert listed[0]["inputSchema"]["additionalProperties"] is False
