//! A client and a server of the Rust SDK.
//!
//! `rmcp-peer server ERA [PORT]` has the tools `echo`, `pay`, `fail` and `later`, whose result is a task where the client takes one, the
//! resource `note://a` and the prompt `hi`. ERA is `both` or `stateless`. It serves standard input and output, or HTTP.
//!
//! `rmcp-peer client MODE URL TOKEN` and `rmcp-peer client MODE -- COMMAND...` read requests from standard input, one JSON array of a
//! method's name and its arguments a line, and write each result, or `{"error": ...}`, as a line. MODE is `legacy`, `auto` or a revision.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorData,
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, GetTaskParams, GetTaskResult, ListPromptsResult, ListResourcesResult, ListToolsResult, PaginatedRequestParams,
    ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerConfig,
};
use rmcp::service::{RequestContext, RoleClient, RoleServer, RunningService, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::{StreamableHttpClientTransport, StreamableHttpService, TokioChildProcess, stdio};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt as _, ServerHandler, ServiceExt as _};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["server", era] => {
            let _ = Server::of(era).serve(stdio()).await.unwrap().waiting().await;
        }
        ["server", era, port] => serve_http(Server::of(era), port).await,
        ["client", mode, "--", command, arguments @ ..] => {
            let mut process = tokio::process::Command::new(command);
            process.args(arguments);
            let transport = TokioChildProcess::new(process).unwrap();
            run(Client.serve_with_lifecycle(transport, lifecycle(mode)).await.unwrap()).await;
        }
        ["client", mode, url, token] => {
            let config = StreamableHttpClientTransportConfig::with_uri(*url).auth_header(*token);
            let transport = StreamableHttpClientTransport::from_config(config);
            run(Client.serve_with_lifecycle(transport, lifecycle(mode)).await.unwrap()).await;
        }
        _ => panic!("usage: rmcp-peer server ERA [PORT] | rmcp-peer client MODE URL TOKEN | rmcp-peer client MODE -- COMMAND..."),
    }
}

#[derive(Clone)]
struct Server {
    is_stateless: bool,
    /// The texts of the tasks, and how often each was asked for.
    tasks: Arc<Mutex<BTreeMap<String, (String, u32)>>>,
}

impl Server {
    fn of(era: &str) -> Self {
        Self { is_stateless: era == "stateless", tasks: Arc::default() }
    }
}

async fn serve_http(server: Server, port: &str) {
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(server.clone()), sessions, Default::default());
    let listener = tokio::net::TcpListener::bind(format!("127.0.0.1:{port}")).await.unwrap();
    println!("listens");
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await.unwrap();
}

/// Reads a value of the SDK's out of JSON.
fn read<T: DeserializeOwned>(json: Value) -> T {
    serde_json::from_value(json).unwrap()
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let extensions = json!({ "io.modelcontextprotocol/tasks": {} });
        ServerConfig::new(read(json!({ "tools": {}, "resources": {}, "prompts": {}, "extensions": extensions })))
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(if self.is_stateless { &[ProtocolVersion::V_2026_07_28] } else { ProtocolVersion::KNOWN_VERSIONS })
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
        let tools = ["echo", "pay", "fail", "later"].map(|name| json!({ "name": name, "description": name, "inputSchema": schema }));
        Ok(read(json!({ "tools": tools })))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = request.arguments.and_then(|arguments| arguments.get("text").cloned());
        let takes_tasks = json!(context.meta).to_string().contains("io.modelcontextprotocol/tasks");
        if request.name == "later" && takes_tasks {
            let mut tasks = self.tasks.lock().unwrap();
            let id = format!("task-{}", tasks.len());
            let text = text.and_then(|text| text.as_str().map(String::from)).unwrap_or_default();
            tasks.insert(id.clone(), (text, 0));
            let mut task = task(&id, "working");
            task["resultType"] = json!("task");
            return Ok(CallToolResponse::Task(read(task)));
        }
        Ok(read::<CallToolResult>(json!({ "content": [{ "type": "text", "text": text }], "isError": request.name == "fail" })).into())
    }

    async fn get_task(&self, asked: GetTaskParams, _: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        let mut tasks = self.tasks.lock().unwrap();
        let id = json!(asked)["taskId"].as_str().unwrap_or_default().to_owned();
        let Some((text, polls)) = tasks.get_mut(&id) else { return Err(ErrorData::invalid_params("no such task", None)) };
        *polls += 1;
        if *polls < 2 {
            return Ok(read(task(&id, "working")));
        }
        let mut task = task(&id, "completed");
        task["result"] = json!({ "content": [{ "type": "text", "text": text }], "resultType": "complete" });
        Ok(read(task))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(read(json!({ "resources": [{ "uri": "note://a", "name": "a" }] })))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(read::<ReadResourceResult>(json!({ "contents": [{ "uri": request.uri, "text": "a note" }] })).into())
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(read(json!({ "prompts": [{ "name": "hi" }] })))
    }

    async fn get_prompt(
        &self,
        _: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        Ok(read::<GetPromptResult>(json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "hi" } }] })).into())
    }
}

/// A task in this state, as the answer to `tasks/get` has it.
fn task(id: &str, status: &str) -> Value {
    let at = "2026-07-28T00:00:00Z";
    json!({ "taskId": id, "status": status, "createdAt": at, "lastUpdatedAt": at, "ttlMs": null, "resultType": "complete" })
}

#[derive(Clone)]
struct Client;

impl ClientHandler for Client {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.capabilities = read::<ClientCapabilities>(json!({
            "elicitation": { "form": {} }, "extensions": { "io.modelcontextprotocol/tasks": {} },
        }));
        config
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(read(json!({ "action": "accept", "content": { "approve": true } })))
    }
}

fn lifecycle(mode: &str) -> ClientLifecycleMode {
    let preferred_versions = vec![ProtocolVersion::V_2026_07_28];
    match mode {
        "legacy" => ClientLifecycleMode::Initialize,
        "auto" => ClientLifecycleMode::Auto { preferred_versions, legacy_version: None },
        _ => ClientLifecycleMode::Discover { preferred_versions },
    }
}

/// Answers the requests of standard input until it ends.
async fn run(client: RunningService<RoleClient, Client>) {
    say(&json!(client.peer_info().map(|info| info.protocol_version.clone())));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let asked: Vec<Value> = serde_json::from_str(&line).unwrap();
        let params = asked.get(1).cloned().unwrap_or_default();
        say(&match asked.first().and_then(Value::as_str) {
            Some("listTools") => told(client.list_tools(None).await),
            Some("callTool") => told(client.call_tool(read(params)).await),
            Some("callToolOnce") => match client.peer().call_tool_once(read(params)).await {
                Ok(CallToolResponse::Task(task)) => json!(task),
                Ok(_) => json!({ "error": { "message": "no task" } }),
                Err(error) => told(Err::<(), _>(error)),
            },
            Some("getTask") => told(client.peer().get_task(read(params)).await),
            Some("readResource") => told(client.read_resource(read(params)).await),
            Some("getPrompt") => told(client.get_prompt(read(params)).await),
            _ => panic!("no such request: {line}"),
        });
    }
    let _ = client.cancel().await;
}

fn told(result: Result<impl Serialize, ServiceError>) -> Value {
    match result {
        Ok(result) => json!(result),
        Err(ServiceError::McpError(error)) => json!({ "error": error }),
        Err(error) => json!({ "error": { "message": error.to_string() } }),
    }
}

fn say(value: &Value) {
    println!("{value}");
}
