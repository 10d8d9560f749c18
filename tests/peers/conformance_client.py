"""Runs the client scenarios of the MCP conformance suite against `countersign mcp run`, which reaches the suite's servers by their URL.

Usage: conformance_client.py COUNTERSIGN NODE_MODULES

NODE_MODULES holds @modelcontextprotocol/conformance. A scenario passes but for the checks that `conformance_expected.txt` lists under
`client`, each with its reason. One of those that passes is wrong as well. Prints one line a check and ends with a count.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import check, told
from conformance import ERAS, SUITE, expected
from peers import COUNTERSIGN, MODULES, NODE

CLIENT = Path(__file__).with_name("gateway_client.py")
# Those for authorization are not here: the operator configures the gateway's credential, and no server leads it to another.
SCENARIOS = {
    "2025-11-25": ["initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry", "json-schema-2020-12-preservation"],
    "2026-07-28": ["tools_call", "request-metadata", "sep-2322-client-request-state", "http-standard-headers", "http-custom-headers",
                   "http-invalid-tool-headers", "json-schema-ref-no-deref", "json-schema-2020-12-preservation"],
}


def run(revision, scenario):
    """Returns the number of checks that pass, and the names of those that fail."""
    environment = {**os.environ, "COUNTERSIGN": str(COUNTERSIGN), "NODE_MODULES": str(MODULES), "ERA": ERAS[revision]}
    command = [NODE, SUITE, "client", "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario, "--spec-version", revision]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=False)
    text = re.sub(r"\x1b\[\d+m", "", done.stdout + done.stderr)
    counts = re.search(r"Passed: (\d+)/(\d+), (\d+) failed", text)
    failed = set(re.findall(r"\[([\w-]+) *\] FAILURE", text))
    is_whole = counts and int(counts[3]) == len(failed) and "Client exited with code" not in text
    check(f"conformance {revision}, client: {scenario} runs", is_whole, text[-2000:])
    return int(counts[1]) if counts else 0, failed


def main():
    allowed, failed = expected("client"), set()
    for revision, scenarios in SCENARIOS.items():
        for scenario in scenarios:
            passes, fails = run(revision, scenario)
            check(f"conformance {revision}, client: {scenario} passes", passes and fails <= allowed, fails - allowed)
            failed |= fails
    check("conformance, client: each expected failure fails", allowed == failed, allowed - failed)
    sys.exit(told())


if __name__ == "__main__":
    main()
