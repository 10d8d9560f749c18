//! An operator with three keys, a support desk's registry, and ways to alter them.

use std::sync::Arc;

use countersign_canonical_json::{Canonical, Limits, Recipe, read};
use countersign_core::{AgentId, Millis, SessionId, Timestamp, ToolId};
use countersign_keys::dsse::Envelope;
use countersign_keys::{SigningKey, TrustRoot};
use serde_json::Value;

use crate::*;

pub(super) const ISSUED: u64 = 1_700_000_000_000;

pub(super) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis).unwrap()
}

/// Returns the time one minute after the fixture's registries are issued.
pub(super) fn now() -> Timestamp {
    at(ISSUED + 60_000)
}

pub(super) fn minutes(count: u32) -> Millis {
    Millis::from_secs(count.saturating_mul(60))
}

pub(super) fn key(seed: u8) -> SigningKey {
    SigningKey::from_seed([seed; 32])
}

/// Returns a trust root with a threshold of two of three keys.
pub(super) fn root() -> TrustRoot {
    TrustRoot::new(1, 2, [1, 2, 3].map(|seed| key(seed).verifying_key())).unwrap()
}

pub(super) fn tool(server: &str, name: &str) -> ToolId {
    ToolId::new(server, name).unwrap()
}

pub(super) fn agent(name: &str) -> AgentId {
    AgentId::new(name).unwrap()
}

pub(super) fn session(name: &str) -> SessionId {
    SessionId::new(name).unwrap()
}

pub(super) fn canonical(value: &Value) -> Canonical {
    read(value.to_string().as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap()
}

/// Returns the draft as JSON, for a test to change before it is read.
pub(super) fn desk(version: u64) -> Value {
    let mut desk: Value = serde_json::from_str(include_str!("desk.json")).unwrap();
    desk["version"] = version.into();
    desk
}

pub(super) fn draft(value: &Value) -> RegistryDraft {
    RegistryDraft::from_json(value.to_string().as_bytes()).unwrap()
}

pub(super) fn sign(value: &Value) -> Vec<u8> {
    sign_with(value, &[1, 2])
}

/// Signs with the keys of these seeds.
pub(super) fn sign_with(value: &Value, seeds: &[u8]) -> Vec<u8> {
    let keys: Vec<_> = seeds.iter().map(|seed| key(*seed)).collect();
    let expires = at(ISSUED + 7 * 86_400_000);
    draft(value).sign(at(ISSUED), expires, &keys.iter().collect::<Vec<_>>()).unwrap().to_json().into_bytes()
}

/// Returns a signed envelope as JSON, for a test to alter.
pub(super) fn envelope(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes).unwrap()
}

/// Signs any bytes, as a faulty tool of an operator would.
pub(super) fn sign_bytes(payload: &[u8]) -> Vec<u8> {
    Envelope::sign(PAYLOAD_TYPE, payload, &[&key(1), &key(2)]).to_json().into_bytes()
}

/// Returns the payload as JSON, with its times, for a test to alter before it is signed.
pub(super) fn payload(value: &Value) -> Value {
    let payload = draft(value).payload(at(ISSUED), at(ISSUED + 7 * 86_400_000)).unwrap();
    serde_json::from_slice(payload.bytes()).unwrap()
}

pub(super) fn sign_payload(value: &Value) -> Vec<u8> {
    sign_bytes(canonical(value).bytes())
}

pub(super) fn marks() -> Arc<MemoryHighWater> {
    Arc::new(MemoryHighWater::new())
}

pub(super) fn load_with(
    bytes: &[u8],
    marks: Arc<MemoryHighWater>,
) -> Result<CapabilityRegistry, RegistryError> {
    CapabilityRegistry::load(bytes, &root(), marks, LoadOptions::default(), now())
}

pub(super) fn load(value: &Value) -> CapabilityRegistry {
    load_with(&sign(value), marks()).unwrap()
}

/// Returns the code with which a fresh host refuses these bytes.
pub(super) fn refused(bytes: &[u8]) -> &'static str {
    load_with(bytes, marks()).unwrap_err().code()
}

pub(super) fn request(name: &str) -> NegotiationRequest {
    NegotiationRequest::new(session("s-1"), agent(name))
}
