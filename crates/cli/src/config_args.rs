use std::path::PathBuf;

use clap::Args;
use countersign_host::config_file::{ConfigFile, find_config};
use countersign_host::error::HostError;
use countersign_host::home::{UserFolder, UserProfileName};

use crate::failure::Failure;

/// The gateway's configuration, by its file or by a profile.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The gateway's configuration; without it `gateway.toml` in this folder, or else `countersign/gateway.toml` in the user's
    /// configuration folder, or else the user's only profile.
    #[arg(long, value_name = "FILE", conflicts_with = "profile")]
    config: Option<PathBuf>,
    /// The configuration of a profile that `countersign wrap` made.
    #[arg(long, value_name = "NAME", value_parser = profile_name)]
    profile: Option<UserProfileName>,
}

impl ConfigArgs {
    /// Returns the path of the configuration.
    pub(crate) fn path(&self) -> Result<PathBuf, Failure> {
        match &self.profile {
            Some(name) => Ok(UserFolder::of_user()?.config_of(name)?),
            None => Ok(find_config(self.config.as_deref())?),
        }
    }

    /// Reads the configuration.
    pub(crate) fn read(&self) -> Result<ConfigFile, Failure> {
        Ok(ConfigFile::read(&self.path()?)?)
    }

    /// Returns `true` if one of the options is given.
    pub(crate) const fn is_given(&self) -> bool {
        self.config.is_some() || self.profile.is_some()
    }
}

fn profile_name(text: &str) -> Result<UserProfileName, HostError> {
    text.parse()
}
