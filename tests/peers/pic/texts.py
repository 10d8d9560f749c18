"""JSON texts that two readers could read differently, and what a strict reader would say of a text."""

import json
import math
import re
import struct

from pic_standard.canonical import CanonicalizationError, canonicalize

SAFE = 2**53 - 1
# Maximum nesting of containers in the strict reader, the outermost included.
DEPTH = 128

# fmt: off
LITERALS = [
    "0", "-0", "0.0", "-0.0", "1", "1.0", "1e0", "1E+2", "1e2", "100", "100.0", "9007199254740991",
    "9007199254740992", "9007199254740993", "-9007199254740991", "-9007199254740992",
    "9007199254740992.0", "9007199254740993.0", "9007199254740993e0", "9.007199254740993e15",
    "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1e400", "-1e400", "1e-400", "-1e-400",
    "1e999999999999", "1e-999999999999", "0e999999999999", "5e-324", "2e-324", "3e-324",
    "2.4703282292062327208e-324", "2.4703282292062328e-324", "4.940656458412465441765687928682213723651e-324",
    "0.1", "0.1000000000000000055511151231257827", "0.30000000000000004", "123456789012345678901234567890",
    "123456789012345678901234567890.0", "1.7976931348623157e308", "1.7976931348623158e308",
    "1.7976931348623159e308", "179769313486231580793e289", "NaN", "Infinity", "-Infinity", "nan", "+1", "01",
    "-01", "00", ".5", "1.", "1e", "1e+", "--1", "-", "0x10", "1_000", "1,5", "٣", "１",
    "1e5", "1e21", "1e20", "999999999999999999999.0", "0.000001", "0.0000001", "100000000000000000000",
    "100000000000000000000.0", "1e23", "4.35", "9007199254740991.5", "4503599627370495.5", "1E400",
    "1" * 400, "1" * 400 + ".0", "1" * 5000, "0." + "0" * 400 + "1", "1." + "0" * 5000, "1" + "0" * 30 + "e-30",
    "-1e-7", "333333333.33333329", "1.0000000000000002", "8.5e-310", "2.2250738585072011e-308",
    "null", "true", "-9007199254740990.5",
]
# fmt: on


def is_json(text):
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


class _Twice(ValueError):
    pass


def depth_of(text):
    """Nesting depth of containers, the outermost included, in any text."""
    depth = most = 0
    inside = escaped = False
    for c in text:
        if inside:
            inside, escaped = escaped or c != '"', c == "\\" and not escaped
        elif c == '"':
            inside = True
        elif c in "[{":
            depth += 1
            most = max(most, depth)
        elif c in "]}":
            depth -= 1
    return most


def problem(text):
    """The reason that a strict reader refuses a text (one word), or None. The depth is not checked."""
    if text.startswith("\ufeff"):
        return "mark"

    def members(pairs):
        if len({name for name, _ in pairs}) < len(pairs):
            raise _Twice
        return dict(pairs)

    def constant(name):
        raise OverflowError(name)

    def integer(digits):
        if len(digits) > 17 or abs(int(digits)) > SAFE:
            raise OverflowError(digits)
        return int(digits)

    def real(digits):
        number = float(digits)
        if number in (float("inf"), float("-inf")):
            raise OverflowError(digits)
        return number

    try:
        value = json.loads(
            text, object_pairs_hook=members, parse_constant=constant, parse_int=integer, parse_float=real
        )
    except _Twice:
        return "twice"
    except OverflowError:
        return "number"
    except RecursionError:
        return "depth"
    except ValueError:
        return "syntax"
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "surrogate"
    except RecursionError:
        return "depth"
    return None


def nested(depth, brackets="[]"):
    if brackets == "[]":
        return "[" * depth + "]" * depth
    return '{"a":' * depth + "1" + "}" * depth


def _replace_args(proposal, text):
    """The proposal's text with its arguments inserted as raw text."""
    marked = {**proposal, "action": {**proposal["action"], "args": "@@args@@"}}
    return json.dumps(marked, ensure_ascii=False).replace('"@@args@@"', text)


def _once_more(text, name, again):
    """Inserts a member before the first one of that name."""
    return re.sub(rf'"{name}": ', lambda found: f"{again}, {found[0]}", text, count=1)


def odd(rng, proposal, k):
    plain = json.dumps(proposal, ensure_ascii=False)
    # fmt: off
    simple = [
        lambda: plain, lambda: json.dumps(proposal), lambda: json.dumps(proposal, indent=3),
        lambda: json.dumps(proposal, ensure_ascii=False, separators=(",", ":")),
        lambda: " \t\r\n" + plain + "\n \t",
        lambda: "\ufeff" + plain, lambda: plain + "\ufeff", lambda: "\u00a0" + plain, lambda: plain + "\u00a0",
        lambda: "\x0c" + plain, lambda: plain + "\x00", lambda: plain + "x", lambda: plain + plain,
        lambda: plain + "{}",
        lambda: plain + ",", lambda: plain[:-1], lambda: plain[: rng.randrange(len(plain))], lambda: plain[1:],
        lambda: "", lambda: " ", lambda: "{", lambda: "{}", lambda: "[" + plain + "]", lambda: json.dumps(plain),
        lambda: plain[:-1] + ",}", lambda: plain.replace("[", "[,", 1), lambda: plain.replace("]", ",]", 1),
        lambda: plain.replace('"', "'"), lambda: "/* a */" + plain, lambda: plain + "// a",
        lambda: plain.replace(", ", ",\n# a\n", 1),
        lambda: plain.replace('"intent"', "intent", 1), lambda: plain.replace(": ", " = ", 1),
        lambda: plain.replace(": ", ":\x0b", 1), lambda: plain.replace('"intent": "', '"intent": "\x01', 1),
        lambda: plain.replace('"intent": "', '"intent": "\n', 1),
        lambda: plain.replace('"intent": "', '"intent": "\x7f', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\x41', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\u12', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\u12G4', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\u0000\\/\\b\\f', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\ud83d\\ude42', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\uD83D\\uDE42', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\ud800', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\udc00', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\ude42\\ud83d', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\ud800\\ud800', 1),
        lambda: plain.replace('"intent": "', '"intent": "\\ud800\\u0041', 1),
        lambda: plain.replace('"intent"', '"\\u0069ntent"', 1),
        lambda: plain.replace('"protocol"', '"\\u0070\\u0072otocol"', 1),
        lambda: _once_more(plain, "intent", '"intent": "first"'),
        lambda: _once_more(plain, "impact", '"impact": "read"'),
        lambda: _once_more(plain, "impact", '"impact": "money"'),
        lambda: _once_more(plain, "protocol", '"protocol": "PIC/1.0"'),
        lambda: _once_more(plain, "tool", '"tool": "other"'), lambda: _once_more(plain, "args", '"args": {}'),
        lambda: _once_more(plain, "id", '"id": "first"'), lambda: _once_more(plain, "trust", '"trust": "trusted"'),
        lambda: _once_more(plain, "text", '"text": "first"'),
        lambda: _once_more(plain, "payload", '"payload": "first"'),
        lambda: _once_more(plain, "evidence", '"\\u0065vidence": []'),
        lambda: _once_more(plain, "intent", '"\\u0069ntent": "first"'),
        lambda: _once_more(plain, "intent", '"inten\\u0054": "first"'),
        lambda: _replace_args(proposal, '{"a":1,"a":1}'), lambda: _replace_args(proposal, '{"a":1,"\\u0061":2}'),
        lambda: _replace_args(proposal, '{"a":{"b":1,"b":2}}'),
        lambda: _replace_args(proposal, '{"é":1,"e\u0301":2}'),
        lambda: _replace_args(proposal, '{"a":[{"b":[]},{"b":[],"b":[]}]}'),
        lambda: _replace_args(proposal, '{"\\ud800":1}'), lambda: _replace_args(proposal, '{"a":"\\udfff"}'),
        lambda: _replace_args(proposal, '{"a":"\ud83d"}'.encode("utf-8", "replace").decode()),
        lambda: _replace_args(proposal, "{" + ",".join(f'"{n}":{n}' for n in range(3000)) + "}"),
        lambda: _replace_args(proposal, "[]"), lambda: _replace_args(proposal, '{"a":NaN}'),
        lambda: _replace_args(proposal, '{"a":-Infinity}'),
        lambda: _replace_args(proposal, '{"a":tru}'), lambda: _replace_args(proposal, '{"a":True}'),
        lambda: _replace_args(proposal, '{"a":undefined}'), lambda: _replace_args(proposal, "{1:2}"),
        lambda: _replace_args(proposal, '{"a" 1}'), lambda: _replace_args(proposal, '{"a":1 "b":2}'),
        lambda: plain.replace("{", "{{", 1), lambda: "null", lambda: "5", lambda: '"x"', lambda: "[]",
        lambda: "true", lambda: "NaN", lambda: "nul", lambda: "\x00",
    ]
    # fmt: on
    depths = [2, 20, 28, 29, 30, 31, 32, 33, 60, 64, 100, 125, 126, 127, 128, 129, 300, 900, 2000, 20_000]
    numbers = LITERALS
    n = k % (len(simple) + 2 * len(depths) + len(numbers))
    if n < len(simple):
        return simple[n]()
    n -= len(simple)
    if n < len(depths):
        return _replace_args(proposal, '{"d":' + nested(depths[n]) + "}")
    n -= len(depths)
    if n < len(depths):
        return _replace_args(proposal, nested(depths[n], "{}"))
    return _replace_args(proposal, '{"n":' + numbers[n - len(depths)] + "}")


def payload(rng, members, k):
    """A payload's text and the signed bytes; None for the text itself."""
    plain = json.dumps(members, ensure_ascii=False)
    rest = plain[1:]
    good = canonicalize(members)

    def also(extra):
        """Inserts another member as raw text; its canonical form is signed if it has one."""
        text = "{" + extra + ", " + rest
        try:
            return text, canonicalize(json.loads(text))
        except (CanonicalizationError, ValueError, RecursionError):
            return text, None

    def padded(size, filler="x"):
        start = plain[:-1] + ', "note": "'
        text = start + filler * ((size - len(start.encode()) - 2) // len(filler.encode()))
        text += "x" * (size - 2 - len(text.encode())) + '"}'
        return text, canonicalize(json.loads(text))

    def blank_padded(size):
        return plain + " " * (size - len(plain.encode())), good

    def grown(over):
        """Small as text and, canonicalised, exactly at the limit plus `over`."""
        start = {**members, "grown": [1e20] * 700, "note": ""}
        fill = 16_384 + over - len(canonicalize(start))
        start["note"] = "x" * fill
        return json.dumps(start, ensure_ascii=False).replace("1e+20", "1e20"), canonicalize(start)

    def shrunk():
        """Over the limit as text, well within it when canonicalised."""
        return json.dumps(members, indent=2000), good

    without = {name: member for name, member in members.items() if name != "attestation_version"}
    bare = json.dumps(without, ensure_ascii=False)
    # fmt: off
    variants = [
        lambda: (plain, good), lambda: (plain, None), lambda: (good.decode(), None),
        lambda: (json.dumps(members), good), lambda: (json.dumps(members, indent=4), good),
        lambda: (" \t\r\n" + plain + "\n", good), lambda: (" " + plain, None),
        lambda: also('"tool": "first"'), lambda: also('"attestation_version": "PIC-ATT/1.0"'),
        lambda: also('"attestation_version": "PIC-ATT/2.0"'), lambda: also('"x": {"a": 1, "a": 1}'),
        lambda: also('"x": [{"a": 1, "\\u0061": 2}]'), lambda: also('"\\u0074ool": "first"'),
        lambda: also('"x": 9007199254740993'), lambda: also('"x": 9007199254740993.0'), lambda: also('"x": 1e400'),
        lambda: also('"x": NaN'), lambda: also('"x": -Infinity'), lambda: also('"x": "\\ud800"'),
        lambda: also('"\\ud800": 1'), lambda: also('"x": -0'),
        lambda: also('"x": 1.0'), lambda: also('"x": 1e3'), lambda: also('"x": "\\u00e9\\/"'),
        lambda: also('"x": null'), lambda: also('"x": ' + nested(20)), lambda: also('"x": ' + nested(31)),
        lambda: also('"x": ' + nested(32)), lambda: also('"x": ' + nested(126)),
        lambda: also('"x": ' + nested(127)), lambda: also('"x": ' + nested(128)),
        lambda: also('"x": ' + nested(130)),
        lambda: also('"x": ' + nested(3000)), lambda: also('"x": ' + nested(40, "{}")), lambda: also("'x': 1"),
        lambda: also('"x": 01'), lambda: also('"x": "\t"'), lambda: also('"x": "\x7f"'),
        lambda: also('"x": "\\x41"'), lambda: also(""), lambda: also('"": ""'),
        lambda: (plain + "x", None), lambda: (plain + "}", None), lambda: (plain[:-1], None),
        lambda: (plain[:-1] + ",}", None), lambda: (plain + plain, None), lambda: ("\ufeff" + plain, None),
        lambda: ("\ufeff" + plain, good), lambda: ("\u00a0" + plain, None),
        lambda: ("\x0c" + plain, None), lambda: ("\x00" + plain, None), lambda: ("\u200b" + plain, None),
        lambda: ("// a\n" + plain, None), lambda: ("x" + plain, None), lambda: (plain.replace('"', "'"), None),
        lambda: ("[" + plain + "]", None), lambda: (json.dumps(plain), None),
        lambda: ("(" + plain + ")", None), lambda: (plain.replace(": ", ":\x0b", 1), None),
        lambda: (plain + "\x00", None), lambda: (plain + " // a", None),
        lambda: (bare, None), lambda: (bare, canonicalize(without)), lambda: ('{"x": 1, "x": 1}', None),
        lambda: ('{"x": NaN}', None), lambda: ('{"x": 9007199254740993}', None),
        lambda: ('{"x": "\\ud800"}', None), lambda: ('{"x": ' + nested(40) + "}", None),
        lambda: ("{}", None), lambda: ("{ }", None), lambda: ("{", None), lambda: ("}", None), lambda: ("", None),
        lambda: ("  ", None), lambda: ("null", None), lambda: ("NaN", None), lambda: ("1e400", None),
        lambda: ("9007199254740993", None), lambda: ("[1, 1]", None),
        lambda: ('[{"x": 1, "x": 1}]', None), lambda: ('"\\ud800"', None), lambda: (nested(33), None),
        lambda: (nested(31), None), lambda: (nested(128), None), lambda: (nested(129), None),
        lambda: (nested(200), None), lambda: (nested(5000), None), lambda: ("[" * 5000, None),
        lambda: ("[[", None), lambda: ('{"x": 1}}', None),
        lambda: ('{"nested": ' + plain + "}", None), lambda: ('{"nested": ' + plain + "}", good),
        lambda: (plain.replace("attestation_version", "Attestation_Version"), None),
        lambda: (plain.replace("attestation_version", "attestation_version "), None),
        lambda: (plain.replace("attestation_version", "\\u0061ttestation_version"), good),
        lambda: ("{approved: 17}", None), lambda: ("{{approved}}", None), lambda: (" \n{approved", None),
        lambda: ("\u00a0{approved}", None), lambda: ("approved {", None),
        lambda: padded(16_384), lambda: padded(16_385), lambda: padded(16_384, "ü"), lambda: padded(16_385, "ü"),
        lambda: padded(16_383, "🙂"), lambda: blank_padded(16_384), lambda: blank_padded(16_385), lambda: grown(0),
        lambda: grown(1), lambda: grown(-1), shrunk,
        lambda: ("a" * 16_384, None), lambda: ("a" * 16_385, None), lambda: ("ü" * 8_192, None),
        lambda: ("ü" * 8_193, None), lambda: ("[" + "1," * 8000 + "1]", None), lambda: ("a" * 40_000, None),
    ]
    # fmt: on
    return variants[k % len(variants)]()


def canonical_input(rng, value, k):
    """A JSON text to canonicalise: a spelling of a number, or a value with odd names."""
    style = k % 4
    if style == 0:
        return LITERALS[k // 4 % len(LITERALS)]
    if style == 1:
        bits = rng.getrandbits(64)
        number = struct.unpack("<d", struct.pack("<Q", bits))[0]
        return repr(number) if math.isfinite(number) else "1"
    if style == 2:
        return json.dumps(value, ensure_ascii=rng.random() < 0.5)
    digits = str(rng.getrandbits(rng.randrange(1, 80)))
    return (
        rng.choice(["", "-"])
        + digits
        + rng.choice(
            ["", "", ".0", f".{rng.randrange(10**9)}", f"e{rng.randrange(-40, 40)}", f".5E+{rng.randrange(300)}"]
        )
    )
