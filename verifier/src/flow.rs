//! The way of the data, in one screen: parse → verify → appraise → register → issue.

use protocol::{Attestation, Code, Decision, EnrollRequest, EnrollResponse, Object, VerifyRequest, VerifyResponse};

use crate::appraisal::{self, Appraised, Policy};
use crate::encoding::{from_b64url, shown};
use crate::evidence::{self, VerifiedEvidence, mtls_renewal};
use crate::issuance::{self, IssuingCa, UnverifiedCsr, VerifiedCsr};
use crate::ports::{IssuingKey, Ports};
use crate::registry::{Allotment, EnrollCommand, VerifyCommand};
use crate::trace::Trace;
use crate::{Denial, UnixTime};

/// One call on the verifier: what it decides by.
#[derive(Debug)]
pub struct Call<'a, P, K> {
    /// The outside.
    pub ports: &'a P,
    /// Policy in force.
    pub policy: &'a Policy,
    /// Version of that policy.
    pub policy_version: u64,
    /// Issuing CA.
    pub ca: &'a IssuingCa,
    /// Its key.
    pub key: &'a K,
    /// The clock, read once.
    pub now: UnixTime,
    /// `x-request-id`.
    pub request_id: &'a str,
}

/// A certificate and whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issued {
    /// The answer.
    pub response: EnrollResponse,
    /// What was allotted.
    pub allotment: Allotment,
}

impl<P: Ports, K: IssuingKey> Call<'_, P, K> {
    /// `POST /v1/enroll`: evidence and CSR in, certificate out.
    pub async fn enroll(&self, body: &str, trace: &mut Trace) -> Result<Issued, Denial> {
        let request: EnrollRequest<'_> = parse(body)?;
        if matches!(request.attestation, Attestation::MtlsRenewal(_)) {
            return Err(Denial::malformed("`mtls-renewal` renews a certificate: it belongs to /v1/renew"));
        }
        trace.subject.mode = Some(request.attestation.mode());
        evidence::check_limits(&request.attestation)?;
        let csr = UnverifiedCsr::parse(&request.csr)?.verify(self.ports).await?;
        let appraised = self.appraise(&request.attestation, csr.spki_sha256(), trace).await?;
        let command = self.enroll_command(appraised, csr.spki_sha256());
        let allotment = self.ports.enroll(&command).await?;
        trace.subject.learn(&command.evidence.principal());
        trace.subject.runner_id = Some(allotment.runner_id.clone());
        self.issue(allotment, &csr).await
    }

    /// `POST /v1/renew`: a certificate of ours and proof of its key in, the next certificate out. What the edge passed is evidence: when
    /// it cannot be read, that is said after form and CSR.
    pub async fn renew(
        &self,
        body: &str,
        edge: Result<Option<mtls_renewal::EdgeClientCertificate>, Denial>,
        trace: &mut Trace,
    ) -> Result<Issued, Denial> {
        let request: EnrollRequest<'_> = parse(body)?;
        let Attestation::MtlsRenewal(evidence) = &request.attestation else {
            return Err(Denial::malformed("/v1/renew takes mode mtls-renewal; other evidence belongs to /v1/enroll"));
        };
        trace.subject.mode = Some(request.attestation.mode());
        evidence::check_limits(&request.attestation)?;
        let csr = UnverifiedCsr::parse(&request.csr)?.verify(self.ports).await?;
        let expectations = mtls_renewal::Expectations {
            ca: self.ca,
            trust_domain: self.policy.trust_domain(),
            audience: self.policy.audience(),
            now: self.now,
        };
        let proven = mtls_renewal::verify(evidence, edge?.as_ref(), &csr, &expectations, self.ports).await?;
        trace.subject.tenant = Some(proven.tenant().to_owned());
        trace.subject.runner_id = Some(proven.runner_id().to_owned());
        let rules = self.policy.rules_of(proven.tenant());
        let terms = self.policy.terms(self.ca.not_after());
        let command = proven.into_command(&csr, rules, self.policy_version, terms, self.request_id);
        let allotment = self.ports.renew(&command).await?;
        self.issue(allotment, &csr).await
    }

    /// `POST /v1/verify`: the appraisal alone, with its trace. Refusals of the evidence are part of the answer; `Err` is for the call
    /// itself, and for an outside that is not available. `actor` is who asks, for the audit log.
    pub async fn verify(&self, body: &str, actor: &str, trace: &mut Trace) -> Result<VerifyResponse, Denial> {
        let request: VerifyRequest<'_> = parse(body)?;
        let mode = request.attestation.mode();
        if matches!(request.attestation, Attestation::MtlsRenewal(_)) {
            return Err(Denial::malformed("`mtls-renewal` is not evidence for /v1/verify"));
        }
        trace.subject.mode = Some(request.attestation.mode());
        evidence::check_limits(&request.attestation)?;
        let spki_sha256 = self.spki_of(&request).await?;
        let (denial, consumed) = match self.appraise_whole(&request, &spki_sha256, actor, trace).await {
            Ok(consumed) => (None, consumed),
            Err(denial) if matches!(denial.code.status(), 401 | 403) => (Some(denial), false),
            Err(denial) => return Err(denial),
        };
        let subject = trace.subject.clone();
        Ok(VerifyResponse {
            decision: if denial.is_none() { Decision::Allow } else { Decision::Deny },
            code: denial.as_ref().map(|denial| denial.code),
            reason: denial.as_ref().and_then(|denial| denial.reason),
            mode: Some(mode),
            tenant: subject.proven_tenant().map(str::to_owned),
            identity: subject.identity,
            instance: subject.instance,
            consumed,
            trace: std::mem::take(trace).finish(mode, denial.as_ref()),
        })
    }

    async fn appraise_whole(
        &self,
        request: &VerifyRequest<'_>,
        spki_sha256: &[u8; 32],
        actor: &str,
        trace: &mut Trace,
    ) -> Result<bool, Denial> {
        let appraised = self.appraise(&request.attestation, spki_sha256, trace).await?;
        let enroll = self.enroll_command(appraised, spki_sha256);
        let command = VerifyCommand { enroll, consume: request.consume, actor: actor.to_owned() };
        let appraisal = self.ports.verify_evidence(&command).await?;
        if appraisal.denial.is_none() {
            trace.subject.learn(&command.enroll.evidence.principal());
        }
        for check in appraisal.passed {
            trace.pass(check, || ("no objection in the tenant's record".to_owned(), "none".to_owned()));
        }
        appraisal.denial.map_or(Ok(appraisal.consumed), Err)
    }

    /// Verify and appraise: shared by enrolment and `/v1/verify`.
    async fn appraise(
        &self,
        attestation: &Attestation<'_>,
        spki_sha256: &[u8; 32],
        trace: &mut Trace,
    ) -> Result<Appraised, Denial> {
        let evidence = evidence::verify(attestation, self.policy, spki_sha256, self.now, self.ports, trace).await?;
        if let VerifiedEvidence::Identity(identity) = &evidence {
            trace.subject.learn(identity.principal());
        }
        let appraised = appraisal::appraise(self.policy, evidence, trace)?;
        trace.subject.tenant = Some(appraised.tenant().to_owned());
        Ok(appraised)
    }

    fn enroll_command(&self, appraised: Appraised, spki_sha256: &[u8; 32]) -> EnrollCommand {
        EnrollCommand::new(appraised, spki_sha256, self.policy.terms(self.ca.not_after()), self.request_id)
    }

    async fn spki_of(&self, request: &VerifyRequest<'_>) -> Result<[u8; 32], Denial> {
        match (&request.csr, &request.spki_sha256) {
            (Some(csr), None) => Ok(*UnverifiedCsr::parse(csr)?.verify(self.ports).await?.spki_sha256()),
            (None, Some(hash)) => from_b64url(hash)
                .and_then(|hash| hash.try_into().ok())
                .ok_or_else(|| Denial::malformed("`spki_sha256` must be the base64url of 32 octets")),
            _ => Err(Denial::malformed("give exactly one of `csr` and `spki_sha256`")),
        }
    }

    async fn issue(&self, allotment: Allotment, csr: &VerifiedCsr) -> Result<Issued, Denial> {
        let (trust_domain, crl_url) = (self.policy.trust_domain(), self.policy.crl_url());
        let certificate = issuance::issue(&allotment, csr, self.ca, trust_domain, crl_url, self.key).await?;
        let left = allotment.not_after.since(self.now).max(0);
        let response = EnrollResponse {
            runner_id: allotment.runner_id.clone(),
            tenant: allotment.tenant.clone(),
            spiffe_id: certificate.spiffe_id,
            certificate: certificate.chain_pem,
            trust_bundle: self.ca.roots_pem().to_owned(),
            not_before: allotment.not_before.to_rfc3339(),
            not_after: allotment.not_after.to_rfc3339(),
            renew_after: self.now.plus(left.div_euclid(2)).to_rfc3339(),
            reattest_before: allotment.reattest_before.map(UnixTime::to_rfc3339),
            server_time: self.now.to_rfc3339(),
        };
        Ok(Issued { response, allotment })
    }
}

/// Reads a request body; unknown fields, duplicate keys and foreign fields are refused by name.
fn parse<'a, T: serde::Deserialize<'a>>(body: &'a str) -> Result<T, Denial> {
    let read = serde_json::from_str(body).map(|Object(request)| request);
    read.map_err(|error| Denial::new(Code::MalformedRequest, shown(&error.to_string())))
}
