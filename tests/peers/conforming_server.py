"""An MCP server of both eras, by the Python SDK, that has what the conformance suite looks for.

Usage: conforming_server.py [PORT]. With PORT it serves Streamable HTTP on a loopback address, otherwise standard input and output.
"""

import asyncio
import base64
import json
import sys
from typing import Annotated

from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp.types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SILENCE = base64.b64encode(b"RIFF\x24\0\0\0WAVEfmt \x10\0\0\0\1\0\1\0\x40\x1f\0\0\x40\x1f\0\0\1\0\x08\0data\0\0\0\0").decode()
server = MCPServer(name="conforming", version="1", request_state_security=RequestStateSecurity(keys=[b"k" * 32]))


def text(words):
    return TextContent(type="text", text=words)


def image():
    return ImageContent(type="image", data=PIXEL, mime_type="image/png")


def embedded(uri, kind, words):
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=words))


CONTENT = {
    "test_simple_text": [text("This is a simple text response for testing.")],
    "test_image_content": [image()],
    "test_audio_content": [AudioContent(type="audio", data=SILENCE, mime_type="audio/wav")],
    "test_embedded_resource": [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")],
    "test_multiple_content_types": [
        text("Multiple content types test:"), image(),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')],
}


def fixed(name, content):
    def tool():
        return content
    server.add_tool(tool, name=name, description=name, structured_output=False)


for name, content in CONTENT.items():
    fixed(name, content)


@server.tool(description="one of the suite")
async def test_tool_with_logging(context: Context) -> str:
    for step in ("started", "processing data", "completed"):
        await context.info(f"Tool execution {step}" if step != "processing data" else f"Tool {step}")
        await asyncio.sleep(0.05)
    return "logged"


@server.tool(description="one of the suite")
async def test_tool_with_progress(context: Context) -> str:
    for step in (0, 50, 100):
        await context.report_progress(progress=step, total=100, message=f"{step} of 100")
        await asyncio.sleep(0.05)
    return "done"


@server.tool(description="one of the suite")
async def test_error_handling() -> str:
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool(description="one of the suite")
async def test_sampling(prompt: str, context: Context) -> str:
    asked = [SamplingMessage(role="user", content=text(prompt))]
    answer = await context.session.create_message(messages=asked, max_tokens=100, related_request_id=context.request_id)
    return f"LLM response: {getattr(answer.content, 'text', '')}"


class Words(BaseModel):
    response: str = Field(description="words")


class Defaults(BaseModel):
    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def titled(*pairs):
    return [{"const": name, "title": title} for name, title in pairs]


class Choices(BaseModel):
    untitledSingle: str = Field(json_schema_extra={"enum": ["option1", "option2", "option3"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": titled(("value1", "First"), ("value2", "Second"))})
    legacyEnum: str = Field(json_schema_extra={"enum": ["opt1", "opt2"], "enumNames": ["Option One", "Option Two"]})
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": ["option1", "option2"]}})
    titledMulti: list[str] = Field(json_schema_extra={"items": {"anyOf": titled(("value1", "First"), ("value2", "Second"))}})


def elicits(name, form):
    async def tool(context: Context, message: str = "Please answer") -> str:
        answer = await context.elicit(message=message, schema=form)
        content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
        return f"answer: action={answer.action}, content={content}"
    server.add_tool(tool, name=name, description=name)


elicits("test_elicitation", Words)
elicits("test_elicitation_sep1034_defaults", Defaults)
elicits("test_elicitation_sep1330_enums", Choices)


@server.tool(description="one of the suite")
async def test_reconnection(context: Context) -> str:
    await context.close_sse_stream()
    await asyncio.sleep(0.2)
    return "reconnected"


@server.tool(description="one of the suite")
def test_x_mcp_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "") -> str:
    return f"region={region}"


@server.tool(description="one of the suite")
async def test_missing_capability(context: Context) -> str:
    declared = context.session.client_capabilities
    if declared is None or declared.sampling is None:
        raise MCPError(code=MISSING_REQUIRED_CLIENT_CAPABILITY, message="sampling is missing",
                       data={"requiredCapabilities": {"sampling": {}}})
    return "declared"


def form(message, **properties):
    schema = {"type": "object", "properties": {name: {"type": kind} for name, kind in properties.items()},
              "required": list(properties)}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words):
    asked = [SamplingMessage(role="user", content=text(words))]
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=asked, max_tokens=50))


# What each tool asks for, its state, and the words for the answers.
ROUNDS = {
    "elicitation": ({"user_name": form("What is your name?", name="string")}, None),
    "sampling": ({"capital_question": sample("What is the capital of France?")}, None),
    "list_roots": ({"client_roots": ListRootsRequest()}, None),
    "request_state": ({"confirm": form("Please confirm", ok="boolean")}, "nonce"),
    "tampered_state": ({"confirm": form("Please confirm", ok="boolean")}, "nonce"),
    "multiple_inputs": ({"user_name": form("What is your name?", name="string"), "greeting": sample("Greet"),
                         "client_roots": ListRootsRequest()}, "all"),
}


def asks(name, requests, state):
    async def tool(context: Context) -> str | InputRequiredResult:
        answers = context.input_responses or {}
        if set(requests) <= set(answers) and context.request_state == state:
            return "state-ok: " + ", ".join(f"{name}={answer.model_dump_json()}" for name, answer in answers.items())
        return InputRequiredResult(input_requests=requests, request_state=state)
    server.add_tool(tool, name=f"test_input_required_result_{name}", description=name)


for name, (requests, state) in ROUNDS.items():
    asks(name, requests, state)


@server.tool(description="one of the suite")
async def test_input_required_result_multi_round(context: Context) -> str | InputRequiredResult:
    answers, state = context.input_responses or {}, json.loads(context.request_state or "[]")
    if state == [1] and "step1" in answers:
        return InputRequiredResult(input_requests={"step2": form("Your colour?", color="string")}, request_state="[2]")
    if state == [2] and "step2" in answers:
        return "both rounds are done"
    return InputRequiredResult(input_requests={"step1": form("Your name?", name="string")}, request_state="[1]")


@server.tool(description="one of the suite")
async def test_input_required_result_capabilities(context: Context) -> InputRequiredResult:
    declared = context.client_capabilities
    all_requests = {"sampling": sample("Say hello"), "elicitation": form("Your name?", name="string")}
    requests = {name: it for name, it in all_requests.items() if declared is None or getattr(declared, name) is not None}
    return InputRequiredResult(input_requests=requests, request_state="gated")


def nothing() -> str:
    return ""


@server.tool(description="one of the suite")
async def test_trigger_tool_change(context: Context) -> str:
    server.add_tool(nothing, name="test_dynamic_tool")
    server.remove_tool("test_dynamic_tool")
    await context.notify_tools_changed()
    return "changed"


@server.tool(description="one of the suite")
async def test_trigger_prompt_change(context: Context) -> str:
    server.add_prompt(Prompt.from_function(nothing, name="test_dynamic_prompt", description="dynamic"))
    server.remove_prompt("test_dynamic_prompt")
    await context.notify_prompts_changed()
    return "changed"


@server.tool(description="one of the suite")
def json_schema_2020_12_tool() -> str:
    return "validated"


server._tool_manager._tools["json_schema_2020_12_tool"].parameters = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"$anchor": "addressDef", "type": "object",
                          "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                   "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                   "phone": {"type": "string"}, "email": {"type": "string"}},
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.resource("test://static-text")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return json.dumps({"id": id, "data": f"Data for ID: {id}"})


@server.resource("test://watched-resource")
def watched() -> str:
    return "watched"


@server.prompt(description="one of the suite")
def test_simple_prompt() -> list[UserMessage]:
    return [UserMessage(role="user", content=text("This is a simple prompt for testing."))]


@server.prompt(description="one of the suite")
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]


@server.prompt(description="one of the suite")
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    return [UserMessage(role="user", content=embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
            UserMessage(role="user", content=text("Please process the embedded resource above."))]


@server.prompt(description="one of the suite")
def test_prompt_with_image() -> list[UserMessage]:
    return [UserMessage(role="user", content=image()), UserMessage(role="user", content=text("Please analyze the image above."))]


@server.prompt(description="one of the suite")
async def test_input_required_result_prompt(context: Context) -> list[UserMessage] | InputRequiredResult:
    answers = context.input_responses or {}
    if "user_context" in answers:
        return [UserMessage(role="user", content=text(answers["user_context"].model_dump_json()))]
    return InputRequiredResult(input_requests={"user_context": form("Which context?", context="string")})


@server.completion()
async def complete(ref, argument, context) -> Completion:
    return Completion(values=[], total=0, has_more=False)


async def accept(context, params) -> EmptyResult:
    return EmptyResult()


for method, params in (("logging/setLevel", SetLevelRequestParams), ("resources/subscribe", SubscribeRequestParams),
                       ("resources/unsubscribe", UnsubscribeRequestParams)):
    server._lowlevel_server.add_request_handler(method, params, accept)

if __name__ == "__main__":
    if len(sys.argv) > 1:
        server.run(transport="streamable-http", port=int(sys.argv[1]))
    else:
        server.run(transport="stdio")
