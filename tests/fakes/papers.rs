//! Certificates for tests: a private CA and what it signs.
#![allow(
    clippy::expect_used,
    reason = "tests and their lab, which cannot go on without"
)]

use std::fs;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

/// A private CA.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key, in PEM.
#[derive(Clone, Debug)]
pub struct Paper {
    pub cert: String,
    pub key: String,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let mut params = params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a CA"))
    }

    /// Its own certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.0.der().clone()
    }

    /// For these names and addresses.
    pub fn issue(&self, common_name: &str, names: &[&str]) -> Paper {
        self.sign(&params(common_name, names))
    }

    /// Was good until the end of 2020.
    pub fn expired(&self, common_name: &str, names: &[&str]) -> Paper {
        let mut params = params(common_name, names);
        params.not_before = date_time_ymd(2020, 1, 1);
        params.not_after = date_time_ymd(2021, 1, 1);
        self.sign(&params)
    }

    fn sign(&self, params: &CertificateParams) -> Paper {
        let key = KeyPair::generate().expect("a key");
        let cert = params.signed_by(&key, &self.0).expect("a certificate");
        Paper {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }
}

impl Paper {
    /// As `openssl req -x509` makes one: a CA by its own words.
    pub fn self_signed(common_name: &str, names: &[&str]) -> Self {
        let mut params = params(common_name, names);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let cert = params.self_signed(&key).expect("a certificate");
        Self {
            cert: cert.pem(),
            key: key.serialize_pem(),
        }
    }

    pub fn cert(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).expect("PEM")
    }

    pub fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::from_pem_slice(self.key.as_bytes()).expect("PEM")
    }

    /// Replaces both files, each as a whole.
    pub fn write(&self, cert: &Path, key: &Path) {
        replace(cert, &self.cert);
        replace(key, &self.key);
    }
}

/// Writes beside and moves over, as whoever renews certificates should.
pub fn replace(file: &Path, text: &str) {
    let beside = file.with_extension("new");
    fs::write(&beside, text).expect("a folder of ours");
    fs::rename(&beside, file).expect("the same folder");
}

fn params(common_name: &str, names: &[&str]) -> CertificateParams {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("names");
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params
}
