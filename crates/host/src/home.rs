//! The user's own folder: one key set, one store of approvals, and a profile for each server or hook that is protected.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use countersign_core::KeyId;
use countersign_keys::file::{write_log_key, write_server_secret, write_signing_key};
use countersign_keys::{ServerSecret, SigningKey, TrustRoot};
use etcetera::base_strategy::{BaseStrategy as _, Xdg};

use crate::error::HostError;
use crate::files::{Replace, unreadable, unwritable, write_file};
use crate::random;

/// Longest name of a profile, in bytes.
const NAME_BYTES: usize = 100;

/// Folder of a user, `$XDG_CONFIG_HOME/countersign`. Others must not be able to open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserFolder {
    folder: PathBuf,
}

/// Name of a profile: letters, digits and `. _ -`, the first a letter or a digit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UserProfileName(String);

/// Files of one profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserProfile {
    name: UserProfileName,
    folder: PathBuf,
}

impl UserFolder {
    /// Returns the folder of the current user. It need not exist.
    ///
    /// # Errors
    /// `HOME_UNKNOWN` if the user has no home folder.
    pub fn of_user() -> Result<Self, HostError> {
        let unknown = |_| HostError::new("HOME_UNKNOWN", "the user's home folder is unknown: set HOME");
        Ok(Self::at(Xdg::new().map_err(unknown)?.config_dir().join("countersign")))
    }

    /// Takes another folder as the user's.
    #[must_use]
    pub const fn at(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder itself.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The operator's key, which signs registries.
    #[must_use]
    pub fn operator_key(&self) -> PathBuf {
        self.folder.join("operator.key")
    }

    /// The trust root, which names that key.
    #[must_use]
    pub fn trust_root(&self) -> PathBuf {
        self.folder.join("trust-root.json")
    }

    /// The key that approvals are minted with.
    #[must_use]
    pub fn approval_key(&self) -> PathBuf {
        self.folder.join("approval.key")
    }

    /// The key that signs the checkpoints of logs.
    #[must_use]
    pub fn log_key(&self) -> PathBuf {
        self.folder.join("log.key")
    }

    /// The store of approvals, which all profiles share.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.folder.join("approvals.sqlite")
    }

    /// Makes the folder and the keys that are missing. Existing files stay as they are.
    ///
    /// # Errors
    /// `FILE_TOO_OPEN`, `FILE_OWNER`, `FILE_UNWRITABLE`, and `HOME_KEYS` if the trust root's key is missing.
    pub fn prepare(&self) -> Result<(), HostError> {
        make_private(&self.folder)?;
        make_private(&self.profiles_folder())?;
        let secret = |path: &Path| path.symlink_metadata().is_err();
        if secret(&self.operator_key()) {
            if self.trust_root().symlink_metadata().is_ok() {
                let text = "the key of the trust root beside it is missing: restore it, or remove both and sign again";
                return Err(HostError::new("HOME_KEYS", text).about(self.operator_key().display()));
            }
            let key = SigningKey::from_seed(*random::secret::<32>()?);
            write_signing_key(&self.operator_key(), &key)?;
        }
        if secret(&self.trust_root()) {
            let key = countersign_keys::file::read_signing_key(&self.operator_key())
                .map_err(|error| HostError::from(error).about(self.operator_key().display()))?;
            let root = TrustRoot::new(1, 1, [key.verifying_key()])?;
            write_file(&self.trust_root(), root.to_json().as_bytes(), Replace::Never)?;
        }
        if secret(&self.approval_key()) {
            let id: KeyId = random::id("hmac")?;
            let key = ServerSecret::new(id, random::secret::<32>()?.as_ref())?;
            write_server_secret(&self.approval_key(), &key)?;
        }
        if secret(&self.log_key()) {
            write_log_key(&self.log_key(), &SigningKey::from_seed(*random::secret::<32>()?))?;
        }
        Ok(())
    }

    /// Returns the profile of this name. It need not exist.
    #[must_use]
    pub fn profile(&self, name: &UserProfileName) -> UserProfile {
        UserProfile { name: name.clone(), folder: self.profiles_folder().join(&name.0) }
    }

    /// Returns the profiles that exist, by name.
    ///
    /// # Errors
    /// `FILE_UNREADABLE`.
    pub fn profiles(&self) -> Result<Vec<UserProfile>, HostError> {
        let folder = self.profiles_folder();
        let entries = match std::fs::read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unreadable(&folder, &error)),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| unreadable(&folder, &error))?;
            let name = entry.file_name().to_str().and_then(|name| name.parse::<UserProfileName>().ok());
            names.extend(name.filter(|_| entry.path().join(CONFIG).exists()));
        }
        names.sort();
        Ok(names.iter().map(|name| self.profile(name)).collect())
    }

    /// Returns the configuration of a profile, if the folders that lead to it are the user's alone.
    ///
    /// # Errors
    /// `PROFILE_UNKNOWN`, `FILE_TOO_OPEN`, `FILE_OWNER`.
    pub fn config_of(&self, name: &UserProfileName) -> Result<PathBuf, HostError> {
        let profile = self.profile(name);
        if !profile.config().exists() {
            return Err(HostError::new("PROFILE_UNKNOWN", self.unknown(name)?));
        }
        for folder in [&self.folder, &self.profiles_folder(), &profile.folder] {
            check_private(folder)?;
        }
        Ok(profile.config())
    }

    fn unknown(&self, name: &UserProfileName) -> Result<String, HostError> {
        let names: Vec<_> = self.profiles()?.iter().map(|profile| profile.name.to_string()).collect();
        let names = if names.is_empty() { "no profile exists".to_owned() } else { names.join(", ") };
        Ok(format!("no profile `{name}` in `{}` ({names})", self.profiles_folder().display()))
    }

    fn profiles_folder(&self) -> PathBuf {
        self.folder.join("profiles")
    }
}

const CONFIG: &str = "gateway.toml";

impl UserProfile {
    /// The name.
    #[must_use]
    pub const fn name(&self) -> &UserProfileName {
        &self.name
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.join(CONFIG)
    }

    /// The signed registry.
    #[must_use]
    pub fn registry(&self) -> PathBuf {
        self.folder.join("registry.json")
    }

    /// The draft that was signed.
    #[must_use]
    pub fn draft(&self) -> PathBuf {
        self.folder.join("draft.json")
    }

    /// The folder of the log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// Makes the profile's folder, if it is missing.
    ///
    /// # Errors
    /// `FILE_TOO_OPEN`, `FILE_OWNER`, `FILE_UNWRITABLE`.
    pub fn prepare(&self) -> Result<(), HostError> {
        make_private(&self.folder)
    }
}

impl FromStr for UserProfileName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        let letter = |byte: u8| byte.is_ascii_alphanumeric();
        let is_name = text.len() <= NAME_BYTES
            && text.bytes().next().is_some_and(letter)
            && text.bytes().all(|byte| letter(byte) || b"._-".contains(&byte));
        if is_name {
            return Ok(Self(text.to_owned()));
        }
        let text =
            "not a profile's name: letters, digits and `. _ -`, the first a letter or a digit, 100 at most";
        Err(HostError::new("PROFILE_NAME", text))
    }
}

impl fmt::Display for UserProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn make_private(folder: &Path) -> Result<(), HostError> {
    if folder.symlink_metadata().is_ok() {
        return check_private(folder);
    }
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).map_err(|error| unwritable(folder, &error))?;
    check_private(folder)
}

/// Refuses a folder that is not the user's, or that others can open.
#[cfg(unix)]
fn check_private(folder: &Path) -> Result<(), HostError> {
    use std::os::unix::fs::MetadataExt as _;
    let about = folder.metadata().map_err(|error| unreadable(folder, &error))?;
    if !about.is_dir() {
        return Err(HostError::new("FILE_UNREADABLE", "not a folder").about(folder.display()));
    }
    let user = rustix::process::geteuid().as_raw();
    if about.uid() != user {
        let text = format!("it belongs to user {}, and this process is of user {user}", about.uid());
        return Err(HostError::new("FILE_OWNER", text).about(folder.display()));
    }
    if about.mode() & 0o077 != 0 {
        let mode = about.mode() & 0o7777;
        let text = format!("others may open it (mode {mode:04o}); mend it: chmod 700 '{}'", folder.display());
        return Err(HostError::new("FILE_TOO_OPEN", text).about(folder.display()));
    }
    Ok(())
}

#[cfg(not(unix))]
fn check_private(_: &Path) -> Result<(), HostError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{UserFolder, UserProfileName};

    fn home() -> (tempfile::TempDir, UserFolder) {
        let folder = tempfile::tempdir().unwrap();
        let home = UserFolder::at(folder.path().join("a/countersign"));
        (folder, home)
    }

    fn name(text: &str) -> UserProfileName {
        text.parse().unwrap()
    }

    #[test]
    fn a_folder_that_is_prepared_twice_keeps_its_keys() {
        let (_folder, home) = home();
        home.prepare().unwrap();
        let paths = [home.operator_key(), home.trust_root(), home.approval_key(), home.log_key()];
        let read = || paths.iter().map(|path| std::fs::read(path).unwrap()).collect::<Vec<_>>();
        let before = read();
        home.prepare().unwrap();
        assert_eq!(read(), before);
    }

    #[test]
    fn a_trust_root_without_its_key_is_refused() {
        let (_folder, home) = home();
        home.prepare().unwrap();
        std::fs::remove_file(home.operator_key()).unwrap();
        assert_eq!(home.prepare().unwrap_err().code(), "HOME_KEYS");
        assert!(!home.operator_key().exists());
    }

    #[test]
    #[cfg(unix)]
    fn a_folder_that_others_may_open_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_folder, home) = home();
        home.prepare().unwrap();
        let profile = home.profile(&name("files"));
        profile.prepare().unwrap();
        std::fs::write(profile.config(), "").unwrap();
        assert_eq!(home.config_of(&name("files")).unwrap(), profile.config());
        let mode = |mode| std::fs::Permissions::from_mode(mode);
        for folder in [home.path(), profile.path()] {
            assert_eq!(folder.metadata().unwrap().permissions().mode() & 0o777, 0o700);
            for open in [0o750, 0o701, 0o777] {
                std::fs::set_permissions(folder, mode(open)).unwrap();
                assert_eq!(home.config_of(&name("files")).unwrap_err().code(), "FILE_TOO_OPEN");
            }
            std::fs::set_permissions(folder, mode(0o700)).unwrap();
        }
        std::fs::set_permissions(home.path(), mode(0o755)).unwrap();
        assert_eq!(home.prepare().unwrap_err().code(), "FILE_TOO_OPEN");
    }

    #[test]
    fn an_unknown_profile_is_refused_with_the_known_ones() {
        let (_folder, home) = home();
        assert!(home.profiles().unwrap().is_empty());
        home.prepare().unwrap();
        for known in ["b", "a"] {
            let profile = home.profile(&name(known));
            profile.prepare().unwrap();
            std::fs::write(profile.config(), "").unwrap();
        }
        let error = home.config_of(&name("c")).unwrap_err();
        assert_eq!(error.code(), "PROFILE_UNKNOWN");
        assert!(error.message().contains("a, b"), "{error}");
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_no_profile() {
        for text in ["", ".", "..", "../x", "a/b", "-x", ".x", "a\\b", "a b", "é", "a\0", &"a".repeat(101)] {
            assert_eq!(text.parse::<UserProfileName>().unwrap_err().code(), "PROFILE_NAME", "{text:?}");
        }
    }
}
