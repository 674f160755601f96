//! A server's API.

use std::{io, str::FromStr, time::Duration};

use serde::de::DeserializeOwned;
use thiserror::Error;
use ureq::Agent;

use super::Reading;
use crate::{
    serve::{METRICS_SCHEMA, Page},
    top::reading::{MEMORY_SCHEMA, Memory},
};

/// An answer takes at most so long, and is at most so large.
const PATIENCE: Duration = Duration::from_secs(5);
const LARGEST_BYTES: u64 = 64 << 20;
/// Of what a server says of a failure, at most so many characters are shown.
const PROBLEM: usize = 200;

/// Where a server's API is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(String);

impl FromStr for Address {
    type Err = String;

    /// `http://127.0.0.1:9411`, or without `http://`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let place = match text.split_once("://") {
            Some(("http", place)) => place,
            Some((scheme, _)) => {
                return Err(format!("{scheme}: the API is served over http alone"));
            }
            None => text,
        };
        let place = place.trim_end_matches('/');
        if place.is_empty() || place.contains(['/', '?', '#', '@']) {
            return Err("an address is expected, as in http://127.0.0.1:9411".to_owned());
        }
        Ok(Self(place.to_owned()))
    }
}

/// Why a server could not be read.
#[derive(Debug, Error)]
pub enum ServerError {
    /// It does not answer.
    #[error(
        "asking {url}: {source}\nhint: is `cudasnoop serve` running there? Its API is where --admin \
         says, by default on port 9411 of its own machine or pod alone"
    )]
    Silent {
        /// What was asked for.
        url: String,
        /// Why not.
        source: ureq::Error,
    },
    /// It refuses.
    #[error("asking {url}: {status}: {problem}")]
    Refused {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
        /// What it says.
        problem: String,
    },
    /// It answers something else.
    #[error(
        "asking {url}: {problem}\nhint: is that the API of `cudasnoop serve`, of this version?"
    )]
    Strange {
        /// What was asked for.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// Asks a server.
#[derive(Clone, Debug)]
pub(in crate::top) struct Remote {
    agent: Agent,
    address: Address,
}

impl Remote {
    pub(super) fn new(address: Address) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(PATIENCE))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .build();
        Self {
            agent: config.into(),
            address,
        }
    }

    pub(super) fn title(&self) -> String {
        format!("http://{}", self.address.0)
    }

    pub(super) fn read(&self) -> Result<Reading, ServerError> {
        let page: Page = self.get("/api/v1/metrics", METRICS_SCHEMA, |page: &Page| {
            &page.schema
        })?;
        let memory = self.get("/api/v1/memory", MEMORY_SCHEMA, |memory: &Memory| {
            &memory.schema
        })?;
        Ok(Reading::new(&page, memory))
    }

    fn get<T: DeserializeOwned>(
        &self,
        path: &str,
        schema: &str,
        schema_of: impl Fn(&T) -> &String,
    ) -> Result<T, ServerError> {
        let url = format!("http://{}{path}", self.address.0);
        let silent = |source| ServerError::Silent {
            url: url.clone(),
            source,
        };
        let mut answer = self.agent.get(&url).call().map_err(silent)?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(LARGEST_BYTES);
        if !status.is_success() {
            let text = body.lossy_utf8(true).read_to_string().map_err(silent)?;
            let shown = text.chars().filter(|c| !c.is_control()).take(PROBLEM);
            return Err(ServerError::Refused {
                url,
                status: status.as_u16(),
                problem: shown.collect(),
            });
        }
        let reader = io::BufReader::new(body.reader());
        let document: T = match serde_json::from_reader(reader) {
            Ok(document) => document,
            Err(error) => {
                return Err(ServerError::Strange {
                    url,
                    problem: error.to_string(),
                });
            }
        };
        let found = schema_of(&document);
        if found != schema {
            let found: String = found.chars().take(PROBLEM).collect();
            return Err(ServerError::Strange {
                url,
                problem: format!("{found:?} in place of {schema:?}"),
            });
        }
        Ok(document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_with_and_without_scheme() {
        let address = Address("127.0.0.1:9411".to_owned());
        for text in [
            "127.0.0.1:9411",
            "http://127.0.0.1:9411",
            "http://127.0.0.1:9411/",
        ] {
            assert_eq!(text.parse(), Ok(address.clone()), "{text}");
        }
        for text in [
            "",
            "https://127.0.0.1",
            "http://",
            "127.0.0.1/metrics",
            "me@there",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
