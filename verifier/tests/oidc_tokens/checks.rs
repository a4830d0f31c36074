//! K1 to K7, one check at a time: each test takes a token that is good but for one thing.

use protocol::{Mode, Reason, TraceOutcome};
use serde_json::{Value, json};
use verifier::evidence::Principal;
use verifier::suites::oidc::{EKS, GKE};
use verifier::trace::Trace;

use crate::support::{AUDIENCE, NOW, Signer, World, claims, outcome, reason, with};

#[test]
fn a_good_token_proves_its_identity() {
    let identity = outcome(&claims()).unwrap();
    assert_eq!(identity.principal().identity(), format!("{GKE}#system:serviceaccount:runners:runner"));
    assert_eq!(identity.principal().instance(), "413b22ca-4833-48d9-b6db-76219d583173");
    let Principal::Kubernetes(principal) = identity.principal() else { panic!() };
    assert_eq!((principal.mode, principal.pod_name.as_str()), (Mode::GkeOidc, "runner-0"));
    assert_eq!(identity.evidence().reason, Reason::TokenReused);
    assert_eq!(identity.evidence().until.secs(), 1_790_003_090);
}

#[test]
fn k1_the_payload_is_one_object_without_duplicates() {
    let signer = Signer::new("a");
    let good = claims().to_string();
    let inner = &good[1..good.len() - 1];
    for payload in [
        String::new(),
        "null".to_owned(),
        "[]".to_owned(),
        format!("[{good}]"),
        format!("{good}{good}"),
        format!("{good} x"),
        format!("{{{inner},\"exp\":1790003000}}"),
        format!("{{{inner},\"e\\u0078p\":1790003000}}"),
        format!("{{{inner},\"x\":{{\"a\":1,\"a\":1}}}}"),
        good.replace("\"namespace\":\"runners\"", "\"namespace\":\"runners\",\"namespace\":\"runners\""),
        good.replace("\"name\":\"runner-0\"", "\"name\":\"runner-0\",\"name\":\"runner-1\""),
        format!("{{{inner},\"x\":{}{}}}", "[".repeat(3_000), "]".repeat(3_000)),
    ] {
        let token = signer.sign_text(r#"{"alg":"ES256","kid":"a"}"#, &payload);
        assert_eq!(reason(World::new().verify(&token, NOW)), Reason::TokenMalformed, "{payload:.80}");
    }
    let spaced = signer.sign_text(" { \"alg\" : \"ES256\" , \"kid\" : \"a\" } ", &format!(" {good}\n"));
    assert!(World::new().verify(&spaced, NOW).is_ok());
}

#[test]
fn k1_hostile_sizes_are_refused_before_any_work() {
    let world = World::new();
    for token in [
        "A".repeat(1 << 20),
        ".".repeat(1 << 20),
        "..".to_owned(),
        format!("{}.{}.{}", "A".repeat(1 << 19), "A".repeat(1 << 19), "A".repeat(1 << 19)),
        Signer::new("a").sign(&with(|claims| claims["x"] = json!("x".repeat(20_000)))),
        Signer::new("a").sign_text(&json!({"alg": "ES256", "kid": "k".repeat(100_000)}).to_string(), "{}"),
    ] {
        assert_eq!(reason(world.verify(&token, NOW)), Reason::TokenMalformed);
    }
    assert_eq!(world.fetches(), 0);
}

#[test]
fn k2_algorithm_and_extensions() {
    let signer = Signer::new("a");
    let world = World::new();
    for header in [
        r#"{"alg":"none","kid":"a"}"#,
        r#"{"alg":"HS256","kid":"a"}"#,
        r#"{"alg":"ES384","kid":"a"}"#,
        r#"{"alg":"PS256","kid":"a"}"#,
        r#"{"kid":"a"}"#,
        r#"{"alg":"ES256","kid":"a","crit":["exp"],"exp":1}"#,
        r#"{"alg":"ES256","kid":"a","b64":false}"#,
        r#"{"alg":"ES256","kid":"a","zip":"DEF"}"#,
    ] {
        let token = signer.sign_text(header, &claims().to_string());
        assert_eq!(reason(world.verify(&token, NOW)), Reason::AlgNotAllowed, "{header}");
    }
    assert_eq!(world.fetches(), 0);
    // Allowed, but not what the key is for.
    let token = signer.sign_text(r#"{"alg":"RS256","kid":"a"}"#, &claims().to_string());
    assert_eq!(reason(world.verify(&token, NOW)), Reason::AlgNotAllowed);
}

#[test]
fn k2_a_key_of_the_header_is_never_used() {
    let (honest, attacker) = (Signer::new("a"), Signer::new("b"));
    for header in [
        json!({"alg": "ES256", "kid": "a", "jwk": attacker.jwk()}),
        json!({"alg": "ES256", "kid": "a", "jku": "https://evil.example/jwks"}),
        json!({"alg": "ES256", "kid": "a", "x5u": "https://evil.example/", "x5c": ["AAAA"]}),
    ] {
        let world = World::new();
        let token = attacker.sign_text(&header.to_string(), &claims().to_string());
        assert_eq!(reason(world.verify(&token, NOW)), Reason::SignatureInvalid);
        let token = honest.sign_text(&header.to_string(), &claims().to_string());
        assert!(world.verify(&token, NOW).is_ok());
        assert!(world.http.sent().iter().all(|request| request.url == format!("{GKE}/jwks")));
    }
}

#[test]
fn k3_only_issuers_of_the_policy_and_of_the_mode() {
    let world = World::new();
    for iss in [
        json!("https://container.googleapis.com/v1/projects/acme-prod/locations/europe-west1-b/clusters/other"),
        json!(format!("{GKE}/")),
        json!(GKE.replace("https", "http")),
        json!(GKE.to_uppercase()),
        json!(EKS),
        json!("kubernetes/serviceaccount"),
        json!(""),
        json!(null),
        json!([GKE]),
    ] {
        let token = Signer::new("a").sign(&with(|claims| claims["iss"] = iss.clone()));
        assert_eq!(reason(world.verify(&token, NOW)), Reason::IssuerUnknown, "{iss}");
    }
    let token = Signer::new("a").sign(&with(|claims| drop(claims.as_object_mut().unwrap().remove("iss"))));
    assert_eq!(reason(world.verify(&token, NOW)), Reason::IssuerUnknown);
    // A GKE token under the other mode.
    let token = Signer::new("a").sign(&claims());
    assert_eq!(reason(world.verify_as(&token, Mode::EksOidc, NOW, &mut Trace::off())), Reason::IssuerUnknown);
    assert_eq!(world.fetches(), 0);
}

#[test]
fn k3_eks_without_an_eks_issuer_says_what_to_do() {
    const HINT: &str = "On EKS, use aws-sts, or name the issuer in the policy.";
    let token = Signer::new("a").sign(&with(|claims| claims["iss"] = json!(EKS)));
    let mut world = World::new();
    assert!(world.verify_as(&token, Mode::EksOidc, NOW, &mut Trace::off()).is_ok());
    world.settings.issuers.retain(|issuer| issuer.mode == Mode::GkeOidc);
    for mode in [Mode::EksOidc, Mode::GkeOidc] {
        let denial = world.verify_as(&token, mode, NOW, &mut Trace::off()).unwrap_err();
        assert_eq!(denial.reason, Some(Reason::IssuerUnknown));
        assert!(denial.detail.ends_with(HINT), "{}", denial.detail);
    }
    for iss in [json!(null), json!(5), json!([EKS]), json!(""), json!("https://kubernetes.default.svc")] {
        let token = Signer::new("a").sign(&with(|claims| claims["iss"] = iss));
        let denial = world.verify_as(&token, Mode::EksOidc, NOW, &mut Trace::off()).unwrap_err();
        assert!(denial.reason == Some(Reason::IssuerUnknown) && denial.detail.ends_with(HINT), "{}", denial.detail);
    }
    // With another EKS issuer, or on GKE, there is no such advice.
    let other = EKS.replace("EXAMPLED", "EXAMPLEE");
    let token = Signer::new("a").sign(&with(|claims| claims["iss"] = json!(other)));
    let denial = World::new().verify_as(&token, Mode::EksOidc, NOW, &mut Trace::off()).unwrap_err();
    assert!(!denial.detail.contains("aws-sts"), "{}", denial.detail);
    let token = Signer::new("a").sign(&with(|claims| claims["iss"] = json!("https://x")));
    let denial = world.verify_as(&token, Mode::GkeOidc, NOW, &mut Trace::off()).unwrap_err();
    assert!(!denial.detail.contains("aws-sts"), "{}", denial.detail);
}

#[test]
fn k3_wildcard_projects() {
    let mut world = World::new();
    world.settings.issuers.clear();
    world.settings.wildcard_projects =
        vec![("acme-prod".to_owned(), "europe-west1-b".to_owned()), ("lab".to_owned(), "*".to_owned())];
    let verify = |iss: &str| {
        let token = Signer::new("a").sign(&with(|claims| claims["iss"] = json!(iss)));
        world.verify(&token, NOW)
    };
    let of = |project: &str, location: &str, cluster: &str| {
        format!("https://container.googleapis.com/v1/projects/{project}/locations/{location}/clusters/{cluster}")
    };
    for good in [of("acme-prod", "europe-west1-b", "any"), of("lab", "us-east1", "x"), of("lab", "us-east1", "y")] {
        assert!(verify(&good).is_ok(), "{good}");
        assert_eq!(world.http.sent().last().unwrap().url, format!("{good}/jwks"));
    }
    let fetched = world.fetches();
    for bad in [
        of("acme-prod", "us-east1", "any"),
        of("acme-prod-2", "europe-west1-b", "any"),
        of("acme", "europe-west1-b", "any"),
        of("acme-prod", "europe-west1-b", "a/../../../../evil"),
        of("acme-prod", "europe-west1-b", "any?x="),
        of("acme-prod", "europe-west1-b", "*"),
        of("lab", "*", "x"),
        of("*", "us-east1", "x"),
        format!("https://evil.example/#{}", of("lab", "us-east1", "x")),
    ] {
        assert_eq!(reason(verify(&bad)), Reason::IssuerUnknown, "{bad}");
    }
    // The rule is of GKE: in the other mode its clusters are nobody's.
    let token = Signer::new("a").sign(&with(|claims| claims["iss"] = json!(of("lab", "us-east1", "x"))));
    assert_eq!(reason(world.verify_as(&token, Mode::EksOidc, NOW, &mut Trace::off())), Reason::IssuerUnknown);
    assert_eq!(world.fetches(), fetched);
    // The longest life of a wildcard's tokens is the default one.
    let long = with(|claims| {
        claims["iss"] = json!(of("lab", "us-east1", "x"));
        claims["exp"] = json!(1_789_999_400 + 3_601);
    });
    assert_eq!(reason(world.verify(&Signer::new("a").sign(&long), NOW)), Reason::TokenLifetime);
}

#[test]
fn k4_key_by_kid_and_signature() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let good = a.sign(&claims());
    // Another key under the right name.
    let forged = Signer::new("b").sign_text(r#"{"alg":"ES256","kid":"a"}"#, &claims().to_string());
    assert_eq!(reason(World::new().verify(&forged, NOW)), Reason::SignatureInvalid);
    assert_eq!(reason(World::new().verify(&b.sign(&claims()), NOW)), Reason::KeyUnknown);
    // Another payload or header under the same signature.
    let signature = good.rsplit_once('.').unwrap().1;
    let other = a.sign(&with(|claims| claims["jti"] = json!("j-2")));
    let swapped = format!("{}.{signature}", other.rsplit_once('.').unwrap().0);
    assert_eq!(reason(World::new().verify(&swapped, NOW)), Reason::SignatureInvalid);
    // Zeros, DER, cut and doubled signatures.
    let input = good.rsplit_once('.').unwrap().0;
    for bad in [&[0_u8; 64][..], &[0; 1], &[0xff; 64], &[1; 63], &[1; 65], &[1; 128], &[0x30, 6, 2, 1, 0, 2, 1, 0]] {
        let token = format!("{input}.{}", verifier::encoding::b64url(bad));
        assert_eq!(reason(World::new().verify(&token, NOW)), Reason::SignatureInvalid);
    }
}

#[test]
fn k4_kid_may_be_missing_only_with_one_key() {
    let without_kid = Signer::new("a").sign_text(r#"{"alg":"ES256"}"#, &claims().to_string());
    assert!(World::new().verify(&without_kid, NOW).is_ok());
    let two = World::answering(|_| Ok(crate::support::jwks(&[Signer::new("a").jwk(), Signer::new("b").jwk()])));
    assert_eq!(reason(two.verify(&without_kid, NOW)), Reason::KeyUnknown);
    // Tricks with it: equality only, and none of them is a path or a query.
    for kid in ["", "A", "a\0", " a", "../a", "a' OR '1'='1", "https://evil.example/a", "*", "á"] {
        let token = Signer::new("a").sign_text(&json!({"alg": "ES256", "kid": kid}).to_string(), &claims().to_string());
        assert_eq!(reason(World::new().verify(&token, NOW)), Reason::KeyUnknown, "{kid}");
    }
}

#[test]
fn k4_of_keys_with_one_kid_each_is_tried_up_to_four() {
    let named_x = |name: &str| {
        let mut jwk = Signer::new(name).jwk();
        jwk["kid"] = json!("x");
        jwk
    };
    let token = Signer::new("a").sign_text(r#"{"alg":"ES256","kid":"x"}"#, &claims().to_string());
    for (others, accepted) in [(0, true), (1, true), (3, true), (4, false)] {
        let mut keys: Vec<Value> = (0..others).map(|n| named_x(&format!("other-{n}"))).collect();
        keys.push(named_x("a"));
        let world = World::answering(move |_| Ok(crate::support::jwks(&keys)));
        let result = world.verify(&token, NOW);
        if accepted {
            assert!(result.is_ok(), "{others}");
        } else {
            assert_eq!(reason(result), Reason::SignatureInvalid);
        }
    }
}

#[test]
fn k5_required_claims_and_their_types() {
    let wrong: [(&str, &[Value]); 7] = [
        ("aud", &[json!(null), json!(1), json!({}), json!([1]), json!([AUDIENCE, null]), json!([[AUDIENCE]])]),
        ("exp", &[json!(null), json!("1790003000"), json!(-1), json!(-1.5), json!(1e300), json!(u64::MAX), json!([1])]),
        ("iat", &[json!(null), json!("1789999400"), json!(-1), json!(u64::MAX), json!(true)]),
        ("nbf", &[json!(null), json!("1789999400"), json!(-1), json!({})]),
        ("sub", &[json!(null), json!(1), json!(["system:serviceaccount:runners:runner"])]),
        ("jti", &[json!(null), json!(1), json!(""), json!(["j-1"])]),
        ("kubernetes.io", &[json!(null), json!("x"), json!([1, 2])]),
    ];
    for (name, values) in wrong {
        for value in values {
            let claims = with(|claims| claims[name] = value.clone());
            assert_eq!(reason(outcome(&claims)), Reason::ClaimsInvalid, "{name}: {value}");
        }
    }
    for name in ["aud", "exp", "iat", "sub", "kubernetes.io"] {
        let claims = with(|claims| drop(claims.as_object_mut().unwrap().remove(name)));
        assert_eq!(reason(outcome(&claims)), Reason::ClaimsInvalid, "{name}");
    }
    for name in ["nbf", "jti"] {
        assert!(outcome(&with(|claims| drop(claims.as_object_mut().unwrap().remove(name)))).is_ok(), "{name}");
    }
}

#[test]
fn k5_audience_must_be_ours_and_both_are_named() {
    for (aud, accepted) in [
        (json!(AUDIENCE), true),
        (json!([AUDIENCE]), true),
        (json!(["sts.amazonaws.com", AUDIENCE]), true),
        (json!([]), false),
        (json!(""), false),
        (json!([""]), false),
        (json!(GKE), false),
        (json!("edge.example.com.evil.example"), false),
        (json!("EDGE.EXAMPLE.COM"), false),
        (json!(" edge.example.com"), false),
        (json!("https://edge.example.com"), false),
        (json!("example.com"), false),
    ] {
        let result = outcome(&with(|claims| claims["aud"] = aud.clone()));
        if accepted {
            assert!(result.is_ok(), "{aud}");
        } else {
            assert_eq!(reason(result), Reason::AudienceMismatch, "{aud}");
        }
    }
    let denial = outcome(&with(|claims| claims["aud"] = json!(["other.example", "x\n"]))).unwrap_err();
    assert_eq!(denial.detail, r#"the token is for "other.example", "x\n"; this verifier is "edge.example.com""#);
    let many = with(|claims| claims["aud"] = json!(vec!["é".repeat(500); 12]));
    assert!(outcome(&many).unwrap_err().detail.chars().count() < 700);
}

#[test]
fn k5_times() {
    let now = NOW.secs();
    for (exp, iat, nbf, expected) in [
        (now + 10, now - 10, now - 10, None),
        // Leeway 30 s, on the second.
        (now - 29, now - 600, now - 600, None),
        (now - 30, now - 600, now - 600, Some(Reason::TokenExpired)),
        (0, 0, 0, Some(Reason::TokenExpired)),
        (now + 600, now + 30, now, None),
        (now + 600, now + 31, now, Some(Reason::TokenNotYetValid)),
        (now + 600, now, now + 30, None),
        (now + 600, now, now + 31, Some(Reason::TokenNotYetValid)),
        // max_token_lifetime of 3,600 s, on the second.
        (now + 3_500, now - 100, now, None),
        (now + 3_501, now - 100, now, Some(Reason::TokenLifetime)),
        (253_402_300_799, now, now, Some(Reason::TokenLifetime)),
        (now + 10, now + 10, now, Some(Reason::ClaimsInvalid)),
        (now + 10, now + 20, now, Some(Reason::ClaimsInvalid)),
    ] {
        let claims = with(|claims| {
            (claims["exp"], claims["iat"], claims["nbf"]) = (json!(exp), json!(iat), json!(nbf));
        });
        let result = outcome(&claims);
        match expected {
            None => assert!(result.is_ok(), "{exp} {iat} {nbf}"),
            Some(expected) => assert_eq!(reason(result), expected, "{exp} {iat} {nbf}"),
        }
    }
    let denial = outcome(&with(|claims| claims["exp"] = json!(now - 100))).unwrap_err();
    assert_eq!(denial.detail, "the token expired at 2026-09-21T14:11:40Z, 100 s ago");
    // Fractions are legal (RFC 7519 section 2) and cut off.
    assert!(outcome(&with(|claims| claims["exp"] = json!(1_790_003_000.75))).is_ok());
}

#[test]
fn k6_subject_and_kubernetes_claims_agree() {
    for sub in [
        "system:serviceaccount:default:runner",
        "system:serviceaccount:runners:other",
        "system:serviceaccount:runners",
        "system:serviceaccount:runners:runner:x",
        "system:serviceaccount::runner",
        "system:serviceaccount:runners:",
        "system:serviceaccount:Runners:runner",
        "system:serviceaccount:runners:runner ",
        "system:node:n",
        "serviceaccount:runners:runner",
        "",
    ] {
        assert_eq!(reason(outcome(&with(|claims| claims["sub"] = json!(sub)))), Reason::ClaimsInvalid, "{sub}");
    }
    let changes: [(&str, Value); 17] = [
        ("/namespace", json!("default")),
        ("/namespace", json!(null)),
        ("/namespace", json!(["runners"])),
        ("/serviceaccount", json!(null)),
        ("/serviceaccount", json!("runner")),
        ("/serviceaccount/name", json!("other")),
        ("/serviceaccount/name", json!(null)),
        ("/pod", json!(null)),
        ("/pod", json!([])),
        ("/pod", json!({})),
        ("/pod/name", json!(null)),
        ("/pod/name", json!("")),
        ("/pod/name", json!("Runner 0")),
        ("/pod/uid", json!(null)),
        ("/pod/uid", json!("")),
        ("/pod/uid", json!("x y")),
        ("/pod/uid", json!("u".repeat(65))),
    ];
    for (path, value) in changes {
        let claims = with(|claims| *claims.pointer_mut(&format!("/kubernetes.io{path}")).unwrap() = value.clone());
        assert_eq!(reason(outcome(&claims)), Reason::ClaimsInvalid, "{path}: {value}");
    }
}

/// Where `sub` and `kubernetes.io` agree, still only on what Kubernetes allows: RFC 1123 labels and subdomains.
#[test]
fn k6_names_are_those_of_kubernetes() {
    let named = |namespace: &str, account: &str, pod: &str| {
        outcome(&with(|claims| {
            claims["sub"] = json!(format!("system:serviceaccount:{namespace}:{account}"));
            let kubernetes = &mut claims["kubernetes.io"];
            kubernetes["namespace"] = json!(namespace);
            kubernetes["serviceaccount"]["name"] = json!(account);
            kubernetes["pod"]["name"] = json!(pod);
        }))
    };
    let (label, subdomain) = ("a".repeat(63), ["a"; 127].join("."));
    for label in ["0", "a-0", &label] {
        assert!(named(label, label, label).is_ok(), "{label}");
    }
    for subdomain in ["0.a", "a-b.c-d.0", &subdomain] {
        assert!(named("runners", subdomain, subdomain).is_ok(), "{subdomain}");
        assert_eq!(reason(named(subdomain, "runner", "runner-0")), Reason::ClaimsInvalid, "{subdomain}");
    }
    let (long_label, long_subdomain) = (format!("{label}a"), format!("{subdomain}a"));
    assert_eq!(reason(named(&long_label, "runner", "runner-0")), Reason::ClaimsInvalid);
    for bad in
        ["", "-", "-a", "a-", "Runner", "a_b", "a b", "é", "a.", ".a", "a..b", "a.-b", "a-.b", "a.B", &long_subdomain]
    {
        for (namespace, account, pod) in
            [(bad, "runner", "runner-0"), ("runners", bad, "runner-0"), ("runners", "runner", bad)]
        {
            assert_eq!(reason(named(namespace, account, pod)), Reason::ClaimsInvalid, "{namespace} {account} {pod}");
        }
    }
}

#[test]
fn k6_tokens_of_secrets_are_refused() {
    for claims in [
        with(|claims| claims["kubernetes.io"]["secret"] = json!({"name": "s", "uid": "u"})),
        with(|claims| claims["kubernetes.io"]["secret"] = json!(null)),
        with(|claims| claims["kubernetes.io/serviceaccount/secret.name"] = json!("s")),
        with(|claims| claims["kubernetes.io/serviceaccount/namespace"] = json!("runners")),
        with(|claims| {
            claims["kubernetes.io/serviceaccount/namespace"] = json!("runners");
            claims["kubernetes.io/serviceaccount/secret.name"] = json!("s");
        }),
    ] {
        assert_eq!(reason(outcome(&claims)), Reason::ClaimsInvalid);
    }
}

#[test]
fn k7_a_use_is_issuer_and_jti_or_what_was_signed() {
    let signer = Signer::new("a");
    let digest = |claims: &Value| outcome(claims).unwrap().evidence().digest.clone();
    let first = digest(&claims());
    assert_eq!(first.len(), 64);
    // The same jti is the same use, whatever else differs.
    assert_eq!(digest(&with(|claims| claims["exp"] = json!(1_790_002_000))), first);
    assert_ne!(digest(&with(|claims| claims["jti"] = json!("j-2"))), first);
    // Another issuer's jti is another use.
    let eks = signer.sign(&with(|claims| claims["iss"] = json!(EKS)));
    let eks = World::new().verify_as(&eks, Mode::EksOidc, NOW, &mut Trace::off()).unwrap();
    assert_ne!(eks.evidence().digest, first);
    // Without jti: what was signed, never the signature.
    let anonymous = |exp: i64| {
        with(|claims| {
            claims.as_object_mut().unwrap().remove("jti");
            claims["exp"] = json!(exp);
        })
    };
    let token = signer.sign(&anonymous(1_790_002_000));
    let (input, signature) = token.rsplit_once('.').unwrap();
    let twin = format!("{input}.{}", crate::support::twin(signature));
    assert_ne!(twin, token);
    let use_of = |token: &str| World::new().verify(token, NOW).unwrap().evidence().digest.clone();
    assert_eq!(use_of(&token), use_of(&twin));
    assert_ne!(use_of(&token), digest(&anonymous(1_790_002_001)));
    // A jti cannot be made to look like a signed text.
    let hash = verifier::encoding::sha256(input.as_bytes());
    let lookalike = String::from_utf8_lossy(&hash).into_owned();
    assert_ne!(use_of(&token), digest(&with(|claims| claims["jti"] = json!(lookalike))));
}

#[test]
fn the_trace_says_what_was_compared() {
    let world = World::new();
    let mut trace = Trace::on();
    world.verify_as(&Signer::new("a").sign(&claims()), Mode::GkeOidc, NOW, &mut trace).unwrap();
    let entries = trace.finish(Mode::GkeOidc, None);
    let passed: Vec<&str> =
        entries.iter().filter(|entry| entry.outcome == TraceOutcome::Pass).map(|entry| entry.check.as_str()).collect();
    assert_eq!(passed, ["K1", "K2", "K3", "K4", "K5", "K6"]);

    for (claims, failed) in [
        (with(|claims| claims["iss"] = json!("https://x")), "K3"),
        (with(|claims| claims["aud"] = json!("x")), "K5"),
        (with(|claims| claims["sub"] = json!("x")), "K6"),
    ] {
        let mut trace = Trace::on();
        let denial = world.verify_as(&Signer::new("a").sign(&claims), Mode::GkeOidc, NOW, &mut trace).unwrap_err();
        let entries = trace.finish(Mode::GkeOidc, Some(&denial));
        let fails: Vec<&str> = entries
            .iter()
            .filter(|entry| entry.outcome == TraceOutcome::Fail)
            .map(|entry| entry.check.as_str())
            .collect();
        assert_eq!(fails, [failed]);
        assert_eq!(entries.iter().filter(|entry| entry.check == failed).count(), 1);
    }
}

/// CHECKS A4: an empty expectation refuses everything.
#[test]
fn no_issuers_or_no_audience_refuse_everything() {
    let token = Signer::new("a").sign(&with(|claims| claims["aud"] = json!(["", AUDIENCE])));
    let mut world = World::new();
    assert_eq!(reason(crate::support::verify_for(&world, &token, "")), Reason::AudienceMismatch);
    world.settings = verifier::appraisal::OidcSettings::default();
    assert_eq!(reason(world.verify(&token, NOW)), Reason::IssuerUnknown);
}
