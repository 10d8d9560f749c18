use std::path::PathBuf;

use clap::{Args, Subcommand};
use countersign_canonical_json::{Limits, Recipe, read};
use countersign_core::{Millis, SessionId};
use countersign_pinned_ask::PinnedAsk;
use serde::Deserialize as _;
use serde_json::json;

use crate::failure::{Exit, Failure};
use crate::files::{TEXT_BYTES, read_file, read_text};
use crate::output::Output;
use crate::time::now;
use countersign_host::inputs::malformed;

/// Pin the goal of a session, and compare a goal stated later with it.
///
/// A pin holds a digest of the goal and never the goal. Case, runs of whitespace and composed or decomposed accents do
/// not count; words and letters do.
#[derive(Debug, Subcommand)]
pub(crate) enum Ask {
    /// Pin a goal: prints the pin as JSON.
    #[command(after_help = "Example:\n  \
        countersign ask pin --session s1 --ttl 1h --goal 'Summarise ticket 7' > pin.json")]
    Pin(Pin),
    /// Verify a goal against a pin: exit code 0 when it is the same and the pin still counts, 3 when not.
    #[command(after_help = "Example:\n  countersign ask verify pin.json --goal 'summarise  TICKET 7'")]
    Verify(AskVerifyArgs),
}

#[derive(Debug, Args)]
pub(crate) struct Pin {
    /// The session to pin the goal to.
    #[arg(long)]
    session: SessionId,
    /// How long the pin counts: a number and ms, s, m, h or d.
    #[arg(long)]
    ttl: Millis,
    /// The goal; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT", default_value = "-", allow_hyphen_values = true)]
    goal: String,
}

#[derive(Debug, Args)]
pub(crate) struct AskVerifyArgs {
    /// The pin, as `ask pin` printed it.
    pin: PathBuf,
    /// The goal as it is stated now; `-` reads it from standard input.
    #[arg(long, value_name = "TEXT", default_value = "-", allow_hyphen_values = true)]
    goal: String,
    /// The current session; without it, the pin's own.
    #[arg(long)]
    session: Option<SessionId>,
}

impl Ask {
    pub(crate) fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        match self {
            Self::Pin(verb) => verb.run(out),
            Self::Verify(verb) => verb.run(out),
        }
    }
}

impl Pin {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let goal = read_text(&self.goal)?;
        out.json(&PinnedAsk::pin(&goal, &self.session, self.ttl, now()?)?)?;
        Ok(Exit::Done)
    }
}

impl AskVerifyArgs {
    fn run(&self, out: &mut Output) -> Result<Exit, Failure> {
        let pin = self.read_pin().map_err(|failure| failure.about(self.pin.display()))?;
        let goal = read_text(&self.goal)?;
        let session = self.session.as_ref().unwrap_or(pin.session());
        pin.verify(&goal, session, now()?).map_err(|drift| Failure::from(drift).into_refusal())?;
        let report =
            json!({"ok": true, "session": session, "digest": pin.digest(), "expires": pin.expires()});
        out.result(&report, &format!("the goal is the pinned one {}", pin.digest()))?;
        Ok(Exit::Done)
    }

    fn read_pin(&self) -> Result<PinnedAsk, Failure> {
        let bytes = read_file(&self.pin, TEXT_BYTES)?;
        let read = read(&bytes, Recipe::Jcs1, &Limits::default()).map_err(|error| malformed(&error))?;
        PinnedAsk::deserialize(read.value())
            .map_err(|error| Failure::new("ASK_PIN_MALFORMED", error.to_string()))
    }
}
