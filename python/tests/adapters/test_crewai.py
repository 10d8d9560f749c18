"""CrewAI, with a scripted model that asks in text (ReAct) or by native calls."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("OTEL_SDK_DISABLED", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")
pytest.importorskip("crewai")

from crewai import Agent, Crew, Task
from crewai.hooks import register_before_tool_call_hook, unregister_before_tool_call_hook
from crewai.llms.base_llm import BaseLLM
from crewai.tools import tool

from countersign.adapters.crewai import gate_hook, gated_tools, tools_json, watched_names

pytestmark = pytest.mark.filterwarnings("ignore::countersign.adapters._shared.OpenSchemaWarning")


class Script(BaseLLM):
    """Asks for one call, and ends with what the tool answered."""

    wanted: Any = None
    native: bool = False
    asked: list[Any] = []

    def supports_function_calling(self) -> bool:
        return self.native

    def call(self, messages: Any, tools: Any = None, *args: Any, **kwargs: Any) -> Any:
        self.asked.append(messages if isinstance(messages, str) else json.dumps(messages, default=str))
        name, given = self.wanted
        if len(self.asked) > 1:
            return "Thought: I now know the answer\nFinal Answer: done" if not self.native else "done"
        if self.native:
            return [{"id": "call_1", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}]
        return f"Thought: a tool helps\nAction: {name}\nAction Input: {json.dumps(given)}"


def tools_of(desk: Desk) -> list[Any]:
    @tool("search")
    def search(query: str) -> str:
        """Finds tickets."""
        return desk.search(query)

    @tool("refund")
    def refund(amount: float) -> str:
        """Refunds money."""
        return desk.refund(amount)

    return [search, refund]


def asks(tools: list[Any], name: str, given: Any, native: bool) -> str:
    """Runs a crew, and returns what the model read after its call."""
    model = Script(model="script", wanted=(name, given), native=native, asked=[])
    agent = Agent(role="desk", goal="help", backstory="helps", llm=model, tools=tools, max_iter=3)
    Crew(agents=[agent], tasks=[Task(description="help", expected_output="done", agent=agent)]).kickoff()
    return str(model.asked[1]) if len(model.asked) > 1 else ""


both = pytest.mark.parametrize("native", [False, True])


@both
def test_accepted_call_is_one_decision(native: bool) -> None:
    gate, desk = desk_gate(), Desk()
    assert "found a" in asks(gated_tools(tools_of(desk), gate), "search", {"query": "a"}, native)
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


@both
def test_fault_is_a_refusal_that_the_model_reads(native: bool) -> None:
    gate, desk = desk_gate(fault="check"), Desk()
    assert "CHECK_REFUSED" in asks(gated_tools(tools_of(desk), gate), "search", {"query": "a"}, native)
    assert (desk.runs, set(codes(gate))) == ([], {"CHECK_REFUSED"})


@both
def test_only_the_token_of_an_approver_lets_a_call_run(native: bool) -> None:
    answers: dict[str, Any] = {"token": lambda gate: lambda request: gate.approve(request, "bob", "5m"),
                               "none": lambda gate: lambda request: None, "no one": lambda gate: None,
                               "garbage": lambda gate: lambda request: "cs1.x.y"}
    for name, approver in answers.items():
        gate, desk = desk_gate(), Desk()
        asks(gated_tools(tools_of(desk), gate, approver=approver(gate)), "refund", {"amount": 5}, native)
        assert desk.runs == ([5.0] if name == "token" else []), name
        assert codes(gate).count("accepted") == (name == "token")


@both
def test_hook_blocks_a_tool_that_is_not_gated(native: bool) -> None:
    gate, desk = desk_gate(), Desk()
    hook = gate_hook(gate)
    register_before_tool_call_hook(hook)
    try:
        asks(tools_of(desk), "search", {"query": "a"}, native)
        assert (desk.runs, set(codes(gate))) == ([], {"MALFORMED_CALL"})
        gated = gated_tools(tools_of(desk), gate)
        asks(gated, "search", {"query": "b"}, native)
        assert desk.runs == ["b"]
    finally:
        unregister_before_tool_call_hook(hook)


def test_unknown_name_in_text_is_undisclosed() -> None:
    gate, desk = desk_gate(), Desk()
    with watched_names(gate):
        asks(gated_tools(tools_of(desk), gate), "wipe_everything", {}, False)
    assert (desk.runs, codes(gate)) == ([], ["UNDISCLOSED_TOOL"])
    asks(gated_tools(tools_of(desk), gate), "wipe_everything", {}, False)
    assert len(codes(gate)) == 1, "the watch has ended"


def test_unknown_name_of_a_native_call_runs_nothing() -> None:
    gate, desk = desk_gate(), Desk()
    hook = gate_hook(gate)
    register_before_tool_call_hook(hook)
    try:
        asks(gated_tools(tools_of(desk), gate), "wipe_everything", {}, True)
        assert (desk.runs, codes(gate)) == ([], ["UNDISCLOSED_TOOL"])
    finally:
        unregister_before_tool_call_hook(hook)


async def test_async_run_is_gated() -> None:
    gate, desk = desk_gate(), Desk()
    search, refund = gated_tools(tools_of(desk), gate)
    assert await search.arun(query="a") == "found a"
    assert "APPROVAL_REQUIRED" in await refund.arun(amount=5)
    assert (desk.runs, codes(gate)) == (["a"], ["accepted", "APPROVAL_REQUIRED"])


def test_tool_gated_twice_is_an_error() -> None:
    gate = desk_gate()
    with pytest.raises(TypeError):
        gated_tools(gated_tools(tools_of(Desk()), gate), gate)


def test_listed_tools_have_closed_schemas() -> None:
    listed = json.loads(tools_json(tools_of(Desk())))["tools"]
    assert [(tool["name"], tool["inputSchema"]["additionalProperties"]) for tool in listed] == [("search", False), ("refund", False)]


def test_page_of_crewai(capsys: pytest.CaptureFixture[str]) -> None:
    from crewai.hooks import clear_all_tool_call_hooks
    from test_docs import run

    gate, desk = desk_gate(), Desk()
    try:
        run("crewai.md", gate=gate, tools=tools_of(desk), model=Script(model="script", wanted=("refund", {"amount": 5}), asked=[]))
    finally:
        clear_all_tool_call_hooks()
    assert capsys.readouterr().out.rstrip().endswith("done")
    assert (desk.runs, codes(gate)) == ([5.0], ["APPROVAL_REQUIRED", "accepted"])
