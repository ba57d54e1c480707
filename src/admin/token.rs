//! The token that lets an operator in: read from its file at each use, compared in constant time, never shown.

use std::fmt;
use std::fs::File;
use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hyper::header::HeaderValue;

/// What `Authorization: Bearer` must carry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token(Vec<u8>);

/// Why a file gives no token. The words name the file, never what is in it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    #[error("admin_token_file {file:?} cannot be read")]
    Read { file: PathBuf, source: io::Error },

    #[error("admin_token_file {file:?} is empty")]
    Empty { file: PathBuf },

    #[error("admin_token_file {file:?} has more than {MOST} bytes")]
    TooLong { file: PathBuf },
}

/// Longer than any token, shorter than a device file.
const MOST: u64 = 4096;

impl Token {
    /// White space around the token, such as the newline of an editor, is not part of it.
    pub(crate) fn read(file: &Path) -> Result<Self, TokenError> {
        let file_name = || file.to_owned();
        let mut text = Vec::new();
        File::open(file)
            .and_then(|open| open.take(MOST + 1).read_to_end(&mut text))
            .map_err(|source| TokenError::Read {
                file: file_name(),
                source,
            })?;
        if text.len() as u64 > MOST {
            return Err(TokenError::TooLong { file: file_name() });
        }
        match text.trim_ascii() {
            [] => Err(TokenError::Empty { file: file_name() }),
            token => Ok(Self(token.to_owned())),
        }
    }

    /// What a client sends. `None` when no header can carry it.
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        let mut header = HeaderValue::from_bytes(&[b"Bearer ", &self.0[..]].concat()).ok()?;
        header.set_sensitive(true);
        Some(header)
    }

    /// Takes as long for a wrong token as for the right one of the same length.
    pub(super) fn is(&self, said: &[u8]) -> bool {
        let differences = self.0.iter().zip(said).map(|(a, b)| a ^ b);
        let difference = differences.fold(0, |all, one| black_box(all | one));
        self.0.len() == said.len() && difference == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &[u8]) -> Result<Token, TokenError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Token::read(file.path())
    }

    #[test]
    fn the_newline_of_an_editor_is_no_part_of_the_token() {
        let token = of(b" secret\r\n").unwrap();

        assert!(token.is(b"secret"));
        for wrong in [&b"Secret"[..], b"secre", b"secrets", b"secret\n", b""] {
            assert!(!token.is(wrong));
        }
    }

    #[test]
    fn an_empty_file_is_no_token() {
        for empty in [&b""[..], b"\n", b"  \r\n"] {
            assert!(matches!(of(empty), Err(TokenError::Empty { .. })));
        }
    }

    #[test]
    fn the_words_for_a_file_that_cannot_be_used_name_it_and_show_nothing_of_it() {
        let missing = Token::read(Path::new("/no/such/token")).unwrap_err();
        assert_eq!(
            missing.to_string(),
            "admin_token_file \"/no/such/token\" cannot be read"
        );

        let long = of(&[b's'; 5000]).unwrap_err().to_string();
        assert!(long.contains("more than 4096 bytes") && !long.contains("ss"));
        assert_eq!(format!("{:?}", of(b"secret").unwrap()), "Token(…)");
    }
}
