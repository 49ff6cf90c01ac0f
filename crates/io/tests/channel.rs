//! Messages between processes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use io::channel::{Address, Channel, Listener, MAX_FDS, MAX_MESSAGE, Received};

fn abstract_address(name: &str) -> Address {
    Address::Abstract(format!("io-test-{name}-{}", std::process::id()))
}

/// The message in `channel`, which must be there.
fn message(channel: &Channel, buffer: &mut [u8]) -> (Vec<u8>, Vec<OwnedFd>) {
    match channel.receive(buffer).unwrap() {
        Received::Message(length, fds) => (buffer[..length].to_vec(), fds),
        other => panic!("{other:?}"),
    }
}

fn scratch_file() -> File {
    // SAFETY: a C string that lives for the call.
    let fd = unsafe { libc::memfd_create(c"scratch".as_ptr(), libc::MFD_CLOEXEC) };
    assert!(fd >= 0);
    // SAFETY: the file descriptor is fresh and owned by nobody.
    unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) }
}

#[test]
fn messages_and_files_arrive_whole_and_in_order() {
    let address = abstract_address("whole");
    let listener = Listener::bind(&address).unwrap();
    assert!(listener.accept().unwrap().is_none());
    let client = Channel::connect(&address).unwrap();
    let server = listener.accept().unwrap().unwrap();
    let mut buffer = vec![0; MAX_MESSAGE];
    assert!(matches!(server.receive(&mut buffer).unwrap(), Received::Nothing));

    let mut files: Vec<_> = (0..MAX_FDS).map(|_| scratch_file()).collect();
    for (i, file) in files.iter_mut().enumerate() {
        file.write_all(&[i as u8; 3]).unwrap();
    }
    let borrowed: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    client.send(b"one", &[]).unwrap();
    client.send(&vec![7; MAX_MESSAGE], &borrowed).unwrap();
    drop(files);
    drop(client);

    assert_eq!(message(&server, &mut buffer).0, b"one");
    let (bytes, fds) = message(&server, &mut buffer);
    assert_eq!(bytes, vec![7; MAX_MESSAGE]);
    assert_eq!(fds.len(), MAX_FDS);
    for (i, fd) in fds.into_iter().enumerate() {
        // SAFETY: a query of a file descriptor.
        assert_eq!(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFD) }, libc::FD_CLOEXEC);
        let mut file = File::from(fd);
        file.rewind().unwrap();
        let mut content = Vec::new();
        file.read_to_end(&mut content).unwrap();
        assert_eq!(content, [i as u8; 3]);
    }
    assert!(matches!(server.receive(&mut buffer).unwrap(), Received::Closed));
    assert_eq!(server.send(b"late", &[]).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn addresses_in_use_and_unused_are_told() {
    let address = abstract_address("told");
    assert_eq!(Channel::connect(&address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    let _listener = Listener::bind(&address).unwrap();
    assert_eq!(Listener::bind(&address).unwrap_err().kind(), ErrorKind::AddrInUse);
    let path = std::env::temp_dir().join(format!("io-test-{}", std::process::id()));
    let address = Address::Path(path.clone());
    assert_eq!(Channel::connect(&address).unwrap_err().kind(), ErrorKind::NotFound);
    let listener = Listener::bind(&address).unwrap();
    Channel::connect(&address).unwrap();
    assert!(listener.accept().unwrap().is_some());
    std::fs::remove_file(path).unwrap();
}

#[test]
fn the_peer_is_known() {
    let address = abstract_address("peer");
    let listener = Listener::bind(&address).unwrap();
    let _client = std::thread::spawn({
        let address = address.clone();
        || {
            support::become_nobody();
            Channel::connect(&{ address }).unwrap()
        }
    })
    .join()
    .unwrap();
    let server = listener.accept().unwrap().unwrap();
    let peer = server.peer().unwrap();
    assert_eq!(peer.pid, std::process::id() as i32);
    if support::is_root() {
        assert_eq!((peer.uid, peer.gid), (65_534, 65_534));
    }
}

#[test]
fn sizes_are_bounded() {
    let (one, other) = Channel::pair().unwrap();
    for length in [0, MAX_MESSAGE + 1] {
        assert_eq!(one.send(&vec![0; length], &[]).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let file = scratch_file();
    let too_many = vec![file.as_fd(); MAX_FDS + 1];
    assert_eq!(one.send(b"x", &too_many).unwrap_err().kind(), ErrorKind::InvalidInput);
    one.send(&[0; 100], &[file.as_fd()]).unwrap();
    assert_eq!(other.receive(&mut [0; 99]).unwrap_err().kind(), ErrorKind::InvalidData);
    one.send(b"fits", &[]).unwrap();
    assert_eq!(message(&other, &mut [0; 99]).0, b"fits");
}

#[test]
fn too_many_files_from_a_peer_are_an_error_and_do_not_stay_open() {
    let (one, other) = Channel::pair().unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    // Sent with the plain system call, as we would not.
    let mut control = [0u64; 16];
    let fds = [writer.as_raw_fd(); MAX_FDS + 4];
    let byte = [1u8];
    let mut slice = libc::iovec { iov_base: byte.as_ptr().cast_mut().cast(), iov_len: 1 };
    // SAFETY: the buffers live for the call and are as large as said: 16 + 20 * 4 bytes of control message.
    unsafe {
        let mut header: libc::msghdr = std::mem::zeroed();
        header.msg_iov = &mut slice;
        header.msg_iovlen = 1;
        header.msg_control = control.as_mut_ptr().cast();
        header.msg_controllen = libc::CMSG_SPACE(size_of_val(&fds) as u32) as _;
        let message = libc::CMSG_FIRSTHDR(&header);
        (*message).cmsg_len = libc::CMSG_LEN(size_of_val(&fds) as u32) as _;
        (*message).cmsg_level = libc::SOL_SOCKET;
        (*message).cmsg_type = libc::SCM_RIGHTS;
        std::ptr::copy_nonoverlapping(fds.as_ptr(), libc::CMSG_DATA(message).cast(), fds.len());
        assert_eq!(libc::sendmsg(one.as_fd().as_raw_fd(), &header, 0), 1);
    }
    drop(writer);
    assert_eq!(other.receive(&mut [0; 8]).unwrap_err().kind(), ErrorKind::InvalidData);
    // The pipe ends only if no copy of the writing end is left.
    let mut rest = Vec::new();
    (&reader).read_to_end(&mut rest).unwrap();
    assert!(rest.is_empty());
}

#[test]
fn a_peer_that_does_not_read_makes_nobody_wait() {
    let (one, _other) = Channel::pair().unwrap();
    let error = (0..10_000).find_map(|_| one.send(&[0; 1000], &[]).err()).unwrap();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);

    let address = abstract_address("backlog");
    let _listener = Listener::bind(&address).unwrap();
    let mut waiting = Vec::new();
    let error = loop {
        match Channel::connect(&address) {
            Ok(channel) => waiting.push(channel),
            Err(error) => break error,
        }
        assert!(waiting.len() < 1000);
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn waiting_for_a_message_ends_with_it_or_in_time() {
    let (one, other) = Channel::pair().unwrap();
    let mut buffer = [0; 8];
    assert!(matches!(other.receive_within(&mut buffer, 1_000_000).unwrap(), Received::Nothing));
    let sender = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(5));
        one.send(b"late", &[]).unwrap();
    });
    let received = other.receive_within(&mut buffer, 10_000_000_000).unwrap();
    assert!(matches!(received, Received::Message(4, _)), "{received:?}");
    sender.join().unwrap();
    assert!(matches!(other.receive_within(&mut buffer, 10_000_000_000).unwrap(), Received::Closed));
}

#[test]
fn only_channels_are_taken_for_channels() {
    let (one, other) = Channel::pair().unwrap();
    let one = Channel::from_fd(one.into()).unwrap();
    one.send(b"x", &[]).unwrap();
    assert_eq!(message(&other, &mut [0; 8]).0, b"x");
    let (stream, _) = std::os::unix::net::UnixStream::pair().unwrap();
    assert!(Channel::from_fd(stream.into()).is_err());
    assert!(Channel::from_fd(scratch_file().into()).is_err());
}
