// A web server that answers every request with the same text, on the listener whose number EDGEPOD_LISTEN_FD tells. Each
// connection serves one request. It is the same natively and as a module.
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};
#[cfg(unix)]
use std::os::unix::io::FromRawFd;
#[cfg(target_os = "wasi")]
use std::os::wasi::io::FromRawFd;

const ANSWER: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n";

fn main() {
    let number = std::env::var("EDGEPOD_LISTEN_FD").unwrap().parse().unwrap();
    let listener = unsafe { TcpListener::from_raw_fd(number) };
    loop {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = [0; 4096];
        let mut filled = 0;
        while !request[..filled].windows(4).any(|end| end == b"\r\n\r\n") {
            match connection.read(&mut request[filled..]) {
                Ok(0) | Err(_) => break,
                Ok(n) => filled += n,
            }
        }
        let _ = connection.write_all(ANSWER);
        let _ = connection.shutdown(Shutdown::Write);
    }
}
