//! Vectors of `tests/vectors/sts-requests` against CHECKS S1 to S9.
//!
//! An accepted case makes exactly one outbound call, with exactly the parts of the case and the verifier's constants; a refused one
//! gives one of its reasons and makes none.

use protocol::{Attestation, AwsStsEvidence, Code, Mode, STS_BODY};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use verifier::appraisal::AwsStsSettings;
use verifier::aws::partition;
use verifier::encoding::sha256;
use verifier::evidence::aws_sts::CheckedRequest;
use verifier::evidence::{Principal, VerifiedIdentity};
use verifier::ports::HttpRequest;
use verifier::ports::fakes::{FakeHttp, ready, response};
use verifier::trace::Trace;
use verifier::{Denial, UnixTime};
use x509_cert::der::{DecodePem as _, Encode as _};
use x509_cert::request::CertReq;

#[derive(Deserialize)]
struct Case {
    id: String,
    expect: String,
    #[serde(default)]
    reasons: Vec<String>,
    region: String,
    method: String,
    url_path: String,
    query: String,
    headers: Map<String, Value>,
    body: String,
    now_x_amz: String,
}

fn vectors() -> String {
    concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/sts-requests/").to_owned()
}

fn cases() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(vectors() + "index.json").unwrap()).unwrap();
    assert!(cases.len() >= 60, "only {} vectors", cases.len());
    cases
}

fn spki_sha256() -> [u8; 32] {
    let csr = CertReq::from_pem(std::fs::read(vectors() + "csr.pem").unwrap()).unwrap();
    sha256(&csr.info.public_key.to_der().unwrap())
}

fn settings() -> AwsStsSettings {
    AwsStsSettings {
        regions: partition::partitions().iter().flat_map(|p| p.regions).map(|&name| name.to_owned()).collect(),
        ..AwsStsSettings::default()
    }
}

fn answer(partition: &str) -> String {
    format!(
        r#"{{"GetCallerIdentityResponse":{{"GetCallerIdentityResult":{{"Account":"123456789012",
        "Arn":"arn:{partition}:sts::123456789012:assumed-role/r/s","UserId":"AROAEXAMPLE:s"}},
        "ResponseMetadata":{{"RequestId":"01234567-89ab-cdef-0123-456789abcdef"}}}}}}"#
    )
}

impl Case {
    /// The attestation as it travels; parts that have no place in it become fields of their own.
    fn attestation(&self) -> String {
        let mut attestation =
            json!({"mode": "aws-sts", "region": self.region, "headers": self.headers, "body": self.body});
        for (name, value, only) in
            [("method", &self.method, "POST"), ("url_path", &self.url_path, "/"), ("query", &self.query, "")]
        {
            if value != only {
                attestation[name] = json!(value);
            }
        }
        attestation.to_string()
    }

    fn run(&self, http: &FakeHttp) -> Result<VerifiedIdentity, Denial> {
        let text = self.attestation();
        let evidence: AwsStsEvidence<'_> = match serde_json::from_str(&text) {
            Ok(Attestation::AwsSts(evidence)) => evidence,
            Ok(_) => panic!("another mode"),
            Err(error) => return Err(Denial::malformed(error.to_string())),
        };
        let now = UnixTime::from_amz_date(&self.now_x_amz).unwrap();
        let mut trace = Trace::on();
        let result = CheckedRequest::check(&evidence, &settings(), "edge.example.com", &spki_sha256(), now, &mut trace)
            .and_then(|checked| ready(checked.call(http, &mut trace)));
        if let Err(denial) = &result
            && denial.reason.is_some()
        {
            let told = trace.finish(Mode::AwsSts, Some(denial));
            assert_eq!(verifier::trace::fault(Mode::AwsSts, denial, &told), None, "{}", self.id);
        }
        result
    }

    fn header(&self, name: &str) -> Option<(String, String)> {
        let (_, value) = self.headers.iter().find(|(sent, _)| sent.eq_ignore_ascii_case(name))?;
        Some((name.to_owned(), value.as_str().unwrap().to_owned()))
    }

    fn expected_call(&self) -> HttpRequest {
        let (_, host) = self.header("host").unwrap();
        let form = || ("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned());
        let headers = [
            self.header("authorization"),
            Some(self.header("content-type").unwrap_or_else(form)),
            Some(("accept".to_owned(), "application/json".to_owned())),
            self.header("x-amz-date"),
            self.header("x-amz-security-token"),
            self.header("x-amz-content-sha256"),
            self.header("x-rootpilot-binding"),
        ];
        HttpRequest {
            url: format!("https://{host}/"),
            body: Some(STS_BODY),
            headers: headers.into_iter().flatten().collect(),
            timeout_ms: 10_000,
            max_body: 65_536,
        }
    }
}

#[test]
fn every_vector_holds() {
    let mut accepted = 0;
    for case in cases() {
        let partition = partition::region(&case.region).map_or("aws", |region| region.partition().id);
        let http = FakeHttp::script([Ok(response(200, "application/json", answer(partition)))]);
        let result = case.run(&http);
        let id = &case.id;
        match case.expect.as_str() {
            "accept" => {
                let identity = result.unwrap_or_else(|denial| panic!("{id}: {denial:?}"));
                let Principal::Aws(principal) = identity.principal() else { panic!("{id}: another principal") };
                assert_eq!(principal.partition, partition, "{id}");
                assert_eq!(
                    identity.principal().identity(),
                    format!("arn:{partition}:iam::123456789012:role/r"),
                    "{id}"
                );
                assert_eq!(http.sent(), [case.expected_call()], "{id}");
                accepted += 1;
            }
            "refuse" => {
                let denial = result.expect_err(id);
                let reason = denial.reason.map_or_else(|| denial.code.as_str(), |reason| reason.as_str());
                assert!(case.reasons.iter().any(|allowed| allowed == reason), "{id}: {denial:?}");
                assert!(http.sent().is_empty(), "{id}: an outbound call");
            }
            other => panic!("{id}: no rule for {other}"),
        }
    }
    assert!(accepted >= 5);
}

/// Any other value of any part, and anything left out, is refused without a call, or changes nothing but what was sent.
#[test]
fn every_single_change_of_a_good_request_is_refused_or_harmless() {
    let good = cases().into_iter().find(|case| case.id == "ok_regional").unwrap();
    let names: Vec<String> = good.headers.keys().cloned().collect();
    let mut refused = 0;
    for name in &names {
        let value = good.headers[name].as_str().unwrap();
        let mut changed: Vec<Option<String>> = vec![None, Some(String::new())];
        for index in 0..value.len() {
            for octet in [' ', ',', ';', '/', '\0', '\r', '\n', 'é', 'x', '0'] {
                let mut text = value.to_owned();
                text.replace_range(index..=index, &octet.to_string());
                changed.push(Some(text));
            }
        }
        for text in changed.into_iter().filter(|text| text.as_deref() != Some(value)) {
            let mut case = Case { headers: good.headers.clone(), ..good.clone_parts() };
            match text {
                Some(text) => case.headers.insert(name.clone(), Value::String(text)),
                None => case.headers.remove(name),
            };
            let http = FakeHttp::script([Ok(response(200, "application/json", answer("aws")))]);
            match case.run(&http) {
                Ok(_) => assert_eq!(http.sent(), [case.expected_call()], "{name}"),
                Err(denial) => {
                    assert_eq!(denial.code, Code::AttestationInvalid, "{name}: {denial:?}");
                    assert!(http.sent().is_empty(), "{name}: an outbound call");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 3_000, "{refused}");
}

impl Case {
    fn clone_parts(&self) -> Self {
        Self {
            id: self.id.clone(),
            expect: self.expect.clone(),
            reasons: self.reasons.clone(),
            region: self.region.clone(),
            method: self.method.clone(),
            url_path: self.url_path.clone(),
            query: self.query.clone(),
            headers: Map::new(),
            body: self.body.clone(),
            now_x_amz: self.now_x_amz.clone(),
        }
    }
}
