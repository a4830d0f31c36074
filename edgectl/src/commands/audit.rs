//! `edgectl audit`: what was decided and done, once or as it happens.

use std::time::Duration;

use protocol::admin::{AuditItem, Page};

use crate::cli::{AuditArguments, PageArguments, VerifierArguments};
use crate::client::Client;
use crate::configuration::Role;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, or_dash, table, visible};

/// Between two looks of `--follow`.
const INTERVAL: Duration = Duration::from_secs(2);

/// Runs the command.
pub async fn run(arguments: AuditArguments, verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    let client = Client::new(Role::Admin, verifier)?;
    let tenant = arguments.tenant.as_deref();
    if arguments.follow {
        return follow(&client, tenant, arguments.page, output).await;
    }
    let list = client.audit(tenant, arguments.page).await?;
    output.data(&list, || {
        let header = ["TIME", "EVENT", "OUTCOME", "WHY", "WHO", "RUNNER", "REQUEST"];
        table(header, list.items.iter().map(row))
    })?;
    output.more(list.next.as_deref());
    Ok(Outcome::Done)
}

/// Prints the newest events and then every later one, until interrupted or refused. Short absences of the verifier are sat out.
async fn follow(
    client: &Client,
    tenant: Option<&str>,
    page: PageArguments,
    output: Output,
) -> Result<Outcome, Failure> {
    // One future from the start: a signal that comes during a call must not be lost.
    let interrupted = tokio::signal::ctrl_c();
    tokio::select! {
        biased;
        _ = interrupted => Ok(Outcome::Done),
        ended = follow_on(client, tenant, page, output) => ended,
    }
}

async fn follow_on(
    client: &Client,
    tenant: Option<&str>,
    page: PageArguments,
    output: Output,
) -> Result<Outcome, Failure> {
    let mut last = None;
    let first = client.audit(tenant, page).await?;
    print(first.items, &mut last, output)?;
    loop {
        tokio::time::sleep(INTERVAL).await;
        match later_than(client, tenant, last).await {
            Ok(items) => print(items, &mut last, output)?,
            Err(failure) if failure.exit_status() == crate::failure::UNAVAILABLE => {
                output.note(format!("{failure}; waiting"));
            }
            Err(failure) => return Err(failure),
        }
    }
}

/// Events after `last`, newest first, following cursors until a known one is met.
pub(crate) async fn later_than(
    client: &Client,
    tenant: Option<&str>,
    last: Option<u64>,
) -> Result<Vec<AuditItem>, Failure> {
    let mut later: Vec<AuditItem> = Vec::new();
    let mut cursor: Option<String> = None;
    loop {
        let Page { items, next } = client.audit_page(tenant, cursor.as_deref()).await?;
        let seen = items.len();
        later.extend(items.into_iter().filter(|item| last.is_none_or(|last| item.id > last)));
        let met_known = last.is_some_and(|last| later.last().is_none_or(|oldest| oldest.id <= last + 1));
        if seen == 0 || met_known || next.is_none() {
            return Ok(later);
        }
        cursor = next;
    }
}

fn print(newest_first: Vec<AuditItem>, last: &mut Option<u64>, output: Output) -> Result<(), Failure> {
    for item in newest_first.into_iter().rev() {
        *last = Some(item.id.max(last.unwrap_or_default()));
        output.event(&item, || row(&item).map(|cell| visible(&cell)).join("  "))?;
    }
    Ok(())
}

/// Whom it is about, and by whom it was asked for: operators and services.
fn who(item: &AuditItem) -> Option<String> {
    match (&item.identity, &item.actor) {
        (Some(identity), Some(actor)) => Some(format!("{identity} by {actor}")),
        (None, Some(actor)) => Some(format!("by {actor}")),
        (identity, None) => identity.clone(),
    }
}

fn row(item: &AuditItem) -> [String; 7] {
    let mut why: Vec<String> =
        [item.code.map(|code| code.to_string()), item.reason.clone()].into_iter().flatten().collect();
    why.extend(item.cause.map(|cause| cause.to_string()));
    [
        item.time.clone(),
        item.event.to_string(),
        item.outcome.to_string(),
        or_dash((!why.is_empty()).then(|| why.join(", "))),
        or_dash(who(item)),
        or_dash(item.runner_id.as_deref()),
        item.request_id.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_names_whom_it_is_about_and_who_asked() {
        let event = |identity: Option<&str>, actor: Option<&str>| -> AuditItem {
            serde_json::from_value(json!({
                "id": 1, "time": "2026-11-30T12:00:00Z", "type": "ban", "outcome": "allow", "code": null, "reason": null,
                "cause": null, "mode": null, "identity": identity, "runner_id": null, "actor": actor, "request_id": "r",
            }))
            .unwrap()
        };
        for (identity, actor, expected) in [
            (Some("bootstrap-token:a"), Some("0a1b2c3d"), "bootstrap-token:a by 0a1b2c3d"),
            (None, Some("0a1b2c3d"), "by 0a1b2c3d"),
            (Some("bootstrap-token:a"), None, "bootstrap-token:a"),
            (None, None, "-"),
        ] {
            assert_eq!(row(&event(identity, actor))[4], expected);
        }
    }
}
