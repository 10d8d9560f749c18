//! What passes unchanged is byte-identical to a direct connection, whatever its spelling, in each pair of eras.

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use super::desk::{Desk, Setup, definitions};
use crate::Era;

/// Messages in each pair of eras.
const MESSAGES: usize = 500;
const INFO: &str = r#"{"name":"s","version":"1"}"#;

/// White space between tokens, without line ends: messages are lines.
fn space() -> impl Strategy<Value = &'static str> {
    prop_oneof![8 => Just(""), 1 => Just(" "), 1 => Just(" \t ")]
}

/// A string in one of its spellings.
fn text() -> impl Strategy<Value = String> {
    let unit = prop_oneof![
        4 => "[ -!#-\\[\\]-~]".prop_map(String::from),
        1 => prop_oneof![Just("\\n"), Just("\\u0000"), Just("\\/"), Just("\\\""), Just("\\\\"), Just("\\u000d")].prop_map(String::from),
        1 => any::<char>().prop_filter("a control character is escaped", |c| !c.is_control() && !"\"\\".contains(*c)).prop_map(String::from),
        1 => any::<char>().prop_map(|c| c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04X}")).collect()),
    ];
    prop::collection::vec(unit, 0..8).prop_map(|units| format!("\"{}\"", units.concat()))
}

/// A value in one of its spellings.
fn value() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        Just("0".to_owned()),
        Just("-0".to_owned()),
        Just("-0.0e+0".to_owned()),
        Just("9007199254740993".to_owned()),
        Just("1E+2".to_owned()),
        "-?[1-9][0-9]{0,6}(\\.[0-9]{1,6})?([eE][+-]?[0-9]{1,2})?",
    ];
    let leaf = prop_oneof![Just("null".to_owned()), Just("true".to_owned()), number, text(),];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), space())
                .prop_map(|(items, space)| format!("[{space}{}{space}]", items.join(&format!("{space},")))),
            (prop::collection::vec(inner, 0..4), text(), space()).prop_map(|(values, name, space)| {
                let name = name.strip_prefix('"').unwrap().strip_suffix('"').unwrap().to_owned();
                let member = |(at, value)| format!("\"{at}{name}\"{space}:{space}{value}");
                let members: Vec<_> = values.iter().enumerate().map(member).collect();
                format!("{{{space}{}{space}}}", members.join(","))
            }),
        ]
    })
}

/// A result of a call with members of vendors, in any order.
fn result() -> impl Strategy<Value = String> {
    let members = (value(), value(), value(), text(), value(), space());
    members.prop_flat_map(|(structured, vendor, meta, text, item, space)| {
        let members = vec![
            format!(r#""content":{space}[{{"text":{text},"type":"text","v":{item}}}]"#),
            format!(r#""structuredContent"{space}:{{"v":{structured}}}"#),
            format!(r#""com.example/vendor":{vendor}"#),
            format!(r#""isError":{space}false"#),
            format!(r#""_meta":{{"com.example/meta":{meta},"io.modelcontextprotocol/serverInfo":{INFO}}}"#),
            r#""resultType":"complete""#.to_owned(),
        ];
        Just(members).prop_shuffle().prop_map(move |members| members.join(&format!(",{space}")))
    })
}

fn modern(id: usize, method: &str, mut params: Value) -> String {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

fn plain(id: usize, method: &str, params: &Value) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string()
}

/// A desk between these eras, whose client has listed the tools.
fn desk(client: Era, server: Era) -> Desk {
    let mut setup = Setup::default().patient();
    setup.settings = setup.settings.server_era(server).client_era(client);
    let mut desk = Desk::before_the_handshake(setup);
    let list = match client {
        Era::Stateless => modern(0, "tools/list", json!({})),
        Era::Handshake | Era::Auto => {
            let client = json!({ "name": "c", "version": "1" });
            let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client });
            plain(0, "initialize", &hello)
        }
    };
    desk.send(&list);
    let asked = desk.server_got();
    let hello = match server {
        Era::Stateless => json!({ "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} } }),
        Era::Handshake | Era::Auto => {
            json!({ "protocolVersion": "2025-11-25", "capabilities": { "tools": {} }, "serverInfo": {} })
        }
    };
    desk.answer(&asked["id"], &hello);
    if client == Era::Handshake {
        desk.client_got();
        desk.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        desk.send(&plain(0, "tools/list", &json!({})));
    }
    loop {
        let asked = desk.server_got();
        if asked["method"] == "tools/list" {
            desk.answer(&asked["id"], &json!({ "tools": definitions() }));
            assert_eq!(desk.client_got()["id"], 0);
            return desk;
        }
    }
}

fn passes_unchanged(client: Era, server: Era) {
    let mut desk = desk(client, server);
    let config = Config { failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    for id in 1..=MESSAGES {
        let result = result().new_tree(&mut runner).unwrap().current();
        let params = json!({ "name": "search", "arguments": { "q": "x" } });
        desk.send(&match client {
            Era::Stateless => modern(id, "tools/call", params),
            Era::Handshake | Era::Auto => plain(id, "tools/call", &params),
        });
        let mut call = desk.server_got();
        while call["method"] != "tools/call" {
            call = desk.server_got();
        }
        let line = |id: &str| format!(r#"{{"result":{{{result}}}, "id":{id} ,"jsonrpc":"2.0"}}"#);
        desk.serve(&line(&call["id"].to_string()));
        assert_eq!(desk.client_line(), line(&id.to_string()), "message {id}");
    }
}

#[test]
fn results_between_peers_of_the_handshake_era_keep_their_bytes() {
    passes_unchanged(Era::Handshake, Era::Handshake);
}

#[test]
fn results_between_peers_of_the_stateless_era_keep_their_bytes() {
    passes_unchanged(Era::Stateless, Era::Stateless);
}

#[test]
fn results_for_a_stateless_client_of_an_older_server_keep_them() {
    passes_unchanged(Era::Stateless, Era::Handshake);
}

#[test]
fn results_for_an_older_client_of_a_stateless_server_keep_them() {
    passes_unchanged(Era::Handshake, Era::Stateless);
}
