use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, ValueRef, read, write_string};
use countersign_committed_plan::{CommittedPlan, DYNAMIC};
use countersign_core::ToolId;
use countersign_tool_gate::CallArgs;

use crate::failure::Failure;
use crate::files::Source;
use crate::output::counted;
use countersign_host::inputs::malformed;
use countersign_host::session::PreparedSession;

/// One call that the run makes.
#[derive(Debug)]
pub(super) struct PlannedRun {
    pub(super) step: u64,
    pub(super) tool: ToolId,
    pub(super) call_id: String,
    /// Arguments with every open place filled.
    pub(super) args: CallArgs,
}

impl PlannedRun {
    /// Names the step for a person.
    pub(super) fn of_step(&self) -> String {
        format!("step {} ({})", self.step, self.tool)
    }
}

/// Reads the values of the open places: an object from step numbers to arguments.
pub(super) fn read_fill(from: Option<&Source>) -> Result<Option<Canonical>, Failure> {
    let Some(from) = from else {
        return Ok(None);
    };
    let limits = Limits::default();
    let cap = u64::try_from(limits.max_bytes()).unwrap_or(u64::MAX).saturating_add(1);
    let fill = read(&from.read_prefix(cap)?, Recipe::Jcs1, &limits)
        .map_err(|error| malformed(&error).about("--fill"))?;
    if fill.value().kind() != Kind::Object {
        return Err(
            Failure::new("FILL_SHAPE", "object that maps step numbers to arguments expected").about("--fill")
        );
    }
    Ok(Some(fill))
}

/// Lists every call of the plan in order: one per step, or one per object if a step's value is a list.
///
/// A call's id consists of the plan's root and the step. why: the root depends on the session, so calls of different
/// sessions have different ids, and a plan that runs again in its session asks with the same ids.
pub(super) fn runs(plan: &CommittedPlan, fill: Option<&Canonical>) -> Result<Vec<PlannedRun>, Failure> {
    let (root, steps) = (plan.root(), plan.steps());
    let given = fill.map(Canonical::value);
    let is_step = |name: &str| (1..=steps.len()).any(|number| number.to_string() == name);
    if given.is_some_and(|given| !given.members().all(|(name, _)| is_step(name))) {
        let text = format!("unknown step number: the plan has {}", counted(steps.len() as u64, "step"));
        return Err(Failure::new("FILL_NO_SUCH_STEP", text).about("--fill"));
    }
    let mut runs = Vec::new();
    for (number, step) in (1_u64..).zip(steps) {
        let calls: Vec<_> = match given.and_then(|given| given.get(&number.to_string())) {
            None => vec![None],
            Some(list) if list.kind() == Kind::Array => list.elements().map(Some).collect(),
            Some(one) => vec![Some(one)],
        };
        let fits = u32::try_from(calls.len()).is_ok_and(|count| count > 0 && count <= step.max_calls());
        if !fits {
            let calls = counted(u64::from(step.max_calls()), "call");
            let text = format!("step {number}: number of calls out of range: at least one, at most {calls}");
            return Err(Failure::new("FILL_CALLS", text).about("--fill"));
        }
        let several = calls.len() > 1;
        for (call, given) in (1_u64..).zip(calls) {
            let mut args = String::new();
            merge(&mut args, step.args().value(), given).map_err(|(code, text)| {
                Failure::new(code, format!("step {number}: {text}")).about("--fill")
            })?;
            let call_id = if several {
                format!("{root}/step-{number}-{call}")
            } else {
                format!("{root}/step-{number}")
            };
            let tool = step.tool().clone();
            let args = read(args.as_bytes(), Recipe::Jcs1, &Limits::default())
                .map_err(|error| malformed(&error).about(format!("step {number} ({tool})")))?;
            runs.push(PlannedRun { step: number, tool, call_id, args: CallArgs::new(args) });
        }
    }
    Ok(runs)
}

/// Checks every call's filled arguments against the registry. why: the gate would refuse such a call in the middle of
/// the plan; here nothing has started.
pub(super) fn check_args(runs: &[PlannedRun], session: &PreparedSession) -> Result<(), Failure> {
    let view = session.registry().view();
    for run in runs {
        let Some(rules) = session.contract().disclosed(&view, &run.tool) else { continue };
        rules.check_args(run.args.own()).map_err(|error| {
            Failure::refused(error.code(), format!("{}: {error}; nothing was started", run.of_step()))
        })?;
    }
    Ok(())
}

const MISSING: (&str, &str) = ("FILL_MISSING", "open argument without a value");
const NOT_OPEN: (&str, &str) = ("FILL_NOT_OPEN", "value for an argument that is not open in the plan");

/// Writes a planned value with its open places filled. The recursion depth is that of the planned value, which the
/// reader limits.
fn merge(
    out: &mut String,
    planned: ValueRef<'_>,
    given: Option<ValueRef<'_>>,
) -> Result<(), (&'static str, &'static str)> {
    if planned.as_str() == Some(DYNAMIC) {
        let value = given.filter(|given| given.as_str() != Some(DYNAMIC)).ok_or(MISSING)?;
        out.push_str(&value.canonical_text());
        return Ok(());
    }
    let is_list = planned.kind() == Kind::Array;
    let knows = |name: &str| {
        planned.get(name).is_some() || (is_list && (0..planned.len()).any(|index| index.to_string() == name))
    };
    match (planned.kind(), given) {
        (Kind::Object | Kind::Array, Some(given))
            if given.kind() != Kind::Object || !given.members().all(|(name, _)| knows(name)) =>
        {
            return Err(NOT_OPEN);
        }
        (Kind::Object, _) => {
            out.push('{');
            for (at, (name, member)) in planned.members().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_string(out, name);
                out.push(':');
                merge(out, member, given.and_then(|given| given.get(name)))?;
            }
            out.push('}');
        }
        (Kind::Array, _) => {
            out.push('[');
            for (at, element) in planned.elements().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                merge(out, element, given.and_then(|given| given.get(&at.to_string())))?;
            }
            out.push(']');
        }
        (_, Some(_)) => return Err(NOT_OPEN),
        (_, None) => out.push_str(&planned.canonical_text()),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use countersign_canonical_json::{Limits, Recipe, read};
    use countersign_committed_plan::{Plan, PlanContext, Step};
    use countersign_core::{Digest, SessionId, ToolId};

    use super::runs;
    use countersign_host::plans::unchecked;

    fn filled(args: &str, fill: &str) -> Result<Vec<String>, &'static str> {
        let step = Step::new(ToolId::new("mail", "send").unwrap(), args.as_bytes(), &[]).unwrap();
        let step = step.calls(2).unwrap();
        let session = SessionId::new("s").unwrap();
        let context = PlanContext::new(Digest::of(b"goal"), session, 1).unwrap();
        let plan = unchecked(Plan::new(context, vec![step]).unwrap()).unwrap();
        let fill = read(fill.as_bytes(), Recipe::Jcs1, &Limits::default()).unwrap();
        let runs = runs(&plan, Some(&fill)).map_err(|failure| failure.code())?;
        Ok(runs.into_iter().map(|run| run.args.sent().as_str().to_owned()).collect())
    }

    const OPEN: &str = r#"{"to":"bob","n":0.1,"lines":[{"text":"<DYNAMIC>"},7],"body":"<DYNAMIC>"}"#;

    #[test]
    fn open_places_are_filled_wherever_they_lie() {
        let fill = r#"{"1":{"body":[1e21],"lines":{"0":{"text":"x"}}}}"#;
        let whole = r#"{"body":[1e+21],"lines":[{"text":"x"},7],"n":0.1,"to":"bob"}"#;
        assert_eq!(filled(OPEN, fill), Ok(vec![whole.to_owned()]));
        let twice = filled(r#"{"body":"<DYNAMIC>"}"#, r#"{"1":[{"body":1},{"body":2}]}"#);
        assert_eq!(twice, Ok(vec![r#"{"body":1}"#.to_owned(), r#"{"body":2}"#.to_owned()]));
    }

    #[test]
    fn fill_that_does_not_fit_the_open_fields_is_refused() {
        let one = r#"{"to":"bob","body":"<DYNAMIC>"}"#;
        for (args, fill, code) in [
            (one, "{}", "FILL_MISSING"),
            (one, r#"{"1":{}}"#, "FILL_MISSING"),
            (one, r#"{"1":{"body":"<DYNAMIC>"}}"#, "FILL_MISSING"),
            (OPEN, r#"{"1":{"body":"x"}}"#, "FILL_MISSING"),
            (one, r#"{"1":{"body":"x","to":"bob"}}"#, "FILL_NOT_OPEN"),
            (one, r#"{"1":{"body":"x","to":{}}}"#, "FILL_NOT_OPEN"),
            (one, r#"{"1":{"body":"x","cc":"eve"}}"#, "FILL_NOT_OPEN"),
            (one, r#"{"1":"x"}"#, "FILL_NOT_OPEN"),
            (OPEN, r#"{"1":{"body":"x","lines":{"0":{"text":"x"},"1":8}}}"#, "FILL_NOT_OPEN"),
            (OPEN, r#"{"1":{"body":"x","lines":{"00":{"text":"x"}}}}"#, "FILL_NOT_OPEN"),
            (OPEN, r#"{"1":{"body":"x","lines":{"0":{"text":"x"},"2":8}}}"#, "FILL_NOT_OPEN"),
            (OPEN, r#"{"1":{"body":"x","lines":[{"text":"x"}]}}"#, "FILL_NOT_OPEN"),
            (one, r#"{"1":[]}"#, "FILL_CALLS"),
            (one, r#"{"1":[{"body":1},{"body":1},{"body":1}]}"#, "FILL_CALLS"),
            (one, r#"{"0":{},"1":{"body":1}}"#, "FILL_NO_SUCH_STEP"),
            (one, r#"{"2":{"body":1}}"#, "FILL_NO_SUCH_STEP"),
            (one, r#"{"01":{"body":1}}"#, "FILL_NO_SUCH_STEP"),
        ] {
            assert_eq!(filled(args, fill), Err(code), "{fill}");
        }
    }
}
