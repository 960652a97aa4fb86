// Uses files as a Rust program does, and panics where something is not as it should be. Its root holds "file" and
// "dir/inner", the mount "ro" holds "fixed".
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, ErrorKind, Read, Seek, SeekFrom, Write};
use std::time::{Duration, Instant, SystemTime};

fn files() -> io::Result<()> {
    let mut f = OpenOptions::new().read(true).write(true).create_new(true).open("/new")?;
    f.write_all(b"0123456789")?;
    f.seek(SeekFrom::End(-3))?;
    let mut text = String::new();
    f.read_to_string(&mut text)?;
    assert_eq!(text, "789");
    f.set_len(4)?;
    f.sync_all()?;
    f.sync_data()?;
    assert_eq!(f.metadata()?.len(), 4);
    assert_eq!(f.stream_position()?, 10);
    drop(f);
    assert_eq!(File::create("/ro/new").unwrap_err().raw_os_error(), Some(69));
    assert_eq!(OpenOptions::new().append(true).open("ro/fixed").unwrap_err().raw_os_error(), Some(69));
    OpenOptions::new().append(true).open("new")?.write_all(b"zz")?;
    assert_eq!(fs::read("new")?, b"0123zz");
    assert_eq!(fs::copy("new", "copy")?, 6);
    let age = SystemTime::now().duration_since(fs::metadata("copy")?.modified()?);
    assert!(age.unwrap_or_default() < Duration::from_secs(3600));
    fs::remove_file("copy")?;
    fs::remove_file("/new")?;
    assert_eq!(File::open("new").unwrap_err().kind(), ErrorKind::NotFound);
    Ok(())
}

fn folders() -> io::Result<()> {
    fs::create_dir_all("a/b/c")?;
    for i in 0..200 {
        fs::write(format!("a/b/file{}", i), b"")?;
    }
    assert_eq!(fs::read_dir("/a/b")?.count(), 201);
    assert!(fs::remove_dir("a/b").is_err());
    fs::rename("a/b", "/a/moved")?;
    fs::remove_dir_all("a")?;
    let mut names: Vec<_> = fs::read_dir("/")?.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, ["dir", "file", "ro"]);
    fs::hard_link("file", "dir/second")?;
    assert_eq!(fs::hard_link("file", "ro/second").unwrap_err().raw_os_error(), Some(75));
    fs::remove_file("dir/second")
}

#[allow(deprecated)]
fn links() -> io::Result<()> {
    fs::soft_link("dir/inner", "link")?;
    assert_eq!(fs::read_link("link")?.to_str(), Some("dir/inner"));
    assert!(fs::symlink_metadata("link")?.file_type().is_symlink());
    assert_eq!(fs::read("link")?, b"dir/inner");
    fs::remove_file("link")?;
    fs::soft_link("../../../../etc/passwd", "out")?;
    assert_eq!(fs::read("out").unwrap_err().raw_os_error(), Some(63));
    fs::remove_file("out")
}

fn main() -> io::Result<()> {
    files()?;
    folders()?;
    links()?;
    let start = Instant::now();
    std::thread::sleep(Duration::from_millis(2));
    assert!(start.elapsed() >= Duration::from_millis(2));
    assert_eq!(std::env::var("NAME").as_deref(), Ok("value"));
    for line in io::stdin().lock().lines() {
        eprintln!("read {}", line?);
    }
    println!("all well");
    std::process::exit(std::env::args().count() as i32);
}
