//! Asks the server for a page for each of its arguments, and prints the answers.
#[path = "../../wasmrt/guest/rust/edgepod.rs"]
mod edgepod;

use std::io::{ErrorKind, Read, Result, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use std::{env, thread};

/// Connects to the server. The container with it may need a moment.
fn dial(host: &str, port: u16) -> Result<TcpStream> {
    let began = Instant::now();
    loop {
        match edgepod::connect(host, port) {
            Err(error) if error.kind() == ErrorKind::ConnectionRefused && began.elapsed() < Duration::from_secs(60) => {
                thread::sleep(Duration::from_millis(50))
            }
            result => return result,
        }
    }
}

fn main() -> Result<()> {
    for name in env::args().skip(1) {
        let mut stream = dial("localhost", 8080)?;
        write!(stream, "GET /greet/{} HTTP/1.0\r\nHost: localhost\r\n\r\n", name)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.split_once("\r\n\r\n") {
            Some((_, text)) => print!("{}", text),
            None => print!("{}", answer),
        }
    }
    Ok(())
}
