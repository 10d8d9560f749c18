"""Claude Agent SDK: the real program of the wheel, with a scripted model on the loopback interface."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers import codes

pytest.importorskip("claude_agent_sdk")

from claude_agent_sdk import ClaudeAgentOptions, create_sdk_mcp_server, query, tool

from countersign.adapters.claude import gate_hooks, gated_tools, tools_json
from countersign.testing import gate as memory_gate

AMOUNT = {"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}


class Model(http.server.BaseHTTPRequestHandler):
    """Asks for the calls in `wanted`, one a turn, and then ends."""

    protocol_version = "HTTP/1.1"
    wanted: list[Any] = []
    results: list[str] = []

    def log_message(self, *_: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(b"", "text/plain")

    do_GET = do_HEAD

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        if "count_tokens" in self.path:
            return self.answer(b'{"input_tokens":1}', "application/json")
        found = [json.dumps(part) for message in request.get("messages", []) if isinstance(message["content"], list)
                 for part in message["content"] if part["type"] == "tool_result"]
        if request.get("tools"):
            Model.results = found
        block, reason = {"type": "text", "text": "done"}, "end_turn"
        if request.get("tools") and len(found) < len(Model.wanted):
            name, given = Model.wanted[len(found)]
            block, reason = {"type": "tool_use", "id": f"toolu_{len(found)}", "name": name, "input": given}, "tool_use"
        message = {"id": "msg_1", "type": "message", "role": "assistant", "model": request.get("model"), "content": [],
                   "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
        if not request.get("stream"):
            return self.answer(json.dumps(message | {"content": [block], "stop_reason": reason}).encode(), "application/json")
        empty: Any = {**block, "text": ""}
        delta: Any = {"type": "text_delta", "text": "done"}
        if reason == "tool_use":
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        events: list[Any] = [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": None}, "usage": {"output_tokens": 1}},
            {"type": "message_stop"}]
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self.answer(text.encode(), "text/event-stream")

    def answer(self, body: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class Host:
    """A project with the SDK's program in it. Its tools count how often they ran."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.runs = folder, url, list[Any]()
        (folder / "home").mkdir()

    def tools(self) -> list[Any]:
        @tool("refund", "Refunds money.", AMOUNT)
        async def refund(args: Any) -> dict[str, Any]:
            self.runs.append(args["amount"])
            return {"content": [{"type": "text", "text": f"refunded {args['amount']}"}]}

        return [refund]

    async def asks(self, *calls: Any, hooks: Any = None, tools: list[Any] | None = None,
                   permissions: Any = "bypassPermissions") -> list[str]:
        """Lets the model make these calls, and returns the results that it reads."""
        Model.wanted, Model.results = list(calls), []
        env = {"HOME": str(self.folder / "home"), "ANTHROPIC_BASE_URL": self.url, "ANTHROPIC_API_KEY": "sk-none", "IS_SANDBOX": "1",
               "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "ENABLE_TOOL_SEARCH": "false"}
        servers: Any = {"desk": create_sdk_mcp_server("desk", tools=tools)} if tools is not None else {}
        options = ClaudeAgentOptions(cwd=self.folder, env=env, permission_mode=permissions, hooks=hooks,
                                     mcp_servers=servers, setting_sources=[])
        async for _ in query(prompt="go", options=options):
            pass
        return Model.results


@pytest.fixture
def host(tmp_path: Path, url: str) -> Host:
    return Host(tmp_path, url)


async def test_accepted_call_of_the_shell_runs(host: Host) -> None:
    gate = memory_gate(["Bash"])
    await host.asks(("Bash", {"command": "touch ran"}), hooks=gate_hooks(gate))
    assert ((host.folder / "ran").exists(), codes(gate)) == (True, ["accepted"])


async def test_accepted_call_still_needs_the_host_s_permission(host: Host) -> None:
    gate = memory_gate(["Bash"])
    await host.asks(("Bash", {"command": "touch ran"}), hooks=gate_hooks(gate), permissions="default")
    assert ((host.folder / "ran").exists(), codes(gate)) == (False, ["accepted"])


async def test_fault_is_one_refusal(host: Host) -> None:
    gate = memory_gate(["Bash"], fault="check")
    [result] = await host.asks(("Bash", {"command": "touch ran"}), hooks=gate_hooks(gate))
    assert "CHECK_REFUSED" in result
    assert ((host.folder / "ran").exists(), codes(gate)) == (False, ["CHECK_REFUSED"])


async def test_undisclosed_tool_of_the_host_does_not_run(host: Host) -> None:
    gate = memory_gate(["Read"])
    [result] = await host.asks(("Bash", {"command": "touch ran"}), hooks=gate_hooks(gate))
    assert "UNDISCLOSED_TOOL" in result
    assert ((host.folder / "ran").exists(), codes(gate)) == (False, ["UNDISCLOSED_TOOL"])


async def test_next_try_finds_the_token(host: Host) -> None:
    gate = memory_gate([], ["Bash"])
    call = ("Bash", {"command": "touch ran"})
    asked: list[Any] = []

    def approver(request: Any) -> str | None:
        asked.append(request)
        if len(asked) == 2:
            return gate.approve(request, "bob", "5m")
        return None

    results = await host.asks(call, call, hooks=gate_hooks(gate, approver=approver))
    assert "APPROVAL_REQUIRED" in results[0]
    assert asked[0].to_json() == asked[1].to_json(), "the next try is the same question"
    assert (host.folder / "ran").exists()
    assert codes(gate).count("accepted") == 1


async def test_approval_counts_for_one_call(host: Host) -> None:
    gate = memory_gate([], ["Bash"])
    tokens: list[str] = []

    def approver(request: Any) -> str:
        tokens.append(tokens[0] if tokens else gate.approve(request, "bob", "5m"))
        return tokens[-1]

    call = ("Bash", {"command": "echo x >> ran"})
    results = await host.asks(call, call, hooks=gate_hooks(gate, approver=approver))
    assert (host.folder / "ran").read_text() == "x\n"
    assert "Refused by Countersign" in results[1]


async def test_tool_of_an_sdk_server_is_one_decision(host: Host) -> None:
    gate = memory_gate(["refund"])
    tools = gated_tools(host.tools(), gate)
    await host.asks(("mcp__desk__refund", {"amount": 5}), hooks=gate_hooks(gate, gated=["desk"]), tools=tools)
    assert (host.runs, codes(gate)) == ([5], ["accepted"])


async def test_refused_tool_of_an_sdk_server_does_not_run(host: Host) -> None:
    gate = memory_gate([], ["refund"])
    [result] = await host.asks(("mcp__desk__refund", {"amount": 5}), tools=gated_tools(host.tools(), gate))
    assert "APPROVAL_REQUIRED" in result
    assert (host.runs, codes(gate)) == ([], ["APPROVAL_REQUIRED"])


def test_tool_gated_twice_is_an_error(host: Host) -> None:
    gate = memory_gate(["refund"])
    with pytest.raises(TypeError):
        gated_tools(gated_tools(host.tools(), gate), gate)


def test_tool_without_a_json_schema_is_an_error(host: Host) -> None:
    @tool("odd", "Odd.", {"x": str})
    async def odd(args: Any) -> dict[str, Any]:
        return {}

    with pytest.raises(TypeError):
        tools_json([odd])


async def test_page_of_claude(host: Host, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from test_docs import arun

    gate = memory_gate(["Bash"], ["refund"])
    Model.wanted, Model.results = [("mcp__desk__refund", {"amount": 5})], []
    for name, value in {"HOME": str(host.folder / "home"), "ANTHROPIC_BASE_URL": host.url, "ANTHROPIC_API_KEY": "sk-none",
                        "IS_SANDBOX": "1", "ENABLE_TOOL_SEARCH": "false"}.items():
        monkeypatch.setenv(name, value)
    await arun("claude.md", gate=gate, tools=host.tools(), folder=host.folder)
    assert (host.runs, codes(gate)) == ([5], ["APPROVAL_REQUIRED", "accepted"])
