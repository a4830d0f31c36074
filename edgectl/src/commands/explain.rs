//! `edgectl explain`: evidence through `/v1/verify` with `consume: false`, and every check as a line.
//!
//! Nothing is used up and nothing is registered: the answer is what an enrolment would get.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use protocol::{Code, Decision, Mode, Reason, TraceOutcome, VerifyResponse};
use serde_json::{Map, Value};

use crate::cli::{ExplainArguments, VerifierArguments};
use crate::client::Client;
use crate::configuration::Role;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, fields, or_dash, table};

/// Part of what `runner attest` writes in place of a secret.
const REDACTED: &str = "--reveal shows it";

/// Runs the command.
pub async fn run(
    arguments: &ExplainArguments,
    verifier: &VerifierArguments,
    output: Output,
) -> Result<Outcome, Failure> {
    let payload = read(&arguments.payload)?;
    let csr = arguments.csr.as_deref().map(read).transpose()?;
    let request = request(&payload, csr.as_deref(), arguments.spki_sha256.as_deref()).map_err(|message| {
        Failure::configuration(message, "A payload is what `runner attest --reveal --output json` prints.")
    })?;
    let answer = Client::new(Role::Service, verifier)?.verify(&request).await?;
    output.data(&answer, || describe(&answer))?;
    Ok(if answer.decision == Decision::Allow { Outcome::Done } else { Outcome::No })
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        fs::read_to_string(path)
    };
    text.map_err(|error| Failure::Io { what: format!("read {}", path.display()), error })
}

/// The body of `/v1/verify` from an enrolment, a verification, or an attestation alone. The evidence itself goes out as it came:
/// judging it is the verifier's part.
fn request(payload: &str, csr: Option<&str>, spki_sha256: Option<&str>) -> Result<Value, String> {
    let Ok(Value::Object(mut fields)) = serde_json::from_str(payload) else {
        return Err("the payload is no JSON object".to_owned());
    };
    if payload.contains(REDACTED) {
        return Err("the payload's secrets are redacted: nothing could be verified".to_owned());
    }
    let mut request = Map::new();
    if fields.contains_key("mode") {
        request.insert("attestation".to_owned(), Value::Object(std::mem::take(&mut fields)));
    } else if let Some(attestation) = fields.remove("attestation") {
        request.insert("attestation".to_owned(), attestation);
    } else {
        return Err("the payload has neither `attestation` nor `mode`".to_owned());
    }
    let given = [("csr", csr), ("spki_sha256", spki_sha256)];
    let overridden = given.iter().any(|(_, value)| value.is_some());
    for (name, value) in given {
        let own = fields.remove(name).filter(|_| !overridden);
        if let Some(value) = value.map(Value::from).or(own) {
            request.insert(name.to_owned(), value);
        }
    }
    if !request.contains_key("csr") && !request.contains_key("spki_sha256") {
        return Err("the payload does not say which key it is for: give --csr or --spki-sha256".to_owned());
    }
    request.insert("consume".to_owned(), Value::Bool(false));
    Ok(Value::Object(request))
}

fn describe(answer: &VerifyResponse) -> String {
    let known = [
        ("Decision", Some(answer.decision.as_str())),
        ("Code", answer.code.map(Code::as_str)),
        ("Reason", answer.reason.map(Reason::as_str)),
        ("Mode", answer.mode.map(Mode::as_str)),
        ("Identity", answer.identity.as_deref()),
        ("Instance", answer.instance.as_deref()),
        ("Tenant", answer.tenant.as_deref()),
    ];
    let summary = fields(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let trace = table(
        ["", "CHECK", "", "EXPECTED", "ACTUAL"],
        answer.trace.iter().map(|entry| {
            let mark = match entry.outcome {
                TraceOutcome::Pass => "ok",
                TraceOutcome::Fail => "FAIL",
                TraceOutcome::Skipped => "-",
            };
            [
                mark.to_owned(),
                entry.check.clone(),
                entry.name.clone(),
                or_dash(entry.expected.as_deref()),
                or_dash(entry.actual.as_deref()),
            ]
        }),
    );
    [&summary, "\n\n", &trace].concat()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_payload_becomes_a_verification_that_uses_nothing_up() {
        let attestation = json!({ "mode": "gke-oidc", "token": "a.b.c" });
        let wanted = json!({ "attestation": attestation, "csr": "C", "consume": false });
        let enrolment = json!({ "attestation": attestation, "csr": "C" }).to_string();
        assert_eq!(request(&enrolment, None, None).unwrap(), wanted);
        assert_eq!(request(&attestation.to_string(), Some("C"), None).unwrap(), wanted);
        let verification = json!({ "attestation": attestation, "csr": "C", "consume": true }).to_string();
        assert_eq!(request(&verification, None, None).unwrap(), wanted);
        let other_key = request(&enrolment, None, Some("H")).unwrap();
        assert_eq!(other_key, json!({ "attestation": attestation, "spki_sha256": "H", "consume": false }));
        let redacted = enrolment.replace("a.b.c", "a.b.(redacted; --reveal shows it)");
        for bad in ["", "[]", "{}", &redacted, r#"{"csr":"C"}"#, &attestation.to_string()] {
            assert!(request(bad, None, None).is_err(), "{bad}");
        }
    }
}
