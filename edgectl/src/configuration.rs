//! Where the verifier is and what opens it: address and tokens, checked before any call.

use std::fs;
use std::path::Path;

use reqwest::Url;
use reqwest::header::HeaderValue;
use zeroize::Zeroizing;

use crate::cli::VerifierArguments;
use crate::failure::Failure;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Admin routes.
    Admin,
    /// `/v1/verify`.
    Service,
}

impl Role {
    const fn variable(self) -> &'static str {
        match self {
            Self::Admin => "EDGECTL_TOKEN",
            Self::Service => "EDGECTL_SERVICE_TOKEN",
        }
    }

    fn file(self, arguments: &VerifierArguments) -> Option<&Path> {
        let file = match self {
            Self::Admin => arguments.token_file.as_ref(),
            Self::Service => arguments.service_token_file.as_ref(),
        };
        file.filter(|file| !file.is_empty()).map(Path::new)
    }
}

/// The address, `https`, or `http` to loopback.
pub fn address(arguments: &VerifierArguments) -> Result<Url, Failure> {
    let text = arguments.url.as_deref().filter(|text| !text.is_empty()).ok_or_else(|| {
        Failure::configuration(
            "no address of a verifier",
            "Set EDGECTL_URL or give --url, such as https://edge.example.com.",
        )
    })?;
    let wrong = |why: &str| Failure::configuration(format!("EDGECTL_URL {text:?} {why}"), None);
    let url = Url::parse(text).map_err(|error| wrong(&format!("is no URL: {error}")))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("must not hold a user or password"));
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("must be scheme, host and port only"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        "http" => Err(wrong("must be https: over http the token would be readable on the way (http is for loopback)")),
        _ => Err(wrong("must be https, or http to loopback")),
    }
}

/// Whether a URL's host names this machine.
pub fn is_loopback(url: &Url) -> bool {
    url.host_str().is_some_and(verifier::aws::endpoint::is_loopback)
}

/// The bearer token of a role, from the environment or a file, as a header's value.
pub fn bearer(role: Role, arguments: &VerifierArguments) -> Result<HeaderValue, Failure> {
    let variable = role.variable();
    let from_environment = std::env::var(variable).ok().filter(|token| !token.is_empty()).map(Zeroizing::new);
    let token = match (from_environment, role.file(arguments)) {
        (Some(token), _) => token,
        (None, Some(file)) => read_token(file)?,
        (None, None) => {
            let message = format!("no token: {variable} is not set, nor {variable}_FILE");
            return Err(Failure::configuration(
                message,
                "`edgectl ca init` made both tokens; tokens are never arguments.",
            ));
        }
    };
    let header = Zeroizing::new(format!("Bearer {}", token.trim()));
    let mut value = HeaderValue::from_str(&header)
        .map_err(|_| Failure::configuration(format!("{variable} holds characters that no token has"), None))?;
    value.set_sensitive(true);
    Ok(value)
}

fn read_token(file: &Path) -> Result<Zeroizing<String>, Failure> {
    let token = fs::read_to_string(file)
        .map(Zeroizing::new)
        .map_err(|error| Failure::Io { what: format!("read the token in {}", file.display()), error })?;
    if token.trim().is_empty() {
        return Err(Failure::configuration(format!("{} is empty", file.display()), None));
    }
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(url: &str) -> Result<Url, Failure> {
        address(&VerifierArguments { url: Some(url.to_owned()), ..VerifierArguments::default() })
    }

    #[test]
    fn https_or_loopback_only() {
        for good in
            ["https://edge.example.com", "https://edge.example.com:8443/", "http://127.0.0.1:8787", "http://[::1]:1"]
        {
            assert!(at(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "edge.example.com",
            "http://edge.example.com",
            "http://127.0.0.1.nip.io",
            "https://user:pass@edge.example.com",
            "https://edge.example.com/v1",
            "https://edge.example.com/?x=1",
            "ftp://127.0.0.1/",
        ] {
            let failure = at(bad).unwrap_err();
            assert_eq!(failure.exit_status(), crate::failure::CONFIGURATION, "{bad}");
        }
    }

    #[test]
    fn tokens_come_from_files_without_their_line_end() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "s3cret\n").unwrap();
        let arguments = VerifierArguments {
            service_token_file: Some(file.path().as_os_str().to_owned()),
            ..VerifierArguments::default()
        };
        let value = bearer(Role::Service, &arguments).unwrap();
        assert_eq!(value.to_str().unwrap(), "Bearer s3cret");
        assert!(!format!("{value:?}").contains("s3cret"));
        fs::write(file.path(), "\n").unwrap();
        assert!(bearer(Role::Service, &arguments).is_err());
    }
}
