//! The policy document and the audit log of the verifier as a whole.

use protocol::Code;
use verifier::Denial;
use verifier::appraisal::{Policy, PolicyDocument};

use super::{not_found, page};
use crate::access::Actor;
use crate::body::json_text;
use crate::door::Call;
use crate::isolate;
use crate::objects::client::{self, Applicant, PolicyWrite};
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::Response;
use crate::routes::{internal, json, parse, passed_on};

/// `GET /v1/admin/policy`: the document with its `ETag`; 404 before the first.
pub async fn get(call: &Call<'_>) -> Result<Response, Refusal> {
    let Some(current) = isolate::policy_now(call).await? else {
        return Err(not_found("policy yet: apply one").into());
    };
    answer(&current)
}

/// `PUT /v1/admin/policy`: validated whole, then compared and set; a broken policy never replaces a good one. Either is in the audit log.
pub async fn put(request: &Request, call: &Call<'_>, actor: &Actor) -> Result<Response, Refusal> {
    let if_match = request.header("if-match");
    let applicant = Applicant { actor: actor.id().to_owned(), request_id: call.request_id.clone() };
    let policy = match validated(request).await {
        Ok(policy) => policy,
        Err(refusal) => {
            client::note_refused_policy(call.env, applicant, refusal.denial.code).await?;
            return Err(refusal);
        }
    };
    let document = serde_json::to_string(policy.document()).map_err(|error| internal(&error))?;
    let write = PolicyWrite { document, tenants: policy.tenants().map(str::to_owned).collect(), if_match, applicant };
    let stored = client::put_policy(call.env, write).await?;
    answer(&isolate::adopt(policy, stored, call.now))
}

async fn validated(request: &Request) -> Result<Policy, Refusal> {
    let text = json_text(request).await?;
    let document: PolicyDocument = parse(&text)?;
    Policy::compile(document).map_err(|errors| {
        let detail = format!("the policy has {} problem(s); nothing was changed", errors.len());
        Refusal { errors: Some(errors), ..Denial::new(Code::PolicyInvalid, detail).into() }
    })
}

fn answer(current: &isolate::PolicyInForce) -> Result<Response, Refusal> {
    // An edge that compressed the answer would make the tag a weak one, and `If-Match` would never match it.
    Ok(json(200, current.policy.document())?.with("etag", current.etag.clone()).with("cache-control", "no-transform"))
}

/// `GET /v1/admin/audit`: who applied which policy.
pub async fn audit(request: &Request, call: &Call<'_>) -> Result<Response, Refusal> {
    Ok(passed_on(200, client::policy_audit(call.env, page(request)?).await?))
}
