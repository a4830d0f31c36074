//! `/v1/admin/…`: the operator's routes. The bearer has been checked; a tenant that no policy ever named is 404.

mod policy;
mod tenants;

use protocol::Code;
use verifier::Denial;
use verifier::registry::PageQuery;
use verifier::registry::page::Paging;

use crate::access::Actor;
use crate::door::Call;
use crate::problem::Refusal;
use crate::request::Request;
use crate::response::Response;

/// An admin route with what its path names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// `policy`.
    Policy,
    /// `audit`.
    Audit,
    /// `tenants/{tenant}/…`.
    Tenant(String, TenantRoute),
}

/// What of a tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRoute {
    /// `tokens`.
    Tokens,
    /// `tokens/{id}`.
    Token(String),
    /// `runners`.
    Runners,
    /// `runners/{id}`.
    Runner(String),
    /// `runners/{id}/ban`.
    Ban(String),
    /// `runners/{id}/unban`.
    Unban(String),
    /// `runners/{id}/evict`.
    Evict(String),
    /// `audit`.
    Audit,
}

impl Route {
    /// By the path below `/v1/admin/`.
    pub fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return None;
        }
        let owned = |text: &&str| (*text).to_owned();
        Some(match parts.as_slice() {
            ["policy"] => Self::Policy,
            ["audit"] => Self::Audit,
            ["tenants", tenant, rest @ ..] => {
                let route = match rest {
                    ["tokens"] => TenantRoute::Tokens,
                    ["tokens", id] => TenantRoute::Token(owned(id)),
                    ["runners"] => TenantRoute::Runners,
                    ["runners", id] => TenantRoute::Runner(owned(id)),
                    ["runners", id, "ban"] => TenantRoute::Ban(owned(id)),
                    ["runners", id, "unban"] => TenantRoute::Unban(owned(id)),
                    ["runners", id, "evict"] => TenantRoute::Evict(owned(id)),
                    ["audit"] => TenantRoute::Audit,
                    _ => return None,
                };
                Self::Tenant(owned(tenant), route)
            }
            _ => return None,
        })
    }

    /// Name in the logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Policy => "admin_policy",
            Self::Audit | Self::Tenant(_, TenantRoute::Audit) => "admin_audit",
            Self::Tenant(_, TenantRoute::Tokens | TenantRoute::Token(_)) => "admin_tokens",
            Self::Tenant(_, TenantRoute::Runners | TenantRoute::Runner(_)) => "admin_runners",
            Self::Tenant(_, TenantRoute::Ban(_)) => "admin_ban",
            Self::Tenant(_, TenantRoute::Unban(_)) => "admin_unban",
            Self::Tenant(_, TenantRoute::Evict(_)) => "admin_evict",
        }
    }

    /// For `Allow`.
    pub const fn methods(&self) -> &'static str {
        match self {
            Self::Policy => "GET, PUT",
            Self::Tenant(_, TenantRoute::Tokens) => "GET, POST",
            Self::Tenant(_, TenantRoute::Token(_)) => "DELETE",
            Self::Tenant(_, TenantRoute::Ban(_) | TenantRoute::Unban(_) | TenantRoute::Evict(_)) => "POST",
            Self::Audit | Self::Tenant(_, TenantRoute::Audit | TenantRoute::Runners | TenantRoute::Runner(_)) => "GET",
        }
    }
}

/// Runs the route.
pub async fn dispatch(
    route: &Route,
    request: &Request,
    call: &mut Call<'_>,
    actor: &Actor,
) -> Result<Response, Refusal> {
    call.subject.actor = Some(actor.id().to_owned());
    match (route, request.method()) {
        (Route::Policy, "PUT") => policy::put(request, call, actor).await,
        (Route::Policy, _) => policy::get(call).await,
        (Route::Audit, _) => policy::audit(request, call).await,
        (Route::Tenant(tenant, route), _) => {
            call.subject.tenant = Some(tenant.clone());
            match route {
                TenantRoute::Token(id) => call.subject.identity = Some(["bootstrap-token:", id].concat()),
                TenantRoute::Runner(id) | TenantRoute::Ban(id) | TenantRoute::Unban(id) | TenantRoute::Evict(id) => {
                    call.subject.runner_id = Some(id.clone());
                }
                TenantRoute::Tokens | TenantRoute::Runners | TenantRoute::Audit => {}
            }
            tenants::dispatch(tenant, route, request, call, actor).await
        }
    }
}

/// `?limit=` and `&cursor=`, each once, judged before the object is asked; other names are nobody's business. Whether the list made the
/// cursor is the list's to say.
fn page(request: &Request) -> Result<PageQuery, Denial> {
    let (mut limit, mut cursor) = (None, None);
    for (name, value) in form_urlencoded::parse(request.query().as_bytes()) {
        let wanted = match name.as_ref() {
            "limit" => &mut limit,
            "cursor" => &mut cursor,
            _ => continue,
        };
        if wanted.replace(value.into_owned()).is_some() {
            return Err(Denial::malformed(format!("`{name}` is given twice")));
        }
    }
    // Digits only: `parse` would take a sign, too.
    let number = |text: String| text.bytes().all(|octet| octet.is_ascii_digit()).then(|| text.parse::<u32>().ok())?;
    let limit = match limit {
        Some(text) => Some(number(text).ok_or_else(|| Denial::malformed("`limit` must be a number from 1 to 200"))?),
        None => None,
    };
    let page = PageQuery { limit, cursor };
    Paging::new(&page)?;
    Ok(page)
}

/// No such thing.
fn not_found(what: &str) -> Denial {
    Denial::new(Code::NotFound, format!("there is no such {what}"))
}
