//! What the control endpoints of both emulators have in common: reading orders, faults, the clock.
//!
//! `/_control/` is for tests on loopback only and asks for no credentials.

use std::sync::Arc;

use axum::Router;
use axum::extract::Query;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::clock::Clock;
use super::fault::{FaultPlan, FaultQueue};
use super::recorder::Recorder;

/// State every emulator has.
#[derive(Debug, Clone, Default)]
pub struct Core {
    /// The plans in force.
    pub faults: Arc<FaultQueue>,
    /// What has been received.
    pub recorder: Arc<Recorder>,
    /// The emulator's time.
    pub clock: Clock,
}

/// A control call that cannot be carried out: 400 with the reason.
#[derive(Debug)]
pub struct BadOrder(pub String);

impl IntoResponse for BadOrder {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, Json(json!({"error": self.0}))).into_response()
    }
}

/// Reads an order; an empty body is `{}`. The content type is not looked at, so `curl -d` does.
pub fn read<T: DeserializeOwned>(body: &Bytes) -> Result<T, BadOrder> {
    let text: &[u8] = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(text).map_err(|error| BadOrder(error.to_string()))
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Plans {
    Many(Vec<serde_json::Value>),
    One(serde_json::Value),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClockOrder {
    offset_seconds: i64,
}

#[derive(Deserialize)]
struct Limit {
    limit: Option<usize>,
}

/// The routes of [`Core`]. `traffic` is the path under which requests are listed.
///
/// - `POST /_control/fault` a plan or an array of plans, replacing those in force; `GET` lists, `DELETE` clears
/// - `GET /_control/<traffic>?limit=` counts and the last requests; `DELETE` resets
/// - `POST /_control/clock` `{"offset_seconds":-1200}`
pub fn routes(core: &Core, traffic: &str) -> Router {
    let (set, list, clear) = (core.clone(), core.clone(), core.clone());
    let (show, reset, clock) = (core.clone(), core.clone(), core.clone());
    let fault_routes = post(async move |body: Bytes| set_faults(&set.faults, &body))
        .get(async move || Json(list.faults.plans()))
        .delete(async move || {
            clear.faults.set([]);
            StatusCode::NO_CONTENT
        });
    let traffic_routes =
        get(async move |Query(query): Query<Limit>| Json(show.recorder.traffic(query.limit.unwrap_or(100)))).delete(
            async move || {
                reset.recorder.reset();
                StatusCode::NO_CONTENT
            },
        );
    let clock_routes = post(async move |body: Bytes| {
        let order: ClockOrder = read(&body)?;
        clock.clock.set_offset(order.offset_seconds);
        Ok::<_, BadOrder>(Json(json!({"now": clock.clock.now()})))
    });
    Router::new()
        .route("/_control/fault", fault_routes)
        .route(&format!("/_control/{traffic}"), traffic_routes)
        .route("/_control/clock", clock_routes)
}

fn set_faults(faults: &FaultQueue, body: &Bytes) -> Result<Json<Vec<FaultPlan>>, BadOrder> {
    let values = match read(body)? {
        Plans::Many(values) => values,
        Plans::One(value) => vec![value],
    };
    let plans = values.into_iter().map(FaultPlan::try_from).collect::<Result<Vec<_>, _>>().map_err(BadOrder)?;
    faults.set(plans);
    Ok(Json(faults.plans()))
}
