use countersign_canonical_json::Canonical;

use crate::args_error::ArgsError;
use crate::place::ArgPlace;
use crate::tool_entry::ToolEntry;

/// Holds a tool's entry, ready to check calls against.
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

    /// The tool's entry.
    #[must_use]
    pub const fn entry(&self) -> &ToolEntry {
        &self.entry
    }

    /// Says whether a call's arguments fit the schema and every constraint.
    ///
    /// # Errors
    /// [`ArgsError`] with the place and the rule of the first misfit; arguments that are not an object are one. Under a schema
    /// that leads back to itself, and in large arguments, neither place nor rule of the schema is looked for.
    pub fn check_args(&self, args: &Canonical) -> Result<(), ArgsError> {
        self.entry.schema().check(args)?;
        self.check_constraints(args)
    }

    /// Says whether what is fixed of a planned call's arguments fits the schema and every constraint. What stands in the
    /// `open` places is not a value yet: misfits there do not count, nor do those that depend on what will stand there
    /// (`anyOf` of the object around it, say). A call's own arguments are still for [`check_args`](Self::check_args).
    ///
    /// What cannot be told in bounded time does not fit. Under a schema that leads back to itself, arguments fit only if they
    /// do as they are or with one of a few values in the open places.
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
