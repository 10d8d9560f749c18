"""A stock client gets an access token from an authorization server, and calls through `countersign mcp serve` with it.

Usage: oauth.py COUNTERSIGN NODE_MODULES

NODE_MODULES holds `oidc-provider`, which is the authorization server. The client is the package `mcp`. Prints one line a check and
ends with a count.
"""

import asyncio
import base64
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlparse
from urllib.request import urlopen

import httpx2
from checks import check, told
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata
from mcp_serve import TOKENS, all_records, post, request, served, stated
from peers import MODULES, NODE, refusal

BACK = "http://127.0.0.1:9/back"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


@contextlib.contextmanager
def authorization_server(resource):
    port = free_port()
    script = Path(__file__).with_name("authorization_server.mjs")
    server = subprocess.Popen([NODE, script, MODULES, str(port), resource], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert server.stdout.readline().strip().endswith("ready") or "ready" in server.stdout.readline()
        yield f"http://localhost:{port}"
    finally:
        server.terminate()
        server.wait()


class Storage:
    """What the client remembers."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


class Person:
    """Logs in and consents where the client's browser would lead."""

    def __init__(self, name):
        self.name, self.answer = name, None

    async def visit(self, url):
        async with httpx2.AsyncClient() as browser:
            answer = await browser.get(url)
            for _ in range(20):
                target = answer.headers.get("location", "")
                if target.startswith(BACK):
                    self.answer = {name: values[0] for name, values in parse_qs(urlparse(target).query).items()}
                    return
                if target:
                    answer = await browser.get(str(answer.url.join(target)))
                    continue
                form = re.search(r'<form[^>]*action="([^"]+)"', answer.text).group(1)
                prompt = re.search(r'name="prompt" value="(\w+)"', answer.text).group(1)
                answer = await browser.post(str(answer.url.join(form)), data={"prompt": prompt, "login": self.name, "password": "x"})
        raise SystemExit("the authorization server did not lead back")

    async def back(self):
        return AuthorizationCodeResult(code=self.answer["code"], state=self.answer.get("state"), iss=self.answer.get("iss"))


async def flow(folder):
    port = free_port()
    resource = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, str(Path(__file__).with_name("asking_server.py")), str(folder / "got.jsonl"), "both"]
    with authorization_server(resource) as issuer:
        oauth = f'[serve.oauth]\nissuer = "{issuer}"\nresource = "{resource}"\njwks_url = "{issuer}/jwks"\nscopes = ["mcp"]\n'
        with served(folder, "asking", command, {"plain": {"impact": "read", "approval": "not_required"}}, port=port, oauth=oauth) as (url, _):
            check("oauth: the endpoint is the resource", url == resource, url)
            call = request("tools/call", {"name": "plain", "arguments": {}})
            told_call = stated("tools/call", "plain")
            status, headers, _ = post(url, call, None, **told_call)
            challenge = headers["WWW-Authenticate"]
            check("oauth: no token is 401 with the metadata's URL", status == 401 and "resource_metadata=" in challenge, challenge)
            metadata = json.load(urlopen(re.search(r'resource_metadata="([^"]+)"', challenge).group(1)))
            check("oauth: the metadata names the issuer", metadata["authorization_servers"] == [issuer] and metadata["resource"] == resource, metadata)
            for mode in ("auto", "legacy"):
                storage, person = Storage(), Person("ada@example.com")
                metadata = OAuthClientMetadata(client_name="peer", redirect_uris=[BACK], scope="mcp", token_endpoint_auth_method="none")
                auth = OAuthClientProvider(url, metadata, storage, person.visit, person.back)
                async with httpx2.AsyncClient(auth=auth, timeout=30) as http:
                    async with Client(streamable_http_client(url, http_client=http), mode=mode) as one:
                        check(f"oauth: {mode}: a stock client completes the flow", storage.tokens is not None)
                        done = await one.call_tool("plain", {})
                        check(f"oauth: {mode}: it calls", done.content[0].text == "done", done)
                        check(f"oauth: {mode}: it is refused", refusal(await one.call_tool("nothing", {})) == "UNDISCLOSED_TOOL")
            token = storage.tokens.access_token
            status, _, text = post(url, call, token, **told_call)
            check("oauth: the token counts on its own", status == 200 and '"done"' in text, (status, text))
            check("oauth: the token in the query is 401", post(f"{url}?access_token={token}", call, None, **told_call)[0] == 401)
            head, claims, signature = token.split(".")
            changed = json.loads(base64.urlsafe_b64decode(claims + "=="))
            changed["sub"] = "eve@example.com"
            changed = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode().rstrip("=")
            status, headers, text = post(url, call, f"{head}.{changed}.{signature}", **told_call)
            check("oauth: a changed token is 401", status == 401 and json.loads(text)["code"] == "TOKEN_SIGNATURE", (status, text))
            check("oauth: its challenge says so", 'error="invalid_token"' in headers["WWW-Authenticate"], headers["WWW-Authenticate"])
            check("oauth: a token of the operator's list counts too", post(url, call, TOKENS["bob"], **told_call)[0] == 200)
    sessions = {line["principal"] for line in all_records(folder) if line["type"] == "session" and "principal" in line}
    check("oauth: the principal is the token's subject", sessions == {"ada@example.com", "bob"}, sessions)
    sent = (folder / "got.jsonl").read_text()
    check("oauth: no token reaches the server", token not in sent and TOKENS["bob"] not in sent)


def main():
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(flow(Path(folder).resolve()))
    sys.exit(told())


if __name__ == "__main__":
    main()
