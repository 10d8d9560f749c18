use std::path::PathBuf;

use clap::Args;
use countersign_approval_token::{PendingApproval, StoredGrant};
use countersign_core::CallId;
use countersign_host::config_file::{ConfigFile, find_config, find_configs};
use countersign_host::error::HostError;
use countersign_host::home::{UserFolder, UserProfileName};
use countersign_host::questions::QuestionQueue;

use crate::failure::Failure;
use crate::time::now;

/// The gateway's configuration, by its file or by a profile.
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The gateway's configuration; without it `gateway.toml` in this folder, or else `countersign/gateway.toml` in the user's
    /// configuration folder, or else the user's only profile. `approve`, `attest` and `grant` look through all profiles.
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

    /// Reads every configuration that an answer can belong to: the one of [`read`](Self::read), or those of all profiles.
    pub(crate) fn read_all(&self) -> Result<ConfigFiles, Failure> {
        let paths = match &self.profile {
            Some(_) => vec![self.path()?],
            None => find_configs(self.config.as_deref())?,
        };
        let read = |path: PathBuf| ConfigFile::read(&path).map(|config| (path, config));
        Ok(ConfigFiles(paths.into_iter().map(read).collect::<Result<_, _>>()?))
    }

    /// Returns `true` if one of the options is given.
    pub(crate) const fn is_given(&self) -> bool {
        self.config.is_some() || self.profile.is_some()
    }
}

/// The configurations whose questions a verb answers.
#[derive(Debug)]
pub(crate) struct ConfigFiles(Vec<(PathBuf, ConfigFile)>);

impl ConfigFiles {
    /// Opens the stores that exist.
    pub(crate) fn queues(&self) -> Result<QuestionQueues<'_>, Failure> {
        let mut queues = Vec::new();
        for (path, config) in &self.0 {
            queues.extend(QuestionQueue::open(config).map_err(|error| error.about(path.display()))?);
        }
        Ok(QuestionQueues { queues, is_only: self.0.len() == 1 })
    }
}

/// The questions of several configurations. Profiles share a store, and a question belongs to the one that it binds.
#[derive(Debug)]
pub(crate) struct QuestionQueues<'c> {
    queues: Vec<QuestionQueue<'c>>,
    /// All questions in its store are its own.
    is_only: bool,
}

impl<'c> QuestionQueues<'c> {
    /// Finds a question by what a person typed, as [`QuestionQueue::find`].
    pub(crate) fn find(&self, typed: &str, unseen: bool) -> Result<(&QuestionQueue<'c>, CallId), Failure> {
        let mut found = None;
        for queue in &self.queues {
            let id = match queue.find(typed, unseen, now()?) {
                Ok(id) => id,
                Err(error) if error.code() == "PENDING_UNKNOWN" => continue,
                Err(error) => return Err(error.into()),
            };
            if self.is_own(queue, &queue.get(&id)?.0) && found.replace((queue, id)).is_some() {
                let text = "several profiles have a question whose id begins so: give --profile";
                return Err(Failure::new("PENDING_AMBIGUOUS", text));
            }
        }
        found.ok_or_else(|| QuestionQueue::unknown().into())
    }

    /// Collects what each store lists, oldest expiry first.
    pub(crate) fn collect(
        &self,
        list: impl Fn(&QuestionQueue<'c>) -> Result<Vec<PendingApproval>, Failure>,
    ) -> Result<Vec<(&QuestionQueue<'c>, PendingApproval)>, Failure> {
        let mut all = Vec::new();
        for queue in &self.queues {
            let own = list(queue)?.into_iter().filter(|pending| self.is_own(queue, pending));
            all.extend(own.map(|pending| (queue, pending)));
        }
        if !self.is_only {
            all.sort_by_key(|(_, pending)| pending.expires());
        }
        Ok(all)
    }

    /// Collects the grants that count or were revoked.
    pub(crate) fn grants(&self) -> Result<Vec<(&QuestionQueue<'c>, StoredGrant)>, Failure> {
        let mut all = Vec::new();
        for queue in &self.queues {
            let is_own = |grant: &StoredGrant| self.is_only || queue.is_of(&grant.facts.audience);
            all.extend(queue.grants()?.into_iter().filter(is_own).map(|grant| (queue, grant)));
        }
        Ok(all)
    }

    fn is_own(&self, queue: &QuestionQueue<'_>, pending: &PendingApproval) -> bool {
        self.is_only || pending.binding().audience.as_ref().is_some_and(|audience| queue.is_of(audience))
    }
}

fn profile_name(text: &str) -> Result<UserProfileName, HostError> {
    text.parse()
}
