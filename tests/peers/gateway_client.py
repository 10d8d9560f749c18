"""A client for the MCP conformance suite that reaches the suite's server through `countersign mcp run`.

Usage: gateway_client.py URL. The environment has COUNTERSIGN, NODE_MODULES, ERA (`auto` or `stateless`) and the suite's own variables.
Drafts a registry from the server's tools and signs it with rules that need no approval. Then lists the tools, and calls each as the
scenario says. A server without tools has no registry: its client is `countersign mcp inspect`.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

sys.argv[1:] = [os.environ["COUNTERSIGN"], os.environ["NODE_MODULES"], sys.argv[-1]]

from mcp import Client, StdioServerParameters  # noqa: E402
from mcp.types import ElicitResult  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from peers import COUNTERSIGN, countersign, set_up  # noqa: E402

SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
ERA = os.environ["ERA"]
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
LISTED = []
VALUES = {"number": 5, "integer": 3, "string": "x", "boolean": True, "object": {}, "array": []}


def arguments(tool):
    schema = tool.input_schema
    if tool.name == "json_schema_echo":
        # The suite compares the schema that a client lists with its own.
        return {"schema": next(it.input_schema for it in LISTED if it.name != tool.name)}
    return {name: VALUES.get(schema["properties"][name].get("type"), "x") for name in schema.get("required", [])}


async def answer(_, params):
    properties = params.requested_schema["properties"]
    return ElicitResult(action="accept", content={name: it.get("default", VALUES[it["type"]]) for name, it in properties.items()})


async def drive(folder, url):
    try:
        tools = json.loads(countersign(folder, "mcp", "inspect", "--name", "suite", "--url", url))["tools"]
    except SystemExit as end:
        if "SERVER_NO_TOOLS" not in str(end):
            raise
        return
    rules = {tool["name"]: {"impact": "read", "approval": "not_required"} for tool in tools}
    set_up(folder, "suite", ["--url", url], rules)
    config = folder / "gateway.toml"
    config.write_text(config.read_text() + f'url = "{url}"\nera = "{ERA}"\nserver_methods = ["elicitation/create"]\n')
    parameters = StdioServerParameters(command=str(COUNTERSIGN), args=["mcp", "run", "--config", str(config)])
    mode = "legacy" if ERA == "auto" else "auto"
    async with Client(stdio_client(parameters), mode=mode, elicitation_callback=answer) as one:
        LISTED[:] = listed = (await one.list_tools()).tools
        given = CONTEXT.get("toolCalls") or [{"name": tool.name, "arguments": arguments(tool)} for tool in listed]
        for call in given:
            done = await one.call_tool(call["name"], call["arguments"])
            print(call, done.model_dump_json()[:300])


with tempfile.TemporaryDirectory() as temporary:
    asyncio.run(drive(Path(temporary).resolve(), sys.argv[3]))
