//! The gateway's settings, from the configuration.

use countersign_host::config_file::{Announce, ConfigFile, Elicit, EraName, LimitsPart};
use countersign_host::plans::{Approve, PlanPart};
use countersign_host::time::Span;
use countersign_mcp::{Era, GatewayLimits, GatewaySettings, PlanApprovals, ProposalHint, SettingsError};

use crate::failure::Failure;

/// Builds the gateway's settings: methods, limits, the lifetime of approvals, plans that the client submits.
pub(super) fn gateway_settings(config: &ConfigFile, plans: &PlanPart) -> Result<GatewaySettings, Failure> {
    let server = &config.server;
    let mut settings = GatewaySettings::new(server.name.clone())
        .limits(limits(config.limits)?)
        .refused_messages(config.refused_messages())
        .client_era(era(server.client_era))
        .server_era(era(server.era))
        .proposals(match config.announce() {
            Announce::Nothing => ProposalHint::Nothing,
            Announce::Schema => ProposalHint::Schema,
            Announce::Tool => ProposalHint::Tool,
            Announce::Both => ProposalHint::Both,
        });
    for method in &server.methods {
        settings = settings.allow_client_method(method)?;
    }
    for method in &server.server_methods {
        settings = settings.allow_server_method(method)?;
    }
    if let Some(approval) = &config.approval {
        if approval.elicit() == Elicit::Form && approval.hold().is_zero() {
            let text = "`elicit` of `approval` requires `hold`: a form is shown while the call waits";
            return Err(Failure::new("CONFIG_CONFLICT", text));
        }
        settings = settings.approval_ttl(approval.ttl())?.hold(approval.hold())?;
    }
    if !plans.submit {
        return Ok(settings);
    }
    Ok(settings.plans(match plans.approve {
        Approve::Whole => PlanApprovals::Always,
        Approve::WhereNeeded => PlanApprovals::WhereNeeded,
    })?)
}

const fn era(name: EraName) -> Era {
    match name {
        EraName::Auto => Era::Auto,
        EraName::Handshake => Era::Handshake,
        EraName::Stateless => Era::Stateless,
    }
}

fn limits(given: LimitsPart) -> Result<GatewayLimits, SettingsError> {
    let mut limits = GatewayLimits::default();
    if let Some(bytes) = given.client_line {
        limits = limits.client_line(bytes)?;
    }
    if let Some(bytes) = given.server_line {
        limits = limits.server_line(bytes)?;
    }
    if let Some(requests) = given.outstanding {
        limits = limits.outstanding(requests)?;
    }
    if let Some(wait) = given.list_wait.map(Span::millis) {
        limits = limits.list_wait(wait)?;
    }
    if let Some(wait) = given.drain.map(Span::millis) {
        limits = limits.drain(wait)?;
    }
    Ok(limits)
}
