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
    use verifier::checks::Check;
    use verifier::encoding::{hex, sha256};
    use verifier::registry::suite::world::{NOW, admin, by_token, enrolment, pod, renewal, session};
    use verifier::registry::{Allotment, Appraisal, PageQuery, Revocation, RevocationReason, VerifyCommand};

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

    /// One of each that crosses, every member with something in it.
    fn messages() -> Vec<(&'static str, Vec<u8>)> {
        let text = |text: &str| Some(text.to_owned());
        let call = |call| pack(&TenantRequest { tenant: "acme".into(), call }).unwrap();
        let page = || PageQuery { limit: Some(7), cursor: text("c") };
        let verify =
            VerifyCommand { enroll: enrolment(&session("i"), "e", "k"), consume: true, actor: "0a".to_owned() };
        let mint = MintRequest { ttl: text("1h"), max_uses: Some(2), description: text("d") };
        let ban = BanRequest { reason: text("r"), scope: Some(BanScope::Runner) };
        let token = format!("rpbt_acme_{}_{}", "a".repeat(16), "a".repeat(52));
        let (context, runner) = (|| Cow::Owned(admin()), || Cow::Borrowed("r"));
        let applicant = || Applicant { actor: "0a".to_owned(), request_id: "q".to_owned() };
        let stored = || StoredPolicy { document: "{}".to_owned(), etag: "e".to_owned(), version: 3 };
        let write = PolicyWrite {
            document: "{}".to_owned(),
            tenants: vec!["acme".to_owned()],
            if_match: text("e"),
            applicant: applicant(),
        };
        let revoked = || Revocation {
            serial: "5".repeat(32),
            revoked_at: NOW,
            reason: RevocationReason::KeyCompromise,
            not_after: NOW.plus(60),
        };
        let appraisal = Appraisal { denial: Some(denial()), passed: vec![Check::K7, Check::A1], consumed: true };
        let refused = TenantCall::Refused(context(), AuditType::TokenMint, Some(runner()), Code::Forbidden);
        vec![
            ("enroll", call(TenantCall::Enroll(Cow::Owned(enrolment(&pod("1"), "e", "k"))))),
            ("enroll by token", call(TenantCall::Enroll(Cow::Owned(by_token(&token, "k"))))),
            ("renew", call(TenantCall::Renew(Cow::Owned(renewal(&allotment(), "k"))))),
            ("verify", call(TenantCall::Verify(Cow::Owned(verify)))),
            ("mint", call(TenantCall::Mint(context(), mint))),
            ("tokens", call(TenantCall::Tokens(page()))),
            ("revoke token", call(TenantCall::RevokeToken(context(), runner()))),
            ("runners", call(TenantCall::Runners(page()))),
            ("runner", call(TenantCall::Runner(runner()))),
            ("ban", call(TenantCall::Ban(context(), runner(), ban))),
            ("unban", call(TenantCall::Unban(context(), runner()))),
            ("evict", call(TenantCall::Evict(context(), runner()))),
            ("refused", call(refused)),
            ("audit", call(TenantCall::Audit(page()))),
            ("policy read", pack(&PolicyCall::Read(text("e"))).unwrap()),
            ("policy write", pack(&PolicyCall::Write(write)).unwrap()),
            ("policy refused", pack(&PolicyCall::Refused(applicant(), Code::PolicyInvalid)).unwrap()),
            ("tenant known", pack(&PolicyCall::TenantKnown("acme".to_owned())).unwrap()),
            ("policy audit", pack(&PolicyCall::Audit(page())).unwrap()),
            ("revoked", pack(&RevocationCall::Add(vec![revoked()])).unwrap()),
            ("list", pack(&RevocationCall::List).unwrap()),
            ("allotment", encode(Answer::Ok(allotment())).unwrap()),
            ("denial", encode(Answer::<()>::Denied(Box::new(denial()))).unwrap()),
            ("appraisal", encode(Answer::Ok(appraisal)).unwrap()),
            ("for the operator", encode_json(Answer::Ok(())).unwrap()),
            ("policy", encode(Answer::Ok(PolicyRead::Document(stored()))).unwrap()),
            ("no policy", encode(Answer::Ok(PolicyRead::Absent)).unwrap()),
            ("unchanged", encode(Answer::Ok(PolicyRead::Unchanged)).unwrap()),
            ("stored", encode(Answer::Ok(stored())).unwrap()),
            ("crl", encode(Answer::Ok(RevocationList { number: 9, entries: vec![revoked()] })).unwrap()),
        ]
    }

    /// An object of the version before may hear these. If one is no longer what it was, [`VERSION`] has to grow.
    #[test]
    fn messages_of_a_version_never_change() {
        let digests = |(name, message): (&str, Vec<u8>)| format!("{name} {}", &hex(&sha256(&message))[..16]);
        let digests: Vec<String> = messages().into_iter().map(digests).collect();
        insta::assert_snapshot!(format!("version {VERSION}\n{}", digests.join("\n")));
    }

    #[test]
    fn what_is_of_another_version_is_refused() {
        for (name, mut message) in messages() {
            assert_eq!(message[0], VERSION, "{name}");
            message[0] += 1;
            assert!(unpack::<TenantRequest<'_>>(&message).is_err(), "{name}");
        }
        assert!(unpack::<()>(&[]).is_err());
    }

    /// Cut short, a message is a fault and nothing else.
    #[test]
    fn what_is_cut_is_refused() {
        for (name, message) in messages().into_iter().take(14) {
            for end in 1..message.len() {
                assert!(unpack::<TenantRequest<'_>>(&message[..end]).is_err(), "{name} {end}");
            }
            assert!(unpack::<TenantRequest<'_>>(&message).is_ok(), "{name}");
        }
    }
}
