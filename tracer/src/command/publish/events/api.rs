//! Sends Events to Kubernetes' API server from within a pod.
//!
//! The address comes from the environment, the certificate and token from the service account's
//! folder.

use std::{
    env,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, bail};
use serde_json::Value;
use ureq::{
    Agent, Body,
    http::{Method, Request, Response},
    tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem},
};

use super::budget;
use crate::{bounded, show::publish::pod_event::PodEvent};

/// The timeout of one request, until the end of the answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// How much of an answer is read. Longer ones do not matter.
const ANSWER: u64 = 64 << 10;
/// The most that is read of a token or a bundle of certificates.
const FILE: u64 = 1 << 20;

/// The outcome of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// The Event exists.
    Done,
    /// Failed for now: try again, after this time if the server states one.
    Later(String, Option<Duration>),
    /// Not allowed now, in this namespace. It may be once somebody grants it.
    Forbidden(String),
    /// Refused for good.
    Refused(String),
    /// The Event that was to be counted does not exist any more.
    Gone,
}

/// The address of the API server, and the folder of the service account.
#[derive(Debug, Clone)]
pub(super) struct Api {
    base: String,
    folder: PathBuf,
}

impl Api {
    /// Reads the address from the environment of a pod.
    pub(super) fn of_environment(folder: &Path) -> Result<Self, String> {
        let value = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
        let host = value("KUBERNETES_SERVICE_HOST");
        let Some(host) = host else {
            return Err("--k8s-events is for a pod: KUBERNETES_SERVICE_HOST is not set".into());
        };
        let port = value("KUBERNETES_SERVICE_PORT").unwrap_or_else(|| "443".into());
        let host = if host.contains(':') {
            format!("[{host}]")
        } else {
            host
        };
        Ok(Self {
            base: format!("https://{host}:{port}"),
            folder: folder.to_owned(),
        })
    }

    /// Sends a request. The token is read each time, because it changes about once an hour.
    pub(super) fn ask(&self, event: &PodEvent, request: &budget::Request) -> Answer {
        let counts = matches!(request, budget::Request::Count { .. });
        match self.send(event, request) {
            Ok(response) => answer(response, counts),
            Err(error) => Answer::Later(format!("{error:#}"), None),
        }
    }

    fn send(&self, event: &PodEvent, request: &budget::Request) -> anyhow::Result<Response<Body>> {
        let events = format!("{}/api/v1/namespaces/{}/events", self.base, event.namespace);
        let (method, address, kind, body) = match request {
            budget::Request::Create { message } => (
                Method::POST,
                events,
                "application/json",
                event.object(message),
            ),
            budget::Request::Count {
                name,
                message,
                count,
            } => (
                Method::PATCH,
                format!("{events}/{name}"),
                "application/merge-patch+json",
                event.repeat_patch(message, *count),
            ),
        };
        let token = self.file("token")?;
        // The kubelet has not written it yet. Without a token the server would refuse the Event.
        if token.trim().is_empty() {
            bail!("{} is empty", self.folder.join("token").display());
        }
        let request = Request::builder()
            .method(method)
            .uri(address)
            .header("authorization", format!("Bearer {}", token.trim()))
            .header("content-type", kind)
            .header("accept", "application/json")
            .body(serde_json::to_vec(&body)?)?;
        Ok(self.agent()?.run(request)?)
    }

    /// Builds an HTTP client that trusts only the cluster's own certificate and follows no proxy or
    /// redirect.
    fn agent(&self) -> anyhow::Result<Agent> {
        let bundle = self.file("ca.crt")?;
        let certificates = parse_pem(bundle.as_bytes()).filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        });
        let certificates: Vec<Certificate<'static>> = certificates.collect();
        if certificates.is_empty() {
            bail!("no certificate in {}", self.folder.join("ca.crt").display());
        }
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&certificates))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            .user_agent(concat!("raytrace/", env!("CARGO_PKG_VERSION")))
            .build();
        Ok(config.new_agent())
    }

    fn file(&self, name: &str) -> anyhow::Result<String> {
        let path = self.folder.join(name);
        bounded::text(&path, FILE).with_context(|| format!("cannot read {}", path.display()))
    }
}

fn answer(mut response: Response<Body>, counts: bool) -> Answer {
    let status = response.status().as_u16();
    let after = response.headers().get("retry-after");
    let after = after.and_then(|value| value.to_str().ok()?.parse().ok());
    let body = response.body_mut().with_config().limit(ANSWER);
    let body = body.read_to_string().unwrap_or_default();
    let said: Value = serde_json::from_str(&body).unwrap_or_default();
    let said = said["message"].as_str().unwrap_or("no reason");
    let said = format!("{status}: {}", said.chars().take(300).collect::<String>());
    of_status(status, counts, said, after.map(Duration::from_secs))
}

/// Interprets a status. 409 means that an Event of this name exists; names are derived from deaths,
/// so it is the same Event. 401 means that the token has expired; the next try reads a new one. 403
/// means that a right is missing, or that the namespace is being deleted
/// (`apiserver/pkg/admission/plugin/namespace/lifecycle`).
fn of_status(status: u16, counts: bool, said: String, after: Option<Duration>) -> Answer {
    match status {
        200..=299 => Answer::Done,
        409 if !counts => Answer::Done,
        404 if counts => Answer::Gone,
        403 if !said.contains("is being terminated") => Answer::Forbidden(said),
        401 | 408 | 409 | 429 | 500..=599 => Answer::Later(said, after),
        _ => Answer::Refused(said),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_statuses_are_interpreted() {
        let of = |status, counts| of_status(status, counts, String::new(), None);
        assert_eq!(of(201, false), Answer::Done);
        assert_eq!(of(409, false), Answer::Done);
        assert_eq!(of(404, true), Answer::Gone);
        for status in [401, 429, 500, 503] {
            assert!(matches!(of(status, false), Answer::Later(..)), "{status}");
        }
        assert!(matches!(of(403, false), Answer::Forbidden(_)));
        let said =
            "403: unable to create new content in namespace a because it is being terminated";
        let ends = of_status(403, false, said.into(), None);
        assert!(matches!(ends, Answer::Refused(_)));
        for status in [301, 400, 404, 422] {
            assert!(matches!(of(status, false), Answer::Refused(_)), "{status}");
        }
    }
}
