//! The gateway's settings, from the configuration.

use countersign_host::config_file::{Announce, ConfigFile, Elicit};
use countersign_host::plans::{Approve, PlanPart};
use countersign_host::server_part::{EraName, LimitsPart, ServerPart, Servers};
use countersign_host::time::Span;
use countersign_mcp::{Era, GatewayLimits, GatewaySettings, PlanApprovals, ProposalHint, SettingsError};

use crate::failure::Failure;

/// Builds the settings of each server's gateway.
pub(super) fn gateway_settings(
    config: &ConfigFile,
    plans: &PlanPart,
) -> Result<Vec<GatewaySettings>, Failure> {
    match &config.server {
        Servers::One(server) => Ok(vec![settings_of(config, server, plans)?]),
        Servers::Several(_) if plans.file.is_some() || plans.submit => {
            let text = "`plan` is for one server: a plan's steps are calls of its tools";
            Err(Failure::new("CONFIG_CONFLICT", text))
        }
        Servers::Several(servers) => servers
            .iter()
            .map(|server| {
                let settings = settings_of(config, server, plans)?.among_several();
                settings.map_err(|error| Failure::from(error).about(server.name.as_str()))
            })
            .collect(),
    }
}

/// Builds the settings of one gateway: methods, limits, the lifetime of approvals, plans that the client submits.
fn settings_of(
    config: &ConfigFile,
    server: &ServerPart,
    plans: &PlanPart,
) -> Result<GatewaySettings, Failure> {
    let mut settings = GatewaySettings::new(server.name.clone())
        .limits(limits(server.limits.over(config.limits))?)
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
