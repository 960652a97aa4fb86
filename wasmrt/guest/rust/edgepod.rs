//! Ports, connections and stop requests for modules in Rust, built for wasm32-wasi (wasm32-wasip1) with nothing but the standard
//! library. Copy this file into your program, or name it there: `#[path = "…/edgepod.rs"] mod edgepod;`
//!
//! - `listener("http")`: the `TcpListener` of the container port of this name (`ports:` in the pod)
//! - `listen(8080)`: a `TcpListener` of the module's own
//! - `connect("localhost", 8080)`: a `TcpStream`
//! - `wait(&listener)`: false when the pod is asked to stop, true when there is a connection to accept, or something to read
//!
//! A module that makes listeners of its own is handed none for its container ports: use either. The two types are those of the
//! standard library, whose own `bind` and `connect` don't work on WASI; accepting, reading, writing, shutting down and
//! `set_nonblocking` do. The addresses that they tell are not real.
#![allow(dead_code)]

use std::env;
use std::io::{Error, ErrorKind, Result};
use std::net::{TcpListener, TcpStream};
use std::os::wasi::io::{AsRawFd, FromRawFd, RawFd};

// The calls of the host: poll_oneoff of WASI, and WasmEdge's sockets, second version. Each returns an error number.
#[link(wasm_import_module = "wasi_snapshot_preview1")]
extern "C" {
    fn poll_oneoff(subscriptions: *const Subscription, events: *mut Event, size: u32, count: *mut u32) -> i32;
    fn sock_open(family: i32, kind: i32, fd: *mut i32) -> i32;
    fn sock_bind(fd: i32, address: *const Buffer, port: u32) -> i32;
    fn sock_listen(fd: i32, backlog: i32) -> i32;
    fn sock_connect(fd: i32, address: *const Buffer, port: u32) -> i32;
    fn sock_getaddrinfo(
        node: *const u8, node_size: u32, service: *const u8, service_size: u32,
        hints: *const Info, results: *mut *mut Info, most: u32, count: *mut u32,
    ) -> i32;
    fn fd_close(fd: i32) -> i32;
}

const IPV4: u8 = 1;
const IPV6: u8 = 2;
const TCP: i32 = 2;

#[repr(C)]
struct Buffer {
    data: *const u8,
    size: u32,
}

/// What to wait for: that a descriptor can be read, which is kind 1. Kinds have one byte, and what follows begins at a multiple of 8.
#[repr(C)]
struct Subscription {
    userdata: u64,
    kind: u64,
    fd: u64,
    unused: [u64; 3],
}

impl Subscription {
    fn read(fd: RawFd, userdata: u64) -> Subscription {
        Subscription { userdata, kind: 1, fd: fd as u64, unused: [0; 3] }
    }
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    userdata: u64,
    error: u16,
    kind: u8,
    bytes: u64,
    flags: u16,
}

#[repr(C)]
struct Info {
    flags: u16,
    family: u8,
    kind: u8,
    protocol: u8,
    size: u32,
    address: *mut Sockaddr,
    name: *mut u8,
    name_size: u32,
    next: *mut Info,
}

#[repr(C)]
struct Sockaddr {
    family: u8,
    size: u32,
    data: *mut u8,
}

fn check(error: i32) -> Result<()> {
    if error == 0 {
        Ok(())
    } else {
        Err(Error::from_raw_os_error(error))
    }
}

fn number(variable: &str) -> Option<RawFd> {
    env::var(variable).ok()?.parse().ok()
}

/// A descriptor that has nothing to read until the pod is asked to stop, and is at its end from then on. Once it has been waited for,
/// the module is expected to end by itself, within the pod's grace period.
pub fn stop_fd() -> Option<RawFd> {
    number("EDGEPOD_STOP_FD")
}

/// The listening socket of the container port with this name. Take it once: whoever has it closes it.
pub fn listener(name: &str) -> Result<TcpListener> {
    let names = env::var("LISTEN_FDNAMES").unwrap_or_default();
    let place = names.split(':').position(|n| n == name);
    match (number("EDGEPOD_LISTEN_FD"), place) {
        (Some(first), Some(place)) => Ok(unsafe { TcpListener::from_raw_fd(first + place as RawFd) }),
        _ => Err(Error::new(ErrorKind::NotFound, format!("there is no container port called {}", name))),
    }
}

fn socket(family: u8) -> Result<RawFd> {
    let mut fd = -1;
    check(unsafe { sock_open(family.into(), TCP, &mut fd) })?;
    Ok(fd)
}

/// A listener on all addresses of the pod.
pub fn listen(port: u16) -> Result<TcpListener> {
    let any = [0u8; 4];
    let address = Buffer { data: any.as_ptr(), size: 4 };
    let fd = socket(IPV4)?;
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    check(unsafe { sock_bind(fd, &address, port.into()) })?;
    check(unsafe { sock_listen(fd, 128) })?;
    Ok(listener)
}

/// The addresses of a host: 4 bytes each, or 16.
fn lookup(name: &str) -> Result<Vec<Vec<u8>>> {
    let mut data = [0u8; 26];
    let mut sockaddr = Sockaddr { family: 0, size: 26, data: data.as_mut_ptr() };
    let mut info = Info {
        flags: 0, family: 0, kind: TCP as u8, protocol: 0, size: 26, address: &mut sockaddr,
        name: std::ptr::null_mut(), name_size: 0, next: std::ptr::null_mut(),
    };
    let mut found = Vec::new();
    for family in [IPV4, IPV6] {
        let hints = Info {
            flags: 0, family, kind: TCP as u8, protocol: 0, size: 0, address: std::ptr::null_mut(),
            name: std::ptr::null_mut(), name_size: 0, next: std::ptr::null_mut(),
        };
        let (mut first, mut count): (*mut Info, u32) = (&mut info, 0);
        let error = unsafe {
            sock_getaddrinfo(name.as_ptr(), name.len() as u32, std::ptr::null(), 0, &hints, &mut first, 1, &mut count)
        };
        if error == 0 && count > 0 {
            found.push(data[2..if family == IPV4 { 6 } else { 18 }].to_vec());
        }
    }
    if found.is_empty() {
        return Err(Error::new(ErrorKind::NotFound, format!("there is no host {}", name)));
    }
    Ok(found)
}

/// A connection to a port of a host, whose addresses are tried one after the other.
pub fn connect(name: &str, port: u16) -> Result<TcpStream> {
    let mut last = None;
    for bytes in lookup(name)? {
        let fd = socket(if bytes.len() == 4 { IPV4 } else { IPV6 })?;
        let address = Buffer { data: bytes.as_ptr(), size: bytes.len() as u32 };
        match check(unsafe { sock_connect(fd, &address, port.into()) }) {
            Ok(()) => return Ok(unsafe { TcpStream::from_raw_fd(fd) }),
            Err(error) => last = Some(error),
        }
        check(unsafe { fd_close(fd) })?;
    }
    Err(last.expect("there is an address"))
}

/// Waits until there is something to accept or read, and tells true; or until the pod is asked to stop, and tells false.
pub fn wait(socket: &impl AsRawFd) -> Result<bool> {
    const STOP: u64 = 1;
    let mut subscriptions = vec![Subscription::read(socket.as_raw_fd(), 0)];
    if let Some(fd) = stop_fd() {
        subscriptions.push(Subscription::read(fd, STOP));
    }
    let (mut events, mut count) = ([Event::default(); 2], 0);
    check(unsafe { poll_oneoff(subscriptions.as_ptr(), events.as_mut_ptr(), subscriptions.len() as u32, &mut count) })?;
    Ok(!events[..count as usize].iter().any(|event| event.userdata == STOP))
}
