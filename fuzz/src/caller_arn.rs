//! ARN of a caller (CHECKS S11, S12): what is accepted is its parts and nothing else.

use verifier::aws::arn::{Caller, CallerArn};

/// One ARN.
///
/// # Panics
///
/// When a property does not hold.
pub fn check(input: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(input) else { return false };
    let Ok(arn) = CallerArn::parse(text) else { return false };
    let Ok(caller) = arn.caller() else { return false };
    let (partition, account) = (arn.partition, arn.account);
    assert!(account.len() == 12 && account.bytes().all(|octet| octet.is_ascii_digit()));
    let again = match caller {
        Caller::AssumedRole { role, session } => {
            assert!(!role.is_empty() && !session.is_empty() && !role.contains('/') && !session.contains('/'));
            format!("arn:{partition}:sts::{account}:assumed-role/{role}/{session}")
        }
        Caller::User { name } => {
            assert!(!name.is_empty() && !name.starts_with('/') && !name.ends_with('/'));
            format!("arn:{partition}:iam::{account}:user/{name}")
        }
    };
    assert_eq!(text, again);
    true
}
