//! The options about graphs: where the execution service is, and the secrets by which it is called.

use std::sync::Arc;

use clap::Args;
use punctual_core::invalid::Invalid;
use punctual_core::secret::Secret;
use punctual_engine::targets::graph::{GraphCaller, GraphOptions, TokenSource};

use super::Stop;
use super::data::DataFolder;

/// What a worker calls itself to the execution service.
const SERVICE_NAME: &str = "punctual-worker";

/// The shortest secret, in characters.
const SECRET_MIN: usize = 32;

/// Graphs.
#[derive(Args)]
#[command(next_help_heading = "Graphs")]
pub(crate) struct GraphArgs {
    /// The execution service that runs graphs; also `INTERNAL_API_URL` [default: the server on the data folder]
    #[arg(long, value_name = "URL", env = "PUNCTUAL_INTERNAL_API_URL")]
    internal_api_url: Option<String>,
    /// The secrets by which services are let in, with commas between them: the first is sent, all are accepted [default:
    /// the data folder's own]
    #[arg(long, value_name = "SECRETS", env = "PUNCTUAL_SERVICE_SECRETS", hide_env_values = true)]
    service_secrets: Option<String>,
}

impl GraphArgs {
    /// Refuses what cannot be meant.
    pub(crate) fn check(&self) -> Result<(), Stop> {
        if self.secrets().iter().all(|secret| secret.len() >= SECRET_MIN) {
            return Ok(());
        }
        Err(Stop::usage(format!(
            "--service-secrets: one has fewer than {SECRET_MIN} characters; make one with `openssl rand -hex 32`"
        )))
    }

    /// The secrets that were given.
    pub(crate) fn secrets(&self) -> Vec<String> {
        let given = self.service_secrets.as_deref().unwrap_or_default();
        given.split([',', '\n']).map(str::trim).filter(|secret| !secret.is_empty()).map(str::to_owned).collect()
    }

    fn url(&self) -> Option<String> {
        let usual = || std::env::var("INTERNAL_API_URL").ok().filter(|url| !url.is_empty());
        self.internal_api_url.clone().or_else(usual)
    }

    /// What calls the execution service: the one that was named, the server's own, or the one on the folder. Without any
    /// the node offers no graphs.
    pub(crate) fn caller(&self, folder: Option<&DataFolder>, own: Option<String>) -> Result<Option<GraphCaller>, Stop> {
        let Some(url) = self.url().or(own).or_else(|| Some(folder?.running()?.url)) else { return Ok(None) };
        let token = self.token(folder.cloned());
        let options = GraphOptions { url, token, service: SERVICE_NAME.to_owned(), authorities: Vec::new() };
        GraphCaller::new(options).map(Some).map_err(|refused| Stop::usage(refused.to_string()))
    }

    fn token(&self, folder: Option<DataFolder>) -> TokenSource {
        let given = self.secrets().into_iter().next();
        Arc::new(move || {
            let secret = given.clone().or_else(|| folder.as_ref()?.service_secret());
            secret.map(Secret::new).ok_or_else(|| {
                Invalid::new("service_secrets", "there is no secret to call the execution service with")
                    .remedy("give --service-secrets, or --data with the folder of the server")
            })
        })
    }
}
