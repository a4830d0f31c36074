//! `edgectl policy validate|diff|apply|show`.

use std::path::Path;

use protocol::admin::PolicyProblem;
use serde_json::json;
use similar::TextDiff;
use verifier::appraisal::PolicyDocument;

use crate::cli::{PolicyCommand, VerifierArguments};
use crate::client::{Client, StoredPolicy};
use crate::configuration::Role;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, visible};
use crate::policy_file::PolicyFile;

/// Runs the command.
pub async fn run(command: PolicyCommand, verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    match command {
        PolicyCommand::Validate { file } => validate(&file, output),
        PolicyCommand::Diff { file } => diff(&file, verifier, output).await,
        PolicyCommand::Apply { file, if_match } => apply(&file, if_match.as_deref(), verifier, output).await,
        PolicyCommand::Show => show(verifier, output).await,
    }
}

fn validate(file: &Path, output: Output) -> Result<Outcome, Failure> {
    let file = PolicyFile::read(file)?;
    let (errors, warnings) = match file.compile() {
        Ok(policy) => (Vec::new(), policy.warnings().to_vec()),
        Err(problems) => (problems, Vec::new()),
    };
    let valid = errors.is_empty();
    output.data(&json!({ "valid": valid, "errors": errors, "warnings": warnings }), || {
        let mut lines = described(&file, "error", &errors);
        lines.extend(described(&file, "warning", &warnings));
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        lines.push(if valid {
            format!("{} is valid: {}", file.name, count(warnings.len(), "warning"))
        } else {
            format!("{} is not valid: {}", file.name, count(errors.len(), "error"))
        });
        lines.join("\n")
    })?;
    Ok(if valid { Outcome::Done } else { Outcome::No })
}

/// `policy.toml:12: error: tenants[0].id: …`, in the order of the file.
fn described(file: &PolicyFile, kind: &str, problems: &[PolicyProblem]) -> Vec<String> {
    let mut placed: Vec<(Option<usize>, &PolicyProblem)> =
        problems.iter().map(|problem| (file.line_of(&problem.path), problem)).collect();
    placed.sort_by_key(|(line, _)| *line);
    let describe = |(line, problem): (Option<usize>, &PolicyProblem)| {
        let line = line.map(|line| format!(":{line}")).unwrap_or_default();
        let path = if problem.path.is_empty() { String::new() } else { format!("{}: ", visible(&problem.path)) };
        format!("{}{line}: {kind}: {path}{}", file.name, visible(&problem.message))
    };
    placed.into_iter().map(describe).collect()
}

async fn diff(file: &Path, verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    let file = PolicyFile::read(file)?;
    let current = Client::new(Role::Admin, verifier)?.policy().await?.map(|stored| stored.document);
    let differs = current.as_ref() != Some(&file.document);
    let patch = json_patch::diff(&json!(current), &json!(file.document));
    output.data(&json!({ "differs": differs, "patch": patch }), || unified(current.as_ref(), &file))?;
    if !differs {
        output.note(format!("{} is in force as it is.", file.name));
    }
    if let Err(problems) = file.compile() {
        for line in described(&file, "error", &problems) {
            output.note(line);
        }
    }
    Ok(if differs { Outcome::No } else { Outcome::Done })
}

fn unified(current: Option<&PolicyDocument>, file: &PolicyFile) -> String {
    let (old, new) = (current.map(to_toml).unwrap_or_default(), to_toml(&file.document));
    let mut diff = TextDiff::from_lines(&old, &new).unified_diff().header("in force", &file.name).to_string();
    diff.truncate(diff.trim_end().len());
    diff
}

async fn apply(
    file: &Path,
    if_match: Option<&str>,
    verifier: &VerifierArguments,
    output: Output,
) -> Result<Outcome, Failure> {
    let file = PolicyFile::read(file)?;
    let policy = file.compile().map_err(|problems| Failure::PolicyInvalid { name: file.name.clone(), problems })?;
    for line in described(&file, "warning", policy.warnings()) {
        output.note(line);
    }
    let client = Client::new(Role::Admin, verifier)?;
    let current = client.policy().await?;
    let (changed, etag) = match current {
        Some(StoredPolicy { etag, document })
            if document == file.document && if_match.is_none_or(|version| version == etag) =>
        {
            (false, etag)
        }
        current => {
            let version = if_match.or(current.as_ref().map(|stored| stored.etag.as_str()));
            (true, client.apply(&file.document, version).await?)
        }
    };
    let answer = json!({ "changed": changed, "etag": etag, "warnings": policy.warnings() });
    output.data(&answer, || {
        if changed {
            format!("{} is applied as version {etag}; in force everywhere within 10 seconds", file.name)
        } else {
            format!("{} is in force already, as version {etag}", file.name)
        }
    })?;
    Ok(Outcome::Done)
}

async fn show(verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    let Some(stored) = Client::new(Role::Admin, verifier)?.policy().await? else {
        let hint = "Apply one with `edgectl policy apply policy.toml`.";
        output.note(format!("The verifier has no policy yet. {hint}"));
        return Ok(Outcome::No);
    };
    output.data(&stored.document, || to_toml(&stored.document))?;
    output.note(format!("version {}", stored.etag));
    Ok(Outcome::Done)
}

/// Every document has a TOML form: it was read from one, or from JSON of the same shape.
fn to_toml(document: &PolicyDocument) -> String {
    toml::to_string_pretty(document).unwrap_or_default()
}
