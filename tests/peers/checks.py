"""Counts checks and tells of each, for the scripts beside it."""

passed = 0
failed = []


def check(name, holds, detail=""):
    global passed
    if holds:
        passed += 1
        print(f"ok    {name}")
    else:
        failed.append(f"WRONG {name}: {detail}")
        print(failed[-1])


def told():
    """Prints the number of checks, after those that fail. Returns the exit code: 0 if all hold and there was at least one."""
    for line in failed:
        print(line)
    print(f"{passed} checks hold, {len(failed)} do not")
    return 1 if failed or not passed else 0
