//! Tokens, runners and audit of one tenant.

use protocol::Code;
use protocol::admin::{BanRequest, MintRequest};
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
use crate::routes::{json, no_content, parse};

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
            json(200, &client::tokens(env, tenant, page).await?)
        }
        TenantRoute::Token(id) => {
            known(call, tenant).await?;
            client::revoke_token(env, &context, id).await?;
            Ok(no_content())
        }
        TenantRoute::Runners => {
            let page = page(request)?;
            known(call, tenant).await?;
            json(200, &client::runners(env, tenant, page).await?)
        }
        TenantRoute::Runner(id) => {
            known(call, tenant).await?;
            json(200, &client::runner(env, tenant, id).await?)
        }
        TenantRoute::Ban(id) => {
            let text = json_text(request).await?;
            let ban: BanRequest = parse(&text)?;
            runners::check_ban(&ban)?;
            known(call, tenant).await?;
            json(200, &client::ban(env, &context, id, ban).await?)
        }
        TenantRoute::Unban(id) => {
            known(call, tenant).await?;
            json(200, &client::unban(env, &context, id).await?)
        }
        TenantRoute::Evict(id) => {
            known(call, tenant).await?;
            client::evict(env, &context, id).await?;
            Ok(no_content())
        }
        TenantRoute::Audit => {
            let page = page(request)?;
            known(call, tenant).await?;
            json(200, &client::audit(env, tenant, page).await?)
        }
    }
}

/// `POST …/tokens`: only for a tenant of the policy in force, and only where it allows such tokens.
async fn mint(request: &Request, call: &Call<'_>, context: &AdminContext) -> Result<Response, Refusal> {
    let text = json_text(request).await?;
    let mint: MintRequest = parse(&text)?;
    tokens::check(&mint)?;
    let policy = isolate::policy_now(call).await?;
    let Some(tenant) = policy.as_ref().and_then(|policy| policy.policy.tenant(&context.tenant)) else {
        return Err(not_found("tenant in the policy").into());
    };
    if !tenant.bootstrap_tokens() {
        let detail = format!("the policy has bootstrap_tokens = false for tenant {}", context.tenant);
        return Err(Denial::new(Code::Forbidden, detail).into());
    }
    json(201, &client::mint(call.env, context, mint).await?)
}

/// 404 for a tenant that no policy ever named: such a name never reaches an object.
async fn known(call: &Call<'_>, tenant: &str) -> Result<(), Denial> {
    if verifier::evidence::bootstrap_token::is_tenant_id(tenant) && client::tenant_known(call.env, tenant).await? {
        Ok(())
    } else {
        Err(not_found("tenant"))
    }
}
