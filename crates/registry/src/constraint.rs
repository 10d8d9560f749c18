use countersign_canonical_json::{Kind, ValueRef};

use crate::content::ConstraintError;
use crate::host_rules::{EmailRule, UrlRule};
use crate::path_rule::PathRule;
use crate::place::ArgPlace;

/// Restriction of one argument that JSON Schema cannot express.
///
/// Applies to the string at its place, or to every string of an array there; any other type is refused. If the place
/// is absent, the constraint does not apply; the schema's `required` decides whether it may be absent. A place counts
/// as absent only where it could exist. Below a string, a number or an array (unless the place continues with an
/// index), the constraint cannot see the value, and refuses.
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
    Url(UrlRule),
    Email(EmailRule),
}

#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum ConstraintFields {
    PathWithin(PathFields),
    Url(UrlFields),
    EmailDomain(EmailFields),
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

impl Constraint {
    /// Restricts a path to folders. Absolute roots match absolute paths only, relative roots match relative paths only.
    ///
    /// # Errors
    /// [`ConstraintError`] without roots, or when one is not a plain path.
    pub fn path_within(at: ArgPlace, roots: &[&str]) -> Result<Self, ConstraintError> {
        ConstraintFields::PathWithin(PathFields { at, roots: owned(roots) }).try_into()
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

    /// Restricted place in the arguments.
    #[must_use]
    pub const fn at(&self) -> &ArgPlace {
        match &self.fields {
            ConstraintFields::PathWithin(path) => &path.at,
            ConstraintFields::Url(url) => &url.at,
            ConstraintFields::EmailDomain(email) => &email.at,
        }
    }

    /// Name of its kind: `path_within`, `url` or `email_domain`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match &self.fields {
            ConstraintFields::PathWithin(_) => "path_within",
            ConstraintFields::Url(_) => "url",
            ConstraintFields::EmailDomain(_) => "email_domain",
        }
    }

    /// Returns whether arguments match.
    #[must_use]
    pub fn fits(&self, args: ValueRef<'_>) -> bool {
        let Some(value) = args.pointer(self.at().as_str()) else {
            return self.may_be_absent(args);
        };
        if value.kind() == Kind::Array {
            return value.elements().all(|element| element.as_str().is_some_and(|text| self.fits_text(text)));
        }
        value.as_str().is_some_and(|text| self.fits_text(text))
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
        match &self.fields {
            ConstraintFields::Url(url) => &url.hosts,
            ConstraintFields::PathWithin(_) | ConstraintFields::EmailDomain(_) => &[],
        }
    }

    fn fits_text(&self, text: &str) -> bool {
        match &self.rule {
            CompiledRule::Path(rule) => rule.fits(text),
            CompiledRule::Url(rule) => rule.fits(text),
            CompiledRule::Email(rule) => rule.fits(text),
        }
    }
}

impl TryFrom<ConstraintFields> for Constraint {
    type Error = ConstraintError;

    fn try_from(fields: ConstraintFields) -> Result<Self, ConstraintError> {
        let rule = match &fields {
            ConstraintFields::PathWithin(path) => CompiledRule::Path(PathRule::new(&path.roots)?),
            ConstraintFields::Url(url) => CompiledRule::Url(UrlRule::new(&url.schemes, &url.hosts)?),
            ConstraintFields::EmailDomain(email) => CompiledRule::Email(EmailRule::new(&email.domains)?),
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

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}
