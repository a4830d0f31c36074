//! `edgectl runner list|show|ban|unban|evict`.

use protocol::admin::{BanRequest, RunnerItem};
use serde_json::json;

use crate::cli::{RunnerCommand, RunnerName, VerifierArguments};
use crate::client::Client;
use crate::configuration::Role;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, fields, table, visible};

/// Runs the command.
pub async fn run(command: RunnerCommand, verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    let client = Client::new(Role::Admin, verifier)?;
    match command {
        RunnerCommand::List { tenant, page } => {
            let list = client.runners(&tenant, page).await?;
            output.data(&list, || {
                table(["RUNNER", "STATE", "MODE", "IDENTITY", "CERTIFICATE UNTIL"], list.items.iter().map(row))
            })?;
            output.more(list.next.as_deref());
        }
        RunnerCommand::Show(RunnerName { tenant, runner_id }) => {
            let runner = client.runner(&tenant, &runner_id).await?;
            output.data(&runner, || details(&runner))?;
        }
        RunnerCommand::Ban { runner: RunnerName { tenant, runner_id }, reason, scope } => {
            let answer = client.ban(&tenant, &runner_id, &BanRequest { reason, scope }).await?;
            output.data(&answer, || details(&answer.runner))?;
            if let Some(warning) = &answer.warning {
                output.note(format!("warning: {}", visible(warning)));
            }
        }
        RunnerCommand::Unban(RunnerName { tenant, runner_id }) => {
            let runner = client.unban(&tenant, &runner_id).await?;
            output.data(&runner, || details(&runner))?;
        }
        RunnerCommand::Evict(RunnerName { tenant, runner_id }) => {
            client.evict(&tenant, &runner_id).await?;
            output.done(&json!({ "runner_id": runner_id, "tenant": tenant, "evicted": true }), || {
                format!("Runner {runner_id} of tenant {tenant} is forgotten and its certificates are revoked.")
            })?;
        }
    }
    Ok(Outcome::Done)
}

fn row(runner: &RunnerItem) -> [String; 5] {
    [
        runner.runner_id.clone(),
        runner.state.to_string(),
        runner.mode.to_string(),
        runner.identity.clone(),
        runner.not_after.clone(),
    ]
}

fn details(runner: &RunnerItem) -> String {
    let lines: [(&str, &str); 10] = [
        ("Runner", runner.runner_id.as_str()),
        ("Tenant", &runner.tenant),
        ("State", runner.state.as_str()),
        ("Mode", runner.mode.as_str()),
        ("Identity", &runner.identity),
        ("Instance", &runner.instance),
        ("Serial", &runner.serial),
        ("Certificate until", &runner.not_after),
        ("Attested at", &runner.attested_at),
        ("Last seen", &runner.last_seen),
    ];
    fields(lines)
}
