//! A background task that ends unasked ends the house: nobody must go on with half of it.

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Held by a task or thread as long as it lives.
pub(super) struct Alarm {
    what: &'static str,
    /// Set when the end was asked for.
    stop: CancellationToken,
    rung: watch::Sender<Option<String>>,
}

impl Alarm {
    pub(super) fn new(
        what: &'static str,
        stop: CancellationToken,
        rung: watch::Sender<Option<String>>,
    ) -> Self {
        Self { what, stop, rung }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        if self.stop.is_cancelled() {
            return;
        }
        let how = if std::thread::panicking() {
            "panicked"
        } else {
            "ended unasked"
        };
        let words = format!("{} {how}", self.what);
        tracing::error!("{words}");
        self.rung.send_if_modified(|first| {
            let news = first.is_none();
            first.get_or_insert(words);
            news
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_nobody_asked_for_is_told_and_one_that_was_is_not() {
        let (rung, heard) = watch::channel(None);
        let stop = CancellationToken::new();
        let alarm = || Alarm::new("the poller", stop.clone(), rung.clone());

        let thread = std::thread::spawn({
            let alarm = alarm();
            move || {
                let _held = alarm;
                panic!("for this test");
            }
        });
        assert!(thread.join().is_err());
        assert_eq!(heard.borrow().as_deref(), Some("the poller panicked"));

        stop.cancel();
        rung.send_replace(None);
        drop(alarm());
        assert_eq!(heard.borrow().as_deref(), None);
    }
}
