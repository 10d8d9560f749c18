"""The conforming server at a URL, behind a front that asks for a credential, redirects, and notes the headers of each request.

Usage: remote_server.py PORT LOG. The endpoint is /mcp; /moved redirects to it, /away to another host. /mcp takes the bearer token `fixed`
and those of /token, which are for one use of `client:secret`; each of the latter counts for three requests.
"""

import base64
import json
import sys

import uvicorn
from conforming_server import server

app = server.streamable_http_app()
port, log = int(sys.argv[1]), sys.argv[2]
left = {}


async def answer(send, status, body=b"", **headers):
    given = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": given})
    await send({"type": "http.response.body", "body": body})


async def front(scope, receive, send):
    if scope["type"] != "http":
        return await app(scope, receive, send)
    headers = {name.decode(): value.decode() for name, value in scope["headers"]}
    with open(log, "a") as lines:
        lines.write(json.dumps({"method": scope["method"], "path": scope["path"], **headers}) + "\n")
    if scope["path"] == "/moved":
        return await answer(send, 307, location="/mcp")
    if scope["path"] == "/away":
        return await answer(send, 307, location=f"http://localhost:{port}/mcp")
    if scope["path"] == "/token":
        form = (await receive())["body"].decode()
        is_client = headers.get("authorization") == "Basic " + base64.b64encode(b"client:sec%2Bret").decode()
        if not is_client or "grant_type=client_credentials" not in form or "resource=http" not in form:
            return await answer(send, 400, b'{"error":"invalid_client"}', content_type="application/json")
        token = f"token-{len(left)}"
        left[f"Bearer {token}"] = 3
        body = json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": 3600}).encode()
        return await answer(send, 200, body, content_type="application/json")
    credential = headers.get("authorization", "")
    left[credential] = left.get(credential, 0) - 1
    if credential != "Bearer fixed" and left[credential] < 0:
        return await answer(send, 401, www_authenticate="Bearer")
    await app(scope, receive, send)


uvicorn.run(front, host="127.0.0.1", port=port, log_level="error")
