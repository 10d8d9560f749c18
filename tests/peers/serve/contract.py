"""Holds every answer of the service against its OpenAPI document."""

import json
import re
import subprocess
from pathlib import Path

from checks import check
from jsonschema import Draft202012Validator

COMMITTED = Path(__file__).resolve().parents[3] / "docs" / "openapi.json"
document = {}
seen, wrong, undocumented = set(), [], set()
validators = {}


def read(binary):
    printed = subprocess.run([binary, "serve", "--openapi"], capture_output=True, text=True, check=True).stdout
    check("the committed OpenAPI document is current", printed == COMMITTED.read_text())
    document.update(json.loads(printed))
    for name, schema in document["components"]["schemas"].items():
        Draft202012Validator.check_schema(schema)
        validators[name] = Draft202012Validator({**schema, "components": document["components"]})


def operation(method, path):
    """The documented path and operation for a request."""
    plain = path.split("?")[0]
    for documented, methods in document["paths"].items():
        if re.fullmatch(documented.replace("{id}", "[^/]+"), plain):
            return documented, methods.get(method.lower())
    return None, None


def validate(method, path, status, kind, value):
    documented, methods = operation(method, path)
    if status >= 400:
        if kind != "application/problem+json" or not validators["Problem"].is_valid(value) or value["status"] != status:
            wrong.append((method, path, status, kind, value))
        return
    if methods is None or str(status) not in methods["responses"]:
        undocumented.add((method, path, status))
        return
    (content, schema), = methods["responses"][str(status)]["content"].items()
    name = schema["schema"]["$ref"].rsplit("/", 1)[1]
    errors = [error.message for error in validators[name].iter_errors(value)]
    if not kind.startswith(content) or errors:
        wrong.append((method, path, status, errors[:2], value))
    seen.add((method.lower(), documented))


def report():
    check("every answer fits its schema", not wrong, wrong[:3])
    check("no answer is undocumented", not undocumented, undocumented)
    all_of_them = {(method, path) for path, methods in document["paths"].items() for method in methods}
    # The build has no metrics.
    check("every documented operation was driven", all_of_them - seen <= {("get", "/metrics")}, all_of_them - seen)
