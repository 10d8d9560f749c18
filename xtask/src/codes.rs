//! Every stable code in the source, as the list in `docs/codes.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

use crate::house::{HouseError, read_house};

/// The list stands behind this line of the file, up to its end.
const MARK: &str = "<!-- Written by `cargo run -p xtask -- codes`. -->";

/// Words in capitals that are no codes: variables of the environment, and values of formats.
const OTHERS: [&str; 2] = ["NO_COLOR", "XDG_CONFIG_HOME"];

/// Crate whose programs write the test vectors. It quotes the codes of other crates.
const VECTORS: &str = "vectors";

/// Folder of the demo. It comments on codes in words of its own, which are no sentences of theirs.
const DEMO: &str = "crates/cli/src/demo";

/// One code: the crates that give it, and its sentences.
#[derive(Default)]
struct Code {
    crates: BTreeSet<String>,
    sentences: BTreeSet<String>,
}

/// A variant of a type, or a type that is a struct (no variant).
type CodeOrigin = (String, Option<String>);

/// Reads the codes of one crate.
#[derive(Default)]
struct CodeReader {
    /// The type whose `impl` is read.
    of: Option<String>,
    codes: BTreeSet<String>,
    /// Sentences that stand beside a code.
    beside: BTreeMap<String, BTreeSet<String>>,
    code_of: BTreeMap<CodeOrigin, String>,
    sentence_of: BTreeMap<CodeOrigin, String>,
}

/// Whether the text has the form of a code: capitals and digits, in words that `_` joins.
fn is_code(text: &str) -> bool {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    let has_letter_first = text.bytes().next().is_some_and(|byte| byte.is_ascii_uppercase());
    let is_variable = ["COUNTERSIGN_", "CARGO_", "SSL_"].iter().any(|prefix| text.starts_with(prefix))
        || OTHERS.contains(&text);
    has_letter_first
        && (text.contains('_') || text == "INTERNAL")
        && !is_variable
        && text.split('_').all(is_word)
}

/// The sentence of `#[error("..")]`.
fn sentence(attributes: &[syn::Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("error"))?;
    let syn::Meta::List(list) = &attribute.meta else { return None };
    match list.tokens.clone().into_iter().next()? {
        TokenTree::Literal(literal) => text_of(&literal),
        _ => None,
    }
}

fn text_of(literal: &proc_macro2::Literal) -> Option<String> {
    match syn::Lit::new(literal.clone()) {
        syn::Lit::Str(text) => Some(text.value()),
        _ => None,
    }
}

fn literal(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The text of a literal, also in `format!("..", ..)`, `"..".to_owned()` and `&"..`.
fn written(expression: &syn::Expr) -> Option<String> {
    match expression {
        syn::Expr::Macro(invocation) => match invocation.mac.tokens.clone().into_iter().next()? {
            TokenTree::Literal(literal) => text_of(&literal),
            _ => None,
        },
        syn::Expr::MethodCall(call) => written(&call.receiver),
        syn::Expr::Reference(reference) => written(&reference.expr),
        _ => literal(expression),
    }
}

/// The variants that a pattern names as `Self::Name`.
fn variants(pattern: &syn::Pat, into: &mut Vec<String>) {
    let path = match pattern {
        syn::Pat::Or(any) => return any.cases.iter().for_each(|case| variants(case, into)),
        syn::Pat::Path(path) => &path.path,
        syn::Pat::TupleStruct(tuple) => &tuple.path,
        syn::Pat::Struct(fields) => &fields.path,
        _ => return,
    };
    into.extend(path.segments.last().map(|segment| segment.ident.to_string()));
}

impl CodeReader {
    /// Notes a sentence that stands with a code, in a tuple or as the next argument.
    fn beside<'a>(&mut self, parts: impl Iterator<Item = &'a syn::Expr>) {
        self.sentences(parts.filter_map(written));
    }

    /// Notes each sentence that follows a code.
    fn sentences(&mut self, texts: impl Iterator<Item = String>) {
        let mut code = None;
        for text in texts {
            if is_code(&text) {
                code = Some(text);
            } else if let Some(code) = code.take()
                && text.contains(' ')
            {
                self.beside.entry(code).or_default().insert(text);
            }
        }
    }

    /// Notes what the arms of a function give for each variant.
    fn arms(&mut self, function: &syn::ImplItemFn) {
        let Some(of) = self.of.clone() else { return };
        let Some(syn::Stmt::Expr(expression, None)) = function.block.stmts.last() else { return };
        if let Some(text) = literal(expression) {
            self.note((of, None), text);
            return;
        }
        let syn::Expr::Match(matched) = expression else { return };
        for arm in &matched.arms {
            let Some(text) = literal(&arm.body) else { continue };
            let mut names = Vec::new();
            variants(&arm.pat, &mut names);
            for name in names {
                self.note((of.clone(), Some(name)), text.clone());
            }
        }
    }

    fn note(&mut self, place: CodeOrigin, text: String) {
        if is_code(&text) {
            self.code_of.insert(place, text);
        } else {
            self.sentence_of.entry(place).or_insert(text);
        }
    }

    fn tokens(&mut self, tokens: TokenStream) {
        let texts = tokens.clone().into_iter().filter_map(|token| match token {
            TokenTree::Literal(literal) => text_of(&literal),
            _ => None,
        });
        self.sentences(texts);
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Literal(literal) => {
                    self.codes.extend(text_of(&literal).filter(|text| is_code(text)))
                }
                _ => {}
            }
        }
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        _ => false,
    })
}

impl<'ast> Visit<'ast> for CodeReader {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test(&module.attrs) {
            syn::visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        if let syn::Type::Path(path) = &*block.self_ty {
            self.of = path.path.segments.last().map(|segment| segment.ident.to_string());
        }
        syn::visit::visit_item_impl(self, block);
        self.of = None;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if ["code", "as_str", "message", "reason"].iter().any(|name| function.sig.ident == name) {
            self.arms(function);
        }
        syn::visit::visit_impl_item_fn(self, function);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        for variant in &item.variants {
            if let Some(sentence) = sentence(&variant.attrs) {
                self.sentence_of.insert((item.ident.to_string(), Some(variant.ident.to_string())), sentence);
            }
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        if let Some(sentence) = sentence(&item.attrs) {
            self.sentence_of.insert((item.ident.to_string(), None), sentence);
        }
    }

    fn visit_expr_tuple(&mut self, tuple: &'ast syn::ExprTuple) {
        self.beside(tuple.elems.iter());
        syn::visit::visit_expr_tuple(self, tuple);
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        self.beside(call.args.iter());
        syn::visit::visit_expr_call(self, call);
    }

    fn visit_lit_str(&mut self, text: &'ast syn::LitStr) {
        self.codes.extend(Some(text.value()).filter(|text| is_code(text)));
    }

    fn visit_macro(&mut self, invocation: &'ast syn::Macro) {
        self.tokens(invocation.tokens.clone());
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}
}

fn read_codes(root: &Path) -> Result<BTreeMap<String, Code>, HouseError> {
    let files = read_house(root)?;
    let mut readers: BTreeMap<&str, CodeReader> = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_test()) {
        let Some(name) = file.crate_source().filter(|name| *name != VECTORS) else { continue };
        let reader = readers.entry(name).or_default();
        if file.path.starts_with(DEMO) {
            let mut demo = CodeReader::default();
            demo.visit_file(&file.syntax);
            reader.codes.append(&mut demo.codes);
        } else {
            reader.visit_file(&file.syntax);
        }
    }
    let mut all: BTreeMap<String, Code> = BTreeMap::new();
    for (name, reader) in readers {
        for code in reader.codes {
            all.entry(code).or_default().crates.insert(name.to_owned());
        }
        for (code, sentences) in reader.beside {
            all.entry(code).or_default().sentences.extend(sentences);
        }
        for (place, code) in reader.code_of {
            let sentence = reader.sentence_of.get(&place).cloned();
            all.entry(code).or_default().sentences.extend(sentence);
        }
    }
    Ok(all)
}

/// A sentence as a cell of a table.
fn cell(sentence: &str) -> String {
    let one_line = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
    one_line.replace('|', "\\|").replace('<', "\\<")
}

fn table(codes: &BTreeMap<String, Code>) -> String {
    let mut table = String::from("\n| code | crates | sentence |\n| --- | --- | --- |\n");
    for (code, Code { crates, sentences }) in codes {
        let crates = crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let sentences = sentences.iter().map(|sentence| cell(sentence)).collect::<Vec<_>>().join("; ");
        // Writing to a string does not fail.
        let _ = writeln!(table, "| `{code}` | {crates} | {sentences} |");
    }
    table
}

/// Writes the list into `docs/codes.md`, or only compares it. Returns whether the file was up to date.
pub(crate) fn codes(root: &Path, check: bool) -> Result<bool, HouseError> {
    let path = root.join("docs/codes.md");
    let failed = |source| HouseError::Read { path: path.clone(), source };
    let old = fs::read_to_string(&path).map_err(failed)?;
    let before = old.split_once(MARK).map_or(old.as_str(), |(before, _)| before);
    let new = format!("{before}{MARK}\n{}", table(&read_codes(root)?));
    let same = old == new;
    if !same && !check {
        fs::write(&path, new).map_err(failed)?;
    }
    Ok(same)
}
