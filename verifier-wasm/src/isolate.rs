//! What an isolate keeps between requests: secrets, the issuing CA, the policy in force. Data only: a promise of one request is never
//! awaited by another.

use std::cell::RefCell;
use std::rc::Rc;

use verifier::appraisal::{Policy, PolicyDocument};
use verifier::{Denial, UnixTime};
use worker::Env;

use crate::access::Role;
use crate::config::{Authority, Missing, Secrets};
use crate::door::Call;
use crate::objects::client::{self, PolicyRead, StoredPolicy};
use crate::outside::Outside;
use crate::platform::clock;
use crate::platform::webcrypto::SigningKey;
use crate::refresh::{Attempts, Step};
use crate::routes::internal;

/// A policy and its version.
#[derive(Debug)]
pub struct PolicyInForce {
    /// Compiled.
    pub policy: Policy,
    /// `ETag` of the document.
    pub etag: String,
    /// Version, growing.
    pub version: u64,
}

#[derive(Clone)]
struct Cached {
    policy: Rc<PolicyInForce>,
    asked_at: UnixTime,
}

thread_local! {
    static SECRETS: RefCell<Option<Rc<Secrets>>> = const { RefCell::new(None) };
    static AUTHORITY: RefCell<Option<Rc<Authority>>> = const { RefCell::new(None) };
    static POLICY: RefCell<Option<Cached>> = const { RefCell::new(None) };
    static ATTEMPTS: RefCell<Attempts> = const { RefCell::new(Attempts::NEW) };
}

/// Everything an enrolment needs from configuration.
#[derive(Debug)]
pub struct Ready {
    authority: Rc<Authority>,
    policy: Rc<PolicyInForce>,
}

impl Ready {
    /// A call on the verifier.
    pub fn call<'a>(
        &'a self,
        outside: &'a Outside<'a>,
        now: UnixTime,
        request_id: &'a str,
    ) -> verifier::Call<'a, Outside<'a>, SigningKey> {
        verifier::Call {
            ports: outside,
            policy: &self.policy.policy,
            policy_version: self.policy.version,
            ca: &self.authority.ca,
            key: &self.authority.key,
            now,
            request_id,
        }
    }
}

/// Secrets, CA and policy, or the 503 that lists everything that is missing.
pub async fn ready(call: &Call<'_>) -> Result<Ready, Denial> {
    let (_, mut missing) = secrets(call.env);
    let authority = authority_or_missing(call.env).await;
    if let Err(problems) = &authority {
        missing.extend(problems);
    }
    let policy = policy(call).await?;
    if policy.is_none() {
        missing.add("no policy has been applied yet (edgectl policy apply)");
    }
    match (authority, policy) {
        (Ok(authority), Some(policy)) if missing.is_empty() => Ok(Ready { authority, policy }),
        _ => Err(missing.denial()),
    }
}

fn secrets(env: &Env) -> (Rc<Secrets>, Missing) {
    if let Some(secrets) = SECRETS.with_borrow(Clone::clone) {
        return (secrets, Missing::default());
    }
    let (secrets, missing) = Secrets::load(env);
    let secrets = Rc::new(secrets);
    if missing.is_empty() {
        SECRETS.with_borrow_mut(|kept| *kept = Some(Rc::clone(&secrets)));
    }
    (secrets, missing)
}

/// Token hashes for a route of `role`; 503 when that role has none.
pub fn secrets_for(env: &Env, role: Role) -> Result<Rc<Secrets>, Denial> {
    let (secrets, missing) = secrets(env);
    let none = match role {
        Role::Admin => secrets.admin_tokens.is_empty(),
        Role::Service => secrets.service_tokens.is_empty(),
    };
    if none { Err(missing.denial()) } else { Ok(secrets) }
}

async fn authority_or_missing(env: &Env) -> Result<Rc<Authority>, Missing> {
    if let Some(authority) = AUTHORITY.with_borrow(Clone::clone) {
        return Ok(authority);
    }
    let authority = Rc::new(Authority::load(env).await?);
    AUTHORITY.with_borrow_mut(|kept| *kept = Some(Rc::clone(&authority)));
    Ok(authority)
}

/// The issuing CA.
pub async fn authority(env: &Env) -> Result<Rc<Authority>, Denial> {
    authority_or_missing(env).await.map_err(|missing| missing.denial())
}

/// The policy in force, as [`crate::refresh`] says; `None` before the first.
async fn policy(call: &Call<'_>) -> Result<Option<Rc<PolicyInForce>>, Denial> {
    let cached = POLICY.with_borrow(Clone::clone);
    let asked_at = cached.as_ref().map(|cached| cached.asked_at);
    let step = ATTEMPTS.with_borrow_mut(|attempts| attempts.step(asked_at, call.now));
    match (step, cached) {
        (Step::Use, Some(cached)) => Ok(Some(cached.policy)),
        (Step::Try, Some(cached)) => match policy_now(call).await {
            Err(denial) if denial.code.retryable() => Ok(Some(cached.policy)),
            answer => answer,
        },
        _ => policy_now(call).await,
    }
}

/// The policy as the object has it now.
pub async fn policy_now(call: &Call<'_>) -> Result<Option<Rc<PolicyInForce>>, Denial> {
    let cached = POLICY.with_borrow(Clone::clone);
    let known = cached.as_ref().map(|cached| cached.policy.etag.as_str());
    let answer = client::policy(call.env, known).await;
    ATTEMPTS.with_borrow_mut(|attempts| match answer {
        Ok(_) => attempts.succeeded(),
        Err(_) => attempts.failed(clock::now()),
    });
    let policy = match answer? {
        PolicyRead::Absent => {
            POLICY.with_borrow_mut(|kept| *kept = None);
            return Ok(None);
        }
        PolicyRead::Unchanged => match cached {
            Some(cached) => cached.policy,
            None => return Err(internal(&"the policy object says unchanged to nothing")),
        },
        PolicyRead::Document(stored) => {
            let document: PolicyDocument = serde_json::from_str(&stored.document).map_err(|error| internal(&error))?;
            let policy = Policy::compile(document).map_err(|_| internal(&"the stored policy does not compile"))?;
            return Ok(Some(adopt(policy, stored, call.now)));
        }
    };
    keep(&policy, call.now);
    Ok(Some(policy))
}

/// Uses a policy at once: the isolate that took a PUT does not wait.
pub fn adopt(policy: Policy, stored: StoredPolicy, now: UnixTime) -> Rc<PolicyInForce> {
    let policy = Rc::new(PolicyInForce { policy, etag: stored.etag, version: stored.version });
    keep(&policy, now);
    policy
}

fn keep(policy: &Rc<PolicyInForce>, asked_at: UnixTime) {
    let cached = Cached { policy: Rc::clone(policy), asked_at };
    POLICY.with_borrow_mut(|kept| {
        // Two requests may have asked at once: the newer version stays.
        if kept.as_ref().is_none_or(|kept| kept.policy.version <= cached.policy.version) {
            *kept = Some(cached);
        }
    });
}
