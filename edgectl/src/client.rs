//! Calls to the verifier's admin and service routes.
//!
//! One answer per call, no redirects, no retries: an operator sees at once what happened. Lists follow their cursors.

use std::time::Duration;

use protocol::admin::{
    AuditItem, BanRequest, BanResponse, MintRequest, MintedToken, PAGE_MAX, Page, RunnerItem, TokenItem,
};
use protocol::error::PROBLEM_JSON;
use protocol::{Code, Problem, VerifyResponse};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, HeaderValue, IF_MATCH};
use reqwest::{Method, RequestBuilder, Response, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use verifier::appraisal::PolicyDocument;

use crate::cli::{PageArguments, VerifierArguments};
use crate::configuration::{self, Role};
use crate::failure::Failure;

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A verifier, and the right to ask it.
#[derive(Debug)]
pub struct Client {
    http: reqwest::Client,
    base: Url,
    bearer: HeaderValue,
}

/// The policy in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPolicy {
    /// Its version, for `If-Match`.
    pub etag: String,
    /// Itself.
    pub document: PolicyDocument,
}

impl Client {
    /// From address and token; nothing is sent yet.
    pub fn new(role: Role, arguments: &VerifierArguments) -> Result<Self, Failure> {
        let base = configuration::address(arguments)?;
        let bearer = configuration::bearer(role, arguments)?;
        // Fails only when a provider is there already.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder()
            .timeout(TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("edgectl/", env!("CARGO_PKG_VERSION")));
        if configuration::is_loopback(&base) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| Failure::configuration(format!("no HTTP client: {error}"), None))?;
        Ok(Self { http, base, bearer })
    }

    fn request(&self, method: Method, segments: &[&str], query: &[(&str, &str)]) -> RequestBuilder {
        let mut url = self.base.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.clear().extend(segments);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        self.http.request(method, url).header(AUTHORIZATION, self.bearer.clone())
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status().as_u16();
        let is_problem = media_type(&response) == Some(PROBLEM_JSON);
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        match serde_json::from_slice::<Problem>(&body) {
            Ok(problem) if is_problem => Err(Failure::Problem { problem: Box::new(problem) }),
            _ => Err(Failure::NotAVerifier { url: self.base.to_string(), status }),
        }
    }

    async fn answer<T: DeserializeOwned>(&self, request: RequestBuilder) -> Result<T, Failure> {
        let response = self.send(request).await?;
        self.read(response).await
    }

    async fn read<T: DeserializeOwned>(&self, response: Response) -> Result<T, Failure> {
        let status = response.status().as_u16();
        let body = response.bytes().await.map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|_| Failure::NotAVerifier { url: self.base.to_string(), status })
    }

    /// Innermost cause: what the operating system or TLS said.
    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut cause: &dyn std::error::Error = error;
        while let Some(inner) = cause.source() {
            cause = inner;
        }
        let cause = if error.is_timeout() { "no answer in time".to_owned() } else { cause.to_string() };
        Failure::Unreachable { url: self.base.to_string(), cause }
    }

    /// The policy in force, if there is one.
    pub async fn policy(&self) -> Result<Option<StoredPolicy>, Failure> {
        let response = match self.send(self.request(Method::GET, &["v1", "admin", "policy"], &[])).await {
            Err(Failure::Problem { problem }) if problem.code == Code::NotFound => return Ok(None),
            other => other?,
        };
        let etag = etag(&response).unwrap_or_default();
        Ok(Some(StoredPolicy { etag, document: self.read(response).await? }))
    }

    /// Puts a policy in force over the version `if_match`, or as the first one. Gives the new version.
    pub async fn apply(&self, document: &PolicyDocument, if_match: Option<&str>) -> Result<String, Failure> {
        let mut request = json(self.request(Method::PUT, &["v1", "admin", "policy"], &[]), document);
        if let Some(version) = if_match {
            let version = HeaderValue::from_str(version)
                .map_err(|_| Failure::configuration("that is no ETag", "`edgectl policy show` prints it."))?;
            request = request.header(IF_MATCH, version);
        }
        self.send(request).await.map(|response| etag(&response).unwrap_or_default())
    }

    /// Mints a token.
    pub async fn mint(&self, tenant: &str, request: &MintRequest) -> Result<MintedToken, Failure> {
        self.answer(json(self.request(Method::POST, &tenant_route(tenant, &["tokens"]), &[]), request)).await
    }

    /// A tenant's tokens.
    pub async fn tokens(&self, tenant: &str, page: PageArguments) -> Result<Page<TokenItem>, Failure> {
        self.list(&tenant_route(tenant, &["tokens"]), page).await
    }

    /// Revokes a token.
    pub async fn revoke(&self, tenant: &str, id: &str) -> Result<(), Failure> {
        self.send(self.request(Method::DELETE, &tenant_route(tenant, &["tokens", id]), &[])).await.map(drop)
    }

    /// A tenant's runners.
    pub async fn runners(&self, tenant: &str, page: PageArguments) -> Result<Page<RunnerItem>, Failure> {
        self.list(&tenant_route(tenant, &["runners"]), page).await
    }

    /// One runner.
    pub async fn runner(&self, tenant: &str, id: &str) -> Result<RunnerItem, Failure> {
        self.answer(self.request(Method::GET, &tenant_route(tenant, &["runners", id]), &[])).await
    }

    /// Bans.
    pub async fn ban(&self, tenant: &str, id: &str, request: &BanRequest) -> Result<BanResponse, Failure> {
        self.answer(json(self.request(Method::POST, &tenant_route(tenant, &["runners", id, "ban"]), &[]), request))
            .await
    }

    /// Lifts a ban. The answer has the runner, which cannot be looked up where it was evicted.
    pub async fn unban(&self, tenant: &str, id: &str) -> Result<RunnerItem, Failure> {
        self.answer(self.request(Method::POST, &tenant_route(tenant, &["runners", id, "unban"]), &[])).await
    }

    /// Forgets a runner.
    pub async fn evict(&self, tenant: &str, id: &str) -> Result<(), Failure> {
        self.send(self.request(Method::POST, &tenant_route(tenant, &["runners", id, "evict"]), &[])).await.map(drop)
    }

    /// Audit events, newest first: of a tenant, or of the deployment.
    pub async fn audit(&self, tenant: Option<&str>, page: PageArguments) -> Result<Page<AuditItem>, Failure> {
        self.list(&audit_route(tenant), page).await
    }

    /// One page of audit events, newest first.
    pub async fn audit_page(&self, tenant: Option<&str>, cursor: Option<&str>) -> Result<Page<AuditItem>, Failure> {
        self.page(&audit_route(tenant), PAGE_MAX, cursor).await
    }

    /// Appraises evidence; `request` is the body of `/v1/verify`.
    pub async fn verify(&self, request: &impl Serialize) -> Result<VerifyResponse, Failure> {
        self.answer(json(self.request(Method::POST, &["v1", "verify"], &[]), request)).await
    }

    /// Follows cursors until there is as much as was asked for. `next` tells whether there would be more.
    async fn list<T: DeserializeOwned>(&self, route: &[&str], wanted: PageArguments) -> Result<Page<T>, Failure> {
        let most = if wanted.all { usize::MAX } else { wanted.limit as usize };
        let mut items: Vec<T> = Vec::new();
        let mut next: Option<String> = None;
        loop {
            let missing = u32::try_from(most - items.len()).unwrap_or(PAGE_MAX).min(PAGE_MAX);
            let page: Page<T> = self.page(route, missing, next.as_deref()).await?;
            let is_empty = page.items.is_empty();
            items.extend(page.items);
            next = page.next;
            if next.is_none() || is_empty || items.len() >= most {
                items.truncate(most);
                return Ok(Page { items, next });
            }
        }
    }

    async fn page<T: DeserializeOwned>(
        &self,
        route: &[&str],
        limit: u32,
        cursor: Option<&str>,
    ) -> Result<Page<T>, Failure> {
        let limit = limit.to_string();
        let query: Vec<(&str, &str)> =
            std::iter::once(("limit", limit.as_str())).chain(cursor.map(|cursor| ("cursor", cursor))).collect();
        self.answer(self.request(Method::GET, route, &query)).await
    }
}

fn tenant_route<'a>(tenant: &'a str, rest: &[&'a str]) -> Vec<&'a str> {
    ["v1", "admin", "tenants", tenant].iter().chain(rest).copied().collect()
}

fn audit_route(tenant: Option<&str>) -> Vec<&str> {
    tenant.map_or_else(|| vec!["v1", "admin", "audit"], |tenant| tenant_route(tenant, &["audit"]))
}

/// A body of our own types always has a JSON form.
fn json(request: RequestBuilder, body: &impl Serialize) -> RequestBuilder {
    request.header(CONTENT_TYPE, "application/json").body(serde_json::to_vec(body).unwrap_or_default())
}

fn etag(response: &Response) -> Option<String> {
    response.headers().get(ETAG)?.to_str().ok().map(str::to_owned)
}

fn media_type(response: &Response) -> Option<&str> {
    let value = response.headers().get(CONTENT_TYPE)?.to_str().ok()?;
    value.split(';').next().map(str::trim)
}
