//! Structured logs: one JSON line per decision (CHECKS A3). Never a token, a signature, a key or an STS message.

use serde::Serialize;
use verifier::UnixTime;
use verifier::encoding::shown;

/// One decision.
#[derive(Debug, Serialize)]
pub struct Event<'a> {
    /// RFC 3339.
    pub time: String,
    /// What was decided: route name.
    #[serde(rename = "event")]
    pub route: &'static str,
    /// `x-request-id`.
    pub request_id: &'a str,
    /// HTTP status.
    pub status: u16,
    /// Code of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    /// Reason of a refusal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// What is known of the caller.
    #[serde(flatten)]
    pub subject: Subject,
}

/// What a decision was about, as far as it was known.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Subject {
    /// Mode of the evidence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<&'static str>,
    /// Tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Canonical identity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// Runner id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_id: Option<String>,
    /// Who calls an admin or service route: first 8 hex digits of the SHA-256 of the token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Internal cause of a 5xx, for us only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

impl Subject {
    /// Takes over what the verifier learned.
    pub fn know(&mut self, learned: verifier::trace::Subject) {
        self.mode = learned.mode.map(protocol::Mode::as_str);
        self.tenant = learned.tenant.or_else(|| self.tenant.take());
        self.identity = learned.identity;
        self.runner_id = learned.runner_id;
    }

    /// Escapes and cuts what came from outside.
    #[must_use]
    pub fn cleaned(mut self) -> Self {
        let fields = [&mut self.tenant, &mut self.identity, &mut self.runner_id, &mut self.cause];
        for text in fields.into_iter().flatten() {
            *text = shown(text);
        }
        self
    }
}

/// Writes the line.
pub fn write(event: &Event<'_>) {
    if let Ok(line) = serde_json::to_string(event) {
        worker::console_log!("{line}");
    }
}

/// A fault of ours that no client sees.
pub fn fault(request_id: &str, now: UnixTime, cause: &str) {
    write(&Event {
        time: now.to_rfc3339(),
        route: "fault",
        request_id,
        status: 500,
        code: Some("internal"),
        reason: None,
        subject: Subject { cause: Some(cause.to_owned()), ..Subject::default() }.cleaned(),
    });
}
