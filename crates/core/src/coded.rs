/// An error, a refusal or a finding with a stable code.
///
/// A code is a word in capitals and is never renamed. It is for logs, for other processes and for people; a program
/// that handles an error matches its type.
///
/// ```
/// use countersign_core::{Coded, SpendError};
/// fn codes(errors: &[&dyn Coded]) -> Vec<&'static str> {
///     errors.iter().map(|error| error.code()).collect()
/// }
/// assert_eq!(codes(&[&SpendError::Spent, &SpendError::TooNew]), ["APPROVAL_SPENT", "STORE_TOO_NEW"]);
/// ```
pub trait Coded {
    /// The stable code.
    fn code(&self) -> &'static str;
}

/// Implements [`Coded`](crate::Coded) for types whose own method `code` returns the code.
#[macro_export]
macro_rules! coded {
    ($($type:ty),+ $(,)?) => {$(
        impl $crate::Coded for $type {
            fn code(&self) -> &'static str {
                self.code()
            }
        }
    )+};
}
