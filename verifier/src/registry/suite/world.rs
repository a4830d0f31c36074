//! What the cases share: keys, principals, commands with plain defaults.

use std::cell::Cell;

use protocol::admin::{AuditItem, AuditType, BanRequest, BanScope, MintRequest, MintedToken, RunnerItem};
use protocol::{Code, Mode, Reason};

use crate::appraisal::Rule;
use crate::encoding::{hex, sha256};
use crate::evidence::{AwsPrincipal, EvidenceUse, KubernetesPrincipal, Principal, PrincipalKind, bootstrap_token};
use crate::ports::{BackendError, Entropy};
use crate::registry::{
    self, AdminContext, AdmittedEvidence, Allotment, CertificateTerms, EnrollCommand, PageQuery, RenewCommand, Store,
    VerifyCommand, audit, runners, tokens,
};
use crate::{Denial, UnixTime};

/// When the cases begin.
pub const NOW: UnixTime = UnixTime::from_secs(1_790_000_000);
/// Tenant of the cases.
pub const TENANT: &str = "acme";
/// Who calls `/v1/verify`.
pub const SERVICE: &str = "4f5e6d7c";
/// Life of a certificate.
pub const TTL: i64 = 3_600;
/// Full attestation is due after this.
pub const REATTEST: i64 = 86_400;

/// Entropy that never repeats itself within a test process.
pub struct Counter;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

impl Entropy for Counter {
    fn fill(&self, buffer: &mut [u8]) -> Result<(), BackendError> {
        for chunk in buffer.chunks_mut(32) {
            let count = COUNT.with(|count| count.replace(count.get() + 1));
            chunk.copy_from_slice(&sha256(&count.to_be_bytes())[..chunk.len()]);
        }
        Ok(())
    }
}

/// SPKI hash of key `name`.
pub fn key(name: &str) -> String {
    hex(&sha256(name.as_bytes()))
}

/// Lifetimes of the cases.
pub fn terms() -> CertificateTerms {
    CertificateTerms {
        ttl: TTL,
        reattest_after: REATTEST,
        bootstrap_reattest_after: None,
        issuer_not_after: NOW.plus(10 * 365 * 86_400),
        one_key_per_instance: false,
    }
}

/// A pod of a GKE cluster.
pub fn pod(uid: &str) -> Principal {
    Principal::Kubernetes(KubernetesPrincipal {
        mode: Mode::GkeOidc,
        issuer: "https://container.googleapis.com/v1/projects/p-prod/locations/europe-west1/clusters/c".to_owned(),
        namespace: "ns".to_owned(),
        service_account: "runner".to_owned(),
        pod_name: "runner-0".to_owned(),
        pod_uid: uid.to_owned(),
    })
}

/// A session of an IAM role.
pub fn session(name: &str) -> Principal {
    Principal::Aws(AwsPrincipal {
        partition: "aws".to_owned(),
        account: "111122223333".to_owned(),
        kind: PrincipalKind::Role,
        name: "rootpilot-runner".to_owned(),
        session: Some(name.to_owned()),
        unique_id: "AROAEXAMPLE".to_owned(),
        user_id: format!("AROAEXAMPLE:{name}"),
    })
}

/// A rule for [`pod`].
pub fn rule() -> Rule {
    serde_json::from_value(serde_json::json!({ "gke": {
        "project": "p-prod", "location": "europe-west1", "cluster": "c", "namespace": "ns", "service_account": "runner",
    } }))
    .unwrap()
}

/// Enrolment of `principal` by evidence `evidence` with key `key_name`.
pub fn enrolment(principal: &Principal, evidence: &str, key_name: &str) -> EnrollCommand {
    EnrollCommand {
        tenant: TENANT.to_owned(),
        evidence: AdmittedEvidence::Identity {
            principal: principal.clone(),
            evidence: EvidenceUse {
                digest: key(&format!("evidence {evidence}")),
                until: NOW.plus(100 * 86_400),
                reason: Reason::TokenReused,
            },
        },
        spki_sha256: key(key_name),
        terms: terms(),
        request_id: format!("enroll {evidence} {key_name}"),
    }
}

/// Enrolment by a bootstrap token.
pub fn by_token(token: &str, key_name: &str) -> EnrollCommand {
    EnrollCommand {
        evidence: AdmittedEvidence::Bootstrap(bootstrap_token::parse(token).unwrap()),
        ..enrolment(&pod("unused"), "unused", key_name)
    }
}

/// Renewal that presents `presented` for key `key_name`.
pub fn renewal(presented: &Allotment, key_name: &str) -> RenewCommand {
    RenewCommand {
        tenant: TENANT.to_owned(),
        runner_id: presented.runner_id.clone(),
        presented_serial: presented.serial.clone(),
        presented_spki_sha256: presented.spki_sha256.clone(),
        spki_sha256: key(key_name),
        rules: Some(vec![rule()]),
        policy_version: 1,
        terms: terms(),
        request_id: format!("renew {key_name}"),
    }
}

/// An operator.
pub fn admin() -> AdminContext {
    AdminContext { tenant: TENANT.to_owned(), actor: "0a1b2c3d".to_owned(), request_id: "admin".to_owned() }
}

/// A store with the calls of the object, at a time.
pub struct World<'a> {
    /// The store.
    pub store: &'a mut dyn Store,
    /// The clock.
    pub now: UnixTime,
}

impl<'a> World<'a> {
    /// At [`NOW`].
    pub fn new(store: &'a mut dyn Store) -> Self {
        Self { store, now: NOW }
    }

    /// Lets time pass.
    pub fn pass(&mut self, secs: i64) {
        self.now = self.now.plus(secs);
    }

    /// Enrols.
    pub fn enroll(&mut self, command: &EnrollCommand) -> Result<Allotment, Denial> {
        registry::enroll(self.store, command, self.now, &Counter).unwrap()
    }

    /// Enrols a pod with evidence that was not used before.
    pub fn attest(&mut self, uid: &str, key: &str) -> Result<Allotment, Denial> {
        let evidence = format!("{key} {}", self.audit().first().map_or(0, |event| event.id));
        self.enroll(&enrolment(&pod(uid), &evidence, key))
    }

    /// Renews.
    pub fn renew(&mut self, command: &RenewCommand) -> Result<Allotment, Denial> {
        registry::renew(self.store, command, self.now, &Counter).unwrap()
    }

    /// Appraises.
    pub fn verify(&mut self, enroll: &EnrollCommand, consume: bool) -> registry::Appraisal {
        registry::verify(
            self.store,
            &VerifyCommand { enroll: enroll.clone(), consume, actor: SERVICE.to_owned() },
            self.now,
        )
        .unwrap()
    }

    /// Mints a token.
    pub fn mint(&mut self, max_uses: u32) -> MintedToken {
        let request = MintRequest { max_uses: Some(max_uses), ..MintRequest::default() };
        tokens::mint(self.store, &admin(), &request, self.now, &Counter).unwrap().unwrap()
    }

    /// How often a token was used.
    pub fn uses(&self, token: &MintedToken) -> u32 {
        self.store.token(&token.id).unwrap().unwrap().uses
    }

    /// A runner as an operator sees it.
    pub fn show(&self, id: &str) -> Option<RunnerItem> {
        runners::show(self.store, TENANT, id, self.now).unwrap().ok()
    }

    /// Bans.
    pub fn ban(&mut self, id: &str, scope: Option<BanScope>) -> protocol::admin::BanResponse {
        let request = BanRequest { reason: Some("stolen".to_owned()), scope };
        runners::ban(self.store, &admin(), id, &request, self.now).unwrap().unwrap()
    }

    /// Lifts bans.
    pub fn unban(&mut self, id: &str) -> RunnerItem {
        runners::unban(self.store, &admin(), id, self.now).unwrap().unwrap()
    }

    /// Evicts.
    pub fn evict(&mut self, id: &str) {
        runners::evict(self.store, &admin(), id, self.now).unwrap().unwrap();
    }

    /// Serials in the outbox, in order.
    pub fn revoked(&self) -> Vec<String> {
        self.store.outbox(10_000).unwrap().into_iter().map(|item| item.revocation.serial).collect()
    }

    /// The audit log, newest first.
    pub fn audit(&self) -> Vec<AuditItem> {
        let query = PageQuery { limit: Some(200), cursor: None };
        audit::list(self.store, &query).unwrap().unwrap().items
    }

    /// The newest event of a kind.
    pub fn last(&self, kind: AuditType) -> AuditItem {
        self.audit().into_iter().find(|event| event.event == kind).unwrap()
    }
}

/// The code and reason of a refusal.
#[track_caller]
pub fn refusal<T: std::fmt::Debug>(result: Result<T, Denial>) -> (Code, Option<Reason>) {
    let denial = result.unwrap_err();
    (denial.code, denial.reason)
}

/// `attestation_invalid` for this reason.
pub const fn invalid(reason: Reason) -> (Code, Option<Reason>) {
    (Code::AttestationInvalid, Some(reason))
}
