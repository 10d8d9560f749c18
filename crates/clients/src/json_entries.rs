use crate::error::ClientFileError;
use crate::json::JsonNode;
use crate::server::{ArgPlaces, ClientServer, CommandPlaces, EntryPlace, ServerStart};

/// Names under which clients keep their servers.
const LISTS: [&str; 2] = ["mcpServers", "servers"];

pub(crate) fn read(text: &str) -> Result<Vec<ClientServer>, ClientFileError> {
    let root = JsonNode::read(text)?;
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '/']) {
        return Err(ClientFileError::Malformed("an object expected".to_owned()));
    }
    let mut servers = Vec::new();
    lists(&root, None, &mut servers)?;
    let projects = root.get("projects").map_or(&[][..], JsonNode::members);
    for (project, node) in projects {
        lists(node, Some(project), &mut servers)?;
    }
    Ok(servers)
}

fn lists(
    node: &JsonNode,
    project: Option<&String>,
    servers: &mut Vec<ClientServer>,
) -> Result<(), ClientFileError> {
    for name in LISTS {
        if node.members().iter().filter(|(key, _)| key == name).count() > 1 {
            return Err(ClientFileError::Twice(name.to_owned()));
        }
        let Some(list) = node.get(name) else { continue };
        if !list.is_object() {
            return Err(ClientFileError::Malformed(format!("`{name}` is not an object")));
        }
        if list.has_twins() {
            return Err(ClientFileError::Twice(name.to_owned()));
        }
        for (name, node) in list.members() {
            servers.push(entry(name, project, node)?);
        }
    }
    Ok(())
}

fn entry(name: &str, project: Option<&String>, node: &JsonNode) -> Result<ClientServer, ClientFileError> {
    if node.has_twins() {
        return Err(ClientFileError::Twice(name.to_owned()));
    }
    let wrong = |what: &str| ClientFileError::Malformed(format!("`{what}` of server `{name}`"));
    let members = node.members().iter().map(|(name, value)| (name.clone(), value.at.clone())).collect();
    let place = EntryPlace { at: node.at.clone(), members };
    let named = |start, places| ClientServer {
        name: name.to_owned(),
        project: project.cloned(),
        start,
        places,
        entry: Some(place),
    };
    let Some(command) = node.get("command") else {
        let url = ["url", "serverUrl", "httpUrl"].iter().find_map(|key| node.get(key));
        let Some(url) = url.and_then(JsonNode::text) else { return Ok(named(ServerStart::Unknown, None)) };
        let transport = ["type", "transport"].iter().find_map(|key| node.get(key)?.text()).map(str::to_owned);
        let headers = node.get("headers").map_or(&[][..], JsonNode::members).iter();
        let headers = headers
            .map(|(name, value)| (name.clone(), value.text().unwrap_or_default().to_owned()))
            .collect();
        return Ok(named(ServerStart::Url { url: url.to_owned(), transport, headers }, None));
    };
    let program = command.text().ok_or_else(|| wrong("command"))?;
    let args =
        node.get("args").map(|args| args.elements().map(|list| (args, list)).ok_or_else(|| wrong("args")));
    let args = args.transpose()?;
    let texts = args.iter().flat_map(|(_, list)| list.iter());
    let texts = texts
        .map(|arg| arg.text().map(str::to_owned).ok_or_else(|| wrong("args")))
        .collect::<Result<_, _>>()?;
    let env = node.get("env").map_or(&[][..], JsonNode::members).iter();
    let env = env.filter_map(|(name, value)| Some((name.clone(), value.text()?.to_owned()))).collect();
    let cwd = node.get("cwd").and_then(JsonNode::text).map(str::to_owned);
    let places = CommandPlaces {
        command: command.at.clone(),
        args: args.map(|(node, list)| ArgPlaces {
            list: node.at.clone(),
            elements: list.iter().map(|arg| arg.at.clone()).collect(),
        }),
    };
    Ok(named(ClientServer::start_of(program.to_owned(), texts, env, cwd), Some(places)))
}
