use std::path::{Path, PathBuf};

use countersign_core::{Digest, Millis, SessionId, Timestamp};
use serde::de::DeserializeOwned;

use super::normalise;
use crate::PinnedAsk;

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    goal: Text,
    session: SessionId,
    issued: Timestamp,
    ttl: Millis,
    restated: Text,
    restated_session: SessionId,
    at: Timestamp,
    normalised: Option<String>,
    digest: Option<Digest>,
    code: Option<String>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
pub(super) enum Text {
    Whole(String),
    Repeated { repeat: String, times: usize },
}

impl Text {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Whole(text) => text.clone(),
            Self::Repeated { repeat, times } => repeat.repeat(*times),
        }
    }
}

/// The vectors of one folder.
pub(super) fn files<T: DeserializeOwned>(kind: &str) -> Vec<(PathBuf, T)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/pinned-ask").join(kind);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let vector = serde_json::from_slice(&std::fs::read(&path).unwrap());
            let vector = vector.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            (path, vector)
        })
        .collect()
}

/// Pins and verifies by the vector. Returns the digest, or the code of the first refusal.
fn run(vector: &Vector) -> Result<Digest, &'static str> {
    let pin = PinnedAsk::pin(&vector.goal.text(), &vector.session, vector.ttl, vector.issued)
        .map_err(|error| error.code())?;
    pin.verify(&vector.restated.text(), &vector.restated_session, vector.at).map_err(|drift| drift.code())?;
    Ok(pin.digest())
}

#[test]
fn every_accepted_vector_is_accepted_with_its_digest() {
    let vectors = files::<Vector>("accept");
    assert!(vectors.len() >= 20);
    for (path, vector) in vectors {
        assert_eq!(run(&vector), Ok(vector.digest.unwrap()), "{}", path.display());
        if let Some(normalised) = vector.normalised {
            assert_eq!(normalise(&vector.goal.text()).unwrap(), normalised, "{}", path.display());
        }
    }
}

#[test]
fn every_rejected_vector_is_refused_with_its_code() {
    let vectors = files::<Vector>("reject");
    assert!(vectors.len() >= 40);
    for (path, vector) in vectors {
        assert_eq!(run(&vector), Err(vector.code.as_deref().unwrap()), "{}", path.display());
    }
}
