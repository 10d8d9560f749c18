use countersign_core::Timestamp;
use countersign_keys::SigningKey;
use proptest::prelude::*;

use super::key;
use crate::base64;
use crate::note::{
    Algorithm, KeyName, MAX_COSIGNED_SECONDS, MAX_NOTE_BYTES, MAX_SIGNATURES, NoteError, SignedNote,
    VerifierKey, VerifierKeyError, cosignature_line, sign, signature_line,
};

/// Keys and notes from the documentation and tests of golang.org/x/mod/sumdb/note.
const PETER: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const PETER_SECRET: &str = "AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const ENOCH: &str = "EnochRoot+af0cfe78+ATtqJ7zOtqQtYqOo0CpvDXNlMhV3HeJDpjrASKGLWdop";
const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
const PETER_LINE: &str = "\u{2014} PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";
const ENOCH_LINE: &str = "\u{2014} EnochRoot rwz+eBzmZa0SO3NbfRGzPCpDckykFXSdeX+MNtCOXm2/5n2tiOHp+vAF1aGrQ5ovTG01oOTGwnWLox33WWd1RvMc+QQ=\n";

/// A checkpoint of a public certificate log with the log's two signatures (0x05 is not supported here) and those of
/// four witnesses, and the keys of the log and of one witness.
const ARCHE: &str = "arche2025h1.staging.ct.transparency.dev
1432088532
U7WM79jrzyhGZ5/GUBTpM7NzwdyfFx61t3RovgcC4Ro=

\u{2014} arche2025h1.staging.ct.transparency.dev zTM8sQAAAZ5W0WdjBAMARjBEAiBjW5IQf9pvsYLfQFX6hoGREPMHbdQ3urbllzalApkptQIgIpwtEroeW2BXaHAI4kJXFbon5Ch9MNL5zRNZ55lvGt0=
\u{2014} arche2025h1.staging.ct.transparency.dev ui8GwCF1+kWqZrxGdhj4aX3gcw7XUlXQQabg/27lefwhUkzbC3NygNI75MdhL1bfTW9g8Ei59RA23oHP7Ry1k3ZFWwQ=
\u{2014} transparency.dev/DEV:witness-little-garden 2AQqhwAAAABqEiEgzgFIqqhbUoDwjMWE6UP8nd8/KYTzwZ2rhIgcqoXHAwVkjZr4AscylP3v7sEodkRAErumC2q44vdgJY096st5BQ==
\u{2014} witness1.smartit.nu/witness1 pIyCDwAAAABqEiEghIp82KWebrw7/oHQwlTAm3g2RKS4+eebl8eO0WH+/iEcxZ75W3u5hNI7TOQtmJbqmNWVuE0tgh0XwzdZsDsUAQ==
\u{2014} remora.n621.de 2net5wAAAABqEiEgPlfF3V06o0Y+fHM+J5J9s27wgxxcOVSpZ/2g/KSiXCg9DEZI+aVCIobWX9sXTynk5XeU/zZ0WBxtqB0DrAWfBw==
\u{2014} witness.stagemole.eu Z/euoAAAAABqEiEgw0i+7g2ENfDAWHmtRzCfKTHSDwYDJA2NmKeGi9Y8FtEyOUvVr+AJmIY/2TUFucgKi7lI7cUiOvKFYe/TmN9DAg==
";
const ARCHE_LOG: &str =
    "arche2025h1.staging.ct.transparency.dev+ba2f06c0+AU0vHmlGCS/PdN8b2OaGmKprLI8HKM+dJ472xgFYh15f";
const REMORA: &str = "remora.n621.de+da77ade7+BOvN63jn/bLvkieywe8R6UYAtVtNbZpXh34x7onlmtw2";

fn verifier(text: &str) -> VerifierKey {
    text.parse().unwrap()
}

fn name(text: &str) -> KeyName {
    KeyName::new(text).unwrap()
}

fn open<'a>(note: &'a str, keys: &[VerifierKey]) -> Result<&'a str, NoteError> {
    SignedNote::parse(note)?.open(keys).map(|note| note.text())
}

/// A note with a cosignature composed by hand.
fn cosigned(witness: &VerifierKey, key: &SigningKey, seconds: u64) -> String {
    let signature = key.sign(format!("cosignature/v1\ntime {seconds}\n{TEXT}").as_bytes());
    let bytes = [&witness.id()[..], &seconds.to_be_bytes(), signature.as_bytes()].concat();
    format!("{TEXT}\n\u{2014} {} {}\n", witness.name(), base64::encode(&bytes))
}

#[test]
fn go_note_is_reproduced_byte_for_byte() {
    let secret = base64::decode(PETER_SECRET).unwrap();
    let key = SigningKey::from_seed(secret[1..].try_into().unwrap());
    assert_eq!(sign(TEXT, &name("PeterNeumann"), &key).unwrap(), format!("{TEXT}\n{PETER_LINE}"));
    assert_eq!(VerifierKey::new(name("PeterNeumann"), key.verifying_key()).to_string(), PETER);
}

#[test]
fn go_note_of_two_signers_opens_with_either_key() {
    let note = format!("{TEXT}\n{PETER_LINE}{ENOCH_LINE}");
    let (peter, enoch) = (verifier(PETER), verifier(ENOCH));
    let signers = |keys: &[VerifierKey]| -> Vec<VerifierKey> {
        let opened = SignedNote::parse(&note).unwrap().open(keys).unwrap();
        assert_eq!(opened.text(), TEXT);
        opened.signers().iter().map(|signer| signer.key.clone()).collect()
    };
    assert_eq!(signers(std::slice::from_ref(&peter)), std::slice::from_ref(&peter));
    assert_eq!(signers(std::slice::from_ref(&enoch)), std::slice::from_ref(&enoch));
    assert_eq!(signers(&[enoch.clone(), peter.clone(), enoch.clone()]), [peter, enoch]);
    assert_eq!(open(&note, &[]), Err(NoteError::Unsigned));
}

#[test]
fn go_checksum_database_checkpoint_opens_with_its_key() {
    let key = verifier("sum.golang.org+033de0ae+Ac4zctda0e5eza+HJyk9SxEdh+s3Ux18htTTAD8OuAn8");
    let text = "go.sum database tree\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n";
    let note = format!(
        "{text}\n\u{2014} sum.golang.org Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
    );
    assert_eq!(open(&note, std::slice::from_ref(&key)), Ok(text));
    assert_eq!(open(&note.replace("20852163", "20852164"), &[key]), Err(NoteError::Signature));
}

#[test]
fn public_checkpoint_opens_with_log_and_witness_keys() {
    let note = SignedNote::parse(ARCHE).unwrap();
    assert_eq!(note.signature_lines(), 6);
    let opened = note.open(&[verifier(ARCHE_LOG), verifier(REMORA)]).unwrap();
    let signers: Vec<_> = opened.signers().iter().map(|s| (s.key.algorithm(), s.seconds)).collect();
    assert_eq!(signers, [(Algorithm::Ed25519, None), (Algorithm::Cosignature, Some(0x6a12_2120))]);
    for known in [ARCHE_LOG, REMORA] {
        let changed = ARCHE.replace("1432088532", "1432088533");
        assert_eq!(open(&changed, &[verifier(known)]), Err(NoteError::Signature));
    }
    // The time is signed as well.
    let later = ARCHE.replace("2net5wAAAABqEiEg", "2net5wAAAABqEiEh");
    assert_eq!(open(&later, &[verifier(REMORA)]), Err(NoteError::Signature));
    assert!(open(&later, &[verifier(ARCHE_LOG)]).is_ok());
}

#[test]
fn note_is_split_at_its_last_empty_line() {
    let text =
        "Ognuno sta solo sul cuor della terra\ntrafitto da un raggio di sole:\n\ned \u{e8} subito sera.\n";
    let line = "\u{2014} quasimodo.example/salvatore NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3ZekRwNtIc=\n";
    let note = format!("{text}\n{line}");
    assert_eq!(SignedNote::parse(&note).unwrap().unverified_text(), text);
}

#[test]
fn published_verifier_keys_round_trip() {
    for text in [
        PETER,
        ENOCH,
        REMORA,
        "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k",
        "TEST+7997405c+AQcC+FTVKf0jlTdHDY3rbevmnKxxPjigCXlVtGe6RIr6",
    ] {
        assert_eq!(verifier(text).to_string(), text);
    }
}

#[test]
fn changed_verifier_key_is_refused() {
    for start in 0..PETER.len() {
        for end in start + 1..=PETER.len() {
            let whole = (start, end) == (0, PETER.len());
            assert_eq!(PETER[start..end].parse::<VerifierKey>().is_ok(), whole, "{start} {end}");
        }
    }
    for at in 0..PETER.len() {
        for bit in 0..7 {
            let mut bytes = PETER.as_bytes().to_vec();
            bytes[at] ^= 1_u8 << bit;
            let text = String::from_utf8(bytes).unwrap();
            assert!(text.parse::<VerifierKey>().is_err(), "{text}");
        }
    }
}

#[test]
fn every_refused_verifier_key_has_its_own_code() {
    let all = [
        ("", "VERIFIER_KEY_MALFORMED"),
        ("name", "VERIFIER_KEY_MALFORMED"),
        ("name+00000000", "VERIFIER_KEY_MALFORMED"),
        ("+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "VERIFIER_KEY_NAME"),
        ("a b+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "VERIFIER_KEY_NAME"),
        // A key that is too long and an unknown algorithm, each with a matching id.
        (
            "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY==",
            "VERIFIER_KEY_MALFORMED",
        ),
        ("PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "VERIFIER_KEY_ALGORITHM"),
        ("PeterNeumann+C74F20A3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "VERIFIER_KEY_ID"),
        ("PeterNeumann+c74f20a4+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW", "VERIFIER_KEY_ID"),
        ("weak+00000000+AQEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "KEY_WEAK"),
    ];
    for (text, code) in all {
        let error = text.parse::<VerifierKey>().unwrap_err();
        assert_eq!(error.code(), code, "{text}");
        assert!(!error.to_string().contains("Peter"));
    }
}

#[test]
fn key_name_outside_its_grammar_is_refused() {
    for bad in [
        "",
        " ",
        "a b",
        "a\u{a0}b",
        "a\u{2003}b",
        "a\u{3000}",
        "a+b",
        "a\nb",
        "a\0",
        "a\u{202e}b",
        "\u{feff}",
    ] {
        assert_eq!(KeyName::new(bad), Err(VerifierKeyError::Name), "{bad:?}");
    }
    assert!(KeyName::new(&"n".repeat(255)).is_ok() && KeyName::new(&"n".repeat(256)).is_err());
    assert_eq!(name("\u{e9}toile.example/log").as_str(), "\u{e9}toile.example/log");
}

#[test]
fn bad_signature_of_a_known_key_fails_the_note() {
    let keys = [verifier(PETER), verifier(ENOCH)];
    let forged = sign(TEXT, &name("x"), &key(1)).unwrap();
    let forged = forged.split_once("\n\n").unwrap().1;
    let bytes = base64::decode(forged.trim_end().rsplit(' ').next().unwrap()).unwrap();
    let line =
        |id: &[u8], rest: &[u8]| format!("\u{2014} EnochRoot {}\n", base64::encode(&[id, rest].concat()));
    let id = verifier(ENOCH).id();
    let note = |line: &str| format!("{TEXT}\n{PETER_LINE}{line}");
    for bad in [&bytes[4..], &bytes[5..], b"x", &[0; 64], &[0; 65], &[0; 72]] {
        assert_eq!(open(&note(&line(&id, bad)), &keys), Err(NoteError::Signature));
        assert_eq!(open(&note(&line(&id, bad)), &keys[..1]), Ok(TEXT), "unknown key");
    }
    // The same name with another id, and the same id with another name, belong to other keys.
    assert_eq!(open(&note(&line(&[1, 2, 3, 4], &bytes[4..])), &keys), Ok(TEXT));
    assert_eq!(open(&note(&line(&id, &bytes[4..]).replace("EnochRoot", "Enoch")), &keys), Ok(TEXT));
    // Two lines of the same key: each must verify.
    assert_eq!(open(&note(&(ENOCH_LINE.to_owned() + ENOCH_LINE)), &keys), Ok(TEXT));
    assert_eq!(
        open(&note(&(ENOCH_LINE.to_owned() + &line(&id, &bytes[4..]))), &keys),
        Err(NoteError::Signature)
    );
}

#[test]
fn line_of_two_keys_with_one_id_is_refused() {
    // Found by trying a hundred thousand keys, since an id has only four bytes.
    let [first, other] = [114_838_u32, 116_370].map(|number| {
        let mut seed = [0; 32];
        seed[..4].copy_from_slice(&number.to_be_bytes());
        SigningKey::from_seed(seed)
    });
    let name = name("example.com/log");
    let known = [&first, &other].map(|key| VerifierKey::new(name.clone(), key.verifying_key()));
    assert_eq!((known[0].id(), known[1].id()), ([0x61, 0x38, 0x62, 0x9e], [0x61, 0x38, 0x62, 0x9e]));
    let note = sign(TEXT, &name, &other).unwrap();
    assert_eq!(open(&note, &known[1..]), Ok(TEXT));
    assert_eq!(open(&note, &known[..1]), Err(NoteError::Signature));
    assert_eq!(open(&note, &known), Err(NoteError::Signature), "which of the two is meant?");
}

#[test]
fn signature_does_not_pass_for_a_cosignature() {
    let (name, key) = (name("w"), key(3));
    let (plain, witness) = (
        VerifierKey::new(name.clone(), key.verifying_key()),
        VerifierKey::cosigner(name.clone(), key.verifying_key()),
    );
    assert_ne!(plain.id(), witness.id());
    let at = Timestamp::from_millis(1_679_315_147_999).unwrap();
    let signed = format!("{TEXT}\n{}", signature_line(TEXT, &name, &key));
    let cosigned = format!("{TEXT}\n{}", cosignature_line(TEXT, &name, &key, at));
    assert_eq!(open(&signed, std::slice::from_ref(&plain)), Ok(TEXT));
    assert_eq!(open(&cosigned, std::slice::from_ref(&witness)), Ok(TEXT));
    assert_eq!(open(&signed, std::slice::from_ref(&witness)), Err(NoteError::Unsigned));
    assert_eq!(open(&cosigned, std::slice::from_ref(&plain)), Err(NoteError::Unsigned));
    // The cosigned text is that of the specification.
    let line = cosigned.rsplit(' ').next().unwrap().trim_end();
    let bytes = base64::decode(line).unwrap();
    let message = format!("cosignature/v1\ntime 1679315147\n{TEXT}");
    assert_eq!(bytes[4..12], 1_679_315_147_u64.to_be_bytes());
    assert_eq!(&bytes[12..], key.sign(message.as_bytes()).as_bytes());
}

#[test]
fn cosignature_time_beyond_the_maximum_is_refused() {
    let (name, key) = (name("w"), key(3));
    let witness = VerifierKey::cosigner(name.clone(), key.verifying_key());
    assert_eq!(
        open(&cosigned(&witness, &key, MAX_COSIGNED_SECONDS), std::slice::from_ref(&witness)),
        Ok(TEXT)
    );
    assert_eq!(
        open(&cosigned(&witness, &key, MAX_COSIGNED_SECONDS + 1), &[witness]),
        Err(NoteError::Signature)
    );
}

#[test]
fn malformed_note_is_refused() {
    let good = format!("{TEXT}\n{PETER_LINE}");
    let line = PETER_LINE.trim_end();
    let bad = [
        String::new(),
        "\n\n".to_owned(),
        TEXT.to_owned(),
        format!("{TEXT}\n"),
        format!("{TEXT}\n{line}"),
        format!("{TEXT}{PETER_LINE}"),
        format!("\u{1}{good}"),
        good.replacen("problem,", "problem,\r", 1),
        good.replacen("problem,", "problem,\t", 1),
        good.replacen("problem,", "\0", 1),
        format!("{good}Unexpected line.\n"),
        format!("{good}\n"),
        format!("{good}\n\n"),
        good.replace("\u{2014}", "-"),
        good.replace("\u{2014} ", "\u{2014}"),
        good.replace("PeterNeumann ", "PeterNeumann  "),
        good.replace("PeterNeumann ", "Peter Neumann "),
        good.replace("PeterNeumann ", "Peter\u{a0}Neumann "),
        good.replace("PeterNeumann ", "Peter+Neumann "),
        good.replace("PeterNeumann ", " "),
        good.replace("=\n", "\n"),
        good.replace("=\n", "==\n"),
        good.replace("=\n", "= \n"),
        // Spare bits, which other decoders ignore.
        good.replace("nAM=", "nAN="),
        format!("{TEXT}\n\u{2014} n \n"),
        format!("{TEXT}\n\u{2014} n AAAA\n"),
        format!("{TEXT}\n\u{2014} n AAAAAA==\n"),
    ];
    for note in bad {
        assert_eq!(SignedNote::parse(&note), Err(NoteError::Malformed), "{note:?}");
    }
    assert!(SignedNote::parse(&format!("{TEXT}\n\u{2014} n AAAAAAA=\n")).is_ok());
}

#[test]
fn note_limits_are_enforced() {
    let lines = |count| format!("{TEXT}\n{}", PETER_LINE.repeat(count));
    assert_eq!(open(&lines(MAX_SIGNATURES), &[verifier(PETER)]), Ok(TEXT));
    assert_eq!(SignedNote::parse(&lines(MAX_SIGNATURES + 1)), Err(NoteError::TooLong));
    let (name, key) = (name("n"), key(1));
    let rest = sign("\n", &name, &key).unwrap().len() - 1;
    let text = |length: usize| "a".repeat(length - rest - 1) + "\n";
    let longest = sign(&text(MAX_NOTE_BYTES), &name, &key).unwrap();
    assert_eq!(longest.len(), MAX_NOTE_BYTES);
    assert!(SignedNote::parse(&longest).is_ok());
    assert_eq!(sign(&text(MAX_NOTE_BYTES + 1), &name, &key), Err(NoteError::TooLong));
    assert_eq!(SignedNote::parse(&format!("a{longest}")), Err(NoteError::TooLong));
}

#[test]
fn unreadable_text_is_not_signed() {
    for text in ["", "no newline", "tab\t\n", "nul\0\n", "cr\r\n", "esc\u{1b}[2J\n"] {
        assert_eq!(sign(text, &name("n"), &key(1)), Err(NoteError::Malformed), "{text:?}");
    }
}

#[test]
fn text_of_a_cosignature_is_not_signed() {
    let (name, key) = (name("w"), key(3));
    let asked = format!("cosignature/v1\ntime 7\n{TEXT}");
    assert_eq!(sign(&asked, &name, &key), Err(NoteError::Malformed));
    // Without that check the signature would be a valid cosignature.
    let witness = VerifierKey::cosigner(name.clone(), key.verifying_key());
    assert_eq!(open(&cosigned(&witness, &key, 7), &[witness]), Ok(TEXT));
    assert!(
        sign(&format!(" {asked}"), &name, &key).is_ok() && sign("cosignature/v1 of\n", &name, &key).is_ok()
    );
}

#[test]
fn note_errors_have_stable_codes() {
    for (error, code) in [
        (NoteError::TooLong, "NOTE_TOO_LONG"),
        (NoteError::Malformed, "NOTE_MALFORMED"),
        (NoteError::Unsigned, "NOTE_UNSIGNED"),
        (NoteError::Signature, "NOTE_SIGNATURE"),
    ] {
        assert_eq!(error.code(), code);
        assert!(!error.to_string().contains('\n'));
    }
}

#[test]
fn any_flipped_bit_of_a_note_is_refused() {
    let note = format!("{TEXT}\n{PETER_LINE}");
    let keys = [verifier(PETER)];
    for at in 0..note.len() {
        for bit in 0..8 {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= 1_u8 << bit;
            let Ok(changed) = std::str::from_utf8(&bytes) else { continue };
            assert!(open(changed, &keys).is_err(), "byte {at} bit {bit}");
        }
    }
}

proptest! {
    #[test]
    fn signed_note_opens(
        lines in proptest::collection::vec("\\PC{0,40}", 1..6),
        seed in any::<u8>(),
        who in "[a-z./]{1,20}",
    ) {
        let text = lines.join("\n") + "\n";
        let (name, key) = (name(&who), key(seed));
        let note = sign(&text, &name, &key).unwrap();
        let trusted = VerifierKey::new(name, key.verifying_key());
        prop_assert_eq!(trusted.to_string().parse::<VerifierKey>().unwrap(), trusted.clone());
        prop_assert_eq!(open(&note, &[trusted]), Ok(text.as_str()));
    }

    #[test]
    fn any_flipped_bit_of_any_note_is_refused(
        text in "[ -~\n]{0,60}",
        seed in any::<u8>(),
        at in any::<proptest::sample::Index>(),
        bit in 0_u8..8,
    ) {
        let (name, key) = (name("example.com/log"), key(seed));
        let note = sign(&(text + "\n"), &name, &key).unwrap();
        let mut bytes = note.into_bytes();
        let at = at.index(bytes.len());
        bytes[at] ^= 1_u8 << bit;
        if let Ok(changed) = std::str::from_utf8(&bytes) {
            prop_assert!(open(changed, &[VerifierKey::new(name, key.verifying_key())]).is_err());
        }
    }

    #[test]
    fn parsing_any_text_as_a_note_never_panics(text in "(\\PC|\n|\u{2014} |[+ ])*") {
        if let Ok(note) = SignedNote::parse(&text) {
            let _ = note.open(&[verifier(PETER)]);
        }
        let _ = text.parse::<VerifierKey>();
        let _ = KeyName::new(&text);
    }
}
