//! An attestation that is to be signed, displayed to the signer.

use countersign_core::Digest;

use super::attest::UnsignedAttestation;
use crate::escape::{shown_json, spelled};

/// Most lines and characters of an evidence file that are displayed.
const SHOWN_LINES: usize = 5;
const SHOWN_CHARS: usize = 400;

/// Describes the proposal's words, its files, and the bytes to sign. Text of others is in quotes, with invisible characters
/// escaped.
#[must_use]
pub fn describe_attestation(unsigned: &UnsignedAttestation) -> String {
    let proposal = unsigned.proposal();
    let mut lines = vec![
        format!("impact     {}", proposal.impact()),
        format!("intent     {}", spelled(proposal.intent())),
    ];
    for claim in proposal.claims() {
        let cited: Vec<_> = claim.evidence().map(spelled).collect();
        lines.push(format!("claim      {} by {}", spelled(claim.text()), cited.join(", ")));
    }
    let files = unsigned.files().map(|(file, reference)| {
        shown_file(file.id(), reference, &file.digest(), file.bytes().unwrap_or_default())
    });
    lines.extend(files);
    lines.push(format!("raises     {}", spelled(unsigned.raises())));
    lines.push(format!("key        {}", spelled(unsigned.key_id())));
    lines.push(format!("until      {}, and no longer than the session", unsigned.expires()));
    lines.push(format!("signed     {}", shown_json(unsigned.payload()).replace('\n', "\n           ")));
    lines.join("\n")
}

/// Describes an evidence file: id, reference, digest, size and first lines.
#[must_use]
pub fn shown_file(id: &str, reference: &str, digest: &Digest, bytes: &[u8]) -> String {
    let (id, reference, size) = (spelled(id), spelled(reference), bytes.len());
    let mut shown = format!("file       {id} {reference} {digest}\n           {size} bytes");
    for line in first_lines(bytes) {
        shown.push_str("\n           | ");
        shown.push_str(&line);
    }
    shown
}

/// Returns the first lines of a file with invisible characters escaped. Bytes that are not UTF-8 are replaced.
fn first_lines(bytes: &[u8]) -> Vec<String> {
    let start = bytes.get(..SHOWN_CHARS.saturating_mul(4)).unwrap_or(bytes);
    let text = String::from_utf8_lossy(start);
    let shown: String = text.chars().take(SHOWN_CHARS).collect();
    let mut lines: Vec<_> = shown.lines().take(SHOWN_LINES).map(spelled).collect();
    let is_cut = start.len() < bytes.len() || shown.len() < text.len();
    if is_cut || shown.lines().count() > SHOWN_LINES {
        lines.push("(more)".to_owned());
    }
    lines
}
