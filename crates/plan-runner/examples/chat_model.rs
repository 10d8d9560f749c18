//! Chat model: the safe flow with models behind an OpenAI-compatible endpoint. `COUNTERSIGN_CHAT_URL` (up to and including the
//! version, `https://models.example/v1`) and `COUNTERSIGN_CHAT_MODEL` name the model; `COUNTERSIGN_CHAT_KEY` holds its key, or
//! `COUNTERSIGN_CHAT_KEY_FILE` names a file that does, if it needs one. Without a URL, the example starts a small server of its own on this machine, and prints that it does.
#![expect(clippy::print_stdout, reason = "an example talks to people")]

#[path = "chat/client.rs"]
mod client;
#[path = "common/desk.rs"]
mod desk;
#[path = "common/thinking.rs"]
mod thinking;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use client::{ApiKey, ChatError, ChatLimits, ChatModel};
use desk::{Desk, Failed, GOAL};

/// Names of the variables of the key.
const KEY: &str = "COUNTERSIGN_CHAT_KEY";
const KEY_FILE: &str = "COUNTERSIGN_CHAT_KEY_FILE";

fn main() -> Result<(), Failed> {
    let (url, name) = match std::env::var("COUNTERSIGN_CHAT_URL") {
        Ok(url) => (url, std::env::var("COUNTERSIGN_CHAT_MODEL")?),
        Err(_) => {
            let url = start_server()?;
            println!(
                "COUNTERSIGN_CHAT_URL is not set: a scripted server of the example's own answers, at {url}"
            );
            (url, "scripted".to_owned())
        }
    };
    let model = ChatModel::new(&url, &name, key()?, &ChatLimits::default())?;
    println!("{GOAL}, with the model {name}.");
    let desk = Desk::open("chat-model", "Where is my parcel?", "in Oslo, arrives on Friday")?;
    let end = desk.run(&format!("{GOAL}, please."), &model, &model, &model)?;
    println!("Answer: {}", end.answer());
    for (to, body) in desk.outbox()? {
        println!("In the outbox, to {to}: {body}");
    }
    Ok(())
}

fn key() -> Result<Option<ApiKey>, ChatError> {
    if let Some(file) = std::env::var_os(KEY_FILE) {
        return ApiKey::from_file(file.as_ref()).map(Some);
    }
    std::env::var_os(KEY).map(|_| ApiKey::from_env(KEY)).transpose()
}

/// Answers chat completions on this machine for as long as the example runs.
fn start_server() -> Result<String, Failed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}/v1", listener.local_addr()?);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A malformed request gets no answer.
            let _answered = answer(stream);
        }
    });
    Ok(url)
}

fn answer(stream: TcpStream) -> Result<(), Failed> {
    let mut reader = BufReader::new(stream);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim().is_empty() {
            break;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse()?;
        }
    }
    let mut body = Vec::new();
    reader.by_ref().take(length).read_to_end(&mut body)?;
    let asked: serde_json::Value = serde_json::from_slice(&body)?;
    let said = |place: &str| asked.pointer(place).and_then(|said| said.as_str()).unwrap_or_default();
    let text = thinking::think(said("/messages/0/content"), said("/messages/1/content"));
    let text = text.ok_or("nothing came to mind")?;
    let answer = serde_json::json!({
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    });
    let answer = answer.to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(reader.into_inner(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())?;
    Ok(())
}
