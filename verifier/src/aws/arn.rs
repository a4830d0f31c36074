//! ARN of a caller as `GetCallerIdentity` gives it (CHECKS S11, S12). Out of scope: ARNs of anything else.

use thiserror::Error;

/// Who calls: the two kinds that are accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller<'a> {
    /// `arn:<partition>:sts::<account>:assumed-role/<role>/<session>`.
    AssumedRole {
        /// Role name; STS drops the path.
        role: &'a str,
        /// The caller's choice.
        session: &'a str,
    },
    /// `arn:<partition>:iam::<account>:user/<path/name>`.
    User {
        /// Path and name, without the leading slash.
        name: &'a str,
    },
}

/// An ARN taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerArn<'a> {
    /// `aws`, `aws-cn`, …, not yet looked at.
    pub partition: &'a str,
    /// 12 digits.
    pub account: &'a str,
    service: &'a str,
    resource: &'a str,
}

/// Why a text is no ARN of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ArnError {
    /// CHECKS S11.
    #[error("not an ARN of six parts with an account and no region")]
    Form,
    /// CHECKS S12.
    #[error("neither an assumed role nor an IAM user")]
    Unsupported,
}

impl<'a> CallerArn<'a> {
    /// Takes six parts apart; what the last one says is left to [`Self::caller`].
    pub fn parse(arn: &'a str) -> Result<Self, ArnError> {
        let mut parts = arn.split(':');
        let mut next = || parts.next().ok_or(ArnError::Form);
        let (prefix, partition, service, region, account, resource) =
            (next()?, next()?, next()?, next()?, next()?, next()?);
        let form = prefix == "arn" && !partition.is_empty() && region.is_empty() && is_account(account);
        if !form || parts.next().is_some() {
            return Err(ArnError::Form);
        }
        Ok(Self { partition, account, service, resource })
    }

    /// The caller. Root, federated users and everything else are refused (CHECKS S12).
    pub fn caller(&self) -> Result<Caller<'a>, ArnError> {
        let (kind, rest) = self.resource.split_once('/').ok_or(ArnError::Unsupported)?;
        match (self.service, kind) {
            ("sts", "assumed-role") => {
                let (role, session) = rest.split_once('/').ok_or(ArnError::Unsupported)?;
                (is_name(role) && is_name(session))
                    .then_some(Caller::AssumedRole { role, session })
                    .ok_or(ArnError::Unsupported)
            }
            ("iam", "user") => {
                is_path_and_name(rest).then_some(Caller::User { name: rest }).ok_or(ArnError::Unsupported)
            }
            _ => Err(ArnError::Unsupported),
        }
    }
}

/// 12 ASCII digits.
pub fn is_account(text: &str) -> bool {
    text.len() == 12 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Name of a role, user or role session as IAM allows it: 1 to 64 of `[A-Za-z0-9_+=,.@-]`.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_+=,.@-".contains(&byte))
}

/// A name behind the segments of a path (visible ASCII, 512 in all), none of them empty.
fn is_path_and_name(text: &str) -> bool {
    let (path, name) = text.rsplit_once('/').map_or((None, text), |(path, name)| (Some(path), name));
    let segment = |segment: &str| !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_graphic());
    is_name(name) && path.is_none_or(|path| path.len() <= 510 && path.split('/').all(segment))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn caller(arn: &str) -> Result<Caller<'_>, ArnError> {
        CallerArn::parse(arn)?.caller()
    }

    #[test]
    fn accepted_callers() {
        for (arn, expected) in [
            ("arn:aws:sts::123456789012:assumed-role/r/s", Caller::AssumedRole { role: "r", session: "s" }),
            (
                "arn:aws-cn:sts::123456789012:assumed-role/A_1+=,.@-/i-0abc",
                Caller::AssumedRole { role: "A_1+=,.@-", session: "i-0abc" },
            ),
            ("arn:aws:iam::123456789012:user/Alice", Caller::User { name: "Alice" }),
            ("arn:aws:iam::123456789012:user/a/b/Alice", Caller::User { name: "a/b/Alice" }),
        ] {
            assert_eq!(caller(arn), Ok(expected), "{arn}");
        }
        let parsed = CallerArn::parse("arn:aws-us-gov:iam::123456789012:user/Alice").unwrap();
        assert_eq!((parsed.partition, parsed.account), ("aws-us-gov", "123456789012"));
    }

    /// CHECKS S11: six parts.
    #[test]
    fn texts_that_are_no_arn() {
        for arn in [
            "",
            "arn",
            "arn:aws:sts::123456789012",
            "ARN:aws:sts::123456789012:assumed-role/r/s",
            " arn:aws:sts::123456789012:assumed-role/r/s",
            "arn::sts::123456789012:assumed-role/r/s",
            "arn:aws:sts:eu-west-1:123456789012:assumed-role/r/s",
            "arn:aws:sts::12345678901:assumed-role/r/s",
            "arn:aws:sts::1234567890123:assumed-role/r/s",
            "arn:aws:sts::12345678901x:assumed-role/r/s",
            "arn:aws:sts::１２３４:assumed-role/r/s",
            "arn:aws:sts::123456789012:assumed-role/r/s:x",
            "arn:aws:sts::123456789012:assumed-role:r:s",
        ] {
            assert_eq!(CallerArn::parse(arn), Err(ArnError::Form), "{arn:?}");
        }
    }

    /// CHECKS S12: everything but assumed roles and users.
    #[test]
    fn other_callers_are_refused() {
        let long = format!("arn:aws:sts::123456789012:assumed-role/{}/s", "r".repeat(65));
        let deep = format!("arn:aws:iam::123456789012:user/{}Alice", "p/".repeat(256));
        for arn in [
            "arn:aws:iam::123456789012:root",
            "arn:aws:sts::123456789012:federated-user/bob",
            "arn:aws:iam::123456789012:role/r",
            "arn:aws:iam::123456789012:assumed-role/r/s",
            "arn:aws:sts::123456789012:user/Alice",
            "arn:aws:sts::123456789012:Assumed-Role/r/s",
            "arn:aws:sts::123456789012:assumed-role/r",
            "arn:aws:sts::123456789012:assumed-role/r/",
            "arn:aws:sts::123456789012:assumed-role//s",
            "arn:aws:sts::123456789012:assumed-role/a/b/s",
            "arn:aws:sts::123456789012:assumed-role/r/s\n",
            "arn:aws:sts::123456789012:assumed-role/r\0/s",
            "arn:aws:sts::123456789012:assumed-role/ｒ/s",
            "arn:aws:sts::123456789012:assumed-role/r*/s",
            "arn:aws:iam::123456789012:user/",
            "arn:aws:iam::123456789012:user//Alice",
            "arn:aws:iam::123456789012:user/a//Alice",
            "arn:aws:iam::123456789012:user/a b/Alice",
            "arn:aws:iam::123456789012:user/Alice/",
            "arn:aws:iam::123456789012:user/a&b",
            "arn:aws:iam::123456789012:user/é",
            long.as_str(),
            deep.as_str(),
        ] {
            assert_eq!(caller(arn), Err(ArnError::Unsupported), "{arn:?}");
        }
        assert!(caller(&"a".repeat(1 << 20)).is_err());
    }

    proptest! {
        #[test]
        fn any_text_is_decided(arn in "(arn:aws:(sts|iam)::[0-9]{11,13}:)?(user/|assumed-role/|[a-z:/]|\\PC){0,30}") {
            if let Ok(Caller::AssumedRole { role, session }) = caller(&arn) {
                let account = CallerArn::parse(&arn).unwrap().account;
                let again = format!("arn:aws:sts::{account}:assumed-role/{role}/{session}");
                prop_assert_eq!(arn, again);
            }
        }
    }
}
