use std::fmt;

use countersign_canonical_json::{Kind, ValueRef};

use crate::content::ConstraintError;
use crate::fields::present;
use crate::host_rules::{EmailRule, UrlRule};
use crate::path_rule::PathRule;
use crate::place::ArgPlace;
use crate::range_rule::{RangeEnd, RangeRule};
use crate::uri_rule::UriRule;

/// Restriction of one argument that JSON Schema cannot express.
///
/// Applies to the string at its place, or to every string of an array there (`number`: to a number, and to no array;
/// `empty_list`: to an array); any other type is refused. If the place is absent, the constraint does not apply; the
/// schema's `required` decides whether it may be absent. A place counts as absent only where it could exist. Below a
/// string, a number or an array (unless the place continues with an index), the constraint cannot see the value, and
/// refuses.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "ConstraintFields", into = "ConstraintFields")]
pub struct Constraint {
    fields: ConstraintFields,
    rule: CompiledRule,
}

/// Compiled form, so that a call costs only comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CompiledRule {
    Path(PathRule),
    Uri(UriRule),
    Url(UrlRule),
    Email(EmailRule),
    Number(RangeRule),
    EmptyList,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ConstraintFields {
    PathWithin(PathFields),
    UriWithin(PathFields),
    Url(UrlFields),
    EmailDomain(EmailFields),
    Number(NumberFields),
    EmptyList(EmptyListFields),
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct PathFields {
    at: ArgPlace,
    roots: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct UrlFields {
    at: ArgPlace,
    schemes: Vec<String>,
    hosts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EmailFields {
    at: ArgPlace,
    domains: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct NumberFields {
    at: ArgPlace,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    min: Option<RangeEnd>,
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    max: Option<RangeEnd>,
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct EmptyListFields {
    at: ArgPlace,
}

impl Constraint {
    /// Restricts a path to folders. Absolute roots match absolute paths only, relative roots match relative paths only.
    ///
    /// # Errors
    /// [`ConstraintError`] without roots, or when one is not a plain path.
    pub fn path_within(at: ArgPlace, roots: &[&str]) -> Result<Self, ConstraintError> {
        ConstraintFields::PathWithin(PathFields { at, roots: owned(roots) }).try_into()
    }

    /// Restricts a URI to those that begin with a root, such as `file:///srv/docs/`. A root has a lower-case scheme, `://`, and ends
    /// with a slash. URIs are compared as texts; one with dot segments, or with an escape of a dot or a separator, matches none.
    ///
    /// # Errors
    /// [`ConstraintError`] without roots, or when one is malformed.
    pub fn uri_within(at: ArgPlace, roots: &[&str]) -> Result<Self, ConstraintError> {
        ConstraintFields::UriWithin(PathFields { at, roots: owned(roots) }).try_into()
    }

    /// Restricts a URL to schemes and hosts. The host `example.com` matches itself only, `.example.com` every
    /// subdomain but not the domain. A port other than the scheme's default must be listed, as in `example.com:8443`.
    ///
    /// # Errors
    /// [`ConstraintError`] without schemes or hosts, or when one is malformed.
    pub fn url(at: ArgPlace, schemes: &[&str], hosts: &[&str]) -> Result<Self, ConstraintError> {
        ConstraintFields::Url(UrlFields { at, schemes: owned(schemes), hosts: owned(hosts) }).try_into()
    }

    /// Restricts an e-mail address to domains.
    ///
    /// # Errors
    /// [`ConstraintError`] without domains, or when one is malformed.
    pub fn email_domain(at: ArgPlace, domains: &[&str]) -> Result<Self, ConstraintError> {
        ConstraintFields::EmailDomain(EmailFields { at, domains: owned(domains) }).try_into()
    }

    /// Restricts a number to a range, both ends included. An absent end is open.
    ///
    /// # Errors
    /// [`ConstraintError`] without an end, with one that is not finite, or when `min` is above `max`.
    pub fn number(at: ArgPlace, min: Option<f64>, max: Option<f64>) -> Result<Self, ConstraintError> {
        let (min, max) = (min.map(RangeEnd), max.map(RangeEnd));
        ConstraintFields::Number(NumberFields { at, min, max }).try_into()
    }

    /// Restricts a list to an empty one.
    #[must_use]
    pub const fn empty_list(at: ArgPlace) -> Self {
        Self { fields: ConstraintFields::EmptyList(EmptyListFields { at }), rule: CompiledRule::EmptyList }
    }

    /// Restricted place in the arguments.
    #[must_use]
    pub const fn at(&self) -> &ArgPlace {
        match &self.fields {
            ConstraintFields::PathWithin(path) | ConstraintFields::UriWithin(path) => &path.at,
            ConstraintFields::Url(url) => &url.at,
            ConstraintFields::EmailDomain(email) => &email.at,
            ConstraintFields::Number(number) => &number.at,
            ConstraintFields::EmptyList(list) => &list.at,
        }
    }

    /// Name of its kind: `path_within`, `uri_within`, `url`, `email_domain`, `number` or `empty_list`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match &self.fields {
            ConstraintFields::PathWithin(_) => "path_within",
            ConstraintFields::UriWithin(_) => "uri_within",
            ConstraintFields::Url(_) => "url",
            ConstraintFields::EmailDomain(_) => "email_domain",
            ConstraintFields::Number(_) => "number",
            ConstraintFields::EmptyList(_) => "empty_list",
        }
    }

    /// Returns whether arguments match.
    #[must_use]
    pub fn fits(&self, args: ValueRef<'_>) -> bool {
        match args.pointer(self.at().as_str()) {
            Some(value) => self.fits_value(value),
            None => self.may_be_absent(args),
        }
    }

    /// Returns whether the value is there and matches. An empty list matches `empty_list` alone; that kind also matches
    /// an absent list.
    #[must_use]
    pub fn holds(&self, args: ValueRef<'_>) -> bool {
        let wants_none = self.is_empty_list();
        match args.pointer(self.at().as_str()) {
            Some(value) => (wants_none || !is_empty_list(value)) && self.fits_value(value),
            None => wants_none && self.may_be_absent(args),
        }
    }

    fn fits_value(&self, value: ValueRef<'_>) -> bool {
        match &self.rule {
            CompiledRule::Number(rule) => value.as_f64().is_some_and(|number| rule.fits(number)),
            CompiledRule::EmptyList => is_empty_list(value),
            CompiledRule::Path(_) | CompiledRule::Uri(_) | CompiledRule::Url(_) | CompiledRule::Email(_) => {
                let fits = |value: ValueRef<'_>| value.as_str().is_some_and(|text| self.fits_text(text));
                if value.kind() == Kind::Array { value.elements().all(fits) } else { fits(value) }
            }
        }
    }

    /// Returns whether the nearest existing ancestor of the place could contain it.
    fn may_be_absent(&self, args: ValueRef<'_>) -> bool {
        let mut place = self.at().as_str();
        while let Some((above, token)) = place.rsplit_once('/') {
            if let Some(value) = args.pointer(above) {
                let kind = value.kind();
                return matches!(kind, Kind::Object | Kind::Null) || (kind == Kind::Array && is_index(token));
            }
            place = above;
        }
        false
    }

    /// Allowed hosts, for the lint.
    pub(crate) fn url_hosts(&self) -> &[String] {
        if let ConstraintFields::Url(url) = &self.fields { &url.hosts } else { &[] }
    }

    /// Allowed numbers.
    pub(crate) const fn range_rule(&self) -> Option<RangeRule> {
        if let CompiledRule::Number(rule) = &self.rule { Some(*rule) } else { None }
    }

    pub(crate) const fn is_empty_list(&self) -> bool {
        matches!(self.rule, CompiledRule::EmptyList)
    }

    /// JSON types of the values that can match.
    pub(crate) const fn types(&self) -> &'static [&'static str] {
        match &self.rule {
            CompiledRule::Path(_) | CompiledRule::Uri(_) | CompiledRule::Url(_) | CompiledRule::Email(_) => {
                &["string", "array"]
            }
            CompiledRule::Number(_) => &["number", "integer"],
            CompiledRule::EmptyList => &["array"],
        }
    }

    /// Returns `true` if every value that matches clearly matches `wider`.
    pub(crate) fn implies(&self, wider: &Self) -> bool {
        use ConstraintFields::{EmailDomain, EmptyList, Number, PathWithin, UriWithin, Url};
        let within = |narrow: &[String], wide: &[String]| narrow.iter().all(|item| wide.contains(item));
        let is_narrower = match (&self.fields, &wider.fields) {
            (PathWithin(narrow), PathWithin(wide)) | (UriWithin(narrow), UriWithin(wide)) => {
                within(&narrow.roots, &wide.roots)
            }
            (Url(narrow), Url(wide)) => {
                within(&narrow.schemes, &wide.schemes) && within(&narrow.hosts, &wide.hosts)
            }
            (EmailDomain(narrow), EmailDomain(wide)) => within(&narrow.domains, &wide.domains),
            (Number(_), Number(_)) => {
                self.range_rule().zip(wider.range_rule()).is_some_and(|(narrow, wide)| narrow.implies(wide))
            }
            (EmptyList(_), EmptyList(_)) => true,
            (PathWithin(_) | UriWithin(_) | Url(_) | EmailDomain(_) | Number(_) | EmptyList(_), _) => false,
        };
        self.at() == wider.at() && is_narrower
    }

    fn fits_text(&self, text: &str) -> bool {
        match &self.rule {
            CompiledRule::Path(rule) => rule.fits(text),
            CompiledRule::Uri(rule) => rule.fits(text),
            CompiledRule::Url(rule) => rule.fits(text),
            CompiledRule::Email(rule) => rule.fits(text),
            CompiledRule::Number(_) | CompiledRule::EmptyList => false,
        }
    }
}

/// In words: `/amount is at most 20`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let any = |items: &[String]| items.join(" or ");
        write!(f, "{} ", self.at())?;
        match (&self.fields, &self.rule) {
            (_, CompiledRule::Number(rule)) => rule.fmt(f),
            (ConstraintFields::PathWithin(path), _) => {
                write!(f, "has only paths within {}", any(&path.roots))
            }
            (ConstraintFields::UriWithin(uri), _) => {
                write!(f, "has only URIs that begin with {}", any(&uri.roots))
            }
            (ConstraintFields::Url(url), _) => {
                write!(f, "has only {} URLs at {}", any(&url.schemes), any(&url.hosts))
            }
            (ConstraintFields::EmailDomain(email), _) => {
                write!(f, "has only addresses at {}", any(&email.domains))
            }
            (ConstraintFields::Number(_) | ConstraintFields::EmptyList(_), _) => {
                f.write_str("is missing or an empty list")
            }
        }
    }
}

impl TryFrom<ConstraintFields> for Constraint {
    type Error = ConstraintError;

    fn try_from(fields: ConstraintFields) -> Result<Self, ConstraintError> {
        let rule = match &fields {
            ConstraintFields::PathWithin(path) => CompiledRule::Path(PathRule::new(&path.roots)?),
            ConstraintFields::UriWithin(uri) => CompiledRule::Uri(UriRule::new(&uri.roots)?),
            ConstraintFields::Url(url) => CompiledRule::Url(UrlRule::new(&url.schemes, &url.hosts)?),
            ConstraintFields::EmailDomain(email) => CompiledRule::Email(EmailRule::new(&email.domains)?),
            ConstraintFields::Number(number) => CompiledRule::Number(RangeRule::new(number.min, number.max)?),
            ConstraintFields::EmptyList(_) => CompiledRule::EmptyList,
        };
        Ok(Self { fields, rule })
    }
}

impl From<Constraint> for ConstraintFields {
    fn from(constraint: Constraint) -> Self {
        constraint.fields
    }
}

/// Returns whether a token of a JSON Pointer is an array index: digits without a leading zero (RFC 6901, section 4).
pub(crate) fn is_index(token: &str) -> bool {
    let digits = !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
    digits && (token == "0" || !token.starts_with('0'))
}

fn is_empty_list(value: ValueRef<'_>) -> bool {
    value.kind() == Kind::Array && value.is_empty()
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
