use clap::Args;
use countersign_core::OperatorId;
use countersign_host::person::system_user;

use crate::failure::Failure;

/// The person who answers.
#[derive(Debug, Args)]
pub(crate) struct ApproverArgs {
    /// Name of the approver, which is recorded; without it the operating system's name of the user that runs this command.
    #[arg(long = "approver", visible_alias = "by", value_name = "NAME")]
    name: Option<OperatorId>,
}

impl ApproverArgs {
    pub(crate) fn name(&self) -> Result<OperatorId, Failure> {
        let missing = || Failure::usage("the system names no user: give the approver's name with --by");
        self.name.clone().or_else(system_user).ok_or_else(missing)
    }
}
