use std::sync::Arc;

use axum::extract::{FromRequestParts, Path};
use axum::http::request::Parts;

use crate::app::App;
use crate::problem::Problem;

/// Most characters of an id in a path.
const MAX_ID: usize = 256;

/// An id in the path.
pub(crate) struct PathId(pub(crate) String);

impl FromRequestParts<Arc<App>> for PathId {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let bad = || Problem::bad("PATH_MALFORMED", "the id in the path is not one");
        let Path(id) = Path::<String>::from_request_parts(parts, app).await.map_err(|_| bad())?;
        if id.is_empty() || id.len() > MAX_ID { Err(bad()) } else { Ok(Self(id)) }
    }
}
