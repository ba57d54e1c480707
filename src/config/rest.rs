//! `[rest]`: what its keys say together.

use std::collections::BTreeSet;

use super::error::Problem;
use super::file::{File, Scheme};
use super::value::Text;
use crate::net::{NamedFile, OwnCertificate, TlsFiles, server_name};
use crate::topology::{Login, RestSettings, RestTls};

const HTTPS_ONLY: &str =
    "it needs rest.scheme = \"https\"; allowed is that, or to leave the key out";
const NAMEABLE: &str =
    "no certificate can name it; allowed is a DNS name or an IP address (other letters as xn--…)";

/// A key, and what was given for it.
pub(super) type Given<'a> = (&'static str, &'a Option<Text>);

/// `left` names the keys whose value is not known: nothing is said about them.
pub(super) fn build(file: &File, left: &BTreeSet<String>) -> Result<RestSettings, Problem> {
    let rest = &file.rest;
    let ca: Given<'_> = ("rest.ca_file", &rest.ca_file);
    let cert: Given<'_> = ("rest.cert_file", &rest.cert_file);
    let key: Given<'_> = ("rest.key_file", &rest.key_file);
    let name: Given<'_> = ("rest.server_name", &rest.server_name);
    let username: Given<'_> = ("rest.username", &rest.username);
    let password: Given<'_> = ("rest.password_file", &rest.password_file);
    let is_https = rest.scheme.0 == Scheme::Https;
    if !is_https && !left.contains("rest.scheme") {
        for (key, set) in [ca, cert, key, name] {
            if let Some(Text(found)) = set {
                return Err(Problem::value(key, found, HTTPS_ONLY));
            }
        }
    }
    together(cert, key, left)?;
    together(username, password, left)?;
    if let Some(Text(name)) = username.1
        && name.contains(':')
    {
        let words = "allowed is a name without a colon (RFC 7617)";
        return Err(Problem::value(username.0, name, words));
    }
    if is_https {
        nameable(file, left)?;
    }
    let own = named(cert).zip(named(key));
    let tls = RestTls {
        files: TlsFiles {
            ca: named(ca),
            own: own.map(|(cert, key)| OwnCertificate { cert, key }),
        },
        server_name: rest.server_name.as_ref().map(|name| name.0.as_str().into()),
    };
    let login = rest.username.as_ref().zip(named(password));
    Ok(RestSettings {
        tls: is_https.then_some(tls),
        login: login.map(|(name, password)| Login {
            username: name.0.as_str().into(),
            password,
        }),
    })
}

/// Neither of two keys is of use without the other.
pub(super) fn together(
    one: Given<'_>,
    other: Given<'_>,
    left: &BTreeSet<String>,
) -> Result<(), Problem> {
    for ((key, set), (missing, partner)) in [(one, other), (other, one)] {
        if let Some(Text(found)) = set
            && partner.is_none()
            && !left.contains(missing)
        {
            let words = format!("it needs {missing} beside it; allowed are both or neither");
            return Err(Problem::value(key, found, words));
        }
    }
    Ok(())
}

/// What each certificate must name can be a certificate's name.
fn nameable(file: &File, left: &BTreeSet<String>) -> Result<(), Problem> {
    if let Some(Text(name)) = &file.rest.server_name {
        return match server_name(name) {
            Some(_) => Ok(()),
            None => Err(Problem::value("rest.server_name", name, NAMEABLE)),
        };
    }
    if left.contains("rest.server_name") {
        return Ok(());
    }
    for (i, node) in file.nodes.iter().enumerate() {
        let (key, host) = match &node.rest_host {
            None if left.contains(&format!("nodes[{i}].rest_host")) => continue,
            None => ("host", &node.host),
            Some(_) => ("rest_host", &node.rest_host),
        };
        if let Some(Text(host)) = host
            && server_name(host).is_none()
        {
            return Err(Problem::value(format!("nodes[{i}].{key}"), host, NAMEABLE));
        }
    }
    Ok(())
}

pub(super) fn named((key, path): Given<'_>) -> Option<NamedFile> {
    path.as_ref().map(|path| NamedFile {
        key,
        path: path.0.as_str().into(),
    })
}
