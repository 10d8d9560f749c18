//! Asks public crates the question that a gate answers at an approved call: may this principal call this tool with
//! these argument values now? Measured alternately with the gate's decision and its record in memory, on one core.
//!
//! Keys, policies and verifiers are prepared; tokens and arguments come as bytes. The gate does more: it spends the
//! approval, checks the arguments against a schema, counts, and records.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use biscuit_auth::builder::AuthorizerBuilder;
use biscuit_auth::{Biscuit, KeyPair};
use cedar_policy::{Authorizer, Context, Decision, Entities, PolicySet, Request};
use countersign_ratios::decisions::ApprovedCall;
use countersign_ratios::{
    Bound, Figure, Row, Sampling, Unit, interleave, laps, pin_to_core, print_table, structured_args, timed,
};
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use macaroon::{Format, Macaroon, MacaroonKey, Verifier};
use serde::{Deserialize, Serialize};

/// The arguments of the call, as bytes.
fn args() -> Vec<u8> {
    structured_args(26)
}

#[derive(Serialize, Deserialize)]
struct Args {
    query: String,
    limit: u64,
}

/// Claims of a token that grants one call.
#[derive(Serialize, Deserialize)]
struct Claims {
    sub: String,
    aud: String,
    exp: u64,
    tool: String,
    args: Args,
}

fn web_token() -> impl FnMut() -> bool {
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
    let claims = Claims {
        sub: "ada@example.com".into(),
        aud: "gate-1".into(),
        exp: now + 3_600,
        tool: "desk:refund".into(),
        args: serde_json::from_slice(&args()).unwrap(),
    };
    let token = jsonwebtoken::encode(&Header::default(), &claims, &EncodingKey::from_secret(&[9; 32])).unwrap();
    let (key, mut rules) = (DecodingKey::from_secret(&[9; 32]), Validation::new(Algorithm::HS256));
    rules.set_audience(&["gate-1"]);
    let asked = args();
    move || {
        let asked: Args = serde_json::from_slice(black_box(&asked)).unwrap();
        let granted = jsonwebtoken::decode::<Claims>(black_box(&token), &key, &rules).unwrap().claims;
        granted.sub == "ada@example.com"
            && granted.tool == "desk:refund"
            && granted.args.query == asked.query
            && granted.args.limit == asked.limit
    }
}

fn three_caveats() -> impl FnMut() -> bool {
    let key = MacaroonKey::generate(&[9; 32]);
    let mut granted = Macaroon::create(Some("gate-1".into()), &key, "call-1".into()).unwrap();
    granted.add_first_party_caveat("principal = ada@example.com".into());
    let call = format!("call = desk:refund {}", String::from_utf8(args()).unwrap());
    granted.add_first_party_caveat(call.as_str().into());
    granted.add_first_party_caveat("time < 4102444800".into());
    let token = granted.serialize(Format::V2).unwrap();
    let asked = args();
    move || {
        let granted = Macaroon::deserialize(black_box(&token)).unwrap();
        let mut rules = Verifier::default();
        rules.satisfy_exact("principal = ada@example.com".into());
        let call = format!("call = desk:refund {}", std::str::from_utf8(black_box(&asked)).unwrap());
        rules.satisfy_exact(call.as_str().into());
        rules.satisfy_general(|caveat| {
            let text = std::str::from_utf8(&caveat.0).ok();
            let end = text.and_then(|text| text.strip_prefix("time < ")?.parse::<u64>().ok());
            end.is_some_and(|end| SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs() < end)
        });
        rules.verify(&granted, &key, Vec::new()).is_ok()
    }
}

const CEDAR: &str = r#"
permit(principal == User::"ada@example.com", action == Action::"desk:refund", resource == Gate::"gate-1")
when { context.limit <= 10 && context.query == "rust" && context.now < 4102444800 };
permit(principal == User::"bob@example.com", action, resource) when { context.limit < 5 };
permit(principal, action == Action::"desk:search", resource);
forbid(principal, action == Action::"desk:erase", resource);
forbid(principal, action, resource) when { context.limit > 100 };
"#;

fn five_policies() -> impl FnMut() -> bool {
    let policies: PolicySet = CEDAR.parse().unwrap();
    let (authorizer, entities) = (Authorizer::new(), Entities::empty());
    let (principal, action, resource) = (
        r#"User::"ada@example.com""#.parse::<cedar_policy::EntityUid>().unwrap(),
        r#"Action::"desk:refund""#.parse::<cedar_policy::EntityUid>().unwrap(),
        r#"Gate::"gate-1""#.parse::<cedar_policy::EntityUid>().unwrap(),
    );
    let asked = args();
    move || {
        let mut context: serde_json::Value = serde_json::from_slice(black_box(&asked)).unwrap();
        context["now"] = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs().into();
        let context = Context::from_json_value(context, None).unwrap();
        let request =
            Request::new(principal.clone(), action.clone(), resource.clone(), context, None).unwrap();
        authorizer.is_authorized(&request, &policies, &entities).decision() == Decision::Allow
    }
}

const REGO: &str = r#"
package gate
default allow := false
allow if {
    input.principal == "ada@example.com"
    input.tool == "desk:refund"
    input.args.query == "rust"
    input.args.limit <= 10
    input.now < 4102444800
}
"#;

fn rego() -> impl FnMut() -> bool {
    let mut engine = regorus::Engine::new();
    engine.add_policy("gate.rego".into(), REGO.into()).unwrap();
    let asked = args();
    move || {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs();
        let input = format!(
            r#"{{"principal":"ada@example.com","tool":"desk:refund","args":{},"now":{now}}}"#,
            std::str::from_utf8(black_box(&asked)).unwrap()
        );
        engine.set_input_json(&input).unwrap();
        engine.eval_rule("data.gate.allow".into()).unwrap() == regorus::Value::from(true)
    }
}

fn biscuit() -> impl FnMut() -> bool {
    let root = KeyPair::new();
    let code = r#"right("ada@example.com", "desk:refund", "rust", 7); check if time($t), $t < 2100-01-01T00:00:00Z"#;
    let token = Biscuit::builder().code(code).unwrap().build(&root).unwrap().to_vec().unwrap();
    let public = root.public();
    let asked = args();
    move || {
        let asked: Args = serde_json::from_slice(black_box(&asked)).unwrap();
        let granted = Biscuit::from(black_box(&token), public).unwrap();
        let code = format!(
            r#"call("ada@example.com", "desk:refund", "{}", {}); allow if call($p, $t, $q, $l), right($p, $t, $q, $l)"#,
            asked.query, asked.limit
        );
        let mut authorizer = AuthorizerBuilder::new().code(code).unwrap().time().build(&granted).unwrap();
        authorizer.authorize().is_ok()
    }
}

fn main() -> ExitCode {
    let json = match std::env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--json" => true,
        _ => {
            eprintln!("usage: ratios --peers [--json]");
            return ExitCode::from(2);
        }
    };
    let core = pin_to_core(0);
    let mut peers: Vec<(&str, f64, f64, Box<dyn FnMut() -> bool>)> = vec![
        ("jsonwebtoken HS256 decode", 1.3, 2.0, Box::new(web_token())),
        ("macaroon, 3 caveats, from bytes", 2.5, 3.5, Box::new(three_caveats())),
        ("cedar-policy, 5 policies, request built", 8.0, 11.0, Box::new(five_policies())),
        ("regorus, from JSON", 4.0, 6.0, Box::new(rego())),
        ("biscuit-auth, parse, verify, authorize", 50.0, 75.0, Box::new(biscuit())),
    ];
    for (name, _, _, ask) in &mut peers {
        assert!(ask(), "{name} allows the call");
    }
    let mut ours = ApprovedCall::new(26);
    let sampling = Sampling { target: Duration::from_micros(800), ..Sampling::default() };
    let mut gate = |times: u32| laps(&mut ours, times);
    let mut asked: Vec<_> = peers
        .iter_mut()
        .map(|(_, _, _, ask)| {
            move |times: u32| {
                timed(times, || {
                    black_box(ask());
                })
            }
        })
        .collect();
    let mut sides: Vec<&mut dyn FnMut(u32) -> Duration> = vec![&mut gate];
    sides.extend(asked.iter_mut().map(|side| side as &mut dyn FnMut(u32) -> Duration));
    let rounds = interleave(sampling, &mut sides);
    drop(sides);
    drop(asked);
    let own: Figure = rounds.nanos(0);
    let rows: Vec<Row> = peers
        .iter()
        .enumerate()
        .map(|(at, (name, goal, aim, _))| {
            let peer = rounds.nanos(at + 1).median;
            Row::new(format!("approved decision, times as fast as {name}"), rounds.ratio(at + 1, 0), Unit::Times)
                .goal(Bound::AtLeast(*goal))
                .aim(Bound::AtLeast(*aim))
                .note(format!("{:.0} / {peer:.0} ns", own.median))
        })
        .collect();
    if json {
        let report = serde_json::json!({ "pinned": core, "rows": rows });
        println!("{}", serde_json::to_string_pretty(&report).unwrap());
    } else {
        println!("On one core: {}.\n", if core { "yes" } else { "no" });
        print_table(&rows).unwrap();
    }
    if rows.iter().all(|row| row.met) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
