//! Runner of vectors of the kind `root-run`.

use serde_json::{Value, json};

use super::super::*;
use super::{Allowed, context_in, read_header_proof, root_in};

/// A cursor and the call or amendment that holds its step.
struct Played {
    cursor: RootCursor,
    call: Option<PlannedCall>,
    amendment: Option<PlannedRoot>,
}

/// The code, and the reason if there is one.
type Refused = (&'static str, Option<&'static str>);

/// Runs the events. Returns the code of the last one, or of the refused start.
pub(super) fn verdict(case: &Value) -> Result<(), &'static str> {
    let header = read_header_proof(case)?.verify(&root_in(case)).map_err(|error| error.code())?;
    let cursor = RootCursor::start(header, &context_in(case)).map_err(|error| error.code())?;
    let cursor = match case["breaches"].as_u64() {
        Some(breaches) => {
            cursor.on_breach(OnBreach::Refuse(Breaches::new(breaches.try_into().unwrap()).unwrap()))
        }
        None => cursor,
    };
    let mut played = Played { cursor, call: None, amendment: None };
    let allowed = Allowed::of(case);
    let mut last = Ok(());
    for (at, event) in (1..).zip(case["events"].as_array().unwrap()) {
        let came = played.event(event, &allowed);
        let (code, reason) = came.err().unwrap_or(("ok", None));
        assert_eq!((&json!(code), &json!(reason)), (&event["expect"], &event["reason"]), "event {at}");
        assert_eq!(played.state(), event["then"], "after event {at}");
        last = came.map_err(|(code, _)| code);
    }
    last
}

impl Played {
    fn event(&mut self, event: &Value, allowed: &Allowed) -> Result<(), Refused> {
        let breach = |breach: PlanBreach| (breach.code(), Some(breach.reason()));
        let other = |error: PlanUseError| (error.code(), None);
        match event["do"].as_str().unwrap() {
            "check" => self.check(event, allowed).map_err(breach),
            "accept" => self.cursor.accept(self.call.take().unwrap()).map_err(breach),
            "give_back" => self.cursor.give_back(self.call.take().unwrap()).map_err(breach),
            "halt" => {
                assert_eq!(event["by"], "by-host");
                self.cursor.halt("by-host").map_err(breach)
            }
            "check_amendment" => self.check_amendment(event),
            "accept_amendment" => {
                let approved = serde_json::from_value(event["approved"].clone()).unwrap();
                self.cursor.accept_amendment(self.amendment.take().unwrap(), &approved).map_err(other)
            }
            "give_back_amendment" => {
                self.cursor.give_back_amendment(self.amendment.take().unwrap()).map_err(other)
            }
            unknown => panic!("{unknown}"),
        }
    }

    fn check(&mut self, event: &Value, allowed: &Allowed) -> Result<(), PlanBreach> {
        let tool: ToolId = serde_json::from_value(event["tool"].clone()).unwrap();
        let args = json(event["args"].as_str().unwrap());
        let proof = event
            .get("proof")
            .map(|proof| StepProof::from_json(proof.to_string().as_bytes(), &PlanLimits::default()).unwrap());
        let mut call = StepCall::new(&tool, &args, event["registry_version"].as_u64().unwrap());
        if let Some(proof) = &proof {
            call = call.proved_by(proof);
        }
        if let Some(step) = event["step"].as_u64() {
            call = call.at_step(step);
        }
        self.call = Some(self.cursor.check(&call, allowed)?);
        Ok(())
    }

    fn check_amendment(&mut self, event: &Value) -> Result<(), Refused> {
        let header = read_header_proof(event).map_err(|code| (code, None))?;
        let refused = |error: PlanUseError| (error.code(), None);
        let header = header.verify(&root_in(event)).map_err(refused)?;
        self.amendment = Some(self.cursor.check_amendment(header, &context_in(event)).map_err(refused)?);
        Ok(())
    }

    fn state(&self) -> Value {
        let halted = self.cursor.halted().map(|breach| {
            let (code, reason) = why(breach);
            json!({ "code": code, "reason": reason })
        });
        json!({ "root": self.cursor.root(), "position": self.cursor.position(), "halted": halted })
    }
}
