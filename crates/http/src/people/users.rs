//! People who may log in, by a file with hashes of their passwords.

use std::path::Path;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use countersign_core::OperatorId;
use countersign_host::error::HostError;
use countersign_host::files::read_secret_text;
use countersign_host::random::secret;
use serde::Deserialize;

/// Fewest characters of a password.
const MIN_PASSWORD: usize = 12;
/// Longest password, in bytes.
const MAX_PASSWORD: usize = 1_024;
/// Greatest number of users.
const MAX_USERS: usize = 1_024;

/// All people that the operator named.
#[derive(Debug)]
pub(crate) struct Users {
    users: Vec<UserPart>,
    /// A hash that no password has. why: an unknown name then takes as long as a wrong password.
    none: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserFile {
    #[serde(default)]
    user: Vec<UserPart>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UserPart {
    name: OperatorId,
    /// Argon2id, as a PHC string.
    password: String,
}

/// Omits the hash.
impl std::fmt::Debug for UserPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UserPart").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Users {
    /// Reads the file of users, which only its owner may read.
    pub(crate) fn read(path: &Path) -> Result<Self, HostError> {
        read_users(path).map_err(|error| error.about(path.display()))
    }

    /// Returns the user with this name and password. Takes tens of milliseconds, also for an unknown name.
    pub(crate) fn find(&self, name: &str, password: &str) -> Option<OperatorId> {
        let user = self.users.iter().find(|user| user.name.as_str() == name);
        let text = user.map_or(&self.none, |user| &user.password);
        let hash = PasswordHash::new(text).ok()?;
        let is_right = password.len() <= MAX_PASSWORD
            && Argon2::default().verify_password(password.as_bytes(), &hash).is_ok();
        user.filter(|_| is_right).map(|user| user.name.clone())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.users.iter().any(|user| user.name.as_str() == name)
    }
}

fn read_users(path: &Path) -> Result<Users, HostError> {
    let text = read_secret_text(path)?;
    // why: the parser's own message can quote the file.
    let malformed =
        || HostError::new("USERS_MALFORMED", "expected: [[user]] with name and password (argon2id)");
    let file: UserFile = toml::from_str(&text).map_err(|_| malformed())?;
    if file.user.is_empty() || file.user.len() > MAX_USERS {
        return Err(HostError::new("USERS_MALFORMED", format!("1 to {MAX_USERS} users expected")));
    }
    for (at, user) in file.user.iter().enumerate() {
        let hash = PasswordHash::new(&user.password).map_err(|_| malformed())?;
        if hash.algorithm.as_str() != "argon2id" {
            return Err(malformed());
        }
        if file.user.iter().take(at).any(|other| other.name == user.name) {
            return Err(HostError::new("CALLER_REPEATED", format!("`{}` is named twice", user.name)));
        }
    }
    Ok(Users { users: file.user, none: hashed("no password has this hash")? })
}

/// Returns the entry of a user for the file of users.
///
/// # Errors
/// `PASSWORD_TOO_WEAK` under 12 characters, `PASSWORD_TOO_LONG` above 1,024 bytes, `RANDOM_UNAVAILABLE`.
pub fn password_entry(name: &OperatorId, password: &str) -> Result<String, HostError> {
    if password.chars().count() < MIN_PASSWORD {
        let text = format!("password too short: at least {MIN_PASSWORD} characters expected");
        return Err(HostError::new("PASSWORD_TOO_WEAK", text));
    }
    if password.len() > MAX_PASSWORD {
        let text = format!("password too long: at most {MAX_PASSWORD} bytes expected");
        return Err(HostError::new("PASSWORD_TOO_LONG", text));
    }
    let name = serde_json::to_string(name.as_str()).map_err(|_| HostError::internal("a name is text"))?;
    Ok(format!("[[user]]\nname = {name}\npassword = \"{}\"\n", hashed(password)?))
}

fn hashed(password: &str) -> Result<String, HostError> {
    let salt = secret::<16>()?;
    let hash = Argon2::default().hash_password_with_salt(password.as_bytes(), salt.as_ref());
    hash.map(|hash| hash.to_string()).map_err(|_| HostError::internal("a password cannot be hashed"))
}
