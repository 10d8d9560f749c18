"""What the reference implementation says of a vector: the package, in process, on the data of the vector file."""

import copy
import json
import logging
import re
import warnings

from pic_standard.canonical import CanonicalizationError, canonicalize
from pic_standard.config import policy_from_dict
from pic_standard.errors import PICError
from pic_standard.integrations.mcp_pic_guard import evaluate_pic_for_tool_call
from pic_standard.keyring import KeyRingError, StaticKeyRingResolver, TrustedKeyRing
from pic_standard.pipeline import PICEvaluateLimits, PipelineOptions, verify_proposal
from pic_standard.policy import PICPolicy

ALLOW = ("allow", None)
KEYRING_REFUSED = ("keyring_refused", None)
POLICY_REFUSED = ("policy_refused", None)

# Each way in which the package's evidence module refuses, so that a run can check that all of them occurred.
# fmt: off
EVIDENCE_REASONS = {
    "digest differs": r"sha256 mismatch",
    "scheme": r"Unsupported ref scheme",
    "empty path": r"Empty file URI path",
    "outside the root": r"escapes evidence_root_dir",
    "no such file": r"Evidence file not found",
    "file too large": r"Evidence file too large",
    "payload too large": r"Payload too large",
    "payload too deep": r"could not parse payload JSON",
    "payload with duplicate members": r"duplicate object keys",
    "version no string": r"attestation_version must be a string",
    "version unknown": r"unsupported attestation_version",
    "attestation not canonicalisable": r"canonicalization failed for attestation object",
    "canonical payload too large": r"Canonical payload too large",
    "key revoked": r"is revoked$",
    "key expired": r"^Key .* is expired$",
    "key unknown": r"Unknown key_id",
    "key id missing": r"Missing key_id",
    "base64 padding": r"base64 for signature: missing",
    "base64 blanks": r"base64 for signature: whitespace",
    "base64 url-safe": r"base64 for signature: URL-safe",
    "base64 otherwise": r"base64 for signature$",
    "signature length": r"Invalid Ed25519 signature length",
    "signature": r"^signature invalid",
    "tool no string": r"attestation tool must be",
    "impact no string": r"attestation impact must be",
    "provenance_ids no list of strings": r"provenance_ids must be a list",
    "tool differs": r"attestation tool mismatch",
    "impact differs": r"attestation impact mismatch",
    "provenance_ids differ": r"provenance_ids mismatch",
    "args_digest no digest": r"args_digest must be",
    "args_digest differs": r"args_digest mismatch",
    "args not canonicalisable": r"canonicalization failed for proposal action args",
    "claims_digest no digest": r"claims_digest must be",
    "claims_digest differs": r"claims_digest mismatch",
    "intent_digest no digest": r"intent_digest must be",
    "intent_digest differs": r"intent_digest mismatch",
    "expires_at no string": r"timestamp must be a string",
    "expires_at no RFC 3339": r"invalid RFC 3339",
    "expired": r"attestation expired",
}
# fmt: on
_REASONS = [(name, re.compile(pattern)) for name, pattern in EVIDENCE_REASONS.items()]


def quiet():
    """Silences the package, which logs and warns by design, for a run of thousands of refusals."""
    logging.getLogger("pic_standard").setLevel(logging.CRITICAL + 1)
    warnings.simplefilter("ignore")


def _keyring(vector):
    if "keyring_text" in vector:
        data = json.loads(vector["keyring_text"])
        if not isinstance(data, dict):
            raise KeyRingError("no object")
    else:
        data = vector.get("embedded_keyring", {})
    return StaticKeyRingResolver(TrustedKeyRing.from_dict(data))


def _policy(vector):
    if "policy_text" in vector:
        data = json.loads(vector["policy_text"])
        if not isinstance(data, dict):
            raise ValueError("no object")
    else:
        data = vector["options"].get("policy")
        if data is None:
            return None
    return policy_from_dict(data)


def evidence_root(vector, suite):
    folder = vector["options"].get("evidence_root_dir")
    return None if folder is None else suite / folder.removeprefix("conformance/")


def canonical(text):
    """The package's canonical bytes of a JSON text, or None if it refuses the text."""
    value = json.loads(text)
    try:
        return canonicalize(value)
    except CanonicalizationError:
        return None


def decide(vector, suite, reasons=None, *, strict=False):
    """The package's verdict and code. `reasons`, a Counter, collects the ways in which evidence failed."""
    options = vector["options"]
    try:
        keyring = _keyring(vector)
    except (KeyRingError, ValueError, ArithmeticError, RecursionError):
        return KEYRING_REFUSED
    try:
        policy = _policy(vector)
    except (ValueError, RecursionError):
        return POLICY_REFUSED
    proposal = None
    if "proposal_text" in vector:
        try:
            proposal = json.loads(vector["proposal_text"])
        except (ValueError, RecursionError):
            # A body that is not JSON enters no pipeline: `errors.py` has this code for it.
            return ("block", "PIC_INVALID_REQUEST")
    elif "proposal" in vector:
        proposal = vector["proposal"]
    # No verdict of a comparison may depend on the speed of the machine.
    limits = PICEvaluateLimits(max_eval_ms=10**9)
    root = evidence_root(vector, suite)
    common = {
        "policy": policy,
        "verify_evidence": True if strict else options.get("verify_evidence", False),
        "strict_trust": True if strict else options.get("strict_trust", True),
        "proposal_base_dir": root,
        "evidence_root_dir": root,
        "key_resolver": keyring,
    }
    live = vector.get("live_args")
    if "live_args_text" in vector:
        live = json.loads(vector["live_args_text"])
    try:
        if live is not None:
            common["policy"] = policy or PICPolicy()
            args = copy.deepcopy(live)
            if proposal is not None:
                args["__pic"] = proposal
            evaluate_pic_for_tool_call(tool_name=options["tool_name"], tool_args=args, limits=limits, **common)
            return ALLOW
        result = verify_proposal(
            proposal,
            options=PipelineOptions(
                tool_name=options.get("tool_name"),
                expected_tool=options.get("expected_tool"),
                limits=limits if options.get("limits") else None,
                **common,
            ),
        )
        error = result.error
        if result.ok:
            return ALLOW
    except PICError as refusal:
        error = refusal
    except Exception:
        # From `verify_proposal` itself, as for some values that are not objects: a refusal like the others.
        return ("block", "PIC_INTERNAL_ERROR")
    if reasons is not None and error.details and "failed" in error.details:
        for failed in error.details["failed"]:
            for name, pattern in _REASONS:
                if pattern.search(failed["message"]):
                    reasons[name] += 1
    return ("block", error.code.value)
