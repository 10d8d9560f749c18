//! The public interface, as `crates/*/public-api.txt`: the facade's list with every signature behind it, and the crates
//! beside the facade.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use syn::{Item, UseTree};

#[cfg(test)]
mod tests;

/// Crates beside the facade with an interface for hosts.
const BESIDE: [&str; 4] = ["mcp", "plan-runner", "sqlite", "testing"];

/// Why the interface cannot be listed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{path}: {source}")]
    File { path: PathBuf, source: std::io::Error },
    #[error("{path}: {source}")]
    Parse { path: PathBuf, source: syn::Error },
    #[error("cargo doc failed")]
    Doc,
    #[error("the interface cannot be read from rustdoc's JSON: {0}")]
    Json(String),
    #[error("the facade lists `{0}`, which its crate lacks")]
    Missing(String),
    #[error("the facade lacks `{name}`, which is named by: {line}")]
    Unlisted { name: String, line: String },
}

/// A type, trait, function or constant: the crate that defines it, and its name.
type ItemName = (String, String);

/// One line of a crate's interface.
struct ApiLine {
    text: String,
    /// Whether a trait is implemented.
    is_trait_impl: bool,
}

/// The interface of every crate of the workspace.
struct Interfaces {
    /// By crate, in the order of `public-api`.
    crates: BTreeMap<String, Vec<ApiLine>>,
}

/// The path in the facade of each item that it lists.
type FacadePaths = BTreeMap<ItemName, String>;

/// Writes the lists, or compares them if `check`. Returns the lines that differ, by file.
pub(crate) fn api(root: &Path, check: bool) -> Result<Vec<(PathBuf, Vec<String>)>, ApiError> {
    let interfaces = Interfaces::read(root, &document(root)?)?;
    let paths = interfaces.facade(&listed(&root.join("crates/countersign/src/lib.rs"))?)?;
    let mut lists = vec![("countersign", interfaces.of_facade(&paths)?)];
    for folder in BESIDE {
        lists.push((folder, interfaces.of_crate(&library(folder), &paths)));
    }
    let mut differing = Vec::new();
    for (folder, lines) in lists {
        let path = root.join("crates").join(folder).join("public-api.txt");
        if check {
            let differs = difference(&read_text(&path)?, &lines);
            if !differs.is_empty() {
                differing.push((path, differs));
            }
        } else {
            fs::write(&path, lines.join("\n") + "\n").map_err(|source| ApiError::File { path, source })?;
        }
    }
    Ok(differing)
}

/// Lines of only one of the two lists, as a diff shows them.
fn difference(old: &str, new: &[String]) -> Vec<String> {
    let old: Vec<&str> = old.lines().collect();
    let gone =
        old.iter().filter(|line| !new.iter().any(|other| other == *line)).map(|line| format!("-{line}"));
    let added = new.iter().filter(|line| !old.contains(&line.as_str())).map(|line| format!("+{line}"));
    gone.chain(added).collect()
}

/// Writes rustdoc's JSON of all libraries. Returns the folder of the build.
fn document(root: &Path) -> Result<PathBuf, ApiError> {
    let built = cargo()
        .args(["doc", "--quiet", "--workspace", "--lib", "--no-deps", "--locked"])
        .env("RUSTDOC", root.join("xtask/rustdoc-json"))
        .env("RUSTDOCFLAGS", "-Z unstable-options --output-format json --cap-lints allow")
        .current_dir(root)
        .status()
        .is_ok_and(|status| status.success());
    // This program stands in the folder of its profile.
    let program = std::env::current_exe().ok();
    let target = program.as_deref().and_then(|program| program.parent()?.parent());
    target.filter(|_| built).map(Path::to_owned).ok_or(ApiError::Doc)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

fn read_text(path: &Path) -> Result<String, ApiError> {
    fs::read_to_string(path).map_err(|source| ApiError::File { path: path.into(), source })
}

/// The library's name in Rust of the crate in a folder.
fn library(folder: &str) -> String {
    if folder == "countersign" { folder.into() } else { format!("countersign_{}", folder.replace('-', "_")) }
}

impl Interfaces {
    fn read(root: &Path, target: &Path) -> Result<Self, ApiError> {
        let folder = root.join("crates");
        let failed = |source| ApiError::File { path: folder.clone(), source };
        let mut files = BTreeMap::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let name = library(&entry.map_err(failed)?.file_name().to_string_lossy());
            let file = target.join("doc").join(&name).with_extension("json");
            // A crate without a library has none.
            if file.is_file() {
                files.insert(file.to_string_lossy().into_owned(), name);
            }
        }
        let reader = root.join("xtask/api/Cargo.toml");
        let read = cargo()
            .args(["run", "--quiet", "--locked", "--manifest-path"])
            .arg(reader)
            .arg("--target-dir")
            .arg(target.join("api"))
            .arg("--")
            .args(files.keys())
            .output()
            .map_err(|error| ApiError::Json(error.to_string()))?;
        if !read.status.success() {
            return Err(ApiError::Json(String::from_utf8_lossy(&read.stderr).into_owned()));
        }
        let mut crates: BTreeMap<String, Vec<ApiLine>> = BTreeMap::new();
        let mut of = None;
        for line in String::from_utf8_lossy(&read.stdout).lines() {
            match (files.get(line), &of) {
                (Some(name), _) => of = Some(name),
                (None, Some(name)) => {
                    crates.entry((*name).clone()).or_default().push(ApiLine::new(line.to_owned()))
                }
                (None, None) => return Err(ApiError::Json(line.to_owned())),
            }
        }
        Ok(Self { crates })
    }

    /// The lines of each item.
    fn items(&self) -> BTreeMap<ItemName, Vec<&ApiLine>> {
        let mut items: BTreeMap<ItemName, Vec<&ApiLine>> = BTreeMap::new();
        for (of, lines) in &self.crates {
            for line in lines {
                if let Some(name) = owner(of, line) {
                    items.entry(name).or_default().push(line);
                }
            }
        }
        items
    }

    /// Finds the crate that defines each listed item: the crate in the list can pass on an item of a lower one.
    fn facade(&self, listed: &[(ItemName, String)]) -> Result<FacadePaths, ApiError> {
        let items = self.items();
        let find = |(name, path): &(ItemName, String)| {
            let defined =
                items.get_key_value(name).or_else(|| items.iter().find(|((_, other), _)| *other == name.1));
            match defined {
                Some((name, _)) => Ok((name.clone(), path.clone())),
                None => Err(ApiError::Missing(path.clone())),
            }
        };
        listed.iter().map(find).collect()
    }

    fn of_facade(&self, paths: &FacadePaths) -> Result<Vec<String>, ApiError> {
        let items = self.items();
        let mut listed: Vec<_> = paths.iter().map(|(name, path)| (path, items.get(name))).collect();
        listed.sort_by_key(|(path, _)| *path);
        let mut lines = Vec::new();
        for line in listed.into_iter().filter_map(|(_, own)| own).flatten() {
            match rename(&line.text, paths) {
                (text, None) => lines.push(text),
                // A conversion from a type that a host cannot name.
                (_, Some(_)) if line.is_trait_impl => {}
                (line, Some(name)) => return Err(ApiError::Unlisted { name, line }),
            }
        }
        Ok(lines)
    }

    fn of_crate(&self, name: &str, paths: &FacadePaths) -> Vec<String> {
        let lines = self.crates.get(name).map(Vec::as_slice).unwrap_or_default();
        lines.iter().map(|line| rename(&line.text, paths).0).collect()
    }
}

impl ApiLine {
    fn new(text: String) -> Self {
        let is_trait_impl = text.starts_with("impl") && text.contains(" for ");
        Self { text, is_trait_impl }
    }
}

/// The item of crate `of` that a line belongs to.
fn owner(of: &str, line: &ApiLine) -> Option<ItemName> {
    if line.text.starts_with("pub mod") || line.text.starts_with("pub use") {
        return None;
    }
    // Of an implementation, the type behind the parameters and the trait.
    let subject = match line.text.strip_prefix("impl") {
        Some(block) if line.is_trait_impl => block.rsplit_once(" for ").map_or(block, |(_, subject)| subject),
        Some(block) => block.rsplit_once("> ").map_or(block, |(_, subject)| subject),
        None => &line.text,
    };
    let is_own = |(from, name): (&str, &str)| (from == of).then(|| (from.to_owned(), name.to_owned()));
    paths(subject).chain(paths(&line.text)).find_map(|path| is_own(item(path)?))
}

/// Paths of the workspace's crates in a line.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != ':')
        .map(|word| word.trim_matches(':'))
        .filter(|word| word.starts_with("countersign") && word.contains("::"))
}

/// The crate and the item of a path: its first capitalised segment, or the last one.
fn item(path: &str) -> Option<(&str, &str)> {
    let (of, rest) = path.split_once("::")?;
    let is_capital = |name: &&str| name.starts_with(char::is_uppercase);
    Some((of, rest.split("::").find(is_capital).or_else(|| rest.rsplit("::").next())?))
}

/// Writes paths as in the facade. Returns the first item besides that the facade lacks.
fn rename(line: &str, facade: &FacadePaths) -> (String, Option<String>) {
    let (mut text, mut lacking) = (line.to_owned(), None);
    let mut found: Vec<&str> = paths(line).collect();
    // The longer one first, of two that begin alike.
    found.sort_by_key(|path| std::cmp::Reverse(path.len()));
    for path in found {
        let Some((of, name)) = item(path) else { continue };
        let Some(renamed) = facade.get(&(of.to_owned(), name.to_owned())) else {
            lacking.get_or_insert_with(|| path.to_owned());
            continue;
        };
        let rest = path.split_once(&format!("::{name}")).map_or("", |(_, rest)| rest);
        text = text.replace(path, &format!("{renamed}{rest}"));
    }
    (text, lacking)
}

/// The facade's list: each item with the crate that it is taken from, and its path in the facade.
fn listed(path: &Path) -> Result<Vec<(ItemName, String)>, ApiError> {
    let file =
        syn::parse_file(&read_text(path)?).map_err(|source| ApiError::Parse { path: path.into(), source })?;
    let mut listed = Vec::new();
    list_items("countersign", &file.items, &mut listed);
    Ok(listed)
}

fn list_items(module: &str, items: &[Item], into: &mut Vec<(ItemName, String)>) {
    for item in items {
        match item {
            Item::Mod(inner) => {
                let items = inner.content.as_ref().map(|(_, items)| items.as_slice());
                list_items(&format!("{module}::{}", inner.ident), items.unwrap_or_default(), into);
            }
            Item::Use(used)
                if matches!(used.vis, syn::Visibility::Public(_)) && !is_optional(&used.attrs) =>
            {
                list_tree(module, None, &used.tree, into);
            }
            _ => {}
        }
    }
}

/// Features of the facade that are on by default.
const DEFAULT_FEATURES: [&str; 2] = ["\"evidence\"", "\"schema\""];

/// Whether an item is behind a feature. The list is made without the features that are off by default.
fn is_optional(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string();
            let is_on = DEFAULT_FEATURES.iter().any(|name| condition.contains(name));
            condition.contains("feature") && !is_on
        }
        _ => false,
    })
}

fn list_tree(module: &str, from: Option<&str>, tree: &UseTree, into: &mut Vec<(ItemName, String)>) {
    match tree {
        UseTree::Path(path) => {
            let first = path.ident.to_string();
            list_tree(module, from.or(Some(&first)), &path.tree, into);
        }
        UseTree::Group(group) => group.items.iter().for_each(|tree| list_tree(module, from, tree, into)),
        UseTree::Name(name) => {
            // A module of the facade itself has no such name.
            let of = from.filter(|of| of.starts_with("countersign_")).unwrap_or("countersign");
            let name = name.ident.to_string();
            into.push(((of.into(), name.clone()), format!("{module}::{name}")));
        }
        UseTree::Rename(_) | UseTree::Glob(_) => {}
    }
}
