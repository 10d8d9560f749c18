"""Runs the README's commands as a newcomer would: from a client's own configuration to the first refused and the first approved call.

Usage: two_minutes.py COUNTERSIGN NODE_MODULES

The person has server-filesystem and a small server of their own in Cursor's configuration. They type what the README says and nothing
else. The client is the Inspector's command line, which reads the same configuration. Prints one line a check and ends with a count.
"""

import contextlib
import getpass
import json
import os
import pty
import re
import resource
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from checks import check, told

COUNTERSIGN = Path(sys.argv[1]).resolve()
MODULES = Path(sys.argv[2]).resolve()
README = Path(__file__).parents[2] / "README.md"
DECISION = "dev.countersign/decision"
SECRET = "sk-this-stays-with-the-client"


class World:
    """A home folder with the binary on the search path and two servers in the client's configuration."""

    def __init__(self, folder):
        self.home = folder / "home"
        self.docs = folder / "docs"
        self.paid = folder / "paid.jsonl"
        self.config = self.home / ".cursor" / "mcp.json"
        self.typed = 0
        self.config.parent.mkdir(parents=True)
        self.docs.mkdir()
        (self.docs / "a.txt").write_text("hello\n")
        programs = folder / "bin"
        programs.mkdir()
        shutil.copy(COUNTERSIGN, programs / "countersign")
        self.env = {
            "HOME": str(self.home),
            "USER": getpass.getuser(),
            "PATH": f"{programs}:{MODULES / '.bin'}:{os.environ['PATH']}",
            "TERM": "xterm-256color",
        }
        bank = str(Path(__file__).with_name("counting_server.py"))
        self.before = f"""\
{{
  // The servers of the desk.
  "mcpServers": {{
    "files": {{ "command": "mcp-server-filesystem", "args": [{json.dumps(str(self.docs))}] }},
    "bank": {{
      "command": {json.dumps(sys.executable)},
      "args": [{json.dumps(bank)}, {json.dumps(str(self.paid))}],
      "env": {{ "BANK_KEY": "{SECRET}" }},
    }},
  }},
}}
"""
        self.config.write_text(self.before)

    def types(self, line, *answers):
        """Types a command and its answers at a terminal. Returns the exit code and the screen."""
        self.typed += 1
        screen, terminal = pty.openpty()
        process = subprocess.Popen(shlex.split(line), cwd=self.home, env=self.env, stdin=terminal, stdout=terminal,
                                   stderr=terminal, start_new_session=True)
        os.close(terminal)
        shown = ""
        for prompt, answer in answers:
            shown += until(screen, prompt)
            os.write(screen, answer.encode() + b"\n")
        with contextlib.suppress(OSError):
            while text := os.read(screen, 65536):
                shown += text.decode(errors="replace")
        return process.wait(60), shown

    def client(self, server, tool, **args):
        """Calls a tool with the Inspector, which starts the entry of the configuration as the client would."""
        # The Inspector reads JSON without comments: it gets the same entries.
        plain = self.home / "inspector.json"
        plain.write_text(without_comments(self.config.read_text()))
        given = [part for name, value in args.items() for part in ("--tool-arg", f"{name}={value}")]
        done = subprocess.run(
            ["mcp-inspector", "--cli", "--config", str(plain), "--server", server, "--method", "tools/call", "--tool-name", tool, *given],
            cwd=self.home, env=self.env, capture_output=True, text=True, timeout=120)
        start = done.stdout.find("{")
        return json.loads(done.stdout[start:]) if start >= 0 else {"stderr": done.stderr}

    def question(self, to):
        """Waits for the question about the payment to this recipient. Returns its short id, as a person reads it in the list."""
        end = time.monotonic() + 40
        while time.monotonic() < end:
            listed = json.loads(self.runs("countersign", "approve", "list", "--json"))["pending"]
            ids = [call["call_id"] for call in listed]
            found = [call for call in ids if to in json.dumps(listed[ids.index(call)])]
            if found:
                lines = self.runs("countersign", "approve", "list").splitlines()
                return next(line.split()[0] for line in lines if found[0].startswith(line.split()[0]))
            time.sleep(0.2)
        return None

    def runs(self, *command):
        return subprocess.run(command, cwd=self.home, env=self.env, capture_output=True, text=True, timeout=60).stdout


def without_comments(text):
    text = re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)
    return re.sub(r",(\s*[}\]])", r"\1", text)


def until(screen, wanted):
    shown = ""
    while wanted not in shown:
        try:
            more = select.select([screen], [], [], 60)[0] and os.read(screen, 65536)
        except OSError:
            more = b""
        if not more:
            raise SystemExit(f"no {wanted!r} on the screen: {shown}")
        shown += more.decode(errors="replace")
    return shown


def commands():
    """The commands of the README's section on clients: `wrap` in its block, `approve` in its text."""
    text = README.read_text()
    block = re.search(r"^## In front of the servers.*?```sh\n(.*?)```", text, re.DOTALL | re.MULTILINE).group(1)
    wrap = next(line.split("#")[0].strip() for line in block.splitlines() if line.startswith("countersign wrap"))
    unwrap = re.search(r"`(countersign unwrap \w+)`", text).group(1)
    return wrap, unwrap


def files_with(folder, text):
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


def two_minutes(world):
    wrap, unwrap = commands()
    start = time.monotonic()
    status, shown = world.types(wrap, ("Enter signs this", ""))
    check("one command and Enter protect both servers", status == 0 and "still open" not in shown, shown)
    listed = {line.split()[1]: line for line in shown.splitlines() if re.match(r"(files|bank)\s", line)}
    check("the table says who answers for which tool",
          listed["read_text_file"].rstrip().endswith(" no") and listed["pay"].rstrip().endswith("each call"), listed)

    read = world.client("files", "read_text_file", path=world.docs / "a.txt")
    check("reading goes on as before", read.get("content", [{}])[0].get("text") == "hello\n", read)

    # Two payments wait for the person at the desk, who answers one of them.
    answers = {}
    callers = [threading.Thread(target=lambda to=to: answers.update({to: world.client("bank", "pay", to=to)})) for to in ("mallory", "ada")]
    for caller in callers:
        caller.start()
    question = world.question("ada")
    check("both wait, under ids of their own", question and world.question("mallory") not in (None, question))
    status, shown = world.types(f"countersign approve {question}", ("] ", "y"))
    check("the id alone is enough to approve", status == 0 and re.search(r"ada\b", shown) and "mallory" not in shown, shown)
    for caller in callers:
        caller.join()
    check("the approved payment runs while its client waits", answers["ada"].get("content", [{}])[0].get("text") == "paid", answers)
    refused = answers["mallory"]
    check("the other one is refused", refused.get("_meta", {}).get(DECISION, {}).get("code") == "APPROVAL_REQUIRED", refused)
    named = re.search(r"Approval id: \w{4,6}\.", refused.get("content", [{}])[0].get("text", ""))
    check("its text names a short id and no argument", named and "mallory" not in json.dumps(refused), refused)
    check("one payment ran, once", [json.loads(line) for line in world.paid.read_text().splitlines()] == [{"to": "ada"}])
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = children.ru_utime + children.ru_stime
    check("two commands were typed", world.typed == 2, world.typed)
    check("the machine worked for a minute at most", processor <= 60, processor)
    print(f"      2 commands, {processor:.1f} s of processor time, {time.monotonic() - start:.0f} s in all, of which an unanswered call waits for 45 s")
    return unwrap


def afterwards(world, unwrap):
    inside = world.home / ".config" / "countersign"
    check("no file of ours has the server's secret", inside.is_dir() and not files_with(inside, SECRET), files_with(inside, SECRET))
    logs = [path for path in inside.rglob("log") if path.is_dir()]
    check("each server has its record", len(logs) == 2, logs)
    status, shown = world.types(unwrap)
    check("unwrap gives back the bytes", status == 0 and world.config.read_text() == world.before, shown)


def main():
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder).resolve())
        unwrap = two_minutes(world)
        afterwards(world, unwrap)
    sys.exit(told())


main()
