"""The service over HTTP: the real binary, from other programs' side, and the attacks on it.

Usage: serve.py COUNTERSIGN

Needs the package `jsonschema`: every answer is validated against the OpenAPI document. Prints one line a check and ends with a count.
"""

import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent / "serve"))

import attacks  # noqa: E402
import contract  # noqa: E402
import programs  # noqa: E402
from checks import told  # noqa: E402
from world import World  # noqa: E402


def main():
    binary = str(Path(sys.argv[1]).resolve())
    contract.read(binary)
    World.validate = staticmethod(contract.validate)
    for part in (*programs.ALL, *attacks.ALL):
        with tempfile.TemporaryDirectory() as name:
            world = World(binary, Path(name), **getattr(part, "settings", {}))
            try:
                part(world)
            finally:
                if world.process and world.process.poll() is None:
                    world.process.kill()
    contract.report()
    return told()


sys.exit(main())
