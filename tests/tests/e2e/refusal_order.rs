//! Which refusal comes first (PROTOCOL, Errors: order): a call that is wrong in every way, put right step by step.

use edge_tests::emulators::TokenOptions;
use edge_tests::emulators::oidc::{SignatureKind, gke_issuer};
use edge_tests::stack::{ACME_ACCOUNT, ACME_ROLE, Answer, Client, Key, Options, Stack, evidence};
use serde_json::{Value, json};

use crate::support::{Shared, assert_problem_form, members};

static STACK: Shared = Shared::new("refusal-order");

#[track_caller]
fn assert_refusal(answer: &Answer, status: u16, code: &str, reason: &str) {
    answer.assert_problem(status, code, reason);
    assert_problem_form(answer);
}

#[test]
fn unknown_paths_are_404_whoever_asks() {
    let stack = STACK.lock();
    for path in [
        "/",
        "/v1",
        "/v1/",
        "/v1/enroll/",
        "/V1/enroll",
        "/v1//enroll",
        "/v1/enrol%6c",
        "/v1/admin",
        "/v1/admin/",
        "/v1/admin/policies",
        "/v1/admin/tenants/acme",
        "/v1/admin/tenants//tokens",
        "/v1/admin/tenants/acme/runners/x/promote",
        "/healthz/",
        "/__proto__",
    ] {
        assert_refusal(&stack.client().get(path), 404, "not_found", "");
        assert_refusal(&stack.admin().0.get(path), 404, "not_found", "");
    }
}

#[test]
fn wrong_methods_are_405_and_name_the_right_ones() {
    let stack = STACK.lock();
    for (methods, path, allow) in [
        (vec!["GET", "PUT", "DELETE", "PATCH", "OPTIONS"], "/v1/enroll", "POST"),
        (vec!["GET", "HEAD"], "/v1/renew", "POST"),
        (vec!["GET"], "/v1/verify", "POST"),
        (vec!["POST", "DELETE"], "/healthz", "GET, HEAD"),
        (vec!["POST"], "/v1/trust-bundle", "GET, HEAD"),
        (vec!["POST"], "/v1/crl", "GET, HEAD"),
        (vec!["PUT"], "/v1/crl.pem", "GET, HEAD"),
        (vec!["POST", "DELETE", "PATCH"], "/v1/admin/policy", "GET, PUT"),
        (vec!["PUT"], "/v1/admin/tenants/acme/tokens", "GET, POST"),
        (vec!["GET"], "/v1/admin/tenants/acme/tokens/x", "DELETE"),
        (vec!["DELETE"], "/v1/admin/tenants/acme/runners/x", "GET"),
        (vec!["GET"], "/v1/admin/tenants/acme/runners/x/ban", "POST"),
    ] {
        for method in methods {
            let answer = Client::send(stack.client().request(method, path));
            assert_eq!((answer.status, answer.header("allow")), (405, Some(allow)), "{method} {path}");
            if method != "HEAD" {
                assert_refusal(&answer, 405, "method_not_allowed", "");
            }
        }
    }
}

#[test]
fn bearers_come_before_everything_the_body_says() {
    let stack = STACK.lock();
    let anyone = stack.client();
    let (admin, service) = (stack.admin_token(), stack.service_token());
    for (path, right, other) in [("/v1/verify", &service, &admin), ("/v1/admin/tenants/acme/tokens", &admin, &service)]
    {
        let send = |authorization: Option<&str>| {
            let request = anyone.request("POST", path).header("content-type", "text/plain").body("x".repeat(70_000));
            Client::send(
                authorization.into_iter().fold(request, |request, value| request.header("authorization", value)),
            )
        };
        for bearer in [
            None,
            Some("Bearer"),
            Some("Bearer "),
            Some("Bearer nonsense"),
            Some("Basic YTpi"),
            Some(right.as_str()),
            Some(&format!("Bearer {right}x")),
            Some(&format!("Bearer {right}, Bearer {right}")),
        ] {
            let answer = send(bearer);
            assert_refusal(&answer, 401, "unauthorized", "");
            assert_eq!(answer.header("www-authenticate"), Some("Bearer"), "{bearer:?}");
        }
        assert_refusal(&send(Some(&format!("Bearer {other}"))), 403, "forbidden", "");
        assert_refusal(&send(Some(&format!("bearer {right}"))), 415, "unsupported_media_type", "");
    }
    let reads =
        ["/v1/admin/policy", "/v1/admin/audit", "/v1/admin/tenants/acme/runners", "/v1/admin/tenants/nobody/audit"];
    for path in reads {
        assert_refusal(&anyone.get(path), 401, "unauthorized", "");
        assert_refusal(&stack.service().get(path), 403, "forbidden", "");
    }
}

/// What is wrong with the call itself is said before what the policy or a record says of it.
#[test]
fn bad_fields_of_admin_calls_come_before_tenants_and_policy() {
    let stack = STACK.lock();
    let admin = stack.admin().0;
    let of = |tenant: &str, rest: &str| format!("/v1/admin/tenants/{tenant}/{rest}");
    // initech may not have bootstrap tokens, and no policy ever named nobody.
    for (tenant, good, code) in [("acme", 201, ""), ("initech", 403, "forbidden"), ("nobody", 404, "not_found")] {
        for bad in [
            json!({"ttl": "31d"}),
            json!({"ttl": "soon"}),
            json!({"max_uses": 0}),
            json!({"description": "x".repeat(257)}),
        ] {
            assert_refusal(&admin.post(&of(tenant, "tokens"), &bad), 400, "malformed_request", "");
        }
        let answer = admin.post(&of(tenant, "tokens"), &json!({}));
        assert_eq!(answer.status, good);
        if !code.is_empty() {
            assert_refusal(&answer, good, code, "");
        }
    }
    for tenant in ["acme", "nobody"] {
        let ban = of(tenant, &format!("runners/{}/ban", "a".repeat(26)));
        assert_refusal(&admin.post(&ban, &json!({"reason": "x".repeat(513)})), 400, "malformed_request", "");
        assert_refusal(&admin.post(&ban, &json!({"reason": "x"})), 404, "not_found", "");
        for list in ["tokens", "runners", "audit"] {
            assert_refusal(&admin.get(&of(tenant, &format!("{list}?limit=0"))), 400, "malformed_request", "");
        }
    }
}

#[test]
fn media_type_then_size_then_form_then_csr_then_evidence() {
    let stack = STACK.lock();
    let key = Key::generate();
    let spoiled_token = "x".repeat(17_000);
    for path in ["/v1/enroll", "/v1/renew"] {
        let send = |content_type: Option<&str>, body: Vec<u8>| {
            let request = stack.client().request("POST", path).body(body);
            Client::send(content_type.into_iter().fold(request, |request, value| request.header("content-type", value)))
        };
        let large = vec![b'{'; 65_537];
        for content_type in
            [None, Some("text/plain"), Some("application/jsonp"), Some("application/json5; a=b"), Some("")]
        {
            assert_refusal(&send(content_type, large.clone()), 415, "unsupported_media_type", "");
        }
        assert_refusal(&send(Some("application/json"), large.clone()), 413, "payload_too_large", "");
        assert_refusal(&stack.client().post_chunked(path, large.clone()), 413, "payload_too_large", "");
        assert_refusal(
            &send(Some("Application/JSON; charset=utf-8"), large[1..].to_vec()),
            400,
            "malformed_request",
            "",
        );
        assert_refusal(&stack.client().post_chunked(path, large[1..].to_vec()), 400, "malformed_request", "");
    }
    let enroll = |body: &Value| stack.client().post("/v1/enroll", body);
    let long = json!({"csr": "AAAA", "attestation": {"mode": "gke-oidc", "token": spoiled_token}});
    assert_refusal(&enroll(&long), 400, "malformed_request", "");
    let bad_csr = json!({"csr": "AAAA", "attestation": {"mode": "gke-oidc", "token": "x"}});
    assert_refusal(&enroll(&bad_csr), 400, "csr_invalid", "");
    let bad_token = evidence::request(&key, &evidence::token("gke-oidc", "x"));
    assert_refusal(&enroll(&bad_token), 401, "attestation_invalid", "token_malformed");
}

/// Spoils evidence.
type Spoil<'a> = &'a dyn Fn(&mut Value);

#[test]
fn an_sts_request_is_refused_by_the_checks_in_their_order() {
    let stack = STACK.lock();
    let key = Key::generate();
    let mapped = stack.sts.add_role_session(ACME_ACCOUNT, ACME_ROLE, "s");
    let stranger = stack.sts.add_role_session("999900001111", "stranger", "s");
    let right = stack.sts_request(&mapped, &key);
    // A function per fault, in the order of CHECKS S1 to S9; all of them are wrong at first.
    let faults: [(&str, Spoil<'_>); 9] = [
        ("body_not_allowed", &|e| e["body"] = json!("Action=GetCallerIdentity")),
        ("region_not_allowed", &|e| e["region"] = json!("eu-north-1")),
        ("host_not_allowed", &|e| e["headers"]["host"] = json!("sts.eu-west-1.amazonaws.com")),
        ("header_not_allowed", &|e| e["headers"]["x-forwarded-for"] = json!("127.0.0.1")),
        ("authorization_invalid", &|e| {
            let value =
                e["headers"]["authorization"].as_str().unwrap().replace("AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256");
            e["headers"]["authorization"] = json!(value);
        }),
        ("scope_invalid", &|e| {
            e["headers"]["authorization"] =
                json!(e["headers"]["authorization"].as_str().unwrap().replace("/sts/", "/iam/"));
        }),
        ("header_not_signed", &|e| {
            let value = e["headers"]["authorization"].as_str().unwrap().replace("host;", "");
            e["headers"]["authorization"] = json!(value);
        }),
        ("binding_mismatch", &|e| {
            e["headers"]["x-rootpilot-binding"] = json!(evidence::binding("another.example.com", &key));
        }),
        ("date_out_of_range", &|_| {}),
    ];
    let late = right.clone().aged(901).evidence();
    for (first, (reason, _)) in faults.iter().enumerate() {
        let mut attestation = late.clone();
        faults[first..].iter().for_each(|(_, spoil)| spoil(&mut attestation));
        assert_refusal(&stack.enroll(&key, &attestation), 401, "attestation_invalid", reason);
    }
    assert_eq!(stack.sts.request_count(), 0, "nothing was asked of STS");

    let mut tampered = right.evidence();
    let signature = tampered["headers"]["authorization"].as_str().unwrap().to_owned();
    let flipped = if signature.ends_with('0') { '1' } else { '0' };
    tampered["headers"]["authorization"] = json!(format!("{}{flipped}", &signature[..signature.len() - 1]));
    let refused = stack.enroll(&key, &tampered);
    assert_refusal(&refused, 401, "attestation_invalid", "sts_refused");
    assert_eq!(refused.json()["aws_error_code"], "SignatureDoesNotMatch");

    let unmapped = stack.enroll(&key, &stack.sts_request(&stranger, &key).evidence());
    assert_refusal(&unmapped, 403, "identity_not_mapped", "");
    assert!(unmapped.text().contains("arn:aws:iam::999900001111:role/stranger"), "{}", unmapped.text());

    let attestation = right.evidence();
    let runner = stack.enroll(&key, &attestation).expect(200).json()["runner_id"].as_str().unwrap().to_owned();
    stack.admin().ban("acme", &runner, &json!({}));
    let (other, fresh) = (Key::generate(), stack.sts_request(&mapped, &key).aged(5).evidence());
    assert_refusal(&stack.enroll(&key, &fresh), 403, "runner_banned", "");
    // A used request with another key cannot be: the binding names the key.
    assert_refusal(&stack.enroll(&other, &attestation), 401, "attestation_invalid", "binding_mismatch");
    stack.admin().unban("acme", &runner);
}

#[test]
fn a_token_is_refused_by_the_checks_in_their_order() {
    let stack = STACK.lock();
    let key = Key::generate();
    let foreign = gke_issuer("elsewhere", "europe-west1", "runners");
    let token = |change: &dyn Fn(&mut TokenOptions)| {
        let mut options = TokenOptions::default();
        change(&mut options);
        stack.issuer.token(&options)
    };
    let steps: [(&str, &str, String); 9] = [
        ("token_malformed", "K1", "a.b".to_owned()),
        (
            "alg_not_allowed",
            "K2",
            token(&|o| {
                o.header = json!({"alg": "none", "kid": "nobody"});
                o.issuer = Some(foreign.clone());
            }),
        ),
        (
            "issuer_unknown",
            "K3",
            token(&|o| {
                o.header = json!({"kid": "nobody"});
                o.issuer = Some(foreign.clone());
            }),
        ),
        (
            "key_unknown",
            "K4",
            token(&|o| {
                o.header = json!({"kid": "nobody"});
                o.audience = vec!["elsewhere".to_owned()];
            }),
        ),
        (
            "signature_invalid",
            "K4",
            token(&|o| {
                o.signature = SignatureKind::Flipped;
                o.audience = vec!["elsewhere".to_owned()];
            }),
        ),
        (
            "audience_mismatch",
            "K5",
            token(&|o| {
                o.audience = vec!["elsewhere".to_owned()];
                o.issued_at = Some(1_700_000_000);
            }),
        ),
        (
            "token_expired",
            "K5",
            token(&|o| {
                o.issued_at = Some(1_700_000_000);
                o.claims = json!({"kubernetes.io": {"pod": null}});
            }),
        ),
        (
            "token_lifetime",
            "K5",
            token(&|o| {
                o.lifetime = 3_601;
                o.claims = json!({"kubernetes.io": {"pod": null}});
            }),
        ),
        ("claims_invalid", "K6", token(&|o| o.claims = json!({"kubernetes.io": {"pod": null}}))),
    ];
    for (reason, check, token) in steps {
        let answer = stack.enroll(&key, &evidence::token("gke-oidc", &token));
        assert_eq!((answer.status, answer.reason().as_str()), (401, reason), "{check} {}", answer.text());
        assert_problem_form(&answer);
    }
    let unmapped = token(&|o| o.namespace = "default".to_owned());
    assert_refusal(&stack.enroll(&key, &evidence::token("gke-oidc", &unmapped)), 403, "identity_not_mapped", "");
    let right = evidence::token("gke-oidc", &token(&|o| o.pod = "order".to_owned()));
    stack.enroll(&key, &right).assert_status(200);
    assert_refusal(&stack.enroll(&Key::generate(), &right), 401, "attestation_invalid", "token_reused");
    // The unmapped token left no row: mapped later, it is good for another key.
    let mut policy = stack.policy();
    policy["tenants"][0]["rules"][2]["namespace"] = json!("default");
    stack.admin().apply(&policy);
    stack.enroll(&Key::generate(), &evidence::token("gke-oidc", &unmapped)).assert_status(200);
}

#[test]
fn a_verifier_without_secrets_or_policy_says_what_is_missing() {
    let mut stack = Stack::start(Options {
        missing_secrets: vec!["CA_PRIVATE_KEY".to_owned(), "CA_ROOT_CRL".to_owned(), "SERVICE_TOKEN_SHA256".to_owned()],
        apply_policy: false,
        ..Options::new("not-configured")
    });
    let named = |answer: &Answer, wanted: &[&str]| {
        assert_refusal(answer, 503, "not_configured", "");
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        let all = [
            "CA_PRIVATE_KEY",
            "CA_CERTIFICATE",
            "CA_ROOTS",
            "CA_ROOT_CRL",
            "ADMIN_TOKEN_SHA256",
            "SERVICE_TOKEN_SHA256",
            "policy",
        ];
        let listed: Vec<&str> = all.into_iter().filter(|name| detail.contains(name)).collect();
        assert_eq!(listed, wanted, "{detail}");
    };
    let anything = json!({"nonsense": true});
    let missing = ["CA_PRIVATE_KEY", "CA_ROOT_CRL", "SERVICE_TOKEN_SHA256", "policy"];
    named(&stack.client().get("/healthz"), &missing);
    named(&stack.client().post("/v1/enroll", &anything), &missing);
    named(&stack.client().post("/v1/renew", &anything), &missing);
    named(&stack.client().post("/v1/verify", &anything), &["SERVICE_TOKEN_SHA256"]);

    // Admin routes work already.
    stack.admin().0.get("/v1/admin/policy").assert_problem(404, "not_found", "");
    let policy = stack.policy();
    stack.admin().apply(&policy);
    named(&stack.client().get("/healthz"), &["CA_PRIVATE_KEY", "CA_ROOT_CRL", "SERVICE_TOKEN_SHA256"]);
    stack.restart_with(|options| options.missing_secrets = vec!["ADMIN_TOKEN_SHA256".to_owned()]);
    named(&stack.client().get("/healthz"), &["ADMIN_TOKEN_SHA256"]);
    named(&stack.admin().0.get("/v1/admin/policy"), &["ADMIN_TOKEN_SHA256"]);
    stack.restart_with(|options| {
        options.missing_secrets.clear();
        options.vars["CA_PRIVATE_KEY"] = json!("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
        options.vars["SERVICE_TOKEN_SHA256"] = json!("abc");
    });
    named(&stack.client().get("/healthz"), &["CA_PRIVATE_KEY", "SERVICE_TOKEN_SHA256"]);
    assert!(!stack.client().get("/healthz").text().contains("AAAA"));
    stack.restart_with(|options| options.vars = json!({"RATE_LIMITS": "off"}));
    assert_eq!(members(&stack.client().get("/healthz").expect(200).json()), ["status", "version"]);
}
