//! One refusal of each kind, with the code and reason that PROTOCOL.md gives it.

use anyhow::{Context, Result};
use protocol::Code;
use serde_json::{Value, json};

use super::Scene;
use super::host::{Host, Refused};
use super::report::{Refusal, Report};
use crate::progress::{Step, note};
use crate::{http, ready_policy};

/// Status of a runner that was refused.
const REFUSED: i32 = 77;

/// Provokes them all.
pub fn show(scene: &Scene, report: &mut Report) -> Result<()> {
    let step = Step::begin("Refusals");
    wrong_region(scene, report)?;
    tampered_body(scene, report)?;
    banned_header(scene, report)?;
    other_audience(scene, report)?;
    used_up_token(scene, report)?;
    unmapped_identity(scene, report)?;
    sts_says_no(scene, report)?;
    sts_down(scene, report)?;
    step.end("shown");
    Ok(())
}

/// What must come back.
struct Expected {
    case: &'static str,
    code: Code,
    reason: Option<&'static str>,
}

impl Expected {
    const fn invalid(case: &'static str, reason: &'static str) -> Self {
        Self { case, code: Code::AttestationInvalid, reason: Some(reason) }
    }

    fn compare(&self, report: &mut Report, status: u16, code: &str, reason: Option<&str>) {
        let told = (status, code, reason);
        let documented = (self.code.status(), self.code.as_str(), self.reason);
        if told != documented {
            report.broken(format!("{}: answered {told:?}, documented is {documented:?}", self.case));
        }
        report.refused(Refusal { case: self.case, status, code: code.to_owned(), reason: reason.map(str::to_owned) });
    }

    /// The real runner is refused, says why, and ends with 77.
    fn by_runner(&self, host: &Host, report: &mut Report) -> Result<Option<Refused>> {
        match host.enroll().with_context(|| self.case)? {
            Ok(_) => {
                report.broken(format!("{}: the runner was enrolled", self.case));
                Ok(None)
            }
            Err(refused) => {
                note(format_args!("{}: {}", self.case, refused.message));
                let status = refused.code.parse::<Code>().map_or(0, Code::status);
                self.compare(report, status, &refused.code, refused.reason.as_deref());
                if refused.exit != REFUSED {
                    report.broken(format!("{}: the runner ended with {}, not {REFUSED}", self.case, refused.exit));
                }
                Ok(Some(refused))
            }
        }
    }

    /// A request that no runner of ours would send is refused.
    fn by_request(&self, scene: &Scene, body: &Value, report: &mut Report) -> Result<Value> {
        let answer = http::post(&format!("{}/v1/enroll", scene.ready.url), body)?;
        let text = |name: &str| answer.body[name].as_str();
        note(format_args!("{}: {}", self.case, text("detail").unwrap_or_default()));
        self.compare(report, answer.status, text("code").unwrap_or_default(), text("reason"));
        Ok(answer.body)
    }
}

fn aws_host(scene: &Scene, name: &str, role: &str) -> Result<Host> {
    let credentials = scene.role_session(role, name)?;
    Ok(Host::new(scene, name).with_aws(scene, &credentials))
}

fn wrong_region(scene: &Scene, report: &mut Report) -> Result<()> {
    let host = aws_host(scene, "region", ready_policy::ACME_ROLE)?.with("AWS_REGION", "us-west-2");
    Expected::invalid("wrong region", "region_not_allowed").by_runner(&host, report)?;
    Ok(())
}

fn tampered_body(scene: &Scene, report: &mut Report) -> Result<()> {
    let mut body = aws_host(scene, "tampered", ready_policy::ACME_ROLE)?.evidence()?;
    body["attestation"]["body"] = json!("Action=GetCallerIdentity&Version=2011-06-15&Action=GetSessionToken");
    Expected::invalid("tampered STS body", "body_not_allowed").by_request(scene, &body, report)?;
    Ok(())
}

fn banned_header(scene: &Scene, report: &mut Report) -> Result<()> {
    let mut body = aws_host(scene, "header", ready_policy::ACME_ROLE)?.evidence()?;
    body["attestation"]["headers"]["x-forwarded-host"] = json!("sts.example.com");
    Expected::invalid("banned header", "header_not_allowed").by_request(scene, &body, report)?;
    Ok(())
}

fn other_audience(scene: &Scene, report: &mut Report) -> Result<()> {
    const OTHER: &str = "other.example.com";
    let token = scene.token_file("audience", ready_policy::GKE_ISSUER, OTHER)?;
    // Set, or the runner would see by itself that the token is for somebody else.
    let host = Host::new(scene, "audience").with_gke(&token).with("RUNNER_AUDIENCE", OTHER);
    Expected::invalid("token for another audience", "audience_mismatch").by_runner(&host, report)?;
    Ok(())
}

fn used_up_token(scene: &Scene, report: &mut Report) -> Result<()> {
    let token = scene.operator.mint("acme")?;
    let first = Host::new(scene, "first-use").with("RUNNER_BOOTSTRAP_TOKEN", &token);
    if let Err(refused) = first.enroll()? {
        report.broken(format!("a fresh bootstrap token was refused: {}", refused.message));
    }
    let second = Host::new(scene, "second-use").with("RUNNER_BOOTSTRAP_TOKEN", &token);
    Expected::invalid("used-up bootstrap token", "bootstrap_token_refused").by_runner(&second, report)?;
    Ok(())
}

fn unmapped_identity(scene: &Scene, report: &mut Report) -> Result<()> {
    let host = aws_host(scene, "unmapped", "somebody-else")?;
    let expected = Expected { case: "unmapped identity", code: Code::IdentityNotMapped, reason: None };
    if let Some(refused) = expected.by_runner(&host, report)?
        && !refused.message.contains("role/somebody-else")
    {
        report.broken("unmapped identity: the runner does not name the identity that was proven");
    }
    Ok(())
}

fn sts_says_no(scene: &Scene, report: &mut Report) -> Result<()> {
    let credentials = scene.role_session(ready_policy::ACME_ROLE, "deleted")?;
    let order = json!({"kind": "delete", "access_key_id": credentials["access_key_id"]});
    scene.order_sts("credentials", &order)?;
    let host = Host::new(scene, "deleted").with_aws(scene, &credentials);
    Expected::invalid("STS says no", "sts_refused").by_runner(&host, report)?;
    Ok(())
}

/// Not a refusal: the verifier says that it could not ask, and when to try again.
fn sts_down(scene: &Scene, report: &mut Report) -> Result<()> {
    let host = aws_host(scene, "sts-down", ready_policy::ACME_ROLE)?;
    let evidence = host.evidence()?;
    scene.order_sts("fault", &json!({"kind": "status", "status": 500}))?;
    let expected = Expected { case: "STS down", code: Code::UpstreamUnavailable, reason: None };
    let problem = expected.by_request(scene, &evidence, report)?;
    if problem["retryable"] != true {
        report.broken("STS down: the answer does not say that it is retryable");
    }
    let order = json!({"kind": "status", "status": 500, "count": 1});
    scene.order_sts("fault", &order)?;
    // The daemon meets the fault once, says so, and enrolls when STS is back.
    let (_runner, enrolled) = host.run()?;
    if !enrolled["error"].is_null() {
        report.broken(format!("STS down: the runner gave up: {}", enrolled["error"]));
    }
    match host.said().lines().find(|line| line.contains("STS")) {
        Some(line) => note(format_args!("the runner then: {line}")),
        None => report.broken("STS down: the runner does not say so"),
    }
    http::delete(&format!("{}/_control/fault", scene.sts_url()))?;
    Ok(())
}
