//! ARN of a caller (CHECKS S11, S12): never a panic, and what is accepted is its parts and nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use verifier::aws::arn::{Caller, CallerArn};

fuzz_target!(|text: &str| {
    let Ok(arn) = CallerArn::parse(text) else { return };
    let Ok(caller) = arn.caller() else { return };
    let (partition, account) = (arn.partition, arn.account);
    assert!(account.len() == 12 && account.bytes().all(|byte| byte.is_ascii_digit()));
    let again = match caller {
        Caller::AssumedRole { role, session } => {
            assert!(!role.contains('/') && !session.contains('/'));
            format!("arn:{partition}:sts::{account}:assumed-role/{role}/{session}")
        }
        Caller::User { name } => format!("arn:{partition}:iam::{account}:user/{name}"),
    };
    assert_eq!(text, again);
});
