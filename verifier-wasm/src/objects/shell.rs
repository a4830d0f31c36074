//! What every object does alike: decode, decide, encode.
//!
//! A message is one octet, the [`VERSION`], and then the types of `objects` and of `verifier::registry` in the form of postcard, which has no
//! names: a fifth of the code that reading JSON takes, and a third of the octets. While a new version of the worker is rolled out, an old
//! object may hear a new worker; where the two versions differ neither guesses, and the caller is told to try again.

use std::fmt::Display;

use serde::{Deserialize, Serialize};
use verifier::Denial;

/// Grows with every change of a type that crosses between worker and object.
const VERSION: u8 = 1;

/// A fault of an object: its text is for the log, and what it did is rolled back.
#[derive(Debug)]
pub struct Fault(pub String);

// Any error of the layers below: all of them end in the log.
impl<E: Display> From<E> for Fault {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A decision of an object on its way to the worker.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T> {
    /// Done.
    Ok(T),
    /// Refused.
    Denied(Box<Denial>),
}

impl<T> From<Result<T, Denial>> for Answer<T> {
    fn from(result: Result<T, Denial>) -> Self {
        match result {
            Ok(value) => Self::Ok(value),
            Err(denial) => Self::Denied(Box::new(denial)),
        }
    }
}

impl<T> From<Answer<T>> for Result<T, Denial> {
    fn from(answer: Answer<T>) -> Self {
        match answer {
            Answer::Ok(value) => Ok(value),
            Answer::Denied(denial) => Err(*denial),
        }
    }
}

/// JSON text that the worker passes on as it is.
#[derive(Debug, Serialize, Deserialize)]
pub struct Json(pub String);

/// A message, as it crosses.
pub fn pack(message: &impl Serialize) -> Result<Vec<u8>, Fault> {
    Ok(postcard::to_extend(message, vec![VERSION])?)
}

/// What crossed.
pub fn unpack<'a, T: Deserialize<'a>>(octets: &'a [u8]) -> Result<T, Fault> {
    match octets.split_first() {
        Some((&VERSION, message)) => Ok(postcard::from_bytes(message)?),
        _ => Err(Fault("a message of another version of the worker".to_owned())),
    }
}

/// A decision as it crosses to the worker.
pub fn encode<T: Serialize>(decision: impl Into<Answer<T>>) -> Result<Vec<u8>, Fault> {
    pack(&decision.into())
}

/// The same of a decision that is for the operator: [`Json`].
pub fn encode_json<T: Serialize>(decision: impl Into<Answer<T>>) -> Result<Vec<u8>, Fault> {
    pack(&match decision.into() {
        Answer::Ok(value) => Answer::Ok(Json(serde_json::to_string(&value)?)),
        Answer::Denied(denial) => Answer::Denied(denial),
    })
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use std::borrow::Cow;

    use protocol::admin::{AuditType, BanRequest, BanScope, MintRequest};
    use protocol::{Code, Reason};
    use serde::de::DeserializeOwned;
    use verifier::appraisal::Rule;
    use verifier::checks::Check;
    use verifier::encoding::{hex, sha256};
    use verifier::evidence::{AwsPrincipal, Principal, PrincipalKind};
    use verifier::registry::suite::world::{NOW, admin, by_token, enrolment, pod, renewal, session, terms};
    use verifier::registry::{
        Allotment, Appraisal, CertificateTerms, EnrollCommand, PageQuery, RenewCommand, Revocation, RevocationReason,
        VerifyCommand,
    };

    use super::super::policy::{Applicant, Call as PolicyCall, PolicyRead, PolicyWrite, StoredPolicy};
    use super::super::revocation::{Call as RevocationCall, RevocationList};
    use super::super::tenant::{TenantCall, TenantRequest};
    use super::*;

    fn allotment() -> Allotment {
        Allotment {
            tenant: "acme".to_owned(),
            runner_id: "r".to_owned(),
            serial: "5".repeat(32),
            spki_sha256: "6".repeat(64),
            not_before: NOW,
            not_after: NOW.plus(3_600),
            reattest_before: Some(NOW.plus(86_400)),
        }
    }

    fn denial() -> Denial {
        Denial {
            compared: Some(("one".to_owned(), "other".to_owned())),
            aws_error_code: Some("ExpiredToken".to_owned()),
            retry_after: Some(5),
            ..Denial::evidence(Check::K7, Reason::TokenReused, "why")
        }
    }

    /// A message, and the same after it was read.
    struct Sample {
        name: String,
        message: Vec<u8>,
        again: Vec<u8>,
    }

    fn sample<T: Serialize + DeserializeOwned>(name: &str, message: &T) -> Sample {
        let message = pack(message).unwrap();
        let again = pack(&unpack::<T>(&message).unwrap()).unwrap();
        Sample { name: name.to_owned(), message, again }
    }

    fn calls() -> Vec<Sample> {
        let call = |name: &str, call| sample(name, &TenantRequest { tenant: "acme".into(), call });
        let text = |text: &str| Some(text.to_owned());
        let page = || PageQuery { limit: Some(7), cursor: text("c") };
        let verify =
            VerifyCommand { enroll: enrolment(&session("i"), "e", "k"), consume: true, actor: "0a".to_owned() };
        let mint = MintRequest { ttl: text("1h"), max_uses: Some(2), description: text("d") };
        let ban = BanRequest { reason: text("r"), scope: Some(BanScope::Runner) };
        let token = format!("rpbt_acme_{}_{}", "a".repeat(16), "a".repeat(52));
        let (context, runner) = (|| Cow::Owned(admin()), || Cow::Borrowed("r"));
        let renew = |rules| RenewCommand { rules, ..renewal(&allotment(), "k") };
        let terms = CertificateTerms { bootstrap_reattest_after: Some(9), ..terms() };
        let user = Principal::Aws(AwsPrincipal {
            partition: "aws".to_owned(),
            account: "1".repeat(12),
            kind: PrincipalKind::User,
            name: "n".to_owned(),
            session: None,
            unique_id: "u".to_owned(),
            user_id: "i".to_owned(),
        });
        let user = EnrollCommand { terms, ..enrolment(&user, "e", "k") };
        let refused = TenantCall::Refused(context(), AuditType::TokenMint, Some(runner()), Code::Forbidden);
        vec![
            call("enroll", TenantCall::Enroll(Cow::Owned(enrolment(&pod("1"), "e", "k")))),
            call("enroll a user", TenantCall::Enroll(Cow::Owned(user))),
            call("enroll by token", TenantCall::Enroll(Cow::Owned(by_token(&token, "k")))),
            call("renew", TenantCall::Renew(Cow::Owned(renew(Some(rules()))))),
            call("renew without rules", TenantCall::Renew(Cow::Owned(renew(None)))),
            call("verify", TenantCall::Verify(Cow::Owned(verify))),
            call("mint", TenantCall::Mint(context(), mint)),
            call("tokens", TenantCall::Tokens(page())),
            call("revoke token", TenantCall::RevokeToken(context(), runner())),
            call("runners", TenantCall::Runners(page())),
            call("runner", TenantCall::Runner(runner())),
            call("ban", TenantCall::Ban(context(), runner(), ban)),
            call("unban", TenantCall::Unban(context(), runner())),
            call("evict", TenantCall::Evict(context(), runner())),
            call("refused", refused),
            call("audit", TenantCall::Audit(page())),
        ]
    }

    /// One of each kind, every member with something in it.
    fn rules() -> Vec<Rule> {
        serde_json::from_str(
            r#"[
                {"aws": {"partition": "p", "account": "a", "kind": "user", "name": "n", "session": "s", "unique_id": "u"}},
                {"gke": {"project": "p", "location": "l", "cluster": "c", "namespace": "n", "service_account": "s"}},
                {"eks": {"issuer": "i", "namespace": "n", "service_account": "s"}}
            ]"#,
        )
        .unwrap()
    }

    fn others() -> Vec<Sample> {
        let text = |text: &str| Some(text.to_owned());
        let applicant = || Applicant { actor: "0a".to_owned(), request_id: "q".to_owned() };
        let stored = || StoredPolicy { document: "{}".to_owned(), etag: "e".to_owned(), version: 3 };
        let write = PolicyWrite {
            document: "{}".to_owned(),
            tenants: vec!["acme".to_owned()],
            if_match: text("e"),
            applicant: applicant(),
        };
        let reasons = [
            RevocationReason::KeyCompromise,
            RevocationReason::CaCompromise,
            RevocationReason::Superseded,
            RevocationReason::CessationOfOperation,
            RevocationReason::PrivilegeWithdrawn,
        ];
        let revoked = |reason| Revocation { serial: "5".repeat(32), revoked_at: NOW, reason, not_after: NOW.plus(60) };
        let revoked: Vec<_> = reasons.into_iter().map(revoked).collect();
        let appraisal = Appraisal { denial: Some(denial()), passed: vec![Check::K7, Check::A1], consumed: true };
        let page = PageQuery { limit: None, cursor: None };
        vec![
            sample("policy read", &PolicyCall::Read(text("e"))),
            sample("policy write", &PolicyCall::Write(write)),
            sample("policy refused", &PolicyCall::Refused(applicant(), Code::PolicyInvalid)),
            sample("tenant known", &PolicyCall::TenantKnown("acme".to_owned())),
            sample("policy audit", &PolicyCall::Audit(page)),
            sample("revoked", &RevocationCall::Add(revoked.clone())),
            sample("list", &RevocationCall::List),
            sample("allotment", &Answer::Ok(allotment())),
            sample("denial", &Answer::<()>::Denied(Box::new(denial()))),
            sample("appraisal", &Answer::Ok(appraisal)),
            sample("for the operator", &Answer::Ok(Json("[]".to_owned()))),
            sample("policy", &Answer::Ok(PolicyRead::Document(stored()))),
            sample("no policy", &Answer::Ok(PolicyRead::Absent)),
            sample("unchanged", &Answer::Ok(PolicyRead::Unchanged)),
            sample("stored", &Answer::Ok(stored())),
            sample("crl", &Answer::Ok(RevocationList { number: 9, entries: revoked })),
        ]
    }

    fn samples() -> impl Iterator<Item = Sample> {
        calls().into_iter().chain(others())
    }

    /// An object of the version before may hear these. If one is no longer what it was, [`VERSION`] has to grow.
    #[test]
    fn messages_of_a_version_never_change() {
        let digest = |Sample { name, message, .. }: Sample| format!("{name} {}", &hex(&sha256(&message))[..16]);
        let digests: Vec<String> = samples().map(digest).collect();
        insta::assert_snapshot!(format!("version {VERSION}\n{}", digests.join("\n")));
    }

    #[test]
    fn what_is_read_is_what_was_written() {
        for Sample { name, message, again } in samples() {
            assert_eq!(message, again, "{name}");
        }
        let refused = encode_json::<()>(Err(denial())).unwrap();
        assert_eq!(Result::<Json, _>::from(unpack::<Answer<Json>>(&refused).unwrap()).unwrap_err(), denial());
    }

    #[test]
    fn what_is_of_another_version_or_cut_is_refused() {
        for Sample { name, mut message, .. } in calls() {
            assert!(unpack::<TenantRequest<'_>>(&message).is_ok(), "{name}");
            for end in 0..message.len() {
                assert!(unpack::<TenantRequest<'_>>(&message[..end]).is_err(), "{name} {end}");
            }
            assert_eq!(message[0], VERSION, "{name}");
            message[0] += 1;
            assert!(unpack::<TenantRequest<'_>>(&message).is_err(), "{name}");
        }
    }
}
