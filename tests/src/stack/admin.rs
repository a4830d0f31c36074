//! The operator's calls.

use std::time::{Duration, Instant};

use protocol::admin::{AuditItem, MintedToken, Page, RunnerItem, TokenItem};
use serde_json::{Value, json};

use super::client::{Answer, Client};

/// A ban is on the CRL within this time (CHECKS I7).
const CRL_LAG: Duration = Duration::from_secs(10);

/// A client with an admin token. What it calls is meant to work; refusals are tested with the plain [`Client`].
#[derive(Debug, Clone)]
pub struct Admin(pub Client);

impl Admin {
    /// Puts a policy in force, whatever was there.
    #[track_caller]
    pub fn apply(&self, policy: &Value) -> Answer {
        self.try_apply(policy).expect(200)
    }

    /// The same, to be refused perhaps.
    pub fn try_apply(&self, policy: &Value) -> Answer {
        let current = self.0.get("/v1/admin/policy");
        let mut request = self.0.request("PUT", "/v1/admin/policy").json(policy);
        if let Some(etag) = current.header("etag") {
            request = request.header("if-match", etag);
        }
        Client::send(request)
    }

    /// The policy in force.
    #[track_caller]
    pub fn policy(&self) -> Value {
        self.0.get("/v1/admin/policy").expect(200).json()
    }

    /// Mints a token with this body.
    #[track_caller]
    pub fn mint_with(&self, tenant: &str, body: &Value) -> MintedToken {
        self.0.post(&format!("/v1/admin/tenants/{tenant}/tokens"), body).expect(201).read()
    }

    /// Mints a token for one use.
    #[track_caller]
    pub fn mint(&self, tenant: &str) -> MintedToken {
        self.mint_with(tenant, &json!({}))
    }

    /// Revokes a token.
    #[track_caller]
    pub fn revoke(&self, tenant: &str, id: &str) {
        Client::send(self.0.request("DELETE", &format!("/v1/admin/tenants/{tenant}/tokens/{id}"))).assert_status(204);
    }

    /// The last tokens of a tenant.
    #[track_caller]
    pub fn tokens(&self, tenant: &str) -> Page<TokenItem> {
        self.0.get(&format!("/v1/admin/tenants/{tenant}/tokens?limit=200")).expect(200).read()
    }

    /// The first runners of a tenant.
    #[track_caller]
    pub fn runners(&self, tenant: &str) -> Page<RunnerItem> {
        self.0.get(&format!("/v1/admin/tenants/{tenant}/runners?limit=200")).expect(200).read()
    }

    /// One runner.
    #[track_caller]
    pub fn runner(&self, tenant: &str, id: &str) -> RunnerItem {
        self.0.get(&format!("/v1/admin/tenants/{tenant}/runners/{id}")).expect(200).read()
    }

    /// Bans with this body, such as `{"scope":"runner"}`.
    #[track_caller]
    pub fn ban(&self, tenant: &str, id: &str, body: &Value) -> Value {
        self.0.post(&format!("/v1/admin/tenants/{tenant}/runners/{id}/ban"), body).expect(200).json()
    }

    /// Lifts a ban.
    #[track_caller]
    pub fn unban(&self, tenant: &str, id: &str) -> Value {
        self.0.post(&format!("/v1/admin/tenants/{tenant}/runners/{id}/unban"), &json!({})).expect(200).json()
    }

    /// Evicts a runner.
    #[track_caller]
    pub fn evict(&self, tenant: &str, id: &str) {
        self.0.post(&format!("/v1/admin/tenants/{tenant}/runners/{id}/evict"), &json!({})).assert_status(204);
    }

    /// The last audit events of a tenant, newest first.
    #[track_caller]
    pub fn audit(&self, tenant: &str) -> Vec<AuditItem> {
        let page: Page<AuditItem> =
            self.0.get(&format!("/v1/admin/tenants/{tenant}/audit?limit=200")).expect(200).read();
        page.items
    }

    /// The last applied policies, newest first.
    #[track_caller]
    pub fn policy_audit(&self) -> Vec<AuditItem> {
        let page: Page<AuditItem> = self.0.get("/v1/admin/audit?limit=200").expect(200).read();
        page.items
    }

    /// The CRL, DER.
    #[track_caller]
    pub fn crl(&self) -> Vec<u8> {
        self.0.get("/v1/crl").expect(200).body
    }

    /// Serials on the CRL, 32 lower-case hex digits each.
    #[track_caller]
    pub fn revoked(&self) -> Vec<String> {
        use x509_cert::der::Decode as _;
        let crl = self.crl();
        let list: x509_cert::crl::CertificateList = x509_cert::crl::CertificateList::from_der(&crl).expect("a CRL");
        let entries = list.tbs_cert_list.revoked_certificates.unwrap_or_default();
        entries.iter().map(|entry| base16ct::lower::encode_string(entry.serial_number.as_bytes())).collect()
    }

    /// Waits as long as the CRL may take to list `serials` (CHECKS I7): an isolate serves what it signed for some seconds.
    #[track_caller]
    pub fn assert_on_crl(&self, serials: &[String]) {
        let until = Instant::now() + CRL_LAG;
        loop {
            let listed = self.revoked();
            if serials.iter().all(|serial| listed.contains(serial)) {
                return;
            }
            assert!(Instant::now() < until, "{serials:?} are not all in {listed:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
