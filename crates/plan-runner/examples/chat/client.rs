// A client for models behind an OpenAI-compatible endpoint.

mod error;
mod key;
mod wire;

use std::time::Duration;

use countersign_core::{Millis, is_hidden};
use countersign_plan_runner::{Chat, ChatMessage, ModelError};
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};

pub(crate) use error::ChatError;
pub(crate) use key::ApiKey;
use wire::{Endpoint, Wire, answer, request};

/// Maximum length of a model's name, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// Asks a model over HTTP, with the chat completions of the OpenAI API (`POST {base}/chat/completions`), which many servers
/// implement. It blocks while it waits.
///
/// The server is reached over `https`, or over `http` on this machine only (`localhost` or a loopback address).
/// Certificates are verified against the built-in roots of Mozilla's programme. A proxy from the environment
/// (`HTTPS_PROXY`, `NO_PROXY`) is used for `https`. Redirects are not followed, answers are bounded, and no request is retried.
#[derive(Debug)]
pub(crate) struct ChatModel {
    agent: Agent,
    endpoint: Endpoint,
    model: Box<str>,
    key: Option<ApiKey>,
    max_bytes: u64,
}

/// Limits of one answer.
pub(crate) struct ChatLimits {
    /// Timeout, from the look-up of the server's name to the answer's last byte. The default is two minutes: models are slow.
    pub(crate) timeout: Millis,
    /// Maximum size of the server's answer in bytes, including its JSON. The default is 1 MiB.
    pub(crate) max_bytes: u64,
}

impl Default for ChatLimits {
    fn default() -> Self {
        Self { timeout: Millis::from_secs(120), max_bytes: 1 << 20 }
    }
}

fn agent(wire: Wire, timeout: Millis) -> Agent {
    let config = Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_millis(timeout.as_millis())))
        .max_idle_connections(0)
        .user_agent("countersign-plan-runner");
    match wire {
        Wire::Https => config.https_only(true).build().into(),
        // A request to this machine must not go through a proxy from the environment.
        Wire::Loopback => config.proxy(None).build().into(),
    }
}

impl ChatModel {
    /// Checks all settings. Nothing is sent. `base` is the server's URL up to the version (`https://models.example/v1`), `model` the
    /// model's name there.
    pub(crate) fn new(
        base: &str,
        model: &str,
        key: Option<ApiKey>,
        limits: &ChatLimits,
    ) -> Result<Self, ChatError> {
        let endpoint = Endpoint::new(base)?;
        let name_fits = !model.is_empty() && model.len() <= MAX_MODEL_BYTES;
        if !name_fits || model.chars().any(is_hidden) {
            return Err(ChatError::ModelName);
        }
        let ChatLimits { timeout, max_bytes } = *limits;
        if timeout.is_zero() || max_bytes == 0 {
            return Err(ChatError::Limit);
        }
        let agent = agent(endpoint.wire, timeout);
        Ok(Self { agent, endpoint, model: model.into(), key, max_bytes })
    }

    /// Asks for one answer. An absent or incomplete answer is an error.
    pub(crate) fn ask(&self, messages: &[ChatMessage]) -> Result<String, ChatError> {
        let mut sent = self.agent.post(self.endpoint.uri.clone()).header(CONTENT_TYPE, "application/json");
        if let Some(key) = &self.key {
            sent = sent.header(AUTHORIZATION, key.header()?);
        }
        let mut response = sent.send(request(&self.model, messages)).map_err(failed)?;
        let status = response.status().as_u16();
        check_status(status)?;
        // One byte above the limit, to distinguish an answer at the limit from a longer one.
        let limit = self.max_bytes.saturating_add(1);
        let body = response.body_mut().with_config().limit(limit).read_to_vec().map_err(failed)?;
        if body.len() as u64 > self.max_bytes {
            return Err(ChatError::TooLarge);
        }
        answer(&body)
    }
}

/// One client can serve planner, inspector and responder.
impl Chat for &ChatModel {
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError> {
        self.ask(messages).map_err(|error| ModelError::new(error.code(), error))
    }
}

impl Chat for ChatModel {
    fn complete(&mut self, messages: &[ChatMessage]) -> Result<String, ModelError> {
        (&mut &*self).complete(messages)
    }
}

const fn check_status(status: u16) -> Result<(), ChatError> {
    Err(match status {
        200 => return Ok(()),
        300..=399 => ChatError::Redirect { status },
        401 | 403 => ChatError::Unauthorized { status },
        429 => ChatError::Busy,
        500..=599 => ChatError::Server { status },
        _ => ChatError::Refused { status },
    })
}

fn failed(error: ureq::Error) -> ChatError {
    if matches!(error, ureq::Error::Timeout(_)) {
        ChatError::Timeout
    } else if matches!(error, ureq::Error::BodyExceedsLimit(_)) {
        ChatError::TooLarge
    } else {
        ChatError::Transport(Box::new(error))
    }
}
