//! The service's settings. `tests/peers/serve.py` has the service itself.

use crate::bench::Bench;
use crate::mcp::gateway;

/// Returns a gateway's configuration with this `[serve]` table.
fn serving(table: &str) -> Bench {
    let bench = gateway();
    let plain = bench.read("gateway.toml");
    bench.write("gateway.toml", format!("{plain}\n[serve]\n{table}\n"));
    bench
}

fn refused(table: &str, code: &str) {
    serving(table).fails("serve --config gateway.toml", 1, code);
}

#[test]
fn service_without_callers_does_not_start() {
    refused("", "SERVE_NO_CALLERS");
    refused("listen = \"127.0.0.1:1\"\nsocket = \"s\"", "SERVE_NO_CALLERS");
    refused("token_file = \"none\"", "FILE_MISSING");
}

#[test]
fn foreign_address_needs_a_dangerous_setting() {
    let tokens =
        "[[token]]\ntoken = \"0123456789abcdef0123456789abcdef\"\nname = \"host\"\nmay = [\"check\"]\n";
    let bench = serving("token_file = \"tokens\"\nlisten = \"192.0.2.1:1\"");
    bench.write("tokens", tokens);
    bench.mode("tokens", 0o644);
    bench.fails("serve --config gateway.toml", 1, "FILE_TOO_OPEN");
    bench.mode("tokens", 0o600);
    bench.fails("serve --config gateway.toml", 1, "SERVE_LISTEN_ANYWHERE");
    let text = bench.read("gateway.toml");
    bench.write("gateway.toml", format!("{text}dangerous_listen_anywhere = true\n"));
    bench.fails("serve --config gateway.toml", 1, "SERVE_LISTEN");
}

#[test]
fn unknown_setting_of_the_service_is_refused() {
    refused("tokens = \"x\"", "CONFIG_MALFORMED");
    refused("peers = [{ uid = 1, name = \"a\", may = [\"rule\"] }]", "CONFIG_MALFORMED");
    refused("peers = [{ uid = 1, name = \"a\", may = [] }]", "CALLER_DUTIES");
}

#[test]
fn the_settings_in_the_help_are_some() {
    let bench = gateway();
    let help = bench.ok("serve --help");
    let shown = help.split("[serve]").nth(1).unwrap().split("\nserve.tokens").next().unwrap();
    let table = shown.split_once('\n').unwrap().1.replace("\n  # ", "\n").replace("serve.tokens", "none");
    let plain = bench.read("gateway.toml");
    bench.write("gateway.toml", format!("{plain}\n[serve]\n{table}\n"));
    // The settings are read before the tokens.
    bench.fails("serve --config gateway.toml", 1, "FILE_MISSING");
}
