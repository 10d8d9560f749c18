"""The gate, as a host uses it."""

from __future__ import annotations

import json
import math
import pickle
from typing import Any

import pytest

import countersign
from countersign import ApprovalRequest, ApprovalRequired, Gate, Rejected
from countersign.testing import gate


def refused(gate: Gate, *args: Any, **kwargs: Any) -> Rejected:
    with pytest.raises(Rejected) as raised:
        gate.check(*args, **kwargs)
    return raised.value


def outcome(gate: Gate) -> tuple[str, str | None]:
    last = gate.decisions()[-1]
    return last["verdict"], last["code"]


def test_an_accepted_call_runs_with_what_was_decided() -> None:
    call = gate(allow=["search"]).check("c1", "search", {"q": "x", "n": [1, 2.5, None, True]})
    assert call.run(lambda **args: args) == {"q": "x", "n": [1, 2.5, None, True]}


def test_a_call_runs_once() -> None:
    call = gate(allow=["search"]).check("c1", "search", {})
    call.run(dict)
    with pytest.raises(RuntimeError):
        call.run(dict)


def test_an_unknown_tool_is_refused_and_recorded() -> None:
    it = gate(allow=["search"])
    error = refused(it, "c1", "delete", {})
    assert (error.code, error.call_id, error.retry) == ("UNDISCLOSED_TOOL", "c1", "never")
    assert str(error) == "UNDISCLOSED_TOOL: the tool is not available in this session"
    assert it.attempted_undisclosed() == 1 and it.acceptance_rate() == 0.0


def test_text_bytes_and_dict_have_one_digest() -> None:
    value = {"b": [1, 2.5, -0.0], "a": 'quote " \\ \n \u2028 é 😀'}
    text = json.dumps(value)
    assert len({countersign.digest(value), countersign.digest(text), countersign.digest(text.encode())}) == 1


class Member(dict[str, Any]):
    pass


class Text(str):
    pass


@pytest.mark.parametrize(
    "args",
    [
        {"a": math.nan},
        {"a": math.inf},
        {"a": (1, 2)},
        {"a": {1, 2}},
        {"a": b"x"},
        {"a": Member()},
        {"a": Text("x")},
        {Text("a"): 1},
        {1: 2},
        {"a": "\ud800"},
        {"a": 2**53 + 1},
        {"a": 10**400},
        {"a": 0.1 + 0.2j},
        Member(),
        [],
        None,
        "[]",
        '{"a":1,"a":2}',
        b"\xff",
        "\ud800",
        "",
    ],
)
def test_odd_arguments_are_malformed(args: Any) -> None:
    it = gate(allow=["search"])
    assert refused(it, "c1", "search", args).code == "MALFORMED_CALL"
    assert outcome(it) == ("rejected", "MALFORMED_CALL")


def test_deep_arguments_are_refused() -> None:
    deep: Any = {}
    for _ in range(5_000):
        deep = {"a": deep}
    assert refused(gate(allow=["search"]), "c1", "search", deep).code in ("LIMIT_EXCEEDED", "MALFORMED_CALL")


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert refused(gate(allow=["search"]), "c1", "search", {"a": loop}).code == "MALFORMED_CALL"


@pytest.mark.parametrize("bad", [None, 1, b"c1", "", "a" * 1_000, "a\nb", "\ud800"])
def test_odd_ids_and_names_are_refused(bad: Any) -> None:
    it = gate(allow=["search"])
    assert refused(it, bad, "search", {}).code == "MALFORMED_CALL"
    assert refused(it, "c1", bad, {}).code in ("MALFORMED_CALL", "UNDISCLOSED_TOOL")
    assert len(it.decisions()) == 2


def test_the_arguments_of_a_call_cannot_be_changed() -> None:
    call = gate(allow=["search"]).check("c1", "search", {"a": {"b": [1]}})
    with pytest.raises(TypeError):
        call.args["a"]["b"] = 2
    with pytest.raises(TypeError):
        call.args["a"]["b"][0] = 2


def test_a_tool_gets_a_fresh_copy() -> None:
    sent = {"a": [1]}
    call = gate(allow=["search"]).check("c1", "search", sent)
    sent["a"].append(2)
    assert call.run(lambda a: a) == [1]


def test_a_tools_exception_passes() -> None:
    call = gate(allow=["search"]).check("c1", "search", {})

    def fail() -> None:
        raise KeyError("of the tool")

    with pytest.raises(KeyError):
        call.run(fail)


def test_an_async_tool_does_not_run_as_a_plain_one() -> None:
    call = gate(allow=["search"]).check("c1", "search", {})

    async def tool() -> None: ...

    with pytest.raises(TypeError):
        call.run(tool)  # type: ignore[unused-coroutine]


def test_an_approved_call_runs_once() -> None:
    it = gate(approve=["refund"])
    with pytest.raises(ApprovalRequired) as raised:
        it.check("c1", "refund", {"amount": 5})
    request = ApprovalRequest.from_json(raised.value.request.to_json())
    assert (request.call_id, request.name, request.args) == ("c1", "refund", {"amount": 5})
    token = it.approve(request, "bob", 60)
    assert refused(it, "c1", "refund", {"amount": 6}, approval=token).code == "CALL_ID_REUSED"
    assert refused(it, "c2", "refund", {"amount": 5}, approval=token).code == "APPROVAL_INVALID"
    assert it.check("c1", "refund", b'{"amount":5.0}', approval=[token]).run(lambda amount: amount) == 5
    assert refused(it, "c1", "refund", {"amount": 5}, approval=token).code == "CALL_ID_REUSED"


def test_an_id_runs_once() -> None:
    it = gate(allow=["search"])
    it.check("c1", "search", {}).run(dict)
    assert refused(it, "c1", "search", {}).code == "CALL_ID_REUSED"
    it.check("c1", "search", {}, rerun=True).run(dict)
    assert refused(it, "c1", "search", {"a": 1}, rerun=True).code == "CALL_ID_REUSED"
    assert outcome(it) == ("rejected", "CALL_ID_REUSED")


def test_a_gate_without_proposals_says_so() -> None:
    assert gate(allow=["search"]).takes_proposals is False


def test_a_presented_token_waits_for_its_call() -> None:
    it = gate(approve=["refund"])
    error = refused(it, "c1", "refund", {})
    assert isinstance(error, ApprovalRequired)
    it.present(it.approve(error.request, "bob", "5m"))
    assert refused(it, "c2", "refund", {}).code == "APPROVAL_REQUIRED"
    it.check("c1", "refund", {}).run(dict)
    with pytest.raises(ValueError):
        it.present("cs1.garbage")


@pytest.mark.parametrize("token", ["", "garbage", "cs1.a.b", 7, b"x", [7]])
def test_garbage_is_no_approval(token: Any) -> None:
    it = gate(approve=["refund"])
    assert refused(it, "c1", "refund", {}, approval=token).code in ("APPROVAL_INVALID", "MALFORMED_CALL")


def test_an_agent_or_another_session_approves_nothing() -> None:
    it, other = gate(approve=["refund"]), gate(approve=["refund"], session="session-2")
    error = refused(it, "c1", "refund", {})
    assert isinstance(error, ApprovalRequired)
    for approver, by, code in ((it, "test-bot", "APPROVAL_SELF"), (other, "bob", "REQUEST_FOREIGN")):
        with pytest.raises(countersign.AnswerError) as raised:
            approver.approve(error.request, by, 60)
        assert raised.value.code == code


def test_a_denial_is_a_recorded_refusal() -> None:
    it = gate(approve=["refund"])
    error = refused(it, "c1", "refund", {})
    assert isinstance(error, ApprovalRequired)
    assert it.deny(error.request, "bob").code == "APPROVAL_DENIED"
    assert outcome(it) == ("rejected", "APPROVAL_DENIED")


def test_forged_requests_are_value_errors() -> None:
    error = refused(gate(approve=["refund"]), "c1", "refund", {"amount": 5})
    assert isinstance(error, ApprovalRequired)
    text = error.request.to_json()
    for forged, code in ((text.replace(":5", ":6"), "REQUEST_ARGS_MISMATCH"), (text[:-9], "REQUEST_MALFORMED")):
        with pytest.raises(ValueError) as raised:
            ApprovalRequest.from_json(forged)
        assert getattr(raised.value, "code") == code


def test_refusals_pickle() -> None:
    error = refused(gate(approve=["refund"]), "c1", "refund", {"amount": 5})
    assert isinstance(error, ApprovalRequired)
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.code, copy.call_id, copy.sequence, str(copy)) == (error.code, "c1", error.sequence, str(error))
    assert copy.request.to_json() == error.request.to_json()


def test_no_text_of_ours_shows_arguments_or_tokens() -> None:
    it, canary = gate(allow=["search"], approve=["refund"]), "canary-4711"
    error = refused(it, "c1", "refund", {"a": canary})
    assert isinstance(error, ApprovalRequired)
    token = it.approve(error.request, "bob", 60)
    call = it.check("c2", "search", {"a": canary})
    wrong = refused(it, "c1", "refund", {"a": canary, "b": 1}, approval=token)
    for it_shown in (error, wrong, error.request, call, it):
        for text in (repr(it_shown), str(it_shown)):
            assert canary not in text and token not in text


def test_a_fault_inside_refuses_and_runs_nothing() -> None:
    it = gate(allow=["search"], fault="check")
    refused(it, "c1", "search", {})
    assert [one["verdict"] for one in it.decisions()] == ["rejected"]


def test_an_observed_unknown_name_is_recorded() -> None:
    it = gate(allow=["search"])
    seen = it.observe({"name": "delete", "arguments": {}, "id": "c1"})
    assert seen is not None and seen.code == "UNDISCLOSED_TOOL"
    assert it.observe({"name": "search", "arguments": {}}) is None
    assert it.attempted_undisclosed() == 1


def test_a_closed_gate_refuses() -> None:
    it = gate(allow=["search"])
    it.close()
    assert refused(it, "c1", "search", {}).code == "AUDIT_UNAVAILABLE"


def test_a_context_records_how_it_ended() -> None:
    it = gate(allow=["search"])
    with it.check("c1", "search", {"q": 1}) as args:
        assert args == {"q": 1}
    with pytest.raises(KeyError), it.check("c2", "search", {}):
        raise KeyError
