use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::time::Duration;

use base64ct::{Base64UrlUnpadded, Encoding as _};
use countersign_host::serve_part::{Duty, ServePart};
use countersign_host::time::now;
use jsonwebtoken::{EncodingKey, Header, encode};
use ring::rand::SystemRandom;
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const ISSUER: &str = "https://login.example";
const RESOURCE: &str = "https://gate.example/mcp";

/// An issuer with one key, and its key set in a file.
struct Issuer {
    folder: TempDir,
    key: EncodingKey,
    public: Value,
}

fn keys_of(folder: &Path) -> std::path::PathBuf {
    folder.join("jwks.json")
}

impl Issuer {
    fn new(id: &str) -> Self {
        let pair = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        let public = Ed25519KeyPair::from_pkcs8(pair.as_ref()).unwrap();
        let x = Base64UrlUnpadded::encode_string(public.public_key().as_ref());
        let public = json!({"kty": "OKP", "crv": "Ed25519", "x": x, "kid": id, "use": "sig", "alg": "EdDSA"});
        let issuer =
            Self { folder: TempDir::new().unwrap(), key: EncodingKey::from_ed_der(pair.as_ref()), public };
        issuer.publish(&json!([issuer.public]));
        issuer
    }

    fn publish(&self, keys: &Value) {
        std::fs::write(keys_of(self.folder.path()), json!({ "keys": keys }).to_string()).unwrap();
    }

    fn read_with(&self, more: &str) -> Result<Oauth, HostError> {
        let file = keys_of(self.folder.path());
        let text = format!(
            "[oauth]\nissuer = \"{ISSUER}\"\nresource = \"{RESOURCE}\"\njwks_file = \"{}\"\n{more}",
            file.display()
        );
        let part: ServePart = toml::from_str(&text).unwrap();
        Oauth::read(&part.oauth.unwrap())
    }

    fn oauth(&self) -> Oauth {
        self.read_with("").unwrap()
    }

    fn token(&self, change: impl FnOnce(&mut Header, &mut Value)) -> String {
        let now = now().unwrap().as_millis() / 1_000;
        let mut header = Header::new(Algorithm::EdDSA);
        header.kid = Some("k1".into());
        let mut claims = json!({
            "iss": ISSUER, "aud": RESOURCE, "sub": "ada@example.com", "exp": now.saturating_add(300), "iat": now, "scope": "a mcp",
        });
        change(&mut header, &mut claims);
        encode(&header, &claims, &self.key).unwrap()
    }
}

fn code(oauth: &Oauth, token: &str) -> &'static str {
    oauth.caller(token).map_or_else(|problem| problem.code(), |_| "")
}

#[test]
fn a_good_token_names_its_caller() {
    let issuer = Issuer::new("k1");
    let oauth = issuer.read_with("scopes = [\"mcp\"]").unwrap();
    let caller = oauth.caller(&issuer.token(|_, _| {})).unwrap();
    assert_eq!(caller.name.as_str(), "ada@example.com");
    caller.require(&[Duty::Check]).unwrap();
    caller.require(&[Duty::Answer]).unwrap_err();
    let several = issuer.token(|_, claims| claims["aud"] = json!(["https://other.example", RESOURCE]));
    assert_eq!(code(&oauth, &several), "");
}

#[test]
fn a_token_that_does_not_count_has_its_own_code() {
    let issuer = Issuer::new("k1");
    let oauth = issuer.read_with("scopes = [\"mcp\"]").unwrap();
    let set = |name: &'static str, value: Value| issuer.token(move |_, claims| claims[name] = value);
    let without = |name: &'static str| {
        issuer.token(move |_, claims| {
            claims.as_object_mut().unwrap().remove(name);
        })
    };
    for (token, wanted) in [
        (set("exp", json!(1)), "TOKEN_EXPIRED"),
        (set("nbf", json!(9_999_999_999_u64)), "TOKEN_EXPIRED"),
        (set("aud", json!("https://other.example/mcp")), "TOKEN_AUDIENCE"),
        (set("aud", json!("https://gate.example/mcp/")), "TOKEN_AUDIENCE"),
        (set("iss", json!("https://login.example/")), "TOKEN_ISSUER"),
        (set("scope", json!("mcp:other")), "TOKEN_SCOPE"),
        (set("sub", json!("a\nb")), "TOKEN_SUBJECT"),
        (set("sub", json!("")), "TOKEN_SUBJECT"),
        (without("exp"), "TOKEN_CLAIM"),
        (without("aud"), "TOKEN_CLAIM"),
        (without("iss"), "TOKEN_CLAIM"),
        (without("scope"), "TOKEN_SCOPE"),
        (issuer.token(|header, _| header.kid = None), "TOKEN_KEY_MISSING"),
        (issuer.token(|header, _| header.kid = Some("k2".into())), "TOKEN_KEY_UNKNOWN"),
        (String::from("x"), "TOKEN_MALFORMED"),
        (String::from("a.b.c"), "TOKEN_MALFORMED"),
    ] {
        let problem = oauth.caller(&token).unwrap_err();
        assert_eq!(problem.code(), wanted, "{token}");
        assert_eq!(problem.status() == 403, wanted == "TOKEN_SCOPE");
    }
}

#[test]
fn another_key_or_algorithm_does_not_sign() {
    let (issuer, other) = (Issuer::new("k1"), Issuer::new("k1"));
    let oauth = issuer.oauth();
    assert_eq!(code(&oauth, &other.token(|_, _| {})), "TOKEN_SIGNATURE");
    let good = issuer.token(|_, _| {});
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (_, claims) = signed.split_once('.').unwrap();
    for (header, wanted) in [
        (json!({"alg": "none", "kid": "k1"}), "TOKEN_ALGORITHM"),
        (json!({"alg": "HS256", "kid": "k1"}), "TOKEN_ALGORITHM"),
        (json!({"alg": "RS256", "kid": "k1"}), "TOKEN_ALGORITHM"),
        (json!({"alg": "eddsa", "kid": "k1"}), "TOKEN_ALGORITHM"),
    ] {
        let header = Base64UrlUnpadded::encode_string(header.to_string().as_bytes());
        for signature in [signature, ""] {
            assert_eq!(code(&oauth, &format!("{header}.{claims}.{signature}")), wanted);
        }
    }
    let cut = good.get(..good.len() - 2).unwrap();
    assert_ne!(code(&oauth, cut), "");
    let hmac = EncodingKey::from_secret(issuer.public["x"].as_str().unwrap().as_bytes());
    let mut header = Header::new(Algorithm::HS256);
    header.kid = Some("k1".into());
    assert_eq!(code(&oauth, &encode(&header, &json!({}), &hmac).unwrap()), "TOKEN_ALGORITHM");
}

#[test]
fn a_new_key_of_the_issuer_is_found() {
    let issuer = Issuer::new("k1");
    let oauth = issuer.oauth();
    let next = Issuer::new("k2");
    let token = next.token(|header, _| header.kid = Some("k2".into()));
    assert_eq!(code(&oauth, &token), "TOKEN_KEY_UNKNOWN");
    issuer.publish(&json!([next.public]));
    // The file is looked at once a second.
    oauth.keys.wait(Duration::from_secs(1));
    assert_eq!(code(&oauth, &token), "");
    assert_eq!(code(&oauth, &issuer.token(|_, _| {})), "TOKEN_KEY_UNKNOWN", "the old key is withdrawn");
}

#[test]
fn a_withdrawn_key_counts_for_a_minute() {
    let issuer = Issuer::new("k1");
    let (oauth, token) = (issuer.oauth(), issuer.token(|_, _| {}));
    issuer.publish(&json!([Issuer::new("k2").public]));
    assert_eq!(code(&oauth, &token), "");
    oauth.keys.wait(Duration::from_secs(60));
    assert_eq!(code(&oauth, &token), "TOKEN_KEY_UNKNOWN");
}

#[test]
fn keys_that_cannot_be_read_again_count_for_an_hour() {
    let issuer = Issuer::new("k1");
    let (oauth, token) = (issuer.oauth(), issuer.token(|_, _| {}));
    std::fs::remove_file(keys_of(issuer.folder.path())).unwrap();
    oauth.keys.wait(Duration::from_secs(3_000));
    assert_eq!(code(&oauth, &token), "");
    oauth.keys.wait(Duration::from_secs(600));
    assert_eq!(code(&oauth, &token), "TOKEN_KEY_UNKNOWN");
    issuer.publish(&json!([issuer.public]));
    oauth.keys.wait(Duration::from_secs(1));
    assert_eq!(code(&oauth, &token), "");
}

/// Serves these answers to requests, one after another. Returns the URL.
fn serving(answers: impl IntoIterator<Item = (u16, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/jwks", listener.local_addr().unwrap());
    let answers: Vec<_> = answers.into_iter().collect();
    std::thread::spawn(move || {
        for (status, body) in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 4_096];
            let _ = stream.read(&mut head).unwrap();
            let length = body.len();
            write!(
                stream,
                "HTTP/1.1 {status} X\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            )
            .unwrap();
        }
    });
    url
}

fn at_url(url: &str, more: &str) -> Result<Oauth, HostError> {
    let text =
        format!("[oauth]\nissuer = \"{ISSUER}\"\nresource = \"{RESOURCE}\"\njwks_url = \"{url}\"\n{more}");
    let part: ServePart = toml::from_str(&text).unwrap();
    Oauth::read(&part.oauth.unwrap())
}

#[test]
fn keys_at_a_url_are_fetched_again_for_an_unknown_one() {
    let (old, new) = (Issuer::new("k1"), Issuer::new("k2"));
    let set = |issuer: &Issuer| json!({ "keys": [issuer.public] }).to_string();
    let oauth = at_url(&serving([(200, set(&old)), (500, String::new()), (200, set(&new))]), "").unwrap();
    let token = new.token(|header, _| header.kid = Some("k2".into()));
    assert_eq!(code(&oauth, &old.token(|_, _| {})), "");
    assert!(!oauth.waits(&token), "fetched within the second");
    oauth.keys.wait(Duration::from_secs(1));
    assert!(oauth.waits(&token) && !oauth.waits(&old.token(|_, _| {})));
    assert_eq!(code(&oauth, &token), "TOKEN_KEY_UNKNOWN", "the issuer answers 500");
    assert_eq!(code(&oauth, &old.token(|_, _| {})), "", "the keys that were go on");
    oauth.keys.wait(Duration::from_secs(1));
    assert_eq!(code(&oauth, &token), "");
}

#[test]
fn a_url_without_public_keys_is_refused() {
    for (status, body) in [(404, "{}"), (200, "{}"), (200, r#"{"keys": []}"#), (200, "<html>")] {
        let url = serving([(status, body.to_owned())]);
        assert_eq!(at_url(&url, "").unwrap_err().code(), "JWKS_URL", "{status} {body}");
    }
    let long = serving([(200, " ".repeat(2 << 20))]);
    assert_eq!(at_url(&long, "").unwrap_err().code(), "JWKS_URL");
    for url in ["http://login.example/jwks", "ftp://login.example/jwks", "https://login.example/?x"] {
        assert_eq!(at_url(url, "").unwrap_err().code(), "CONFIG_OAUTH", "{url}");
    }
    let both = at_url("https://login.example/jwks", "jwks_file = \"x\"");
    assert_eq!(both.unwrap_err().code(), "CONFIG_OAUTH");
    let neither: ServePart =
        toml::from_str(&format!("[oauth]\nissuer = \"{ISSUER}\"\nresource = \"{RESOURCE}\"\n")).unwrap();
    assert_eq!(Oauth::read(&neither.oauth.unwrap()).unwrap_err().code(), "CONFIG_OAUTH");
}

#[test]
fn a_file_without_public_keys_is_refused() {
    let issuer = Issuer::new("k1");
    let mut nameless = issuer.public.clone();
    nameless.as_object_mut().unwrap().remove("kid");
    for keys in
        [json!([]), json!([nameless]), json!([{"kty": "oct", "kid": "k1", "k": "c2VjcmV0"}]), json!("x")]
    {
        issuer.publish(&keys);
        assert_eq!(issuer.read_with("").unwrap_err().code(), "JWKS_FILE", "{keys}");
    }
    issuer.publish(&json!([issuer.public]));
    assert_eq!(issuer.read_with("scopes = [\"a b\"]").unwrap_err().code(), "CONFIG_OAUTH");
}

#[test]
fn the_metadata_names_resource_and_issuer() {
    let issuer = Issuer::new("k1");
    let oauth = issuer.read_with("scopes = [\"mcp\"]").unwrap();
    let metadata: Value = serde_json::from_str(&oauth.metadata()).unwrap();
    assert_eq!(
        (&metadata["resource"], &metadata["authorization_servers"]),
        (&json!(RESOURCE), &json!([ISSUER]))
    );
    let url = "https://gate.example/.well-known/oauth-protected-resource/mcp";
    assert_eq!(oauth.first_challenge(), format!("Bearer resource_metadata=\"{url}\", scope=\"mcp\""));
}
