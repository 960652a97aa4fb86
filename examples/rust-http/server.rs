//! Answers HTTP requests until the pod is asked to stop. The port is one that the pod declares (ports: in pod.yaml), whose
//! listener edgepod makes and hands over.
#[path = "../../wasmrt/guest/rust/edgepod.rs"]
mod edgepod;

use std::io::{BufRead, BufReader, Result, Write};
use std::net::TcpStream;

/// Reads a request's head and greets the last word of its path.
fn answer(mut stream: TcpStream) -> Result<()> {
    let mut head = Vec::new();
    for line in BufReader::new(&stream).lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let request = head.first().map(String::as_str).unwrap_or_default();
    println!("{}", request);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let text = format!("Hello, {}! I am written in Rust.\n", path.trim_start_matches("/greet/"));
    write!(
        stream,
        "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
        text.len(),
        text
    )
}

fn main() -> Result<()> {
    let listener = edgepod::listener("http")?;
    println!("server is up");
    while edgepod::wait(&listener)? {
        let (stream, _) = listener.accept()?;
        if let Err(error) = answer(stream) {
            eprintln!("connection: {}", error);
        }
    }
    println!("goodbye");
    Ok(())
}
