//! A server at a URL, as all sessions with it see it.

use std::time::Duration;

use countersign_host::error::HostError;
use countersign_host::remote_part::RemotePart;
use countersign_host::report::Reporter;
use countersign_host::time::Span;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::address::AddressPolicy;
use crate::connection::{HttpOrigin, PlainText, authorities};
use crate::credential::Credential;
use crate::failure::RemoteFailure;

/// Default of the longest time in which a response may say nothing.
const QUIET: Duration = Duration::from_secs(300);
/// Time in which a failure is not reported again.
const SAME: Duration = Duration::from_secs(10);

/// Parts that all sessions with a server share.
#[derive(Debug)]
pub(crate) struct Remote {
    pub(crate) origin: HttpOrigin,
    pub(crate) credential: Credential,
    pub(crate) quiet: Duration,
    /// Most bytes of a message of the server.
    pub(crate) most: usize,
    reporter: Reporter,
    reported: Mutex<Option<(String, Instant)>>,
}

impl Remote {
    pub(crate) fn open(
        url: &str,
        part: &RemotePart,
        most: usize,
        reporter: &Reporter,
    ) -> Result<Self, HostError> {
        let plain = if part.dangerous_plain_http { PlainText::Allowed } else { PlainText::Refused };
        let (tls, policy) = (authorities(part.ca.as_deref())?, AddressPolicy::read(&part.addresses)?);
        let origin = HttpOrigin::new(url, &tls, &policy, plain)?;
        let credential = Credential::new(part, url, &tls, &policy, plain)?;
        let quiet = part.quiet.map_or(QUIET, |span: Span| Duration::from_millis(span.millis().as_millis()));
        let (reporter, reported) = (reporter.clone(), Mutex::default());
        Ok(Self { origin, credential, quiet, most, reporter, reported })
    }

    /// Reports a failure to the operator, unless it was just reported.
    pub(crate) fn warn(&self, failure: &RemoteFailure) {
        let now = Instant::now();
        let mut reported = self.reported.lock();
        let is_same =
            |(text, at): &(String, Instant)| *text == failure.text && now.duration_since(*at) < SAME;
        if !reported.as_ref().is_some_and(is_same) {
            *reported = Some((failure.text.clone(), now));
            self.reporter.warn(failure.code(), &format!("{}: {}", self.origin.url(), failure.text));
        }
    }
}
