//! A cluster whose REST APIs speak https, want a client certificate to be read and a login to change anything.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use nix::sys::signal::Signal;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject},
};
use serde_json::{Value, json};

use super::{
    LabError,
    cluster::Lab,
    home, http,
    net::{NODES, Node},
    papers::{Authority, Paper, replace},
    process,
};

/// Who may change something.
pub(crate) const LOGIN: &str = "admin:lab-rest";

/// What a client of such a cluster shows and believes.
pub type Caller = Arc<ClientConfig>;

/// The lab's own part in it.
pub(crate) struct Https {
    /// Who has signed at first.
    pub(crate) ca: Authority,
    pub(crate) caller: Mutex<Caller>,
}

/// Where a certificate, its key and those of whoever is believed are.
#[derive(Clone, Debug)]
pub struct Files {
    pub cert: PathBuf,
    pub key: PathBuf,
    pub ca: PathBuf,
}

impl Files {
    fn of(folder: &Path) -> Self {
        let at = |name| folder.join(name);
        Self {
            cert: at("rest.crt"),
            key: at("rest.key"),
            ca: at("rest-ca.crt"),
        }
    }

    fn write(&self, paper: &Paper, bundle: &str) -> Result<(), LabError> {
        paper.write(&self.cert, &self.key);
        replace(&self.ca, bundle);
        [&self.cert, &self.key, &self.ca]
            .into_iter()
            .try_for_each(|file| home::give(file))
    }
}

/// `restapi`, and `ctl` for the questions of members to each other.
pub(crate) fn add_to(patroni: &mut Value, node: &Path) {
    let Files { cert, key, ca } = Files::of(node);
    let (username, password) = LOGIN.split_once(':').unwrap_or_default();
    let rest = &mut patroni["restapi"];
    rest["certfile"] = json!(cert);
    rest["keyfile"] = json!(key);
    rest["cafile"] = json!(ca);
    rest["verify_client"] = json!("required");
    rest["authentication"] = json!({ "username": username, "password": password });
    // Where it says of each connection how it ended.
    patroni["log"] = json!({ "loggers": { "patroni.api": "DEBUG" } });
    patroni["ctl"] = json!({ "cacert": ca, "certfile": cert, "keyfile": key });
}

impl Lab {
    /// Certificates for everybody, before anything is started.
    pub(crate) fn begin_https(&self) -> Result<Https, LabError> {
        let ca = Authority::new("Lab CA");
        let caller = self.write_papers(&ca, &[&ca])?;
        Ok(Https {
            caller: Mutex::new(caller),
            ca,
        })
    }

    /// Who has signed at first, where the cluster speaks https.
    pub fn authority(&self) -> Option<&Authority> {
        Some(&self.https.as_ref()?.ca)
    }

    /// How the lab asks; `None` in clear text.
    pub fn caller(&self) -> Option<Caller> {
        let caller = &self.https.as_ref()?.caller;
        Some(Arc::clone(
            &caller.lock().unwrap_or_else(PoisonError::into_inner),
        ))
    }

    /// The files of a client, the proxy for one.
    pub fn client_files(&self) -> Option<Files> {
        self.https.as_ref().map(|_| Files::of(self.folder()))
    }

    /// New certificates for nodes and clients, signed by `signer`; everybody believes `trusted`. Patroni is told to
    /// read its own again, clients are not.
    pub fn renew(&self, signer: &Authority, trusted: &[&Authority]) -> Result<(), LabError> {
        let caller = self.write_papers(signer, trusted)?;
        if let Some(https) = &self.https {
            *https.caller.lock().unwrap_or_else(PoisonError::into_inner) = caller;
        }
        for node in NODES {
            process::signal(&process::right_in(&self.node_folder(node)), Signal::SIGHUP);
        }
        self.wait(
            "renewed certificates",
            super::cluster::PATIENCE * 10,
            || {
                NODES
                    .iter()
                    .all(|node| self.shows_what_it_was_given(*node) == Some(true))
                    .then_some(())
            },
        )
    }

    fn shows_what_it_was_given(&self, node: Node) -> Option<bool> {
        let pem = fs::read(Files::of(&self.node_folder(node)).cert).ok()?;
        let given = CertificateDer::from_pem_slice(&pem).ok()?;
        let shown = http::certificate_of(&self.caller()?, self.rest_at(node)).ok()?;
        Some(shown == given)
    }

    fn write_papers(&self, signer: &Authority, trusted: &[&Authority]) -> Result<Caller, LabError> {
        let bundle: String = trusted.iter().map(|ca| ca.pem()).collect();
        for node in NODES {
            let paper = signer.issue(&node.to_string(), &[&self.ip(node).to_string()]);
            Files::of(&self.home.folder(&node.to_string())?).write(&paper, &bundle)?;
        }
        let paper = signer.issue("client", &[]);
        Files::of(self.folder()).write(&paper, &bundle)?;
        caller(&paper, trusted)
            .map_err(|error| LabError::Refused(format!("no TLS for the lab itself: {error}")))
    }
}

fn caller(paper: &Paper, trusted: &[&Authority]) -> Result<Caller, rustls::Error> {
    let mut roots = RootCertStore::empty();
    for ca in trusted {
        roots.add(ca.der())?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![paper.cert()], paper.key())?;
    Ok(Arc::new(config))
}
