use std::collections::BTreeMap;

use clap::Args;
use countersign_canonical_json::{Canonical, Kind, Limits, Recipe, read, write_string};
use countersign_tool_gate::own_arguments;

use super::read::ARGS_BYTES;
use crate::failure::Failure;
use crate::files::Source;
use countersign_host::escape::{shown_json, shown_line};
use countersign_host::inputs::malformed;

/// The arguments that an endorsement is for.
#[derive(Debug, Args)]
pub(super) struct BoundOptions {
    /// File with the arguments that it is for, as JSON; `-` is standard input. They are bound exactly, all of them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["equals", "min", "max"])]
    args: Option<Source>,
    /// A place in the arguments, as a JSON Pointer, and the value that has to be there; give several times for several.
    /// VALUE is JSON where it can be read as JSON, else a text: `/to=DE02` is a text, `/amount=1200` a number. A text that
    /// looks like JSON is given in quotation marks: `'/account="1200"'`. The first `=` ends the pointer.
    #[arg(long = "arg", value_name = "POINTER=VALUE", value_parser = equals)]
    equals: Vec<(String, String)>,
    /// Pointer to a number, and its minimum; give several times for several.
    #[arg(long, value_name = "POINTER=NUMBER", value_parser = number)]
    min: Vec<(String, String)>,
    /// Pointer to a number, and its maximum; give several times for several.
    #[arg(long, value_name = "POINTER=NUMBER", value_parser = number)]
    max: Vec<(String, String)>,
}

/// The arguments that an endorsement binds.
pub(super) enum Binding {
    None,
    Exact(Canonical),
    /// Rules by pointer: member name and canonical value of each rule.
    Within(BTreeMap<String, Vec<(&'static str, String)>>),
}

impl BoundOptions {
    pub(super) fn read(&self) -> Result<Binding, Failure> {
        if let Some(from) = &self.args {
            return read_exact(from).map(Binding::Exact);
        }
        let lists = [("equals", &self.equals), ("min", &self.min), ("max", &self.max)];
        let mut bounds: BTreeMap<String, Vec<_>> = BTreeMap::new();
        for (name, list) in lists {
            for (pointer, value) in list {
                let rules = bounds.entry(pointer.clone()).or_default();
                if rules.iter().any(|(there, _)| *there == name) {
                    return Err(Failure::usage("argument pointer bound twice").about(pointer));
                }
                rules.push((name, value.clone()));
            }
        }
        Ok(if bounds.is_empty() { Binding::None } else { Binding::Within(bounds) })
    }
}

impl Binding {
    pub(super) const fn is_bound(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the members of an entry that bind the arguments, each with a comma before it.
    pub(super) fn members(&self) -> String {
        match self {
            Self::None => String::new(),
            Self::Exact(args) => format!(r#","args":"{}""#, args.digest()),
            Self::Within(bounds) => {
                let bounds: Vec<_> = bounds.iter().map(|(pointer, rules)| bound(pointer, rules)).collect();
                format!(r#","bounds":[{}]"#, bounds.join(","))
            }
        }
    }

    /// Describes the binding in lines for a person.
    pub(super) fn shown(&self) -> Vec<String> {
        match self {
            Self::None => vec!["arguments  any".to_owned()],
            Self::Exact(args) => {
                let shown = shown_json(args.as_str()).replace('\n', "\n           ");
                vec![format!("arguments  exactly {shown}")]
            }
            Self::Within(bounds) => {
                let mut lines: Vec<_> = bounds
                    .iter()
                    .flat_map(|(pointer, rules)| rules.iter().map(move |rule| (pointer, rule)))
                    .map(|(pointer, (name, value))| {
                        let is = match *name {
                            "min" => "is at least",
                            "max" => "is at most",
                            _ => "is",
                        };
                        format!("arguments  {} {is} {}", shown_line(pointer), shown_line(value))
                    })
                    .collect();
                lines.push("           all others are the agent's to choose".to_owned());
                lines
            }
        }
    }
}

/// Returns one bound as an entry has it.
fn bound(pointer: &str, rules: &[(&'static str, String)]) -> String {
    let mut text = r#"{"pointer":"#.to_owned();
    write_string(&mut text, pointer);
    for (name, value) in rules {
        text.push_str(&format!(r#","{name}":{value}"#));
    }
    text.push('}');
    text
}

/// Reads a call's arguments as a gate reads them, without reserved members.
fn read_exact(from: &Source) -> Result<Canonical, Failure> {
    let bytes = from.read_prefix(ARGS_BYTES.saturating_add(1))?;
    let sent =
        read(&bytes, Recipe::Jcs1, &Limits::default()).map_err(|error| malformed(&error).about("--args"))?;
    if sent.value().kind() != Kind::Object {
        return Err(Failure::new("ARGS_NOT_OBJECT", "arguments are not a JSON object").about("--args"));
    }
    Ok(own_arguments(sent))
}

fn place_and_value(text: &str) -> Result<(&str, &str), String> {
    let (pointer, value) = text.split_once('=').ok_or("expected a JSON Pointer, `=` and a value")?;
    if !pointer.is_empty() && !pointer.starts_with('/') {
        return Err("a JSON Pointer begins with `/`".to_owned());
    }
    Ok((pointer, value))
}

fn json(text: &str) -> Option<Canonical> {
    read(text.as_bytes(), Recipe::Jcs1, &Limits::default()).ok()
}

fn equals(text: &str) -> Result<(String, String), String> {
    let (pointer, value) = place_and_value(text)?;
    let canonical = match json(value) {
        Some(value) => value.as_str().to_owned(),
        // why: a missing quotation mark or bracket is a typing error, and would bind a text that no call has.
        None if value.trim_start().starts_with(['"', '{', '[']) => {
            return Err("a value that begins like JSON has to be JSON".to_owned());
        }
        None => {
            let mut quoted = String::new();
            write_string(&mut quoted, value);
            quoted
        }
    };
    Ok((pointer.to_owned(), canonical))
}

fn number(text: &str) -> Result<(String, String), String> {
    let (pointer, value) = place_and_value(text)?;
    let number = json(value).filter(|value| value.value().kind() == Kind::Number);
    let number = number.ok_or("expected a JSON number that a double says exactly")?;
    Ok((pointer.to_owned(), number.as_str().to_owned()))
}
