//! Tokens, runners and audit of one tenant. A call that would change something is in the tenant's log, refused or not.

use protocol::Code;
use protocol::admin::{AuditType, BanRequest, MintRequest};
use verifier::Denial;
use verifier::registry::{AdminContext, runners, tokens};

use super::{TenantRoute, not_found, page};
use crate::access::Actor;
use crate::body::json_text;
use crate::door::Call;
use crate::isolate;
use crate::objects::client;
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::Response;
use crate::routes::{no_content, parse, passed_on};

/// Runs a route of `tenant`.
pub async fn dispatch(
    tenant: &str,
    route: &TenantRoute,
    request: &Request,
    call: &mut Call<'_>,
    actor: &Actor,
) -> Result<Response, Refusal> {
    let context =
        AdminContext { tenant: tenant.to_owned(), actor: actor.id().to_owned(), request_id: call.request_id.clone() };
    let env = call.env;
    match route {
        TenantRoute::Tokens if request.method() == "POST" => mint(request, call, &context).await,
        TenantRoute::Tokens => {
            let page = page(request)?;
            known(call, tenant).await?;
            Ok(passed_on(200, client::tokens(env, tenant, page).await?))
        }
        TenantRoute::Token(id) => {
            known(call, tenant).await?;
            client::revoke_token(env, &context, id).await?;
            Ok(no_content())
        }
        TenantRoute::Runners => {
            let page = page(request)?;
            known(call, tenant).await?;
            Ok(passed_on(200, client::runners(env, tenant, page).await?))
        }
        TenantRoute::Runner(id) => {
            known(call, tenant).await?;
            Ok(passed_on(200, client::runner(env, tenant, id).await?))
        }
        TenantRoute::Ban(id) => {
            let ban = match ban_request(request).await {
                Ok(ban) => ban,
                Err(denial) => return Err(refuse(call, &context, AuditType::Ban, Some(id), denial).await),
            };
            known(call, tenant).await?;
            Ok(passed_on(200, client::ban(env, &context, id, ban).await?))
        }
        TenantRoute::Unban(id) => {
            known(call, tenant).await?;
            Ok(passed_on(200, client::unban(env, &context, id).await?))
        }
        TenantRoute::Evict(id) => {
            known(call, tenant).await?;
            client::evict(env, &context, id).await?;
            Ok(no_content())
        }
        TenantRoute::Audit => {
            let page = page(request)?;
            known(call, tenant).await?;
            Ok(passed_on(200, client::audit(env, tenant, page).await?))
        }
    }
}

/// `POST …/tokens`.
async fn mint(request: &Request, call: &Call<'_>, context: &AdminContext) -> Result<Response, Refusal> {
    match mint_request(request, call, &context.tenant).await {
        Ok(mint) => Ok(passed_on(201, client::mint(call.env, context, mint).await?)),
        Err(denial) => Err(refuse(call, context, AuditType::TokenMint, None, denial).await),
    }
}

/// What is to be minted: only for a tenant of the policy in force, and only where it allows such tokens.
async fn mint_request(request: &Request, call: &Call<'_>, tenant: &str) -> Result<MintRequest, Denial> {
    let text = json_text(request).await?;
    let mint: MintRequest = parse(&text)?;
    tokens::check(&mint)?;
    let policy = isolate::policy_now(call).await?;
    let Some(of_tenant) = policy.as_ref().and_then(|policy| policy.policy.tenant(tenant)) else {
        return Err(not_found("tenant in the policy"));
    };
    if of_tenant.bootstrap_tokens() {
        Ok(mint)
    } else {
        Err(Denial::new(Code::Forbidden, format!("the policy has bootstrap_tokens = false for tenant {tenant}")))
    }
}

async fn ban_request(request: &Request) -> Result<BanRequest, Denial> {
    let text = json_text(request).await?;
    let ban: BanRequest = parse(&text)?;
    runners::check_ban(&ban)?;
    Ok(ban)
}

/// Refuses what the worker itself decided: in the log of the tenant where a policy ever named it, in the worker's alone where none did
/// (CHECKS B1). What cannot be written down is not refused for good.
async fn refuse(
    call: &Call<'_>,
    context: &AdminContext,
    kind: AuditType,
    named: Option<&str>,
    denial: Denial,
) -> Refusal {
    if denial.code.status() >= 500 {
        return denial.into();
    }
    let noted = match known(call, &context.tenant).await {
        Ok(()) => client::note_refused(call.env, context, kind, named, denial.code).await,
        Err(unknown) if unknown.code == Code::NotFound => Ok(()),
        Err(unavailable) => Err(unavailable),
    };
    noted.err().unwrap_or(denial).into()
}

/// 404 for a tenant that no policy ever named: such a name never reaches an object.
async fn known(call: &Call<'_>, tenant: &str) -> Result<(), Denial> {
    if verifier::evidence::bootstrap_token::is_tenant_id(tenant) && client::tenant_known(call.env, tenant).await? {
        Ok(())
    } else {
        Err(not_found("tenant"))
    }
}
