"""An MCP server whose tool `pay` appends its arguments to a file, a line for each run.

Usage: counting_server.py FILE. It needs nothing but Python.
"""

import json
import sys

SCHEMA = {"type": "object", "additionalProperties": False, "properties": {"to": {"type": "string"}}}


def answer(method, params):
    match method:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "counting", "version": "1"}}
        case "tools/list":
            return {"tools": [{"name": "pay", "description": "Pays.", "inputSchema": SCHEMA}]}
        case "tools/call":
            with open(sys.argv[1], "a") as file:
                file.write(json.dumps(params["arguments"]) + "\n")
            return {"content": [{"type": "text", "text": "paid"}]}
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params", {}))
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
