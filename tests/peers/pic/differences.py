"""The intended differences between the profile pic-0.9 and the reference implementation.

COMPATIBILITY.md of the crate `action-proposal` has the same list.

Each is a name, a reason,
and a predicate over the case (`Facts`) and the two verdicts. A difference in verdict or code that not
exactly one of them explains is a defect, of the one side or of this list.
"""

import base64
import binascii
import functools
import json
import re
import unicodedata

from cryptography.hazmat.primitives import serialization

import texts
from ed25519 import is_sound
from material import FILE_BYTES, IMPACTS, PROPOSAL_BYTES, fingerprint

TOTAL_BYTES = 16 * 1024 * 1024
LATER = {"PIC_EVIDENCE_REQUIRED", "PIC_EVIDENCE_FAILED", "PIC_VERIFIER_FAILED"}
RING_MEMBERS = {"trusted_keys", "revoked_keys", "revoked_fingerprints", "thresholds"}
OWN_KEY_MEMBERS = {"not_before", "tools", "impacts", "principals"}
# RFC 3339, section 5.6, in one spelling and without leap seconds. Both sides check that the day exists.
_TIME = re.compile(
    r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?", re.ASCII
)


class Facts:
    """A case as in its vector file, and the facts derived from it."""

    def __init__(self, vector, world):
        self.vector, self.world, self.options = vector, world, vector["options"]
        self.live = "live_args" in vector or "live_args_text" in vector
        self.limits = self.live or self.options.get("limits", False)
        self.tool = self.options.get("expected_tool", self.options.get("tool_name"))

    @functools.cached_property
    def text(self):
        if "proposal_text" in self.vector:
            return self.vector["proposal_text"]
        return json.dumps(self.vector.get("proposal"), ensure_ascii=False)

    @functools.cached_property
    def problem(self):
        return texts.problem(self.text)

    @functools.cached_property
    def depth(self):
        return texts.depth_of(self.text)

    @functools.cached_property
    def proposal(self):
        """The proposal if it is readable at all, else None."""
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError):
            return None

    @property
    def is_object(self):
        return isinstance(self.proposal, dict)

    def lists(self):
        return [self.proposal[name] for name in ("provenance", "claims", "evidence") if name in self.proposal]

    @functools.cached_property
    def reference_size(self):
        try:
            return len(json.dumps(self.proposal, ensure_ascii=False).encode())
        except (UnicodeEncodeError, RecursionError):
            return None

    def evidence(self):
        entries = self.proposal.get("evidence", []) if self.is_object else []
        return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []

    @property
    def proposed_tool(self):
        return self.proposal["action"]["tool"]

    @functools.cached_property
    def policy(self):
        if "policy_text" in self.vector:
            try:
                return json.loads(self.vector["policy_text"])
            except (ValueError, RecursionError):
                return None
        return self.options.get("policy")

    @property
    def operator_impact(self):
        if self.tool is None or not isinstance(self.policy, dict):
            return None
        listed = self.policy.get("impact_by_tool")
        return listed.get(self.tool) if isinstance(listed, dict) else None

    @functools.cached_property
    def ring(self):
        if "keyring_text" in self.vector:
            try:
                return json.loads(self.vector["keyring_text"])
            except (ValueError, RecursionError):
                return None
        return self.vector.get("embedded_keyring")

    def live_args_differ(self):
        live = self.vector.get("live_args")
        if "live_args_text" in self.vector:
            live = json.loads(self.vector["live_args_text"])
        from pic_standard.canonical import CanonicalizationError, sha256_hex

        try:
            live = sha256_hex(
                {name: value for name, value in live.items() if name not in ("__pic", "__pic_request_id")}
            )
        except CanonicalizationError:
            return True
        return live != sha256_hex(self.proposal["action"]["args"])

    @functools.cached_property
    def evidence_cause(self):
        """The difference, if any, by which the first entry of the evidence fails that the reference accepts."""
        total = 0
        for entry in self.evidence():
            cause = self._hash_cause(entry) if entry.get("type") == "hash" else self._signature_cause(entry)
            if cause:
                return cause
            if entry.get("type") == "hash":
                total += (
                    FILE_BYTES
                    if entry["ref"] == "file://exact.bin"
                    else len(self.world.files.get(entry["ref"][7:], b""))
                )
                if total > TOTAL_BYTES:
                    return "total-bytes"
        return None

    def _hash_cause(self, entry):
        path = entry["ref"].removeprefix("file://")
        names = path.split("/")
        odd = any(unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp") or c in "%\\?#:@[]" for c in path)
        if odd or any(name in ("", ".", "..") for name in names) or len(path) > 1000:
            return "plain-references"
        if names[0] in ("link.txt", "link_sub", "hard_1.txt", "hard_2.txt"):
            return "plain-files"
        return None

    def _signature_cause(self, entry):
        payload = entry["payload"]
        problem = texts.problem(payload)
        begins = payload.lstrip()[:1] == "{" or re.match(r"[\s\ufeff\u200b\x00-\x1f]*\{", payload)
        if (problem and begins) or texts.depth_of(payload) > texts.DEPTH:
            return "payloads-read-strictly"
        if entry["key_id"] != entry["key_id"].strip():
            return "key-ids-exact"
        if not problem and any(name.startswith("x_") for name in _attested_members(payload)):
            # No case of this comparison states facts of a call to compare them with.
            return "stated-members-bind"
        if self._own_members_refuse(entry["key_id"]):
            return "keyring-members-of-our-own"
        if not problem and _attested_time(payload) not in (None, True):
            return "times"
        try:
            raw = base64.b64decode(entry["signature"], validate=True)
        except (binascii.Error, ValueError):
            return None
        return "one-base64-spelling" if base64.b64encode(raw).decode() != entry["signature"] else None

    def _own_members_refuse(self, key_id):
        ring = self.ring
        if not isinstance(ring, dict) or not isinstance(ring.get("trusted_keys"), dict):
            return False
        key = ring["trusted_keys"].get(key_id)
        raw = _plain_key(key.get("public_key") if isinstance(key, dict) else key)
        if raw and fingerprint(raw) in ring.get("revoked_fingerprints", []):
            return True
        if not isinstance(key, dict):
            return False
        impacts = {self.proposal["impact"], self.operator_impact} - {None}
        return (
            ("tools" in key and self.proposed_tool not in key["tools"])
            or ("impacts" in key and not impacts <= set(key["impacts"]))
            or "principals" in key
            or key.get("not_before", "1970") > "2090"
        )

    @functools.cached_property
    def ring_cause(self):
        """The difference that makes a keyring unreadable that the reference reads."""
        if "keyring_text" in self.vector and texts.problem(self.vector["keyring_text"]):
            return "keyrings-read-strictly"
        ring = self.ring
        if not isinstance(ring, dict):
            return None
        if "trusted_keys" in ring:
            keys = ring["trusted_keys"]
            if set(ring) - RING_MEMBERS or not isinstance(keys, dict):
                return "keyrings-read-strictly"
        else:
            keys = ring
            if set(ring) & RING_MEMBERS or not all(isinstance(key, str) for key in keys.values()):
                return "keyrings-read-strictly"
        revoked = ring.get("revoked_keys", []) if "trusted_keys" in ring else []
        if not isinstance(revoked, list) or not all(map(_is_id, [*keys, *revoked])):
            return "keyrings-read-strictly"
        seen = set()
        for key in keys.values():
            spelled = key if isinstance(key, str) else key.get("public_key")
            if isinstance(key, dict) and set(key) - {"public_key", "expires_at"} - OWN_KEY_MEMBERS:
                return "keyrings-read-strictly"
            if isinstance(key, dict) and "expires_at" in key and not isinstance(key["expires_at"], str):
                return "keyrings-read-strictly"
            raw = _plain_key(spelled)
            if raw is None or raw in seen or not is_sound(raw):
                return "keyrings-read-strictly"
            seen.add(raw)
        own = (
            "thresholds" in ring
            or "revoked_fingerprints" in ring
            or any(isinstance(key, dict) and set(key) & OWN_KEY_MEMBERS for key in keys.values())
        )
        if own:
            return "keyring-members-of-our-own"
        times = [key["expires_at"] for key in keys.values() if isinstance(key, dict) and "expires_at" in key]
        return "times" if any(not _is_time(time) for time in times) else None

    def threshold_missed(self):
        """Whether the keyring requires more distinct keys than signed for the evidence that the claims cite."""
        thresholds = self.ring.get("thresholds", {}) if "trusted_keys" in self.ring else {}
        needed = max(
            thresholds.get(impact, 1)
            for impact in (self.proposal["impact"], self.operator_impact or self.proposal["impact"])
        )
        cited = {name for claim in self.proposal["claims"] for name in claim["evidence"]} & {
            entry["id"] for entry in self.proposal["provenance"]
        }
        entries = self.evidence() if self.options.get("verify_evidence") else []
        signers = {entry["key_id"] for entry in entries if entry["type"] == "sig" and entry["id"] in cited}
        return len(signers) < needed

    def policy_is_strict(self):
        """Whether a strict reader accepts the policy."""
        if "policy_text" in self.vector and texts.problem(self.vector["policy_text"]):
            return False
        policy = self.policy
        if not isinstance(policy, dict) or set(policy) - {
            "impact_by_tool",
            "require_pic_for_impacts",
            "require_evidence_for_impacts",
        }:
            return False
        listed = policy.get("impact_by_tool", {})
        if (
            not isinstance(listed, dict)
            or "" in listed
            or not all(impact in IMPACTS for impact in listed.values() if isinstance(impact, str))
        ):
            return False
        wanted = [
            policy[name] for name in ("require_pic_for_impacts", "require_evidence_for_impacts") if name in policy
        ]
        return all(isinstance(impact, str) for impact in listed.values()) and all(
            isinstance(impacts, list) and all(isinstance(impact, str) and impact in IMPACTS for impact in impacts)
            for impacts in wanted
        )


def _is_id(name):
    if not isinstance(name, str) or not name or name != name.strip() or len(name.encode("utf-8", "replace")) > 256:
        return False
    return not any(
        unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp") or (c.isspace() and c != " ") for c in name
    )


def _plain_key(spelled):
    """The 32 bytes of a key in one of the plain spellings, else None."""
    spelled = spelled.strip(" \t\r\n\x0c")
    if spelled.startswith("-----BEGIN"):
        lines = spelled.splitlines()
        if len(lines) != 3 or lines[0] != "-----BEGIN PUBLIC KEY-----" or lines[2] != "-----END PUBLIC KEY-----":
            return None
        try:
            key = serialization.load_pem_public_key(spelled.encode())
            plain = (
                key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
                .decode()
                .split()
            )
        except ValueError:
            return None
        return (
            key.public_bytes_raw()
            if type(key).__name__.endswith("Ed25519PublicKey") and plain == spelled.split()
            else None
        )
    digits = spelled.removeprefix("0x")
    if re.fullmatch(r"[0-9a-fA-F]{64}", digits):
        return bytes.fromhex(digits)
    if not re.fullmatch(r"[A-Za-z0-9+/_-]{43}=?", spelled):
        return None
    standard = spelled.rstrip("=").replace("-", "+").replace("_", "/")
    raw = base64.b64decode(standard + "=")
    return raw if base64.b64encode(raw).decode() == standard + "=" else None


def _is_time(text):
    return _TIME.fullmatch(text) is not None


def _attested_members(payload):
    """The members of an attestation; empty for any other payload."""
    members = json.loads(payload)
    return members if isinstance(members, dict) and "attestation_version" in members else {}


def _attested_time(payload):
    """Whether the attestation's time of expiry is in the form of RFC 3339. None if it has none."""
    expires = _attested_members(payload).get("expires_at")
    return _is_time(expires) if isinstance(expires, str) else None


def _understated(f):
    impact = f.operator_impact
    return (
        impact in IMPACTS
        and f.proposal["impact"] in IMPACTS
        and IMPACTS.index(impact) > IMPACTS.index(f.proposal["impact"])
    )


def _read_strictly(f, ref, ours):
    return ours == "PIC_SCHEMA_INVALID" and ref != ours and f.problem is not None


def _depth(f, ref, ours):
    return ours == "PIC_LIMIT_EXCEEDED" and f.depth > texts.DEPTH


def _size(f, ref, ours):
    if ours != "PIC_LIMIT_EXCEEDED" or not f.limits or f.depth > texts.DEPTH or ref == ours:
        return False
    if len(f.text.encode("utf-8", "replace")) > PROPOSAL_BYTES:
        return True
    # An upper bound of the reference's count: a number with a point or an exponent may be longer.
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", f.text)
    loose = len(re.findall(r"\d[.eE]", outside)) * 24
    return loose > 0 and f.reference_size is not None and f.reference_size + loose > PROPOSAL_BYTES


def _wrong_types(f, ref, ours):
    if (
        f.problem
        or not f.limits
        or ours != "PIC_SCHEMA_INVALID"
        or ref not in ("PIC_INTERNAL_ERROR", "PIC_LIMIT_EXCEEDED")
    ):
        return False
    return f.is_object and any(not isinstance(entries, list) for entries in f.lists())


def _no_object(f, ref, ours):
    return (
        f.problem is None
        and not f.is_object
        and {ref, ours} <= {"PIC_SCHEMA_INVALID", "PIC_INTERNAL_ERROR", "PIC_INVALID_REQUEST"}
    )


def _line_break(f, ref, ours):
    if f.problem or ours != "PIC_SCHEMA_INVALID":
        return False
    return (
        f.is_object
        and not _wrong_types(f, ref, ours)
        and any(re.fullmatch(r"[a-f0-9]{64}\n", str(entry.get("sha256", ""))) for entry in f.evidence())
    )


def _tool_binds(f, ref, ours):
    unbound = "expected_tool" not in f.options or f.options["expected_tool"] == ""
    return (
        ours == "PIC_TOOL_BINDING_MISMATCH"
        and ref in LATER | {"allow", "PIC_ARG_BINDING_MISMATCH"}
        and unbound
        and f.tool != f.proposed_tool
    )


def _binding_first(f, ref, ours):
    if ref not in LATER or not f.is_object:
        return False
    if ours == "PIC_TOOL_BINDING_MISMATCH":
        return bool(f.options.get("expected_tool")) and f.tool != f.proposed_tool
    return ours == "PIC_ARG_BINDING_MISMATCH" and f.live and f.live_args_differ()


def _impact(f, ref, ours):
    return ours == "IMPACT_UNDERSTATED" and ref in LATER | {"allow"} and _understated(f)


def _evidence(name, code="PIC_EVIDENCE_FAILED"):
    def holds(f, ref, ours):
        return ours == code and ref in {"allow", "PIC_VERIFIER_FAILED"} and f.is_object and f.evidence_cause == name

    return holds


def _own_members(f, ref, ours):
    if ours == "keyring_refused":
        return ref != ours and f.ring_cause == "keyring-members-of-our-own"
    if ours == "PIC_VERIFIER_FAILED":
        return ref == "allow" and f.threshold_missed()
    return _evidence("keyring-members-of-our-own")(f, ref, ours)


def _ring_strictly(f, ref, ours):
    return ours == "keyring_refused" and f.ring_cause == "keyrings-read-strictly"


def _times(f, ref, ours):
    if ref == "keyring_refused":
        # Times that RFC 3339 has and the reference's calendar does not: the years before its first.
        return ours != ref and '"expires_at": "000' in json.dumps(f.ring)
    if ours == "keyring_refused":
        return f.ring_cause == "times"
    return _evidence("times")(f, ref, ours)


def _policy(f, ref, ours):
    return (
        ours == "policy_refused" and ref not in ("keyring_refused", "policy_refused") and not f.policy_is_strict()
    )


# fmt: off
DIFFERENCES = [
    ("read-strictly", "JSON that two readers could read differently is no proposal", _read_strictly),
    ("depth", "containers within containers are a resource: deeper than 128 is over a limit", _depth),
    ("size", "bytes count as received, and as the reference counts them, rounded up", _size),
    ("wrong-types", "what is no list has no length: a wrong type is a matter of the schema", _wrong_types),
    ("no-object", "what is no object is answered before it is measured", _no_object),
    ("digest-line-break", "64 digits and a line break are no digest", _line_break),
    ("every-tool-binds", "a tool that is named is bound, whatever else it was named for", _tool_binds),
    ("binding-first", "the bindings are cheap and come before the evidence, as in the specification's text", _binding_first),
    ("impact-understated", "the operator's impact wins, and saying less has a code of its own", _impact),
    ("plain-references", "a reference to a file is plain and relative, so that it has one reading", _evidence("plain-references")),
    ("plain-files", "evidence is a plain file with one name: no links of either kind", _evidence("plain-files")),
    ("total-bytes", "all files of a proposal together have a budget of bytes", _evidence("total-bytes", "PIC_LIMIT_EXCEEDED")),
    ("payloads-read-strictly", "a payload that begins like an object is read strictly or fails", _evidence("payloads-read-strictly")),
    ("stated-members-bind", "what an attestation states of its call and its use is enforced", _evidence("stated-members-bind")),
    ("key-ids-exact", "a key id is compared byte by byte", _evidence("key-ids-exact")),
    ("one-base64-spelling", "a signature has one spelling in base64", _evidence("one-base64-spelling")),
    ("keyring-members-of-our-own", "scopes, first moments, fingerprints and thresholds of a keyring are kept to", _own_members),
    ("keyrings-read-strictly", "a keyring that is ambiguous, or holds a key that no signer has, is refused whole", _ring_strictly),
    ("times", "the times of keyrings and attestations are of RFC 3339, in its one spelling", _times),
    ("policies-read-strictly", "a policy that names what there is not is refused whole", _policy),
]
# fmt: on


def explain(facts, ref, ours):
    """The names of the differences that cover a mismatch. There must be one."""
    if ours == "allow" and ref != "keyring_refused":
        # No difference accepts a case that the reference refuses. (A keyring may be readable here although the reference's
        # calendar does not reach one expiry; that key has expired.)
        return []
    return [name for name, _, holds in DIFFERENCES if _safely(holds, facts, ref, ours)]


def _safely(holds, facts, ref, ours):
    try:
        return bool(holds(facts, ref, ours))
    except (KeyError, TypeError, AttributeError):
        # The case does not have the shape of the difference.
        return False
