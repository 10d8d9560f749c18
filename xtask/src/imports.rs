//! Which file of a crate uses names of which other file, and the cycles in that.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

use crate::house::SourceFile;

/// Which files each file uses, and by which names.
pub(crate) type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, BTreeSet<String>>>;

/// Files that use each other, directly or through others.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cycle {
    /// The files, in the order of their paths.
    pub(crate) files: Vec<PathBuf>,
    /// Uses of one file of the cycle by another: who, whom, and by which names.
    pub(crate) uses: Vec<(PathBuf, PathBuf, Vec<String>)>,
}

/// A name in a module.
enum Name {
    /// Defined in the module.
    Here,
    /// A child module, by its number.
    Module(usize),
    /// Brought in by `use`: the path as written.
    Used(Vec<String>),
}

struct Module {
    parent: Option<usize>,
    file: PathBuf,
    names: BTreeMap<String, Name>,
    /// Paths of `use path::*`.
    globs: Vec<Vec<String>>,
}

/// The modules of one crate; the root is number 0.
struct Modules<'a> {
    files: &'a BTreeMap<PathBuf, &'a syn::File>,
    modules: Vec<Module>,
    /// Paths that a module's code names, with the module's number.
    paths: Vec<(usize, Vec<String>)>,
}

/// How many segments are looked up for one path, those of each `use` on the way included.
const MAX_STEPS: u8 = 32;

/// Which files of one crate use which others. `files` has the crate's files without tests. Code inside a macro's
/// brackets is not read.
pub(crate) fn arrows(source: &Path, files: &[&SourceFile]) -> Arrows {
    let by_path: BTreeMap<PathBuf, &syn::File> =
        files.iter().map(|file| (file.path.clone(), &file.syntax)).collect();
    let mut arrows = Arrows::new();
    for root in ["lib.rs", "main.rs"] {
        let root = source.join(root);
        let Some(syntax) = by_path.get(&root) else { continue };
        let mut modules = Modules { files: &by_path, modules: Vec::new(), paths: Vec::new() };
        modules.add(None, &root, source, &syntax.items);
        for (from, to, name) in modules.arrows() {
            arrows.entry(from).or_default().entry(to).or_default().insert(name);
        }
    }
    arrows
}

impl Modules<'_> {
    /// Adds a module, whose child modules are files under `folder`, and returns its number.
    fn add(&mut self, parent: Option<usize>, file: &Path, folder: &Path, items: &[syn::Item]) -> usize {
        let number = self.modules.len();
        self.modules.push(Module {
            parent,
            file: file.to_owned(),
            names: BTreeMap::new(),
            globs: Vec::new(),
        });
        for item in items.iter().filter(|item| !is_for_tests(item)) {
            self.add_item(number, file, folder, item);
        }
        number
    }

    fn add_item(&mut self, number: usize, file: &Path, folder: &Path, item: &syn::Item) {
        if let syn::Item::Mod(module) = item {
            let name = module.ident.to_string();
            let below = folder.join(&name);
            let child = if let Some((_, items)) = &module.content {
                Some(self.add(Some(number), file, &below, items))
            } else {
                let candidates = [below.with_extension("rs"), below.join("mod.rs")];
                let found = candidates.iter().find_map(|path| Some((path, *self.files.get(path)?)));
                found.map(|(path, syntax)| self.add(Some(number), path, &below, &syntax.items))
            };
            if let Some(child) = child {
                self.name(number, name, Name::Module(child));
            }
            return;
        }
        if let syn::Item::Use(used) = item {
            let mut paths = Vec::new();
            flatten(&used.tree, &mut Vec::new(), &mut paths);
            for (path, name) in paths {
                self.paths.push((number, path.clone()));
                match name {
                    Some(name) => self.name(number, name, Name::Used(path)),
                    None => {
                        if let Some(module) = self.modules.get_mut(number) {
                            module.globs.push(path);
                        }
                    }
                }
            }
            return;
        }
        if let Some(name) = defined(item) {
            self.name(number, name, Name::Here);
        }
        let mut named = NamedPaths(Vec::new());
        named.visit_item(item);
        self.paths.extend(named.0.into_iter().map(|path| (number, path)));
    }

    fn name(&mut self, module: usize, name: String, what: Name) {
        if let Some(module) = self.modules.get_mut(module) {
            module.names.insert(name, what);
        }
    }

    /// From which file to which, and by which name.
    fn arrows(&self) -> BTreeSet<(PathBuf, PathBuf, String)> {
        let found = self.paths.iter().filter_map(|(module, path)| {
            let from = &self.modules.get(*module)?.file;
            let to = self.resolve(*module, path, MAX_STEPS)?;
            let name = path.join("::");
            (from != to).then(|| (from.clone(), to.clone(), name))
        });
        found.collect()
    }

    /// The file that defines the item of a path, as a module sees it. None for a module, and for names of other crates.
    fn resolve(&self, from: usize, path: &[String], steps: u8) -> Option<&PathBuf> {
        let steps = steps.checked_sub(1)?;
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => self.resolve(0, rest, steps),
            "self" => self.resolve(from, rest, steps),
            "super" => self.resolve(self.modules.get(from)?.parent?, rest, steps),
            name => {
                let module = self.modules.get(from)?;
                match module.names.get(name) {
                    Some(Name::Here) => Some(&module.file),
                    Some(Name::Module(child)) => self.resolve(*child, rest, steps),
                    // `use some_crate;` names itself.
                    Some(Name::Used(used)) if used == path => None,
                    Some(Name::Used(used)) => {
                        let whole: Vec<String> = used.iter().chain(rest).cloned().collect();
                        self.resolve(from, &whole, steps)
                    }
                    None => module.globs.iter().find_map(|glob| {
                        let whole: Vec<String> = glob.iter().chain(path).cloned().collect();
                        self.resolve(from, &whole, steps)
                    }),
                }
            }
        }
    }
}

/// Collects every path of an item's code.
struct NamedPaths(Vec<Vec<String>>);

impl<'ast> Visit<'ast> for NamedPaths {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.0.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }
}

fn is_for_tests(item: &syn::Item) -> bool {
    let attributes = match item {
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        _ => return false,
    };
    attributes.iter().any(|attribute| {
        let named = attribute.path().is_ident("cfg");
        named && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

/// The name that an item brings into its module.
fn defined(item: &syn::Item) -> Option<String> {
    let name = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        syn::Item::Union(item) => &item.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        _ => return None,
    };
    Some(name.to_string())
}

/// The paths of a `use`, each with the name that it brings in, or none for `*`.
fn flatten(tree: &syn::UseTree, before: &mut Vec<String>, found: &mut Vec<(Vec<String>, Option<String>)>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            flatten(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Name(name) => {
            let (path, name) = whole(before, &name.ident);
            found.push((path, Some(name)));
        }
        syn::UseTree::Rename(renamed) => {
            let (path, _) = whole(before, &renamed.ident);
            found.push((path, Some(renamed.rename.to_string())));
        }
        syn::UseTree::Glob(_) => found.push((before.clone(), None)),
        syn::UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, found)),
    }
}

/// The whole path, and its last name. `self` stands for what is before it.
fn whole(before: &[String], last: &syn::Ident) -> (Vec<String>, String) {
    let mut path = before.to_vec();
    if last != "self" {
        path.push(last.to_string());
    }
    let name = path.last().cloned().unwrap_or_default();
    (path, name)
}

/// The import cycles: files that use each other, directly or through others, largest first. Small graphs: reachability from each file is enough.
pub(crate) fn cycles(arrows: &Arrows) -> Vec<Cycle> {
    let all: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        arrows.keys().map(|file| (file, reached(arrows, file))).collect();
    let mut found: BTreeSet<Vec<PathBuf>> = BTreeSet::new();
    for (file, reaches) in all.iter().filter(|(file, reaches)| reaches.contains(*file)) {
        let back = reaches.iter().filter(|other| all.get(**other).is_some_and(|back| back.contains(file)));
        found.insert(back.map(|other| (*other).clone()).collect());
    }
    let with_uses = |files: Vec<PathBuf>| Cycle { uses: uses(arrows, &files), files };
    let mut found: Vec<Cycle> = found.into_iter().map(with_uses).collect();
    found.sort_by_key(|circle| std::cmp::Reverse(circle.files.len()));
    found
}

/// The uses of one of these files by another.
fn uses(arrows: &Arrows, files: &[PathBuf]) -> Vec<(PathBuf, PathBuf, Vec<String>)> {
    let mut uses = Vec::new();
    for from in files {
        let used = arrows.get(from).into_iter().flatten().filter(|(to, _)| files.contains(to));
        uses.extend(used.map(|(to, names)| (from.clone(), to.clone(), names.iter().cloned().collect())));
    }
    uses
}

/// The files that a file uses, directly or through others.
fn reached<'a>(arrows: &'a Arrows, from: &Path) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&PathBuf> = arrows.get(from).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(arrows.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cycles of a crate of these files, as file names.
    fn cycles_of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile {
                path: Path::new("src").join(path),
                text: (*text).to_owned(),
                syntax: syn::parse_file(text).unwrap(),
            })
            .collect();
        let found = cycles(&arrows(Path::new("src"), &files.iter().collect::<Vec<_>>()));
        let name = |path: PathBuf| path.strip_prefix("src").unwrap().display().to_string();
        found.into_iter().map(|cycle| cycle.files.into_iter().map(name).collect()).collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a; mod b; pub use a::A; pub use b::B;");

    #[test]
    fn files_that_use_each_other_are_a_cycle() {
        let found = cycles_of(&[
            ROOT,
            ("a.rs", "use crate::B; pub struct A(B);"),
            ("b.rs", "pub struct B; fn f(_: crate::a::A) {}"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs"]]);
    }

    #[test]
    fn one_way_is_no_cycle() {
        assert!(
            cycles_of(&[ROOT, ("a.rs", "use crate::*; pub struct A(B);"), ("b.rs", "pub struct B;")])
                .is_empty()
        );
    }

    #[test]
    fn a_cycle_through_a_third_file_counts_once() {
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let a = ("a/mod.rs", "use super::b; pub fn a() { b::b() }");
        let b = ("b.rs", "use crate::c::{self as third}; pub fn b() { third::c() }");
        let c = ("c.rs", "pub fn c() { super::a::a() }");
        assert_eq!(cycles_of(&[root, a, b, c]), [["a/mod.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn names_used_by_tests_alone_are_left_out() {
        let a = ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::B; fn f(_: B) {} }");
        assert!(cycles_of(&[ROOT, a, ("b.rs", "use crate::A; pub struct B(A);")]).is_empty());
    }
}
