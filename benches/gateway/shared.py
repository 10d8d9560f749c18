"""What the benches of the gateway share: its files, its registry, and a virtual environment with the peer."""

import json
import statistics
import subprocess
import sys

FASTMCP = "fastmcp==4.1.0"
ORIGIN = "ratios.example/log"
CONFIG = """
[registry]
file = "registry.json"
trust_root = "root.json"
state = "registry.state"
[session]
agent = "bot"
principal = "ada@example.com"
ttl = "1h"
[record]
folder = "log"
key_file = "log.key"
origin = "ratios.example/log"
state = "record.state"
durability = "{durability}"
[server]
name = "s"
"""


def countersign(binary, folder, *args):
    done = subprocess.run([binary, *args], cwd=folder, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise SystemExit(f"countersign {' '.join(args)}: exit {done.returncode}: {done.stderr}")
    return done.stdout


def prepare(binary, folder, durability, more, source):
    """Writes keys, a registry and a configuration with `more` at its end. `source` names the server to `mcp inspect`."""
    folder.mkdir()
    (folder / "gateway.toml").write_text(CONFIG.format(durability=durability) + more)
    countersign(binary, folder, "keys", "generate", "--kind", "ed25519", "--out", "op.key", "--public-out", "op.pub")
    countersign(binary, folder, "keys", "generate", "--kind", "log", "--origin", ORIGIN, "--out", "log.key")
    countersign(binary, folder, "keys", "trust", "--threshold", "1", "--out", "root.json", "op.pub")
    draft = json.loads(countersign(binary, folder, "mcp", "inspect", *source))
    for tool in draft["tools"]:
        tool.update(impact="read", approval="not_required", ask="not_required")
    tools = [{"server": "s", "name": tool["name"]} for tool in draft["tools"]]
    draft["agents"] = [{"agent": "bot", "version": 1, "registered_by": "operator", "tools": tools,
                        "output_tags": [], "max_session": "1h"}]
    (folder / "draft.json").write_text(json.dumps(draft))
    countersign(binary, folder, "registry", "sign", "draft.json", "--key", "op.key", "--ttl", "1d", "--out", "registry.json")


def fastmcp(binary, work, script):
    """The Python of a virtual environment with fastmcp, and the script of a proxy."""
    venv = binary.parents[1] / "ratios-venv"
    python = venv / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", FASTMCP], check=True)
    (work / "proxy.py").write_text(script)
    return [python, work / "proxy.py"]


def figure(values):
    """The median, and the interquartile range."""
    quarters = statistics.quantiles(values, n=4)
    return statistics.median(values), quarters[2] - quarters[0]
