"""JSON values that cannot be changed."""

from types import MappingProxyType
from typing import Any


def freeze(value: Any) -> Any:
    """Returns mappings for dicts and tuples for lists, all the way down."""
    if isinstance(value, dict):
        return MappingProxyType({name: freeze(member) for name, member in value.items()})
    if isinstance(value, list):
        return tuple(freeze(element) for element in value)
    return value
