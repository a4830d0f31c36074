//! `aws-sts` evidence from its JSON text to the request for STS (CHECKS S1 to S10): a request that is made has the constants, a host of the
//! table, headers of the closed list, and each of them signed.

use pollster::block_on;
use protocol::{Attestation, AwsStsEvidence, STS_BODY, binding_value};
use verifier::appraisal::AwsStsSettings;
use verifier::aws::partition;
use verifier::encoding::b64url;
use verifier::evidence::aws_sts::CheckedRequest;
use verifier::ports::HttpRequest;
use verifier::ports::fakes::{FakeHttp, response};
use verifier::trace::Trace;

use crate::world::{AUDIENCE, NOW};

/// SHA-256 of the key of `tests/vectors/sts-requests/csr.pem`.
const SPKI: [u8; 32] = [
    0xdb, 0x85, 0x16, 0xdb, 0x5a, 0x8d, 0x57, 0xd0, 0x85, 0xce, 0x69, 0x35, 0xd0, 0x6c, 0x3f, 0x01, 0x76, 0x9e, 0x43,
    0x89, 0x39, 0xc0, 0x9e, 0x91, 0x7c, 0xb8, 0x69, 0xea, 0x7a, 0x95, 0xdd, 0x1f,
];

/// The `attestation` object, as JSON.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(Attestation::AwsSts(evidence)) = serde_json::from_slice::<Attestation<'_>>(input) else { return false };
    let settings = AwsStsSettings {
        regions: ["eu-west-1", "us-east-1", "eusc-de-east-1"].map(str::to_owned).to_vec(),
        fips: true,
        ..AwsStsSettings::default()
    };
    let mut trace = Trace::on();
    match CheckedRequest::check(&evidence, &settings, AUDIENCE, &SPKI, NOW, &mut trace) {
        Err(denial) => {
            assert!(denial.check.is_some() && denial.detail.len() < 16 * 1024);
            false
        }
        Ok(checked) => {
            let region = checked.region();
            assert!(settings.regions.iter().any(|allowed| allowed == region));
            let http = FakeHttp::script([Ok(response(500, "text/plain", ""))]);
            assert!(block_on(checked.call(&http, &mut trace)).is_err());
            assert_eq!(http.sent().len(), 1);
            request_is_ours(&http.sent()[0], region, &evidence);
            true
        }
    }
}

fn request_is_ours(request: &HttpRequest, region: &str, evidence: &AwsStsEvidence<'_>) {
    // CHECKS S1, S3.
    let hosts = partition::hosts_of(region, true);
    let host = hosts.iter().find(|host| request.url == format!("https://{host}/"));
    assert!(host.is_some(), "{}", request.url);
    assert_eq!(request.body, Some(STS_BODY));
    // CHECKS S8.
    let binding = ("x-rootpilot-binding".to_owned(), binding_value(AUDIENCE, &b64url(&SPKI)));
    assert!(request.headers.contains(&binding));
    // CHECKS S4, S7: what is forwarded is of the list, signed unless we set it, and as it was sent.
    let authorization = &request.headers.iter().find(|(name, _)| name == "authorization").unwrap().1;
    let (_, signed) = authorization.split_once("SignedHeaders=").unwrap();
    let signed: Vec<&str> = signed.split(',').next().unwrap().split(';').collect();
    assert!(signed.contains(&"host"));
    for (name, value) in &request.headers {
        let ours = matches!(name.as_str(), "accept" | "content-type" | "authorization");
        assert!(ours || signed.contains(&name.as_str()), "{name} is forwarded unsigned");
        assert!(value.bytes().all(|octet| (b' '..=b'~').contains(&octet)), "{name}");
        let sent = evidence.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name));
        assert!(sent.is_some_and(|(_, sent)| sent == value) || matches!(name.as_str(), "accept" | "content-type"));
    }
}
