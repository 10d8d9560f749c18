"""Puts the gateway between clients and `server-everything`, and reads its resources, prompts and completions as the registry lists them.

Usage: reads.py COUNTERSIGN NODE_MODULES. The client is the package `mcp`, in each mode, over standard input and output and over HTTP; the
registry is the draft of `mcp inspect`, less one prompt and with an approval for another. A second part has the server twice, behind one
gateway. Prints one line a check and ends with a count.
"""

import asyncio
import json
import sys
import tempfile
from pathlib import Path

from checks import check, told
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.types import PromptReference, ResourceTemplateReference
from peers import COUNTERSIGN, countersign, dump, record, server, session, set_up
from remote import MODES, over_http

STATIC, DYNAMIC = "demo://resource/static/document/features.md", "demo://resource/dynamic/text/7"
TEMPLATE = "demo://resource/dynamic/text/{resourceId}"
CITY = {"name": "city", "value": "Par"}
DIRECT = server("server-everything", "dist/index.js", "stdio")


async def refused(request):
    """The number and the data of a request's error."""
    try:
        return "passed", dump(await request)
    except MCPError as error:
        return error.error.code, error.error.data


async def uses(what, one, folder, name=lambda prompt: prompt, config="gateway.toml"):
    """Lists, reads, is refused, approves, and is refused again. `name` is the client's name of a prompt."""
    listed = [str(it.uri) for it in (await one.list_resources()).resources]
    check(f"{what} lists resources", STATIC in listed and all("/static/document/" in uri for uri in listed), listed)
    listed = [it.uri_template for it in (await one.list_resource_templates()).resource_templates]
    check(f"{what} lists templates", TEMPLATE in listed, listed)
    listed = [it.name for it in (await one.list_prompts()).prompts]
    check(f"{what} lists the prompts of its entries",
          name("args-prompt") in listed and name("completable-prompt") in listed and name("simple-prompt") not in listed, listed)
    text = (await one.read_resource(STATIC)).contents[0].text
    check(f"{what} reads a resource", "Features" in text, text[:80])
    text = (await one.read_resource(DYNAMIC)).contents[0].text
    check(f"{what} reads a resource of a template", "7" in text, text)
    for uri in ("demo://resource/other", "file:///etc/passwd", "demo://resource/dynamic/text/../../x", STATIC.upper()):
        code, data = await refused(one.read_resource(uri))
        check(f"{what} is refused {uri}", code == 403 and data["code"].startswith("ARGS_"), (code, data))
    code, data = await refused(one.get_prompt(name("simple-prompt"), {}))
    check(f"{what} is refused an unlisted prompt", code == 403 and data["code"] == "ARGS_SCHEMA", (code, data))
    reference = PromptReference(name=name("completable-prompt"), type="ref/prompt")
    values = (await one.complete(reference, {"name": "department", "value": "E"})).completion.values
    check(f"{what} completes an argument", values == ["Engineering"], values)
    other = ResourceTemplateReference(uri="file:///{path}", type="ref/resource")
    code, data = await refused(one.complete(other, CITY))
    check(f"{what} is refused another completion", code == 403, (code, data))
    args = {"city": f"Paris {what}"}
    code, data = await refused(one.get_prompt(name("args-prompt"), args))
    check(f"{what} waits for an approval of a prompt", code == 403 and data["code"] == "APPROVAL_REQUIRED", (code, data))
    countersign(folder, "approve", data["approval_id"], "--config", config, "--yes")
    got = (await one.get_prompt(name("args-prompt"), args)).messages[0].content.text
    check(f"{what} gets the approved prompt", args["city"] in got, got)
    code, data = await refused(one.get_prompt(name("args-prompt"), args))
    check(f"{what} is refused it again", code == 403 and data["code"] == "APPROVAL_REQUIRED", (code, data))


def restricted(draft):
    """The draft with no entry for one prompt, and an approval for another."""
    tools = [tool for tool in draft["tools"] if tool["name"] != "prompts/get/simple-prompt"]
    for tool in tools:
        if tool["name"] == "prompts/get/args-prompt":
            tool["approval"] = "required"
    draft["tools"] = tools
    draft["agents"][0].update(agent="tidy-bot", tools=[{"server": tool["server"], "name": tool["name"]} for tool in tools])
    return draft


def sign(folder, draft):
    (folder / "draft.json").write_text(json.dumps(dict(draft, version=2)))
    countersign(folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json", "--force")


async def one_server(folder):
    gateway = set_up(folder, "everything", DIRECT, {"echo": {"impact": "read", "approval": "not_required"}})
    draft = json.loads(countersign(folder, "mcp", "inspect", "--name", "everything", "--", *DIRECT))
    sign(folder, restricted(draft))
    parameters = StdioServerParameters(command=gateway[0], args=gateway[1:])
    for mode, _ in MODES:
        async with Client(stdio_client(parameters), mode=mode) as one:
            await uses(f"stdio {mode}", one, folder)
    async with session(DIRECT) as plain, session(gateway) as through:
        check("what is listed is listed as without the gateway",
              dump(await plain.list_resources())["resources"] == dump(await through.list_resources())["resources"])
        check("a resource is read as without the gateway",
              dump(await plain.read_resource(STATIC)) == dump(await through.read_resource(STATIC)))
    decided = {line["tool"]["name"] for line in record(folder) if line["type"] == "decision"}
    check("each read is on record under the name of its entry",
          {"resources/read", "resources/read/templates", "prompts/get/args-prompt", "completion/complete"} <= decided, decided)
    config = folder / "gateway.toml"
    config.write_text(config.read_text() + f"command = {json.dumps(DIRECT)}\n")
    await over_http(folder, uses)


async def two_servers(folder):
    set_up(folder, "one", DIRECT, {"echo": {"impact": "read", "approval": "not_required"}})
    config = folder / "gateway.toml"
    tables = "".join(f'[[server]]\nname = "{name}"\ncommand = {json.dumps(DIRECT)}\n' for name in ("one", "two"))
    config.write_text(config.read_text().replace('[server]\nname = "one"\n', tables))
    sign(folder, restricted(json.loads(countersign(folder, "mcp", "inspect", "--config", "gateway.toml"))))
    parameters = StdioServerParameters(command=str(COUNTERSIGN), args=["mcp", "run", "--config", str(config)])
    for mode, _ in MODES:
        async with Client(stdio_client(parameters), mode=mode) as one:
            await uses(f"two servers {mode}", one, folder, lambda prompt: f"two__{prompt}")


async def main():
    for part in (one_server, two_servers):
        with tempfile.TemporaryDirectory() as folder:
            await part(Path(folder).resolve())


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(told())
