//! Peers of the gateway over HTTP: an MCP server that costs next to nothing, and a plain reverse proxy.
//!
//! `ratios-http server` and `ratios-http proxy PORT` print the port that they listen on. `benches/gateway/http.py` starts both.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program that measures fails by panicking, and prints"
)]

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse as _, Response};
use hyper::server::conn::http1;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let routes = match (arguments.next().as_deref(), arguments.next()) {
        (Some("server"), None) => Router::new().fallback(server),
        (Some("proxy"), Some(port)) => proxy(&port),
        _ => panic!("usage: ratios-http server | ratios-http proxy PORT"),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        println!("{}", listener.local_addr().unwrap().port());
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            let routes = TowerToHyperService::new(routes.clone());
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), routes));
        }
    });
}

/// Answers a message of either era of MCP. Its one tool returns a constant.
async fn server(body: Bytes) -> Response {
    let Ok(asked) = serde_json::from_slice::<Value>(&body) else {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    };
    let method = asked.get("method").and_then(Value::as_str);
    let about = json!({ "name": "s", "version": "1" });
    let tools = json!([{ "name": "get", "inputSchema": { "type": "object" } }]);
    let result = match method {
        Some("initialize") => {
            json!({ "protocolVersion": "2025-06-18", "capabilities": { "tools": {} }, "serverInfo": about })
        }
        Some("server/discover") => json!({
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} }, "resultType": "complete",
            "ttlMs": 0, "cacheScope": "private", "_meta": { "io.modelcontextprotocol/serverInfo": about },
        }),
        Some("tools/list") => {
            json!({ "tools": tools, "resultType": "complete", "ttlMs": 0, "cacheScope": "private" })
        }
        Some("tools/call") => {
            json!({ "content": [{ "type": "text", "text": "done" }], "resultType": "complete" })
        }
        Some(_) | None => json!({}),
    };
    let Some(id) = asked.get("id") else { return StatusCode::ACCEPTED.into_response() };
    let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], answer).into_response()
}

/// A reverse proxy with a pool of connections, as the examples of axum have it.
fn proxy(port: &str) -> Router {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    let client: Client<HttpConnector, Body> = Client::builder(TokioExecutor::new()).build(connector);
    let to = format!("http://127.0.0.1:{port}/mcp");
    Router::new().fallback(async move |mut request: Request| {
        *request.uri_mut() = to.parse::<Uri>().unwrap();
        client.request(request).await.unwrap().into_response()
    })
}
