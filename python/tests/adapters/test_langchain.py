"""LangChain's agents and LangGraph's tool nodes, with a scripted model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from helpers import REFUND, Desk, codes, desk_gate

pytest.importorskip("langgraph")

from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from countersign import ApprovalRequest, Gate, Rejected
from countersign.adapters.langchain import GateMiddleware, gated_tools, tool_node_wrappers, tools_json

PLACES = ["hook", "innermost", "both"]
CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Model(GenericFakeChatModel):
    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self


def calls(*all: tuple[str, dict[str, Any], str]) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": id} for name, args, id in all])


def tools_of(desk: Desk) -> list[Any]:
    return [StructuredTool.from_function(desk.search, name="search", description="Search"),
            StructuredTool.from_function(desk.refund, name="refund", description="Refund")]


def agent(place: str, gate: Gate, desk: Desk, *turns: AIMessage, middleware: Any = ()) -> Any:
    tools = tools_of(desk)
    if place != "hook":
        tools = gated_tools(tools, gate)
    own = [] if place == "innermost" else [GateMiddleware(gate)]
    model = Model(messages=iter([*turns, AIMessage("done")]))
    return create_agent(model, tools, middleware=[*middleware, *own], checkpointer=InMemorySaver())


def go(agent: Any, is_async: bool, value: Any = None) -> Any:
    value = value or {"messages": [("user", "go")]}
    return asyncio.run(agent.ainvoke(value, CONFIG)) if is_async else agent.invoke(value, CONFIG)


def answers(result: Any) -> list[ToolMessage]:
    return [message for message in result["messages"] if isinstance(message, ToolMessage)]


both_ways = pytest.mark.parametrize("is_async", [False, True])
everywhere = pytest.mark.parametrize("place", PLACES)


@everywhere
@both_ways
def test_accepted_call_is_one_decision(place: str, is_async: bool) -> None:
    gate, desk = desk_gate(), Desk()
    result = go(agent(place, gate, desk, calls(("search", {"query": "a"}, "c1"))), is_async)
    assert [message.content for message in answers(result)] == ["found a"]
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


@everywhere
@both_ways
def test_fault_is_one_refusal_of_the_host_s_kind(place: str, is_async: bool) -> None:
    gate, desk = desk_gate(fault="check"), Desk()
    [answer] = answers(go(agent(place, gate, desk, calls(("search", {"query": "a"}, "c1"))), is_async))
    assert answer.status == "error" and "CHECK_REFUSED" in str(answer.content)
    assert (desk.runs, codes(gate)) == ([], ["CHECK_REFUSED"])


@both_ways
def test_unknown_name_is_undisclosed_once(is_async: bool) -> None:
    gate, desk = desk_gate(), Desk()
    turn = calls(("wipe", {}, "c1"), ("search", {"query": "a"}, "c2"))
    found = answers(go(agent("both", gate, desk, turn), is_async))
    assert [message.status for message in found] == ["error", "success"]
    assert (desk.runs, sorted(codes(gate))) == (["a"], ["UNDISCLOSED_TOOL", "accepted"])


@everywhere
@both_ways
def test_approved_call_runs_once(place: str, is_async: bool) -> None:
    gate, desk = desk_gate(), Desk()
    bot = agent(place, gate, desk, calls(("refund", {"amount": 5}, "c1")))
    [question] = go(bot, is_async)["__interrupt__"]
    assert desk.runs == []
    request = ApprovalRequest.from_json(json.dumps(json.loads(json.dumps(question.value))["request"]))
    answer = Command(resume={question.id: gate.approve(request, "bob", "5m")})
    assert [message.content for message in answers(go(bot, is_async, answer))] == ["refunded 5.0"]
    assert (desk.runs, codes(gate)[-1], codes(gate).count("accepted")) == ([5.0], "accepted", 1)


@everywhere
@pytest.mark.parametrize("answer", [True, {"type": "approve"}, "yes", ["no"], None])
def test_yes_of_the_host_is_no_approval(place: str, answer: Any) -> None:
    gate, desk = desk_gate(), Desk()
    bot = agent(place, gate, desk, calls(("refund", {"amount": 5}, "c1")))
    [question] = go(bot, False)["__interrupt__"]
    result = go(bot, False, Command(resume={question.id: answer}))
    assert desk.runs == [] and "accepted" not in codes(gate)
    assert all(message.status == "error" for message in answers(result))


@everywhere
def test_replayed_checkpoint_runs_nothing_again(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    bot = agent(place, gate, desk, calls(("search", {"query": "a"}, "c1")), AIMessage("again"))
    go(bot, False)
    before = next(state for state in bot.get_state_history(CONFIG) if state.next == ("tools",))
    bot.invoke(None, before.config)
    assert (desk.runs, codes(gate)) == (["a"], ["accepted"])


@everywhere
def test_arguments_edited_in_a_checkpoint_are_refused(place: str) -> None:
    gate, desk = desk_gate(), Desk()
    bot = agent(place, gate, desk, calls(("refund", {"amount": 5}, "c1")), AIMessage("again"))
    [question] = go(bot, False)["__interrupt__"]
    token = gate.approve(ApprovalRequest.from_json(json.dumps(question.value["request"])), "bob", "5m")
    message = bot.get_state(CONFIG).values["messages"][-1]
    edited = calls(("refund", {"amount": 500}, "c1"))
    edited.id = message.id
    bot.update_state(CONFIG, {"messages": [edited]}, as_node="model")
    gate.present(token)
    go(bot, False, Command(resume=token))
    assert desk.runs == [] and "accepted" not in codes(gate)


@both_ways
def test_value_that_the_host_would_change_is_refused(is_async: bool) -> None:
    gate, desk = desk_gate(), Desk()
    turn = calls(("search", {"query": "a", "all": True}, "c1"))
    [answer] = answers(go(agent("innermost", gate, desk, turn), is_async))
    assert (answer.status, desk.runs, codes(gate)) == ("error", [], ["MALFORMED_CALL"])


def test_retrying_middleware_runs_a_failed_tool_once() -> None:
    from langchain.agents.middleware import ToolRetryMiddleware

    gate, runs = desk_gate(), []

    def search(query: str) -> str:
        runs.append(query)
        raise LookupError("no")

    retry = ToolRetryMiddleware(max_retries=3, initial_delay=0, on_failure="continue")
    tools = gated_tools([StructuredTool.from_function(search, description="Search")], gate)
    model = Model(messages=iter([calls(("search", {"query": "a"}, "c1")), AIMessage("done")]))
    create_agent(model, tools, middleware=[retry]).invoke({"messages": [("user", "go")]})  # type: ignore[call-overload]
    assert (len(runs), codes(gate)) == (1, ["accepted", "CALL_ID_REUSED"])


@both_ways
def test_tool_node_asks_the_gate(is_async: bool) -> None:
    gate, desk = desk_gate(), Desk()
    graph = StateGraph(MessagesState)
    graph.add_node("tools", ToolNode(tools_of(desk), **tool_node_wrappers(gate)))
    graph.add_edge(START, "tools")
    # An asynchronous node cancels the other calls of its step when one pauses, so only the plain one has another call here.
    others = [] if is_async else [("search", {"query": "a"}, "c1")]
    turn = calls(*others, ("wipe", {}, "c2"), ("refund", {"amount": 5}, "c3"))
    bot = graph.compile(checkpointer=InMemorySaver())
    [question] = go(bot, is_async, {"messages": [turn]})["__interrupt__"]
    request = ApprovalRequest.from_json(json.dumps(question.value["request"]))
    result = go(bot, is_async, Command(resume={"c3": gate.approve(request, "bob", "5m")}))
    assert [message.status for message in answers(result)] == ["success"] * len(others) + ["error", "success"]
    assert sorted(desk.runs, key=str) == [5.0, "a"][:1 + len(others)]
    assert codes(gate).count("UNDISCLOSED_TOOL") == 1


def test_call_outside_a_graph_raises() -> None:
    gate, desk = desk_gate(), Desk()
    _, refund = gated_tools(tools_of(desk), gate)
    with pytest.raises(Rejected):
        refund.invoke({"amount": 5})
    assert refund.invoke({"type": "tool_call", "name": "refund", "args": {"amount": 5}, "id": "c1"}).status == "error"
    assert desk.runs == []


def test_tool_gated_twice_is_an_error() -> None:
    gate, desk = desk_gate(), Desk()
    with pytest.raises(TypeError):
        gated_tools(gated_tools(tools_of(desk), gate), gate)


def test_tools_json_has_closed_schemas() -> None:
    [_, refund] = json.loads(tools_json(tools_of(Desk())))["tools"]
    assert refund["name"] == "refund" and refund["inputSchema"]["additionalProperties"] is False


def test_registry_schema_decides_about_the_model_s_values() -> None:
    gate, desk = desk_gate(schemas={"refund": REFUND}), Desk()
    [answer] = answers(go(agent("innermost", gate, desk, calls(("refund", {"amount": True}, "c1"))), False))
    assert (answer.status, desk.runs) == ("error", [])
