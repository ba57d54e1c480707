//! Who we are to PostgreSQL: user, database, a password that may be renewed, and how the way there is secured.

use std::sync::Arc;

use super::TlsMode;
use crate::net::{ClientTls, FileError, NamedFile, Renewable, TlsFiles};

/// How a connection of ours logs in. Names files, and holds nothing of what is in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginSettings {
    pub(crate) user: Arc<str>,
    /// `None` sends none.
    pub(crate) password: Option<NamedFile>,
    pub(crate) database: Arc<str>,
    pub(crate) tls: TlsMode,
    pub(crate) files: TlsFiles,
}

/// The settings with their files read: one for all nodes.
#[derive(Debug)]
pub(crate) struct Login {
    pub(super) settings: LoginSettings,
    /// A changed file is used at the next login.
    password: Option<Renewable<Arc<[u8]>>>,
    pub(super) tls: Option<ClientTls>,
}

impl Login {
    /// Reads the files.
    ///
    /// # Errors
    /// [`FileError`], when one of them cannot be used.
    pub(crate) fn open(settings: LoginSettings) -> Result<Self, FileError> {
        let verify = settings.tls.verify();
        let tls = verify.map(|verify| ClientTls::open(settings.files.clone(), verify));
        let password = settings.password.clone();
        let password =
            password.map(|file| Renewable::open(vec![file.clone()], move || read(&file)));
        Ok(Self {
            tls: tls.transpose()?,
            password: password.transpose()?,
            settings,
        })
    }

    /// With a password that is known already, instead of one in a file.
    ///
    /// # Errors
    /// [`FileError`], when a file cannot be used.
    pub(crate) fn with_password(
        settings: LoginSettings,
        password: &str,
    ) -> Result<Self, FileError> {
        let password: Arc<[u8]> = password.as_bytes().into();
        let known = Renewable::open(Vec::new(), move || Ok(Arc::clone(&password)))?;
        Ok(Self {
            password: Some(known),
            ..Self::open(settings)?
        })
    }

    /// Of the file as it is now.
    pub(super) fn password(&self) -> Option<Arc<[u8]>> {
        self.password.as_ref().map(Renewable::get)
    }
}

/// A password without the line end that editors leave.
fn read(file: &NamedFile) -> Result<Arc<[u8]>, FileError> {
    let text = file.read()?;
    let password = text.strip_suffix(b"\n").unwrap_or(&text);
    let password = password.strip_suffix(b"\r").unwrap_or(password);
    if password.is_empty() {
        return Err(file.unusable("holds no password"));
    }
    if password.contains(&0) || password.contains(&b'\n') {
        return Err(file.unusable("holds more than one line of text"));
    }
    Ok(password.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn settings(folder: &tempfile::TempDir) -> LoginSettings {
        LoginSettings {
            user: "probe".into(),
            password: Some(NamedFile {
                key: "topology.password_file",
                path: folder.path().join("password"),
            }),
            database: "postgres".into(),
            tls: TlsMode::Disable,
            files: TlsFiles::default(),
        }
    }

    #[test]
    fn a_changed_password_is_used_at_the_next_login_and_shown_by_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("password"), "hush one\n").unwrap();
        let login = Login::open(settings(&folder)).unwrap();
        assert_eq!(login.password().as_deref(), Some(&b"hush one"[..]));

        fs::write(folder.path().join("password"), " hush two \r\n").unwrap();
        assert_eq!(login.password().as_deref(), Some(&b" hush two "[..]));
        assert!(!format!("{login:?}").contains("hush"));
    }

    #[test]
    fn a_password_file_that_cannot_be_used_is_named_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let words = || Login::open(settings(&folder)).unwrap_err().to_string();
        assert!(words().starts_with("topology.password_file = "));
        for (text, why) in [
            ("", "holds no password"),
            ("a\nb", "holds more than one line"),
        ] {
            fs::write(folder.path().join("password"), text).unwrap();
            assert!(words().contains(why), "{}", words());
        }
    }
}
