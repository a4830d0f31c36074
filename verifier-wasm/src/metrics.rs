//! Decisions as data points of the optional Analytics Engine binding `METRICS`: index tenant, blobs route, mode, code and reason, doubles
//! the HTTP status and one, for counting. Never an identity.

use worker::{AnalyticsEngineDataPointBuilder, Env};

use crate::log::Event;

/// Writes one data point where the binding exists; a failure of it is nobody's business.
pub fn count(env: &Env, event: &Event<'_>) {
    let Ok(dataset) = env.analytics_engine("METRICS") else { return };
    let blobs = [Some(event.route), event.subject.mode, event.code, event.reason];
    let point = blobs
        .into_iter()
        .fold(AnalyticsEngineDataPointBuilder::new(), |point, blob| point.add_blob(blob.unwrap_or_default()))
        .indexes([event.subject.tenant.as_deref().unwrap_or_default()])
        .add_double(f64::from(event.status))
        .add_double(1.0)
        .build();
    let _ = dataset.write_data_point(&point);
}
