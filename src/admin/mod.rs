//! The operator's window: facts as JSON, as metrics and as words.
