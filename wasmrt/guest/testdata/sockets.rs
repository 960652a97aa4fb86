//! sockets serve: answers a line in capitals, until the request to stop. sockets call: sends one and prints the answer.
#[path = "../rust/edgepod.rs"]
mod edgepod;

use std::env;
use std::io::{ErrorKind, Read, Result, Write};

fn serve() -> Result<()> {
    let listener = edgepod::listen(7)?;
    match edgepod::listen(7) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {}
        other => panic!("a second listener: {:?}", other),
    }
    println!("listening");
    while edgepod::wait(&listener)? {
        let (mut stream, _) = listener.accept()?;
        let mut text = [0; 64];
        let n = stream.read(&mut text)?;
        stream.write_all(text[..n].to_ascii_uppercase().as_slice())?;
    }
    println!("goodbye");
    Ok(())
}

fn call() -> Result<()> {
    match edgepod::connect("localhost", 8) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {}
        other => panic!("a port without a listener: {:?}", other),
    }
    for missing in [edgepod::connect("nobody.example", 8).err(), edgepod::listener("http").err()] {
        assert_eq!(missing.map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
    let mut stream = edgepod::connect("localhost", 7)?;
    stream.write_all(b"hello")?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    println!("{}", text);
    Ok(())
}

fn main() -> Result<()> {
    match env::args().nth(1).as_deref() {
        Some("serve") => serve(),
        _ => call(),
    }
}
