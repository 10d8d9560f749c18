/// Text lines around a public key (RFC 7468, section 13).
const BEGIN: &str = "-----BEGIN PUBLIC KEY-----";
const END: &str = "-----END PUBLIC KEY-----";

/// `SubjectPublicKeyInfo` of Ed25519 up to the key (RFC 8410, section 4): a sequence of the algorithm `1.3.101.112`
/// without parameters and a bit string of 32 whole bytes. DER has no other spelling of it.
const HEAD: [u8; 12] = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];

/// Returns whether a text claims to be PEM.
pub(crate) fn is_pem(text: &str) -> bool {
    text.starts_with("-----BEGIN")
}

/// Reads the 32 bytes of an Ed25519 public key: one key without surrounding text or headers, in the one base64
/// spelling, over any number of lines.
pub(crate) fn parse(text: &str) -> Option<[u8; 32]> {
    let mut lines = text.lines();
    if lines.next() != Some(BEGIN) || lines.next_back() != Some(END) {
        return None;
    }
    let body: String = lines.collect();
    let mut der = [0; 44];
    let whole = crate::public_key::decode_padded(&body, &mut der)?;
    whole.strip_prefix(&HEAD)?.try_into().ok()
}
