"""Action proposals in Python, beside the reference package."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from countersign import Gate, Proposals, Rejected
from countersign.testing import gate as memory_gate

pytest.importorskip("pic_standard")
pytest.importorskip("langchain_core")

from cryptography.hazmat.primitives import serialization  # noqa: E402
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey  # noqa: E402
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage  # noqa: E402
from langchain_core.tools import BaseTool, StructuredTool  # noqa: E402
from pic_standard.integrations.langgraph_pic_toolnode import PICToolNode as ReferenceNode  # noqa: E402
from pic_standard.integrations.mcp_pic_guard import guard_mcp_tool  # noqa: E402
from pic_standard.keyring import StaticKeyRingResolver, TrustedKeyRing  # noqa: E402
from pic_standard.policy import PICPolicy  # noqa: E402

from countersign.pic import PICToolNode, guard  # noqa: E402

PAY = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"], "additionalProperties": False}
KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"finance").digest())
RAW = KEY.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
RING = {"trusted_keys": {"finance": RAW.hex()}}
POLICY = PICPolicy(impact_by_tool={"pay": "money"}, require_pic_for_impacts=["money"],
                   require_evidence_for_impacts=["money"])


def good() -> dict[str, Any]:
    """A proposal that both sides allow: a signature of finance backs its claim."""
    payload = "invoice 17: 5 EUR"
    return {
        "protocol": "PIC/1.0",
        "intent": "Pay invoice 17",
        "impact": "money",
        "provenance": [{"id": "invoice", "trust": "untrusted", "source": "mail"}],
        "claims": [{"text": "the invoice is approved", "evidence": ["invoice"]}],
        "action": {"tool": "pay", "args": {"amount": 5}},
        "evidence": [{
            "id": "invoice", "type": "sig", "ref": "inline:invoice", "payload": payload, "alg": "ed25519",
            "signature": base64.b64encode(KEY.sign(payload.encode())).decode(), "key_id": "finance", "signer": "finance",
        }],
    }


def change(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    *parents, last = path.split("/")

    def apply(proposal: dict[str, Any]) -> None:
        at: Any = proposal
        for name in parents:
            at = at[int(name) if name.isdigit() else name]
        key: Any = int(last) if last.isdigit() else last
        if value is LEAVE_OUT:
            del at[key]
        else:
            at[key] = value

    return apply


LEAVE_OUT = object()
PLACES = ["protocol", "intent", "impact", "provenance", "claims", "action", "evidence", "provenance/0", "provenance/0/id",
          "provenance/0/trust", "claims/0", "claims/0/text", "claims/0/evidence", "claims/0/evidence/0", "action/tool",
          "action/args", "action/args/amount", "evidence/0", "evidence/0/id", "evidence/0/type", "evidence/0/ref",
          "evidence/0/payload", "evidence/0/alg", "evidence/0/signature", "evidence/0/key_id", "evidence/0/signer"]
VALUES = [LEAVE_OUT, None, "", "x", 0, 1.5, [], {}, [1], {"a": 1}, "read", "other", "\ud800"[:0]]
CASES = [(place, value) for place in PLACES for value in VALUES]

# The written list of `docs/hosts/pic.md`: what the reference allows and the gate refuses.
BLOCKED_HERE_ALONE = {"node": {"impact", "action/args", "action/args/amount"}, "guard": {"impact"}}


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keyring.json"
    path.write_text(json.dumps(RING))
    path.chmod(0o600)
    return path


def desk(keys: Path, runs: list[Any], **options: Any) -> Gate:
    return memory_gate(["pay"], impacts={"pay": "money"}, schemas={"pay": PAY},
                        proposals=Proposals(audience="desk", keys=keys, profile="pic-0.9"), **options)


def tools_of(runs: list[Any]) -> list[BaseTool]:
    def pay(amount: float) -> str:
        runs.append(amount)
        return f"paid {amount}"

    return [StructuredTool.from_function(pay, description="Pay")]


def turn(args: Any, id: str = "c1", name: str = "pay") -> dict[str, Any]:
    return {"messages": [AIMessage("", tool_calls=[{"name": name, "args": args, "id": id, "type": "tool_call"}])]}


def reference_blocks(call: dict[str, Any]) -> dict[str, bool]:
    ring = StaticKeyRingResolver(TrustedKeyRing.from_dict(RING))
    runs: list[Any] = []
    node = ReferenceNode(tools_of(runs), policy=POLICY, verify_evidence=True, key_resolver=ring)
    try:
        node.invoke(turn(copy.deepcopy(call)))
        is_node_blocked = False
    except Exception:
        is_node_blocked = True
    pay = guard_mcp_tool("pay", lambda amount: amount, policy=POLICY, verify_evidence=True, key_resolver=ring)
    return {"node": is_node_blocked, "guard": bool(pay(**copy.deepcopy(call))["isError"])}


def ours_blocks(call: dict[str, Any], keys: Path) -> dict[str, bool]:
    runs: list[Any] = []
    [message] = PICToolNode(tools_of(runs), desk(keys, runs)).invoke(turn(copy.deepcopy(call)))["messages"]
    assert (message.status == "error") is (runs == []), "a blocked call runs nothing"
    pay = guard(desk(keys, runs), name="pay")(lambda amount: amount)
    return {"node": message.status == "error", "guard": bool(pay(**copy.deepcopy(call))["isError"])}


def test_what_the_reference_blocks_is_blocked(keys: Path) -> None:
    assert reference_blocks({"amount": 5, "__pic": good()}) == {"node": False, "guard": False}
    assert ours_blocks({"amount": 5, "__pic": good()}, keys) == {"node": False, "guard": False}
    blocked = 0
    for place, value in CASES:
        proposal = good()
        change(place, value)(proposal)
        call = {"amount": 5, "__pic": proposal}
        theirs, ours = reference_blocks(call), ours_blocks(call, keys)
        for where, is_blocked in theirs.items():
            is_intended = ours[where] and place in BLOCKED_HERE_ALONE[where]
            assert ours[where] == is_blocked or is_intended, (where, place, value)
        blocked += ours["node"]
    assert 200 < blocked < len(CASES), "the comparison is not empty"


@pytest.mark.parametrize("call", [
    {"amount": 5},
    {"amount": 5, "__pic": None},
    {"amount": 5, "__pic": "text"},
    {"amount": 5, "__pic": [good()]},
    {"amount": 6, "__pic": good()},
    {"amount": "5", "__pic": good()},
    {"amount": 5, "more": 1, "__pic": good()},
    {"__pic": good()},
])
def test_a_call_without_its_proposal_is_blocked(call: dict[str, Any], keys: Path) -> None:
    assert ours_blocks(call, keys) == {"node": True, "guard": True}
    assert reference_blocks(call)["guard"]


async def test_the_node_answers_each_call(keys: Path) -> None:
    for is_async in (False, True):
        runs: list[Any] = []
        gate = desk(keys, runs)
        node = PICToolNode(tools_of(runs), gate)
        state = turn({"amount": 5, "__pic": good()})
        state["messages"][-1].tool_calls += [
            {"name": "pay", "args": {"amount": 5}, "id": "c2", "type": "tool_call"},
            {"name": "wipe", "args": {}, "id": "c3", "type": "tool_call"},
        ]
        answers = (await node.ainvoke(state) if is_async else node.invoke(state))["messages"]
        assert [(it.tool_call_id, it.status) for it in answers] == [("c1", "success"), ("c2", "error"), ("c3", "error")]
        assert answers[0].content == "paid 5.0" and runs == [5.0]
        assert "PIC_INVALID_REQUEST" in answers[1].content and "UNDISCLOSED_TOOL" in answers[2].content
        codes = [it["code"] for it in gate.decisions()]
        assert codes == [None, "PIC_INVALID_REQUEST", "UNDISCLOSED_TOOL"]


async def test_the_node_runs_in_a_graph(keys: Path) -> None:
    from langgraph.graph import START, MessagesState, StateGraph

    runs: list[Any] = []
    graph = StateGraph(MessagesState)
    graph.add_node("tools", PICToolNode(tools_of(runs), desk(keys, runs)))
    graph.add_edge(START, "tools")
    bot = graph.compile()
    for call_id, run in (("c1", bot.invoke), ("c2", bot.ainvoke)):
        result = run(turn({"amount": 5, "__pic": good()}, call_id))  # type: ignore[operator]
        last = (await result if call_id == "c2" else result)["messages"][-1]
        assert isinstance(last, ToolMessage) and last.content == "paid 5.0"
    assert runs == [5.0, 5.0]


def test_a_state_without_a_model_message_is_an_error(keys: Path) -> None:
    node = PICToolNode(tools_of([]), desk(keys, []))
    for state in ({}, {"messages": []}, {"messages": [HumanMessage("hi")]}, None):
        with pytest.raises(ValueError):
            node.invoke(state)
    assert node.invoke({"messages": [AIMessage("done")]}) == {"messages": []}


async def test_the_guard_has_the_reference_s_shapes(keys: Path) -> None:
    runs: list[Any] = []

    @guard(desk(keys, runs))
    async def pay(amount: float) -> Any:
        runs.append(amount)
        return {"isError": False, "result": amount} if amount else amount

    assert await pay(amount=5, __pic=good()) == {"isError": False, "result": 5}
    answer = await pay(amount=5)
    assert answer == {"isError": True, "error": {"code": "PIC_INVALID_REQUEST", "message": answer["error"]["message"]}}
    assert runs == [5]


async def test_a_failing_tool_is_an_error_result(keys: Path) -> None:
    gate = desk(keys, [])

    @guard(gate, name="pay")
    def plain(amount: float) -> None:
        raise LookupError("secret 4711")

    @guard(gate, name="pay")
    async def awaited(amount: float) -> None:
        raise LookupError("secret 4711")

    for answer in (plain(amount=5, __pic=good()), await awaited(amount=5, __pic=good())):
        assert answer == {"isError": True, "error": {"code": "PIC_INTERNAL_ERROR", "message": "the tool failed"}}


def test_the_guard_asks_for_an_approval(keys: Path) -> None:
    gate = memory_gate([], ["pay"], impacts={"pay": "money"}, schemas={"pay": PAY},
                        proposals=Proposals(audience="desk", keys=keys, profile="pic-0.9"))
    for answer, expected in (("5m", None), (None, "APPROVAL_REQUIRED")):
        approver = (lambda request, ttl=answer: gate.approve(request, "bob", ttl) if ttl else None)
        pay = guard(gate, name="pay", approver=approver)(lambda amount: amount)
        result = pay(amount=5, __pic=good())
        assert result.get("error", {}).get("code") == expected


def test_a_gate_without_proposals_guards_nothing() -> None:
    gate = memory_gate(["pay"])
    with pytest.raises(ValueError):
        guard(gate)
    with pytest.raises(ValueError):
        PICToolNode(tools_of([]), gate)


def test_a_guarded_function_is_not_guarded_twice(keys: Path) -> None:
    gate = desk(keys, [])
    with pytest.raises(TypeError):
        guard(gate)(guard(gate, name="pay")(lambda amount: amount))


def test_the_proposal_may_come_beside_the_arguments(keys: Path) -> None:
    gate = desk(keys, [])
    assert gate.check("c1", "pay", {"amount": 5}, proposal=good()).run(lambda amount: amount) == 5
    assert gate.check("c2", "pay", {"amount": 5}, proposal=json.dumps(good())).run(lambda amount: amount) == 5
    with pytest.raises(Rejected) as raised:
        gate.check("c3", "pay", {"amount": 6}, proposal=good())
    assert raised.value.code == "PIC_ARG_BINDING_MISMATCH"


@pytest.mark.parametrize("options", [
    {"keys": "nowhere.json"}, {"folder": "nowhere"}, {"policy": "nowhere.json"}, {"profile": "lax"}, {"audience": ""},
    {"max_attestation_age": -1},
])
def test_bad_settings_make_no_proposals(options: dict[str, Any]) -> None:
    from countersign import LoadError

    with pytest.raises((LoadError, ValueError)):
        Proposals(**{"audience": "desk", **options})
