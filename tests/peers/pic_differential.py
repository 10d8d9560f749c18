"""Compares `countersign proposal conformance` with the reference implementation of PIC/1.0, on generated cases.

Usage: pic_differential.py COUNTERSIGN [--cases N] [--seed S] [--keep DIR] [--oracle-only]

COUNTERSIGN is the binary; the package pic-standard[crypto]==0.9.1 has to be importable. All cases follow from the seed
and are vectors of one suite in the reference's own layout; what is expected of each is what the package, called in
process, says of it. Under the profile pic-0.9 verdict and code have to be the same, or exactly one intended difference of
`pic/differences.py` explains why not. Under the profile strict, whatever is allowed the package has to allow as well, with
evidence verification on and claimed trust ignored.

Ends with tables, and with exit 1 when a mismatch is not explained, or when an answer, an intended difference or a way to
fail never occurred: a comparison that has become empty fails.
"""

import argparse
import collections
import hashlib
import json
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "pic"))
sys.dont_write_bytecode = True

import differences  # noqa: E402
import evidence  # noqa: E402
import families  # noqa: E402
import material  # noqa: E402
import reference  # noqa: E402
import strict  # noqa: E402
import texts  # noqa: E402

VERSION = "0.9.1"
PER_FOLDER = 500
LARGE_FILES = 9
# Every answer that the package can give here. PIC_POLICY_VIOLATION is in its registry, but no code raises it.
ANSWERS = {
    "allow",
    "keyring_refused",
    "policy_refused",
    "PIC_INVALID_REQUEST",
    "PIC_LIMIT_EXCEEDED",
    "PIC_SCHEMA_INVALID",
    "PIC_DUPLICATE_ID",
    "PIC_VERIFIER_FAILED",
    "PIC_TOOL_BINDING_MISMATCH",
    "PIC_ARG_BINDING_MISMATCH",
    "PIC_EVIDENCE_REQUIRED",
    "PIC_EVIDENCE_FAILED",
    "PIC_INTERNAL_ERROR",
}
# An internal error never counts as agreement.
AGREED = ANSWERS - {"PIC_INTERNAL_ERROR"} | {"canonical_match", "canonical_reject"}
STRICT_ALLOWS = 500
STRICT_KINDS = 3


def answer(verdict, code):
    return code if verdict == "block" else verdict


class Suite:
    """A suite under construction, in the reference's layout."""

    def __init__(self, folder):
        self.folder = folder
        self.expected = {}
        self.canonical = {}
        self.files = {}
        self.entries = []

    def add(self, vector, verdict, code):
        vector["expected"] = verdict
        if code:
            vector["expected_error_code"] = code
        self.write(vector, json.dumps(vector), verdict, code)
        self.expected[vector["id"]] = answer(verdict, code)

    def add_canonical(self, name, text, form):
        """A vector of the canonical form. Its input is inserted as raw text."""
        verdict = "canonical_reject" if form is None else "canonical_match"
        vector = {"id": name, "mode": "canonicalization"}
        if form is not None:
            vector.update(
                expected_canonical_bytes_hex=form.hex(), expected_sha256_hex=hashlib.sha256(form).hexdigest()
            )
        self.write(vector, json.dumps(vector)[:-1] + f', "input": {text}}}', verdict, None)
        self.canonical[name] = verdict

    def write(self, vector, text, verdict, code):
        file = f"cases/{len(self.entries) // PER_FOLDER:03}/{vector['id']}.json"
        path = self.folder / file
        if len(self.entries) % PER_FOLDER == 0:
            path.parent.mkdir(parents=True)
        path.write_text(text, encoding="utf-8")
        entry = {"id": vector["id"], "file": file, "mode": vector["mode"], "expected": verdict}
        if code:
            entry["expected_error_code"] = code
        self.entries.append(entry)

    def finish(self):
        manifest = {"version": "conformance/v0.1", "vectors": self.entries}
        (self.folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        self.files = {entry["id"]: entry["file"] for entry in self.entries}

    def read(self, name):
        return json.loads((self.folder / self.files[name]).read_text(encoding="utf-8"))

    def run(self, binary, profile):
        """The command's answer to every vector, by id, with its detail if it has one."""
        with tempfile.TemporaryFile() as out:
            done = subprocess.run(
                [binary, "proposal", "conformance", str(self.folder), "--profile", profile, "--json"],
                stdout=out,
                stderr=subprocess.PIPE,
                timeout=3600,
            )
            out.seek(0)
            text = out.read()
        try:
            report = json.loads(text)
        except ValueError:
            raise SystemExit(
                f"the command wrote no JSON (exit {done.returncode}): {done.stderr.decode()[:2000]}"
            ) from None
        if done.returncode not in (0, 1):
            raise SystemExit(
                f"the command ended with {done.returncode}: {done.stderr.decode()[:2000]} {json.dumps(report)[:2000]}"
            )
        answers = {
            result["id"]: (answer(result.get("verdict"), result.get("code")), result)
            for result in report["results"]
        }
        if answers.keys() != self.files.keys():
            raise SystemExit(f"{len(answers)} results for {len(self.files)} vectors")
        return answers


def plan(cases):
    """The number of cases of each family, together at least as many as requested."""
    total = sum(share for _, share in families.FAMILIES)
    yield evidence.large_files, LARGE_FILES
    for family, share in families.FAMILIES:
        yield family, -(-cases * share // total)


def build(world, folder, cases, seed, reasons):
    suite = Suite(folder)
    world.write_files(folder)
    for family, count in plan(cases):
        for k in range(count):
            case = material.Case(world, material.rng_for(seed, family.__name__, k), family.__name__)
            family(case, k)
            # The reference receives the vector as a reader of the file parses it.
            vector = json.loads(json.dumps(case.vector(f"{family.__name__}-{k}")))
            suite.add(vector, *reference.decide(vector, folder, reasons))
    for k in range(cases // 10):
        rng = material.rng_for(seed, "canonical", k)
        text = texts.canonical_input(rng, material.value(rng), k)
        if (
            texts.problem(text) in (None, "number", "surrogate")
            and texts.is_json(text)
            and "N" not in text
            and "I" not in text
        ):
            suite.add_canonical(f"canonical-{k}", text, reference.canonical(text))
    suite.finish()
    return suite


def build_strict(world, folder, cases, seed):
    suite = Suite(folder)
    world.write_files(folder)
    for k in range(cases):
        case = material.Case(world, material.rng_for(seed, "strict", k), "strict")
        strict.make(case, k)
        vector = json.loads(json.dumps(case.vector(f"strict-{k}")))
        suite.add(vector, *reference.decide(vector, folder, strict=True))
    suite.finish()
    return suite


def show(suite, name, ref, ours, result, names):
    print(
        f"MISMATCH {name}: the reference says {ref}, we say {ours}; differences that would cover it: {names or 'none'}"
    )
    print(
        f"  ours: {json.dumps({key: result.get(key) for key in ('reason_code', 'message', 'detail')}, ensure_ascii=False)}"
    )
    print(f"  case: {json.dumps(suite.read(name), ensure_ascii=True)[:6000]}")


def compare(suite, world, answers, shown=20):
    agreed, covered, wrong = collections.Counter(), collections.Counter(), collections.Counter()
    for name, ref in suite.expected.items():
        ours, result = answers[name]
        if ours == ref:
            agreed[ref] += 1
            continue
        names = differences.explain(differences.Facts(suite.read(name), world), ref, ours)
        if len(names) == 1:
            covered[names[0]] += 1
            continue
        wrong[f"{ref} / {ours} / {'+'.join(names) or '-'}"] += 1
        if sum(wrong.values()) <= shown:
            show(suite, name, ref, ours, result, names)
    for name, ref in suite.canonical.items():
        result = answers[name][1]
        if result["passed"]:
            agreed[ref] += 1
            continue
        wrong[f"{ref} / {result['reason_code']}"] += 1
        if sum(wrong.values()) <= shown:
            show(suite, name, ref, result["reason_code"], result, [])
    return agreed, covered, wrong


def compare_strict(suite, answers, kinds):
    """Checks that the package allows every case that strict allows; counts the kinds of allowed cases."""
    wrong = 0
    for name, (ours, result) in answers.items():
        if name in suite.canonical:
            continue
        if ours is None:
            wrong += 1
            show(suite, name, suite.expected[name], ours, result, [])
        if ours != "allow":
            continue
        vector = suite.read(name)
        kinds[vector["tags"][0]] += 1
        ref = answer(*reference.decide(vector, suite.folder, strict=True))
        if ref != "allow":
            wrong += 1
            show(suite, name, ref, ours, result, [])
    return wrong


def table(title, counts, wanted):
    """Prints the counts, and returns the wanted ones that never occurred."""
    print(f"\n{title}")
    for name in sorted(set(counts) | set(wanted), key=lambda name: (-counts[name], name)):
        print(f"{counts[name]:8} {name}")
    return [f"{title}: {name}" for name in sorted(wanted) if counts[name] == 0]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("countersign", type=Path)
    parser.add_argument("--cases", type=int, default=24_000)
    parser.add_argument("--seed", default="countersign")
    parser.add_argument("--keep", type=Path, help="an empty folder for the suites, which then stay")
    parser.add_argument("--oracle-only", action="store_true", help="make the cases and ask the reference alone")
    options = parser.parse_args()
    if metadata.version("pic-standard") != VERSION:
        raise SystemExit(f"pic-standard is {metadata.version('pic-standard')}, and has to be {VERSION}")
    reference.quiet()
    with tempfile.TemporaryDirectory() as scratch:
        sys.exit(run(options, options.keep or Path(scratch)))


def run(options, folder):
    started = time.monotonic()
    world = material.World(options.seed)
    reasons = collections.Counter()
    main_folder, strict_folder = folder / "pic-0.9", folder / "strict"
    main_folder.mkdir(parents=True)
    strict_folder.mkdir()
    suite = build(world, main_folder, options.cases, options.seed, reasons)
    strict_suite = build_strict(world, strict_folder, options.cases // 8, options.seed)
    print(
        f"{len(suite.entries)} and {len(strict_suite.entries)} cases of seed {options.seed!r} made and asked about in {time.monotonic() - started:.0f} s"
    )
    missing = table("the reference's answers", collections.Counter(suite.expected.values()), ANSWERS)
    ways = set(reference.EVIDENCE_REASONS)
    if texts.is_json(texts.nested(8_000)):
        # This Python reads any nesting that fits into a payload.
        ways.remove("payload too deep")
    missing += table("ways in which evidence failed there", reasons, ways)
    if options.oracle_only:
        table(
            "the reference's answers to the strict cases",
            collections.Counter(strict_suite.expected.values()),
            {"allow"},
        )
        return finish(missing, 0)

    binary = options.countersign.resolve()
    agreed, covered, wrong = compare(suite, world, suite.run(binary, "pic-0.9"))
    missing += table("agreed", agreed, AGREED)
    missing += table("intended differences", covered, {name for name, _, _ in differences.DIFFERENCES})
    if wrong:
        table("NOT EXPLAINED (reference / ours / differences)", wrong, ())

    kinds = collections.Counter()
    answers = strict_suite.run(binary, "strict")
    over = compare_strict(strict_suite, answers, kinds)
    table("strict's answers", collections.Counter(ours for ours, _ in answers.values()), ())
    table("allowed by strict, and by the reference", kinds, ())
    if sum(kinds.values()) < STRICT_ALLOWS or len(kinds) < STRICT_KINDS:
        missing.append(
            f"strict allowed {sum(kinds.values())} of {len(kinds)} kinds; {STRICT_ALLOWS} of {STRICT_KINDS} have to be"
        )
    # The whole first suite again: it was made for other rules, so its cases are more likely to slip through.
    others = collections.Counter()
    over += compare_strict(suite, suite.run(binary, "strict"), others)
    table("of the first suite allowed by strict, and by the reference", others, ())
    print(f"\n{time.monotonic() - started:.0f} s")
    return finish(missing, sum(wrong.values()) + over)


def finish(missing, wrong):
    for line in missing:
        print(f"NEVER OCCURRED {line}")
    print(f"\n{wrong} unexplained, {len(missing)} never occurred")
    return 1 if wrong or missing else 0


if __name__ == "__main__":
    main()
