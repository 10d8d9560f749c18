//! Notices of new questions to an HTTP service of the operator's, signed by the Standard Webhooks specification (1.0).

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use countersign_approval_token::PendingApproval;
use countersign_canonical_json::{Limits, read};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha2::Sha256;
use ureq::Agent;
use zeroize::Zeroizing;

use crate::error::HostError;
use crate::files::read_secret_text;
use crate::http::Address;
use crate::report::Reporter;
use crate::time::now;

/// Most notices that wait to be sent. A further one is dropped with a warning.
const MAX_QUEUED: usize = 64;

/// Time limit of one request.
const REQUEST: Duration = Duration::from_secs(5);

/// Pauses before further attempts.
const PAUSES: [Duration; 4] =
    [Duration::from_secs(1), Duration::from_secs(2), Duration::from_secs(4), Duration::from_secs(8)];

/// Bytes of a secret, by the specification.
const SECRET_BYTES: std::ops::RangeInclusive<usize> = 24..=64;

/// The `[notify]` table of a configuration.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct NotifyPart {
    webhook: String,
    secret_file: PathBuf,
    /// JSON Pointers of the argument values that a notice has; none without it.
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    dangerous_plain_http: bool,
}

impl NotifyPart {
    /// Iterates over all paths in it.
    pub(crate) fn paths(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        std::iter::once(&mut self.secret_file)
    }
}

/// A service that hears of each new question. Its queue never blocks a decision. Copies share one queue.
#[derive(Clone, Debug)]
pub struct Webhook {
    queue: SyncSender<QueuedNotice>,
    values: Arc<[String]>,
    failed: Arc<AtomicU64>,
    reporter: Reporter,
}

#[derive(Debug)]
struct QueuedNotice {
    id: String,
    body: String,
}

/// Sends notices one after another.
struct WebhookSender {
    agent: Agent,
    url: String,
    secret: Zeroizing<Vec<u8>>,
    failed: Arc<AtomicU64>,
    reporter: Reporter,
}

/// Why an attempt failed, and whether another one can help.
struct FailedAttempt {
    why: String,
    is_final: bool,
}

impl Webhook {
    /// Begins to send.
    ///
    /// # Errors
    /// `CONFIG_NOTIFY` for a URL that is not one, clear text to another machine, or a pointer that is not one;
    /// `WEBHOOK_SECRET` for a secret that is not `whsec_` and 24 to 64 bytes in base64; a file that cannot be read.
    pub fn begin(part: &NotifyPart, reporter: Reporter) -> Result<Self, HostError> {
        let wrong = |text: &str| HostError::new("CONFIG_NOTIFY", text);
        if !part.values.iter().all(|pointer| pointer.is_empty() || pointer.starts_with('/')) {
            return Err(wrong("`values` of `notify`: JSON Pointers expected"));
        }
        let address = Address::read(&part.webhook);
        let address = address.ok_or_else(|| wrong("`webhook` of `notify`: an http or https URL expected"))?;
        let agent = address.client(REQUEST, part.dangerous_plain_http.into());
        let agent = agent.ok_or_else(|| {
            wrong("`webhook` is not on this machine: it needs https, or `dangerous_plain_http = true`")
        })?;
        let secret = secret_of(&read_secret_text(&part.secret_file)?)?;
        let (queue, notices) = sync_channel(MAX_QUEUED);
        let failed = Arc::<AtomicU64>::default();
        let sender = WebhookSender {
            agent,
            url: part.webhook.clone(),
            secret,
            failed: Arc::clone(&failed),
            reporter: reporter.clone(),
        };
        let work = move || sender.send_all(&notices);
        let started = thread::Builder::new().name("countersign-webhook".to_owned()).spawn(work);
        started.map_err(|_| HostError::internal("thread for the webhook could not be started"))?;
        Ok(Self { queue, values: part.values.clone().into(), failed, reporter })
    }

    /// Notifies of a question. A full queue drops the notice with a warning.
    pub fn notify(&self, question: &PendingApproval, short: &str) {
        let notice =
            QueuedNotice { id: question.id().to_string(), body: body(question, short, &self.values) };
        if self.queue.try_send(notice).is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
            self.reporter.warn("NOTIFY_FAILED", "webhook: too many notices wait");
        }
    }

    /// Returns the number of notices that were given up.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}

impl WebhookSender {
    fn send_all(&self, notices: &Receiver<QueuedNotice>) {
        while let Ok(notice) = notices.recv() {
            if let Err(why) = self.send(&notice) {
                self.failed.fetch_add(1, Ordering::Relaxed);
                self.reporter.warn("NOTIFY_FAILED", &format!("webhook: {why}"));
            }
        }
    }

    /// Sends a notice, at most five times.
    fn send(&self, notice: &QueuedNotice) -> Result<(), String> {
        let mut pauses = PAUSES.iter();
        loop {
            let Err(failed) = self.attempt(notice) else { return Ok(()) };
            match pauses.next() {
                Some(pause) if !failed.is_final => thread::sleep(*pause),
                Some(_) | None => return Err(failed.why),
            }
        }
    }

    fn attempt(&self, notice: &QueuedNotice) -> Result<(), FailedAttempt> {
        let fault = |why: String| FailedAttempt { why, is_final: false };
        let seconds = now().map_err(|error| fault(error.line()))?.as_millis() / 1_000;
        let signature = signature(&self.secret, &notice.id, seconds, &notice.body);
        let signature = signature.ok_or_else(|| fault("the secret cannot sign".to_owned()))?;
        let request = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .header("webhook-id", &notice.id)
            .header("webhook-timestamp", seconds.to_string())
            .header("webhook-signature", signature);
        let answer = request.send(notice.body.as_str()).map_err(|error| fault(error.to_string()))?;
        let status = answer.status();
        if status.is_success() {
            return Ok(());
        }
        let may_pass = status.is_server_error() || matches!(status.as_u16(), 408 | 425 | 429);
        Err(FailedAttempt { why: format!("it answered {status}"), is_final: !may_pass })
    }
}

/// Reads a secret: `whsec_` and base64.
fn secret_of(text: &str) -> Result<Zeroizing<Vec<u8>>, HostError> {
    let secret = text.trim().strip_prefix("whsec_").and_then(|text| Base64::decode_vec(text).ok());
    let secret = secret.map(Zeroizing::new).filter(|secret| SECRET_BYTES.contains(&secret.len()));
    secret.ok_or_else(|| HostError::new("WEBHOOK_SECRET", "expected: `whsec_` and 24 to 64 bytes in base64"))
}

/// The specification's signature: of id, time and body, with a full stop between them.
fn signature(secret: &[u8], id: &str, seconds: u64, body: &str) -> Option<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    Some(format!("v1,{}", Base64::encode_string(&mac.finalize().into_bytes())))
}

/// The facts of a question, with no argument value but those that the operator named.
fn body(question: &PendingApproval, short: &str, pointers: &[String]) -> String {
    let binding = question.binding();
    let mut values = Map::new();
    let args = read(question.args().as_bytes(), binding.args_recipe, &Limits::hard_caps()).ok();
    for pointer in pointers {
        let value = args.as_ref().and_then(|args| args.value().pointer(pointer));
        let value = value.and_then(|value| serde_json::from_str::<Value>(&value.canonical_text()).ok());
        values.insert(pointer.clone(), value.unwrap_or(Value::Null));
    }
    json!({
        "type": "question.waits",
        "timestamp": question.requested().to_string(),
        "data": {
            "id": short,
            "call_id": question.id(),
            "kind": question.kind(),
            "server": binding.tool.server(),
            "tool": binding.tool.name(),
            "principal": binding.principal,
            "agent": binding.agent,
            "expires": question.expires().to_string(),
            "args_digest": binding.args,
            "values": values,
        },
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use countersign_approval_token::PendingApproval;
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_core::{CallFacts, CallId, Millis, Principal, Timestamp, ToolId};
    use serde_json::Value;

    use super::{NotifyPart, Webhook, secret_of, signature};
    use crate::report::Reporter;

    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

    fn question(amount: u32) -> PendingApproval {
        let args = format!("{{\"amount\":{amount},\"secret\":\"s3cret\"}}");
        let args = read(args.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let (id, tool) = (CallId::new("call-1").unwrap(), ToolId::new("desk", "refund").unwrap());
        let alice = Principal::new("alice").unwrap();
        let facts = CallFacts::new(id, tool, args.digest(), Recipe::Jcs1, alice);
        PendingApproval::new(facts, &args, Timestamp::EPOCH, Millis::from_secs(60)).unwrap()
    }

    fn part(url: &str, values: &[&str]) -> (tempfile::TempDir, NotifyPart) {
        let folder = tempfile::tempdir().unwrap();
        let secret_file = folder.path().join("secret");
        crate::files::write_secret_file(&secret_file, SECRET.as_bytes()).unwrap();
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        (folder, NotifyPart { webhook: url.to_owned(), secret_file, values, dangerous_plain_http: false })
    }

    /// Answers each connection with the next status, and returns the requests.
    fn service(statuses: &'static [&'static str]) -> (String, std::thread::JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/hook", listener.local_addr().unwrap());
        let serve = move || {
            statuses
                .iter()
                .map(|status| {
                    let (mut peer, _) = listener.accept().unwrap();
                    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                    let mut request = String::new();
                    let mut buffer = [0; 4096];
                    while !request.ends_with('}') {
                        let read = peer.read(&mut buffer).unwrap();
                        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
                    }
                    let close = "content-length: 0\r\nconnection: close\r\n\r\n";
                    write!(peer, "HTTP/1.1 {status}\r\n{close}").unwrap();
                    request
                })
                .collect()
        };
        (url, std::thread::spawn(serve))
    }

    #[test]
    fn signature_is_the_one_of_standard_webhooks() {
        // The example of the specification's own libraries.
        let secret = secret_of(SECRET).unwrap();
        let body = r#"{"test": 2432232314}"#;
        let signed = signature(&secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, body).unwrap();
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn notice_is_signed_and_sent_again_after_a_failure() {
        let (url, requests) = service(&["503 Busy", "204 No Content"]);
        let (_folder, part) = part(&url, &["/amount", "/none"]);
        let webhook = Webhook::begin(&part, Reporter::new(|_| {})).unwrap();
        webhook.notify(&question(5), "call");
        let requests = requests.join().unwrap();
        assert_eq!(requests.len(), 2);
        for request in &requests {
            let (head, body) = request.split_once("\r\n\r\n").unwrap();
            let of = |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).unwrap().to_owned();
            let seconds = of("webhook-timestamp: ").parse().unwrap();
            let signed = signature(&secret_of(SECRET).unwrap(), "call-1", seconds, body).unwrap();
            assert_eq!((of("webhook-id: "), of("webhook-signature: ")), ("call-1".to_owned(), signed));
            let body: Value = serde_json::from_str(body).unwrap();
            assert_eq!(body["data"]["id"], "call");
            assert_eq!(body["data"]["values"], serde_json::json!({"/amount": 5, "/none": null}));
            assert!(!request.contains("s3cret"), "only named values leave");
        }
        assert_eq!(webhook.failed(), 0);
    }

    #[test]
    fn refused_notice_is_given_up_and_counted() {
        let (url, requests) = service(&["404 Not Found"]);
        let (_folder, part) = part(&url, &[]);
        let (warned, warnings) = channel();
        let reporter = Reporter::new(move |line| warned.send(line.to_owned()).unwrap());
        let webhook = Webhook::begin(&part, reporter).unwrap();
        webhook.notify(&question(5), "call");
        requests.join().unwrap();
        let line = warnings.recv_timeout(Duration::from_secs(20)).unwrap();
        assert!(line.starts_with("warning NOTIFY_FAILED: webhook: it answered 404"), "{line}");
        assert_eq!(webhook.failed(), 1);
    }

    #[test]
    fn full_queue_drops_notices_and_blocks_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (_folder, part) = part(&format!("http://{}/", listener.local_addr().unwrap()), &[]);
        let webhook = Webhook::begin(&part, Reporter::new(|_| {})).unwrap();
        let began = crate::time::now().unwrap();
        for number in 0..200 {
            webhook.notify(&question(number), "call");
        }
        let took = crate::time::now().unwrap().since(began);
        assert!(took < Millis::from_secs(4), "the service never answers");
        assert!((134..=136).contains(&webhook.failed()), "{}", webhook.failed());
    }

    #[test]
    fn webhook_with_a_weak_secret_or_a_wrong_url_is_refused() {
        for secret in ["", "whsec_", "whsec_AAAA", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_!"] {
            assert_eq!(secret_of(secret).unwrap_err().code(), "WEBHOOK_SECRET", "{secret}");
        }
        for (url, values) in [("ftp://x", &[][..]), ("http://10.0.0.1/", &[]), ("https://x.example/", &["a"])]
        {
            let (_folder, part) = part(url, values);
            let begun = Webhook::begin(&part, Reporter::new(|_| {}));
            assert_eq!(begun.unwrap_err().code(), "CONFIG_NOTIFY", "{url}");
        }
    }
}
