//! Plain HTTP to what we started on loopback.

use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;
use ureq::Agent;

/// Status and body of an answer, whatever the status.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Body, or null when it is not JSON.
    pub body: Value,
}

fn agent() -> Agent {
    Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .proxy(None)
        .build()
        .into()
}

fn read(answer: ureq::http::Response<ureq::Body>) -> Result<Answer> {
    let status = answer.status().as_u16();
    let text = answer.into_body().read_to_string()?;
    Ok(Answer { status, body: serde_json::from_str(&text).unwrap_or_default() })
}

/// GET, with a bearer token when given.
pub fn get(url: &str, bearer: Option<&str>) -> Result<Answer> {
    let mut request = agent().get(url);
    if let Some(token) = bearer {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    read(request.call().with_context(|| format!("GET {url}"))?)
}

/// GET of something that is not JSON; an error unless the status is 200.
pub fn get_text(url: &str) -> Result<String> {
    let answer = agent().get(url).call().with_context(|| format!("GET {url}"))?;
    anyhow::ensure!(answer.status() == 200, "GET {url} answered {}", answer.status());
    Ok(answer.into_body().read_to_string()?)
}

/// POST of a JSON document.
pub fn post(url: &str, document: &Value) -> Result<Answer> {
    let request = agent().post(url).header("content-type", "application/json");
    read(request.send(document.to_string()).with_context(|| format!("POST {url}"))?)
}

/// DELETE without a body.
pub fn delete(url: &str) -> Result<Answer> {
    read(agent().delete(url).call().with_context(|| format!("DELETE {url}"))?)
}
