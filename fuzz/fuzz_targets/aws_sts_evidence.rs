//! `aws-sts` evidence from its JSON text to the request for STS (CHECKS S1 to S9): never a panic, and a request that is made has the
//! constants and a host of the table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use protocol::Attestation;
use verifier::UnixTime;
use verifier::appraisal::AwsStsSettings;
use verifier::evidence::aws_sts::CheckedRequest;
use verifier::trace::Trace;

/// SHA-256 of the key of `tests/vectors/sts-requests/csr.pem`.
const SPKI: [u8; 32] = [
    0xdb, 0x85, 0x16, 0xdb, 0x5a, 0x8d, 0x57, 0xd0, 0x85, 0xce, 0x69, 0x35, 0xd0, 0x6c, 0x3f, 0x01, 0x76, 0x9e, 0x43,
    0x89, 0x39, 0xc0, 0x9e, 0x91, 0x7c, 0xb8, 0x69, 0xea, 0x7a, 0x95, 0xdd, 0x1f,
];

fuzz_target!(|text: &str| {
    let Ok(Attestation::AwsSts(evidence)) = serde_json::from_str::<Attestation<'_>>(text) else { return };
    let settings = AwsStsSettings {
        regions: ["eu-west-1", "us-east-1", "eusc-de-east-1"].map(str::to_owned).to_vec(),
        fips: true,
        ..AwsStsSettings::default()
    };
    let now = UnixTime::from_secs(1_790_000_000);
    let mut trace = Trace::on();
    let checked = CheckedRequest::check(&evidence, &settings, "edge.example.com", &SPKI, now, &mut trace);
    let host = evidence.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
    match checked {
        Ok(checked) => {
            assert!(settings.regions.iter().any(|region| region == checked.region()));
            assert!(host.is_some_and(|(_, host)| host.starts_with("sts") && host.contains(checked.region())));
        }
        Err(denial) => assert!(denial.detail.len() < 16 * 1024),
    }
});
