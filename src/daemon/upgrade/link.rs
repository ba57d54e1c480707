//! Frames between two processes: words, bytes, and descriptors that travel with them.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream as StdStream;
use std::time::Duration;

use nix::cmsg_space;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use tokio::io::Interest;
use tokio::net::UnixStream;

/// What is sent as one piece.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// JSON.
    pub(super) words: Vec<u8>,
    /// As they are.
    pub(super) bytes: Vec<u8>,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// One end. What is read belongs to it until a frame is whole, so that waiting for one may be given up at any moment.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    inbox: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

/// Three lengths: words, bytes, descriptors.
const HEAD: usize = 12;
/// The kernel takes no more at once.
///
/// Source: unix(7), SCM_RIGHTS.
const DESCRIPTORS: usize = 253;
/// Far more than any frame of ours.
const LONGEST: usize = 64 * 1024 * 1024;
const CHUNK: usize = 256 * 1024;
/// For a peer that does not read: it hangs.
const PATIENCE: Duration = Duration::from_secs(10);

impl Link {
    /// # Errors
    /// The runtime cannot watch it.
    pub(super) fn new(stream: StdStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream: UnixStream::from_std(stream)?,
            inbox: Vec::new(),
            descriptors: VecDeque::new(),
        })
    }

    /// Sends it whole. Given up half-way, the link is of no use any more.
    pub(super) async fn send(&self, frame: &Frame) -> io::Result<()> {
        let lengths = [
            frame.words.len(),
            frame.bytes.len(),
            frame.descriptors.len(),
        ];
        let head = lengths.map(|length| u32::try_from(length).unwrap_or(u32::MAX));
        let head: Vec<u8> = head
            .iter()
            .flat_map(|length| length.to_be_bytes())
            .collect();
        let whole = [head, frame.words.clone(), frame.bytes.clone()].concat();
        match tokio::time::timeout(PATIENCE, self.write(&whole, &frame.descriptors)).await {
            Ok(written) => written,
            Err(_late) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    /// The descriptors go with the first bytes.
    async fn write(&self, mut bytes: &[u8], descriptors: &[OwnedFd]) -> io::Result<()> {
        let mut descriptors: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
        while !bytes.is_empty() {
            let send = || {
                let rights = [ControlMessage::ScmRights(&descriptors)];
                let control = if descriptors.is_empty() {
                    &[][..]
                } else {
                    &rights
                };
                let part = [IoSlice::new(bytes)];
                let (to, flags) = (self.stream.as_raw_fd(), MsgFlags::MSG_NOSIGNAL);
                Ok(sendmsg::<()>(to, &part, control, flags, None)?)
            };
            let sent = self.stream.async_io(Interest::WRITABLE, send).await?;
            bytes = &bytes[sent..];
            descriptors.clear();
        }
        Ok(())
    }

    /// The next frame; `None` when the other end is closed. May be dropped at any await: nothing is lost.
    pub(super) async fn receive(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.whole_frame()? {
                return Ok(Some(frame));
            }
            if self.read().await? == 0 {
                return match self.inbox.is_empty() {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    async fn read(&mut self) -> io::Result<usize> {
        let Self {
            stream,
            inbox,
            descriptors,
        } = self;
        let from = stream.as_fd().as_raw_fd();
        let receive = || {
            let mut chunk = vec![0; CHUNK];
            let mut control = cmsg_space!([RawFd; DESCRIPTORS]);
            let mut part = [IoSliceMut::new(&mut chunk)];
            let flags = MsgFlags::MSG_CMSG_CLOEXEC;
            let received = recvmsg::<()>(from, &mut part, Some(&mut control), flags)?;
            for message in received.cmsgs()? {
                if let ControlMessageOwned::ScmRights(fds) = message {
                    // SAFETY: the kernel has just made these for us, and nobody else knows them.
                    let owned = fds.iter().map(|fd| unsafe { OwnedFd::from_raw_fd(*fd) });
                    descriptors.extend(owned);
                }
            }
            let length = received.bytes;
            inbox.extend_from_slice(&chunk[..length]);
            Ok(length)
        };
        stream.async_io(Interest::READABLE, receive).await
    }

    fn whole_frame(&mut self) -> io::Result<Option<Frame>> {
        let Some((head, rest)) = self.inbox.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let number = |at: usize| {
            let four = head[at..].first_chunk().copied();
            four.map_or(0, u32::from_be_bytes) as usize
        };
        let (words, bytes, descriptors) = (number(0), number(4), number(8));
        if words.saturating_add(bytes) > LONGEST || descriptors > DESCRIPTORS {
            return Err(io::ErrorKind::InvalidData.into());
        }
        if rest.len() < words + bytes {
            return Ok(None);
        }
        if self.descriptors.len() < descriptors {
            // They come with the first byte, so they will not come any more.
            return Err(io::Error::other("descriptors were lost on the way"));
        }
        let frame = Frame {
            words: rest[..words].to_vec(),
            bytes: rest[words..words + bytes].to_vec(),
            descriptors: self.descriptors.drain(..descriptors).collect(),
        };
        self.inbox.drain(..HEAD + words + bytes);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    fn pair() -> (Link, Link) {
        let (a, b) = StdStream::pair().unwrap();
        (Link::new(a).unwrap(), Link::new(b).unwrap())
    }

    fn pipe_end(says: &[u8]) -> OwnedFd {
        let (read, mut write) = std::io::pipe().unwrap();
        write.write_all(says).unwrap();
        read.into()
    }

    fn frame(words: &str, bytes: usize, descriptors: Vec<OwnedFd>) -> Frame {
        Frame {
            words: words.into(),
            bytes: vec![7; bytes],
            descriptors,
        }
    }

    #[tokio::test]
    async fn words_bytes_and_descriptors_arrive_together_and_in_order() {
        let (here, mut there) = pair();
        let sending = async {
            for n in 0..50_usize {
                let says = n.to_string();
                let ends = (0..n % 3).map(|_| pipe_end(says.as_bytes()));
                let one = frame(&says, n * 20_000, ends.collect());
                here.send(&one).await.unwrap();
            }
        };
        let receiving = async {
            for n in 0..50_usize {
                let got = there.receive().await.unwrap().unwrap();
                assert_eq!(got.words, n.to_string().into_bytes());
                assert_eq!(got.bytes, vec![7; n * 20_000]);
                assert_eq!(got.descriptors.len(), n % 3);
                for end in got.descriptors {
                    let mut says = String::new();
                    std::io::PipeReader::from(end)
                        .read_to_string(&mut says)
                        .unwrap();
                    assert_eq!(says, n.to_string());
                }
            }
        };
        tokio::join!(sending, receiving);
    }

    #[tokio::test]
    async fn a_wait_that_is_given_up_loses_nothing() {
        let (here, mut there) = pair();
        let sending = async {
            here.send(&frame("a", 3_000_000, vec![pipe_end(b"x")]))
                .await
                .unwrap();
        };
        let receiving = async {
            loop {
                tokio::select! {
                    biased;
                    got = there.receive() => return got.unwrap().unwrap(),
                    () = tokio::task::yield_now() => {}
                }
            }
        };
        let ((), got) = tokio::join!(sending, receiving);
        assert_eq!((got.bytes.len(), got.descriptors.len()), (3_000_000, 1));
    }

    #[tokio::test]
    async fn an_end_between_two_frames_is_an_end_and_one_within_a_frame_is_an_error() {
        let (here, mut there) = pair();
        here.send(&frame("a", 0, vec![])).await.unwrap();
        drop(here);
        assert!(there.receive().await.unwrap().is_some());
        assert!(there.receive().await.unwrap().is_none());

        let (mut here, there) = StdStream::pair().unwrap();
        let mut there = Link::new(there).unwrap();
        here.write_all(&[0, 0, 0, 9, 0]).unwrap();
        drop(here);
        assert!(there.receive().await.is_err());
    }
}
