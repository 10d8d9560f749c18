"""Counts checks and tells of each, for the scripts beside it."""

passed = 0
failed = 0


def check(name, holds, detail=""):
    global passed, failed
    if holds:
        passed += 1
        print(f"ok    {name}")
    else:
        failed += 1
        print(f"WRONG {name}: {detail}")


def told():
    """Prints the number of checks. Returns the exit code: 0 if all hold and there was at least one."""
    print(f"{passed} checks hold, {failed} do not")
    return 1 if failed or not passed else 0
