//! `GET /healthz`.

use protocol::admin::Health;

use super::json;
use crate::door::Call;
use crate::isolate;
use crate::problem::Refusal;
use crate::response::Response;

/// 200 once secrets and a policy are there, else the 503 that lists what is missing.
pub async fn get(call: &Call<'_>) -> Result<Response, Refusal> {
    isolate::ready(call).await?;
    json(200, &Health { status: "ok".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}
