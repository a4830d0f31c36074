//! `edgectl token mint|list|revoke`.

use protocol::admin::{MintRequest, TokenItem};

use crate::cli::{TokenCommand, VerifierArguments};
use crate::client::Client;
use crate::configuration::Role;
use crate::failure::{Failure, Outcome};
use crate::output::{Output, or_dash, table};

/// Runs the command.
pub async fn run(command: TokenCommand, verifier: &VerifierArguments, output: Output) -> Result<Outcome, Failure> {
    let client = Client::new(Role::Admin, verifier)?;
    match command {
        TokenCommand::Mint { tenant, ttl, max_uses, description } => {
            let minted = client.mint(&tenant, &MintRequest { ttl, max_uses, description }).await?;
            output.data(&minted, || minted.token.clone())?;
            output.note(format!(
                "Token {} of tenant {}, good for {} until {}. It is not shown again.",
                minted.id,
                minted.tenant,
                if minted.max_uses == 1 { "one runner".to_owned() } else { format!("{} runners", minted.max_uses) },
                minted.expires_at,
            ));
        }
        TokenCommand::List { tenant, page } => {
            let list = client.tokens(&tenant, page).await?;
            output
                .data(&list, || table(["ID", "USES", "EXPIRES", "STATE", "DESCRIPTION"], list.items.iter().map(row)))?;
            output.more(list.next.as_deref());
        }
        TokenCommand::Revoke { tenant, id } => {
            client.revoke(&tenant, &id).await?;
            output.done(&serde_json::json!({ "id": id, "tenant": tenant, "revoked": true }), || {
                format!("Token {id} of tenant {tenant} is revoked.")
            })?;
        }
    }
    Ok(Outcome::Done)
}

fn row(token: &TokenItem) -> [String; 5] {
    let state = if token.revoked {
        "revoked"
    } else if token.uses >= token.max_uses {
        "used up"
    } else {
        "open"
    };
    [
        token.id.clone(),
        format!("{}/{}", token.uses, token.max_uses),
        token.expires_at.clone(),
        state.to_owned(),
        or_dash(token.description.as_deref()),
    ]
}
