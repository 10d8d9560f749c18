//! People who may log in, and their logins.

mod logins;
mod users;

pub(crate) use logins::{COOKIE_NAME, Login, Logins};
pub(crate) use users::Users;
pub use users::password_entry;

/// The people of the page.
#[derive(Debug)]
pub(crate) struct People {
    pub(crate) users: Users,
    pub(crate) logins: Logins,
}

impl People {
    pub(crate) fn new(users: Users) -> Self {
        Self { users, logins: Logins::default() }
    }
}
