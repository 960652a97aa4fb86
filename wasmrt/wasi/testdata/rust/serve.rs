// Answers requests on the listener that it was started with, one connection after the other, and ends when a client asks
// for /end.
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::os::wasi::io::FromRawFd;

fn serve(conn: TcpStream) -> std::io::Result<bool> {
    let mut lines = BufReader::new(&conn);
    loop {
        let mut request = String::new();
        if lines.read_line(&mut request)? == 0 {
            return Ok(true);
        }
        let mut header = String::new();
        while lines.read_line(&mut header)? > 2 {
            header.clear();
        }
        (&conn).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n")?;
        if request.starts_with("GET /end ") {
            return Ok(false);
        }
    }
}

fn main() {
    assert_eq!(std::env::var("LISTEN_FDS").unwrap(), "2");
    assert_eq!(std::env::var("LISTEN_FDNAMES").unwrap(), "http:unknown");
    let fd: i32 = std::env::var("EDGEPOD_LISTEN_FD").unwrap().parse().unwrap();
    let listener = unsafe { TcpListener::from_raw_fd(fd) };
    for conn in listener.incoming() {
        if !serve(conn.unwrap()).unwrap() {
            println!("end");
            return;
        }
    }
}
