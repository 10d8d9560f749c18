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
    """Prints how many there were. The exit code: 0 where all hold, and there was one."""
    print(f"{passed} checks hold, {failed} do not")
    return 1 if failed or not passed else 0
