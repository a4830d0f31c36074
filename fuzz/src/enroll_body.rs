//! Request bodies through the whole flow (PROTOCOL, Enroll, Renew, Verify; CHECKS I2, I3, A2, A4). Every signature is good, so that what
//! lies behind is reached. A certificate is for the CSR's key and a tenant of the policy; the same body again gives the same allotment; a
//! refusal comes with a status and leaves no record.

use pollster::block_on;
use protocol::admin::MintRequest;
use protocol::{Decision, EnrollRequest, Object, Reason, TraceOutcome, VerifyRequest};
use verifier::issuance::UnverifiedCsr;
use verifier::registry::{AdminContext, tokens};
use verifier::trace::Trace;
use verifier::{Denial, Issued, checks::Check};
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};

use crate::world::{NOW, Outside, World, outside};

/// A body, given to every route that takes one.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(body) = std::str::from_utf8(input) else { return false };
    if body.len() > protocol::limits::BODY {
        return false;
    }
    World::with(|world| {
        let enrolled = route(world, body, Route::Enroll);
        let renewed = route(world, body, Route::Renew);
        assert!(!(enrolled && renewed), "a body of both routes");
        verify(world, body) || enrolled || renewed
    })
}

/// An outside where tenant `acme` has a token, the same every time, and that token.
///
/// # Panics
///
/// When nothing can be minted.
pub fn outside_with_token() -> (Outside, String) {
    let outside = outside();
    let admin = AdminContext { tenant: "acme".to_owned(), actor: String::new(), request_id: String::new() };
    let minted = outside
        .in_tenant("acme", |store, now, entropy| tokens::mint(store, &admin, &MintRequest::default(), now, entropy))
        .unwrap();
    (outside, minted.token)
}

#[derive(Clone, Copy, PartialEq)]
enum Route {
    Enroll,
    Renew,
}

fn answer(world: &World, outside: &Outside, body: &str, route: Route) -> Result<Issued, Denial> {
    let call = world.call(outside);
    match route {
        Route::Enroll => block_on(call.enroll(body, &mut Trace::off())),
        Route::Renew => block_on(call.renew(body, Ok(None), &mut Trace::off())),
    }
}

fn route(world: &World, body: &str, route: Route) -> bool {
    let (outside, _) = outside_with_token();
    match answer(world, &outside, body, route) {
        Err(denial) => {
            refused(&denial);
            false
        }
        Ok(issued) => {
            certificate_is_of(world, body, &issued);
            // CHECKS I3.
            let again = answer(world, &outside, body, route).map(|issued| issued.allotment);
            assert_eq!(again, Ok(issued.allotment));
            true
        }
    }
}

fn refused(denial: &Denial) {
    assert!((400..=503).contains(&denial.code.status()) && denial.code.status() != 500, "{denial:?}");
    // The record's own refusals of a certificate are no check of evidence.
    let of_the_record = denial.reason == Some(Reason::CertificateInvalid);
    assert!(denial.reason.is_none() || denial.check.is_some() || of_the_record, "{denial:?}");
}

/// CHECKS I1, I2.
fn certificate_is_of(world: &World, body: &str, issued: &Issued) {
    let Object(request) = serde_json::from_str::<Object<EnrollRequest<'_>>>(body).unwrap();
    let response = &issued.response;
    assert!(world.policy.tenant(&response.tenant).is_some());
    assert_eq!(
        response.spiffe_id,
        format!("spiffe://edge.example.com/tenant/{}/runner/{}", response.tenant, response.runner_id)
    );
    let leaf = Certificate::load_pem_chain(response.certificate.as_bytes()).unwrap().remove(0);
    let csr = UnverifiedCsr::parse(&request.csr).unwrap();
    let csr = block_on(csr.verify(&verifier::ports::fakes::AnySignature(true))).unwrap();
    assert_eq!(leaf.tbs_certificate().subject_public_key_info().to_der().unwrap(), csr.spki_der());
    assert!(issued.allotment.not_before <= NOW && NOW < issued.allotment.not_after);
    assert!(Certificate::from_der(&leaf.to_der().unwrap()).is_ok());
}

fn verify(world: &World, body: &str) -> bool {
    let (outside, _) = outside_with_token();
    let before = outside.tenants.borrow().clone();
    let response = match block_on(world.call(&outside).verify(body, "4f5e6d7c", &mut Trace::on())) {
        Ok(response) => response,
        Err(denial) => {
            refused(&denial);
            return false;
        }
    };
    let allowed = response.decision == Decision::Allow;
    assert_eq!((response.code.is_none(), response.reason.is_some() && allowed), (allowed, false));
    assert!(!allowed || (response.identity.is_some() && response.tenant.is_some()), "{response:?}");
    let mode = response.mode.unwrap();
    for check in Check::of_mode(mode) {
        let entries: Vec<_> = response.trace.iter().filter(|entry| entry.check == check.id()).collect();
        assert_eq!(entries.len(), 1, "{check:?}");
        assert!(!allowed || entries[0].outcome == TraceOutcome::Pass, "{check:?} {response:?}");
    }
    let failed = response.trace.iter().filter(|entry| entry.outcome == TraceOutcome::Fail).count();
    assert_eq!(failed, usize::from(!allowed), "{response:?}");
    // `consume: false` writes nothing; a refusal of evidence consumes nothing.
    let Object(request) = serde_json::from_str::<Object<VerifyRequest<'_>>>(body).unwrap();
    assert_eq!(response.consumed, allowed && request.consume);
    if !request.consume {
        let mut after = outside.tenants.borrow().clone();
        after.retain(|tenant, _| before.contains_key(tenant));
        assert_eq!(after, before);
    }
    allowed
}
