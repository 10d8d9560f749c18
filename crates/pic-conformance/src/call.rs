use countersign_action_proposal::{Profile, ProposalCode, ProposalError, ProposalVerifier, ProposedCall};
use countersign_canonical_json::{Kind, Limits, Recipe, read};
use countersign_core::{AgentId, CallId, Clock, Digest, ImpactClass, Principal, ServerName, SessionId};
use countersign_tool_gate::own_arguments;

use crate::report::{VectorFault, VectorVerdict};
use crate::vector::Vector;

/// The call that a vector states, in the library's types.
#[derive(Debug, Default)]
pub(crate) struct StatedCall {
    args: Option<Digest>,
    server: Option<ServerName>,
    call_id: Option<CallId>,
    principal: Option<Principal>,
    agent: Option<AgentId>,
    session: Option<SessionId>,
}

impl StatedCall {
    pub(crate) fn read(vector: &Vector<'_>) -> Result<Self, VectorFault> {
        let args = vector.args()?.map(digest_of);
        let Some(call) = &vector.said.call else {
            return Ok(Self { args, ..Self::default() });
        };
        Ok(Self {
            args,
            server: optional(call.server.as_deref(), "server")?,
            call_id: optional(call.call_id.as_deref(), "call_id")?,
            principal: optional(call.principal.as_deref(), "principal")?,
            agent: optional(call.agent.as_deref(), "agent")?,
            session: optional(call.session.as_deref(), "session")?,
        })
    }

    pub(crate) fn judge(
        &self,
        vector: &Vector<'_>,
        verifier: &ProposalVerifier,
        clock: &dyn Clock,
    ) -> Result<VectorVerdict, VectorFault> {
        let call = self.call(vector);
        let live = vector.live_args()?.is_some();
        let proposal = match vector.proposal()? {
            // Beside live arguments, `null` counts as a missing proposal.
            Some(text) if !(live && text.trim_ascii() == b"null") => text,
            Some(_) | None if live => return Ok(without_proposal(vector, verifier)),
            Some(_) | None => return Err(VectorFault::Vector("the vector has no proposal".to_owned())),
        };
        let proposal = match verifier.parse(proposal) {
            Ok(proposal) => proposal,
            Err(error) => {
                let code = if live { error.code() } else { without_call(error.code()) };
                return Ok(VectorVerdict::Block { code: code.as_str(), detail: error.detail() });
            }
        };
        Ok(match proposal.verify(verifier, &call, clock) {
            Ok(_) => VectorVerdict::Allow,
            Err(error) => block(&error),
        })
    }

    /// The call with every fact that the vector states.
    fn call<'a>(&'a self, vector: &'a Vector<'_>) -> ProposedCall<'a> {
        let mut call = match vector.tool() {
            Some(tool) => ProposedCall::to_tool_named(tool),
            None => ProposedCall::unbound(),
        };
        if let Some(args) = self.args {
            call = call.args(args);
        }
        let Some(said) = &vector.said.call else {
            return call;
        };
        if let Some(impact) = said.impact {
            call = call.impact(impact);
        }
        if let Some(server) = &self.server {
            call = call.server(server);
        }
        if let Some(id) = &self.call_id {
            call = call.call_id(id);
        }
        if let Some(principal) = &self.principal {
            call = call.principal(principal);
        }
        if let Some(agent) = &self.agent {
            call = call.agent(agent);
        }
        if let Some(session) = &self.session {
            call = call.session(session);
        }
        if let Some(version) = said.registry_version {
            call = call.registry_version(version);
        }
        if let Some(ask) = said.ask {
            call = call.ask(ask);
        }
        if let Some(plan) = said.plan {
            call = call.plan(plan);
        }
        call
    }
}

/// The code of a proposal without a call. A missing proposal needs a call: without one, the schema is not met.
fn without_call(code: ProposalCode) -> ProposalCode {
    if code == ProposalCode::InvalidRequest { ProposalCode::SchemaInvalid } else { code }
}

/// The verdict on a call without a proposal: allowed only if no rule requires one.
fn without_proposal(vector: &Vector<'_>, verifier: &ProposalVerifier) -> VectorVerdict {
    let listed = vector.tool().and_then(|tool| verifier.policy().impact_of(tool));
    let needed = if verifier.profile() == Profile::Strict {
        let said = vector.said.call.as_ref().and_then(|call| call.impact);
        // An unstated impact may be any impact.
        said.max(listed).is_none_or(|impact: ImpactClass| verifier.requires_proposal(impact))
    } else {
        listed.is_some_and(|impact| verifier.policy().requires_proposal(impact))
    };
    if !needed {
        return VectorVerdict::Allow;
    }
    let code = ProposalCode::InvalidRequest;
    VectorVerdict::Block { code: code.as_str(), detail: code.message().to_owned() }
}

fn block(error: &ProposalError) -> VectorVerdict {
    VectorVerdict::Block { code: error.code().as_str(), detail: error.detail() }
}

/// Digest of the live arguments, or zeros, which match no arguments, if they cannot be read.
fn digest_of(args: &[u8]) -> Digest {
    match read(args, Recipe::PicCjson1, &Limits::hard_caps()) {
        Ok(args) if args.value().kind() == Kind::Object => own_arguments(args).digest(),
        Ok(_) | Err(_) => Digest::from_bytes([0; 32]),
    }
}

fn optional<T: std::str::FromStr>(text: Option<&str>, what: &str) -> Result<Option<T>, VectorFault> {
    text.map(|text| parse(text, what)).transpose()
}

pub(crate) fn parse<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, VectorFault> {
    text.parse().map_err(|_| VectorFault::Vector(format!("{what} is not a valid one")))
}
