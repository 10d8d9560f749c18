"""Tools of a host as a `tools/list` result, to draft a registry from."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def tools_json(tools: Iterable[Mapping[str, Any]]) -> str:
    """Returns `{"tools": [..]}` for tools given as mappings with `name`, `description` and `inputSchema`.

    Schemas of objects are closed: a member that they do not name is refused. Raises `ValueError` for a tool without a name
    or with a schema that is not an object.
    """
    import json

    listed = []
    for tool in tools:
        name, schema = tool.get("name"), tool.get("inputSchema", {"type": "object"})
        if not isinstance(name, str) or not isinstance(schema, dict):
            raise ValueError("a tool needs a name and a schema that is an object")
        entry: dict[str, Any] = {"name": name, "inputSchema": _closed(schema)}
        if tool.get("description"):
            entry["description"] = str(tool["description"])
        listed.append(entry)
    return json.dumps({"tools": listed}, ensure_ascii=False, separators=(",", ":"))


def _closed(schema: Any) -> Any:
    if isinstance(schema, dict):
        closed = {name: _closed(member) for name, member in schema.items()}
        if closed.get("type") == "object" and "additionalProperties" not in closed:
            closed.setdefault("properties", {})
            closed["additionalProperties"] = False
        return closed
    if isinstance(schema, list):
        return [_closed(element) for element in schema]
    return schema
