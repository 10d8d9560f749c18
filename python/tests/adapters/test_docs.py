"""The programs of `docs/hosts`."""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from helpers import Desk, codes, desk_gate

PAGES = Path(__file__).parents[3] / "docs" / "hosts"


def run(page: str, **names: Any) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    exec(compile(program, page, "exec"), names)


def test_page_of_plain_functions(capsys: pytest.CaptureFixture[str]) -> None:
    gate = desk_gate()
    run("functions.md", gate=gate)
    assert capsys.readouterr().out == "refunded 5\n"
    assert codes(gate) == ["APPROVAL_REQUIRED", "accepted"]


def test_page_of_langchain(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("langgraph")
    from langchain_core.messages import AIMessage
    from langgraph.checkpoint.memory import InMemorySaver
    from test_langchain import CONFIG, Model, calls, tools_of

    model = Model(messages=iter([calls(("refund", {"amount": 5}, "c1")), AIMessage("done")]))
    run("langchain.md", gate=desk_gate(), model=model, tools=tools_of(Desk()), checkpointer=InMemorySaver(),
        config=CONFIG, json=json)
    assert capsys.readouterr().out == "refunded 5.0\n"


def test_page_of_action_proposals(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("pic_standard")
    sys.path.insert(0, str(Path(__file__).parents[1]))
    from test_pic import RING, desk, good, tools_of, turn

    keys = tmp_path / "keyring.json"
    keys.write_text(json.dumps(RING))
    keys.chmod(0o600)
    [message] = turn({"amount": 5, "__pic": good()})["messages"]
    run("pic.md", gate=desk(keys, []), tools=tools_of([]), message=message, proposal=good())
    assert capsys.readouterr().out == "paid 5.0\n{'isError': False, 'result': 'paid 5'}\nPIC_INVALID_REQUEST\n"


async def arun(page: str, **names: Any) -> None:
    [program] = re.findall(r"```python\n(.*?)```", (PAGES / page).read_text(), re.DOTALL)
    result = eval(compile(program, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    if inspect.isawaitable(result):
        await result


async def test_page_of_openai_agents(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("agents")
    from agents.testing import ModelStep, ScriptedModel, assistant_message, function_call
    from test_openai_agents import tools_of

    desk = Desk()
    call = function_call("refund", json.dumps({"amount": 5}), call_id="c1")
    model = ScriptedModel([ModelStep(output=[call]), ModelStep(output=[assistant_message("done")])])
    await arun("openai-agents.md", gate=desk_gate(), model=model, tools=tools_of(desk))
    assert (capsys.readouterr().out, desk.runs) == ("done\n", [5.0])


async def test_page_of_pydantic_ai(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai.toolsets import FunctionToolset

    desk = Desk()
    turns = iter([ModelResponse([ToolCallPart("refund", {"amount": 5}, tool_call_id="c1")]),
                  ModelResponse([TextPart("done")])])
    await arun("pydantic-ai.md", gate=desk_gate(), model=FunctionModel(lambda *_: next(turns)),
               toolset=FunctionToolset[Any]([desk.refund]), json=json)
    assert (capsys.readouterr().out, desk.runs) == ("done\n", [5.0])


async def test_page_of_google_adk() -> None:
    pytest.importorskip("google.adk")
    from test_google_adk import Script

    desk, gate = Desk(), desk_gate()
    await arun("google-adk.md", gate=gate, tools=[desk.refund], json=json,
               model=Script(model="script", calls=[("refund", {"amount": 5}, "c1")]))
    assert (desk.runs, codes(gate)) == ([5], ["APPROVAL_REQUIRED", "accepted"])
