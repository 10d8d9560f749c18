use std::path::Path;
use std::time::Duration;

use countersign_core::{Millis, is_hidden};
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, CONTENT_TYPE};

use crate::chat::{Chat, ChatMessage};
use crate::chat_answer::{answer, request};
use crate::chat_endpoint::{Endpoint, Wire};
use crate::chat_error::ChatError;
use crate::chat_key::ApiKey;
use crate::model::ModelError;

/// Maximum length of a model's name, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// Asks a model over HTTP, with the chat completions of the OpenAI API (`POST {base}/chat/completions`), which many servers
/// implement. It blocks while it waits.
///
/// The server is reached over `https`, or over `http` on this machine only (`localhost` or a loopback address).
/// Certificates are verified against the built-in roots of Mozilla's programme. A proxy from the environment
/// (`HTTPS_PROXY`, `NO_PROXY`) is used for `https`. Redirects are not followed, answers are bounded, and no request is retried.
///
/// ```
/// use countersign_plan_runner::ChatModel;
/// let model = ChatModel::builder("http://127.0.0.1:8080/v1", "local").build()?;
/// let refused = ChatModel::builder("http://models.example/v1", "remote").build();
/// assert_eq!(refused.map_err(|error| error.code()).err(), Some("CHAT_ENDPOINT"));
/// # Ok::<(), countersign_plan_runner::ChatError>(())
/// ```
#[derive(Debug)]
pub struct ChatModel {
    agent: Agent,
    endpoint: Endpoint,
    model: Box<str>,
    key: Option<ApiKey>,
    max_bytes: u64,
}

/// Builder of a [`ChatModel`]. Defaults: two minutes for one answer (models are slow), and 1 MiB of it.
#[derive(Debug)]
#[must_use]
pub struct ChatModelBuilder {
    base: String,
    model: String,
    key: Result<Option<ApiKey>, ChatError>,
    timeout: Millis,
    max_bytes: u64,
}

impl ChatModelBuilder {
    /// Reads the API key from an environment variable, immediately.
    pub fn key_from_env(self, name: &str) -> Self {
        Self { key: ApiKey::from_env(name).map(Some), ..self }
    }

    /// Reads the API key from a file with a single line, immediately.
    pub fn key_from_file(self, path: impl AsRef<Path>) -> Self {
        Self { key: ApiKey::from_file(path.as_ref()).map(Some), ..self }
    }

    /// Sets the timeout of one answer, from the look-up of the server's name to the answer's last byte.
    pub const fn timeout(mut self, timeout: Millis) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets the maximum size of the server's answer in bytes, including its JSON.
    pub const fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Checks all settings. Nothing is sent.
    ///
    /// # Errors
    /// [`ChatError`] if the base URL, the model's name, the key or a limit is invalid.
    pub fn build(self) -> Result<ChatModel, ChatError> {
        let endpoint = Endpoint::new(&self.base)?;
        let name_fits = !self.model.is_empty() && self.model.len() <= MAX_MODEL_BYTES;
        if !name_fits || self.model.chars().any(is_hidden) {
            return Err(ChatError::ModelName);
        }
        if self.timeout.is_zero() || self.max_bytes == 0 {
            return Err(ChatError::Limit);
        }
        let key = self.key?;
        Ok(ChatModel {
            agent: agent(endpoint.wire, self.timeout),
            endpoint,
            model: self.model.into(),
            key,
            max_bytes: self.max_bytes,
        })
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
    /// Creates a builder. `base` is the server's URL up to the version (`https://models.example/v1`), `model` the model's name there.
    pub fn builder(base: &str, model: &str) -> ChatModelBuilder {
        ChatModelBuilder {
            base: base.to_owned(),
            model: model.to_owned(),
            key: Ok(None),
            timeout: Millis::from_secs(120),
            max_bytes: 1 << 20,
        }
    }

    /// Asks for one answer.
    ///
    /// # Errors
    /// [`ChatError`] if there is no answer, or not a complete one.
    pub fn ask(&self, messages: &[ChatMessage]) -> Result<String, ChatError> {
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
