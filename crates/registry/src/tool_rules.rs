use countersign_canonical_json::Canonical;

use crate::args_error::ArgsError;
use crate::place::ArgPlace;
use crate::tool_entry::ToolEntry;

/// Entry of a tool, ready to check calls.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolRules {
    entry: ToolEntry,
}

impl ToolRules {
    /// Wraps an entry.
    #[must_use]
    pub const fn new(entry: ToolEntry) -> Self {
        Self { entry }
    }

    /// Entry of the tool.
    #[must_use]
    pub const fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// Checks a call's arguments against the schema and every constraint.
    ///
    /// # Errors
    /// [`ArgsError`] with the place and the rule of the first mismatch; arguments must be an object. Under a schema
    /// that leads back to itself, and in large arguments, the error of the schema states neither.
    pub fn check_args(&self, args: &Canonical) -> Result<(), ArgsError> {
        self.entry.schema().check(args)?;
        self.check_constraints(args)
    }

    /// Checks the fixed part of a planned call's arguments against the schema and every constraint. The `open` places
    /// have no value yet: mismatches there do not count, nor do those that depend on their values (such as `anyOf` of
    /// the enclosing object). The arguments of the actual call still need [`check_args`](Self::check_args).
    ///
    /// Fails if the check cannot be completed in bounded time. Under a schema that leads back to itself the arguments
    /// must match as they are, or with one of a few values in the open places.
    ///
    /// # Errors
    /// As [`check_args`](Self::check_args).
    pub fn check_planned_args(&self, args: &Canonical, open: &[ArgPlace]) -> Result<(), ArgsError> {
        self.entry.schema().check_around(args, open)?;
        self.check_constraints(args)
    }

    fn check_constraints(&self, args: &Canonical) -> Result<(), ArgsError> {
        match self.entry.constraints().iter().find(|constraint| !constraint.fits(args.value())) {
            Some(misfit) => {
                Err(ArgsError::Constraint { place: misfit.at().as_str().to_owned(), kind: misfit.kind() })
            }
            None => Ok(()),
        }
    }
}
