//! Calls to the objects, each with a limit: an object that hangs never hangs its caller.

use std::borrow::Cow;

use js_sys::Uint8Array;
use protocol::Code;
use protocol::admin::{AuditType, BanRequest, MintRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use verifier::Denial;
use verifier::registry::{AdminContext, Allotment, Appraisal, EnrollCommand, PageQuery, RenewCommand, VerifyCommand};
use worker::Env;

use super::policy::Call as PolicyCall;
pub use super::policy::{Applicant, PolicyRead, PolicyWrite, StoredPolicy};
use super::revocation::Call as RevocationCall;
pub use super::revocation::RevocationList;
pub use super::shell::Json;
use super::shell::{Answer, Fault, pack, unpack};
use super::tenant::{TenantCall, TenantRequest};
use crate::platform::js;

mod binding {
    use wasm_bindgen::prelude::*;

    #[wasm_bindgen(module = "/js/platform.mjs")]
    extern "C" {
        #[wasm_bindgen(catch)]
        pub async fn decide(
            env: &JsValue,
            binding: &str,
            name: &str,
            call: &[u8],
            limit: u32,
        ) -> Result<JsValue, JsValue>;
    }
}

/// How long an object may take, milliseconds.
const LIMIT: u32 = 10_000;
/// Name of the objects there is one of.
const THE_ONE: &str = "v1";

/// Policy document, unless the caller has it.
pub async fn policy(env: &Env, known: Option<&str>) -> Result<PolicyRead, Denial> {
    call(env, "POLICY", THE_ONE, &PolicyCall::Read(known.map(str::to_owned))).await
}

/// Stores a validated document.
pub async fn put_policy(env: &Env, write: PolicyWrite) -> Result<StoredPolicy, Denial> {
    call(env, "POLICY", THE_ONE, &PolicyCall::Write(write)).await
}

/// Writes into the log that a document was refused before it came to the object.
pub async fn note_refused_policy(env: &Env, applicant: Applicant, code: Code) -> Result<(), Denial> {
    call(env, "POLICY", THE_ONE, &PolicyCall::Refused(applicant, code)).await
}

/// Who applied which policy.
pub async fn policy_audit(env: &Env, query: PageQuery) -> Result<Json, Denial> {
    call(env, "POLICY", THE_ONE, &PolicyCall::Audit(query)).await
}

/// Whether any policy ever named the tenant.
pub async fn tenant_known(env: &Env, tenant: &str) -> Result<bool, Denial> {
    call(env, "POLICY", THE_ONE, &PolicyCall::TenantKnown(tenant.to_owned())).await
}

/// What a CRL made now says.
pub async fn revocations(env: &Env) -> Result<RevocationList, Denial> {
    call(env, "REVOCATION", THE_ONE, &RevocationCall::List).await
}

/// Settles evidence, allots and records.
pub async fn enroll(env: &Env, command: &EnrollCommand) -> Result<Allotment, Denial> {
    tenant(env, &command.tenant, TenantCall::Enroll(Cow::Borrowed(command))).await
}

/// Moves a runner's serials on.
pub async fn renew(env: &Env, command: &RenewCommand) -> Result<Allotment, Denial> {
    tenant(env, &command.tenant, TenantCall::Renew(Cow::Borrowed(command))).await
}

/// Appraises for `/v1/verify`.
pub async fn verify(env: &Env, command: &VerifyCommand) -> Result<Appraisal, Denial> {
    tenant(env, &command.enroll.tenant, TenantCall::Verify(Cow::Borrowed(command))).await
}

/// Mints a bootstrap token.
pub async fn mint(env: &Env, context: &AdminContext, request: MintRequest) -> Result<Json, Denial> {
    tenant(env, &context.tenant, TenantCall::Mint(Cow::Borrowed(context), request)).await
}

/// Lists bootstrap tokens.
pub async fn tokens(env: &Env, name: &str, query: PageQuery) -> Result<Json, Denial> {
    tenant(env, name, TenantCall::Tokens(query)).await
}

/// Revokes a bootstrap token.
pub async fn revoke_token(env: &Env, context: &AdminContext, id: &str) -> Result<(), Denial> {
    tenant(env, &context.tenant, TenantCall::RevokeToken(Cow::Borrowed(context), Cow::Borrowed(id))).await
}

/// Lists runners.
pub async fn runners(env: &Env, name: &str, query: PageQuery) -> Result<Json, Denial> {
    tenant(env, name, TenantCall::Runners(query)).await
}

/// One runner.
pub async fn runner(env: &Env, name: &str, id: &str) -> Result<Json, Denial> {
    tenant(env, name, TenantCall::Runner(Cow::Borrowed(id))).await
}

/// Bans a runner or its instance.
pub async fn ban(env: &Env, context: &AdminContext, id: &str, request: BanRequest) -> Result<Json, Denial> {
    tenant(env, &context.tenant, TenantCall::Ban(Cow::Borrowed(context), Cow::Borrowed(id), request)).await
}

/// Lifts a ban.
pub async fn unban(env: &Env, context: &AdminContext, id: &str) -> Result<Json, Denial> {
    tenant(env, &context.tenant, TenantCall::Unban(Cow::Borrowed(context), Cow::Borrowed(id))).await
}

/// Forgets a runner.
pub async fn evict(env: &Env, context: &AdminContext, id: &str) -> Result<(), Denial> {
    tenant(env, &context.tenant, TenantCall::Evict(Cow::Borrowed(context), Cow::Borrowed(id))).await
}

/// Writes into the tenant's log that a call was refused before it came to the object.
pub async fn note_refused(
    env: &Env,
    context: &AdminContext,
    kind: AuditType,
    named: Option<&str>,
    code: Code,
) -> Result<(), Denial> {
    let call = TenantCall::Refused(Cow::Borrowed(context), kind, named.map(Cow::Borrowed), code);
    tenant(env, &context.tenant, call).await
}

/// The tenant's audit log.
pub async fn audit(env: &Env, name: &str, query: PageQuery) -> Result<Json, Denial> {
    tenant(env, name, TenantCall::Audit(query)).await
}

async fn tenant<T: DeserializeOwned>(env: &Env, name: &str, tenant_call: TenantCall<'_>) -> Result<T, Denial> {
    call(env, "TENANT", name, &TenantRequest { tenant: Cow::Borrowed(name), call: tenant_call }).await
}

/// One call to one object.
async fn call<C: Serialize, T: DeserializeOwned>(env: &Env, binding: &str, name: &str, call: &C) -> Result<T, Denial> {
    let fault = |Fault(cause)| failed(binding, &cause);
    let answer = decided(env, binding, name, &pack(call).map_err(fault)?).await?;
    unpack::<Answer<T>>(&answer).map_err(fault)?.into()
}

/// What the object says, within the limit.
async fn decided(env: &Env, binding: &str, name: &str, call: &[u8]) -> Result<Vec<u8>, Denial> {
    match binding::decide(env, binding, name, call, LIMIT).await {
        Ok(answer) if answer.is_undefined() => Err(unavailable("did not answer in time")),
        Ok(answer) => Ok(Uint8Array::new(&answer).to_vec()),
        Err(error) => Err(failed(binding, &js::describe(&error))),
    }
}

fn failed(binding: &str, cause: &str) -> Denial {
    let fault = ObjectFault { event: "object_failed", object: binding, cause };
    worker::console_error!("{}", serde_json::to_string(&fault).unwrap_or_default());
    unavailable("failed")
}

/// A line of the log.
#[derive(Serialize)]
struct ObjectFault<'a> {
    event: &'static str,
    object: &'a str,
    cause: &'a str,
}

/// The 503 of an object that `what`.
pub fn unavailable(what: &str) -> Denial {
    Denial::new(Code::UpstreamUnavailable, format!("the verifier's own storage {what}; nothing is lost, try again"))
}
