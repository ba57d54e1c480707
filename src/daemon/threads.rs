//! The two threads of a house: control (poller, tracker, admin) and worker (sessions).

use std::future::Future;
use std::io;
use std::thread::JoinHandle;

use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::LocalSet;
use tokio_util::sync::CancellationToken;

use super::alarm::Alarm;

/// What all threads of a house share: the word to stop, and the bell that one of them has ended unasked.
#[derive(Clone)]
pub(super) struct Threads {
    pub(super) stop: CancellationToken,
    pub(super) rung: watch::Sender<Option<String>>,
}

impl Threads {
    /// A thread with a runtime of its own, which ends the house if it ends before `may_end`. `life` builds the future on that thread, so it need not be `Send`;
    /// the thread ends with it and does not wait for lookups of names that hang.
    ///
    /// # Errors
    /// The kernel gives no thread, or no descriptors for its runtime.
    pub(super) fn spawn<F, L>(
        &self,
        what: &'static str,
        may_end: CancellationToken,
        life: L,
    ) -> io::Result<JoinHandle<()>>
    where
        F: Future<Output = ()>,
        L: FnOnce() -> F + Send + 'static,
    {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let alarm = Alarm::new(what, may_end, self.rung.clone());
        std::thread::Builder::new()
            .name(format!("helios-{what}"))
            .spawn(move || {
                let _alarm = alarm;
                let local = LocalSet::new();
                local.block_on(&runtime, async { life().await });
                drop(local);
                runtime.shutdown_background();
            })
    }
}
