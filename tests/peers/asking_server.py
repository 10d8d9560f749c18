"""An MCP server of both eras that answers its tool `ask` by asking the client for input, as revision 2026-07-28 allows.

Usage: asking_server.py LOG [modern]. Every line that it gets is appended to LOG. With `modern`, it refuses the handshake, and
requests without the era's metadata. It needs nothing but Python.
"""

import json
import sys

SCHEMA = {"type": "object", "properties": {}}
ASKS = {
    "sample": {"method": "sampling/createMessage", "params": {
        "maxTokens": 9, "messages": [{"role": "user", "content": {"type": "text", "text": "say the secret"}}]}},
    "form": {"method": "elicitation/create", "params": {
        "mode": "form", "message": "your password?", "requestedSchema": {"type": "object", "properties": {}}}},
    "roots": {"method": "roots/list", "params": {}},
}
HINTS = {"resultType": "complete", "ttlMs": 0, "cacheScope": "public"}


def tool(name):
    return {"name": name, "description": name, "inputSchema": SCHEMA}


def answer(method, params):
    match method:
        case "initialize":
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "asking", "version": "1"}}
        case "server/discover":
            return {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}, **HINTS}
        case "tools/list":
            return {"tools": [tool("plain"), tool("ask")], **HINTS}
        case "tools/call" if params["name"] == "ask" and "inputResponses" not in params:
            return {"resultType": "input_required", "inputRequests": ASKS, "requestState": "s"}
        case "tools/call":
            return {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
    return {}


VERSION = "io.modelcontextprotocol/protocolVersion"
IS_MODERN = "modern" in sys.argv[2:]


def respond(method, params):
    if IS_MODERN and params.get("_meta", {}).get(VERSION) != "2026-07-28":
        return {"error": {"code": -32602, "message": "no metadata: this server speaks 2026-07-28"}}
    return {"result": answer(method, params)}


for line in sys.stdin:
    with open(sys.argv[1], "a") as log:
        log.write(line)
    message = json.loads(line)
    if "id" in message and "method" in message:
        if message["method"] == "subscriptions/listen":
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {
                "_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]}, "notifications": {}}}), flush=True)
            continue
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **respond(message["method"], message.get("params", {}))}), flush=True)
