//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"edgepod/wasmrt/sandbox"
)

// testRealCommands runs interpreters, a database and a speech synthesizer.
func testRealCommands(t *testing.T, r *realRuntime) {
	for name, run := range map[string]func(*testing.T, *realRuntime){
		"python": testPython, "php": testPHP, "ruby": testRuby, "sqlite": testSQLite, "quickjs": testQuickJS, "flite": testFlite,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); run(t, r) })
	}
}

const pythonScript = `
import collections, datetime, hashlib, json, os, random, re, sqlite3, sys, time, zipfile

text = open("/work/access.log").read()
paths = collections.Counter(re.findall(r'"(?:GET|POST) (\S+) HTTP/[\d.]+"', text))
os.makedirs("/work/out/deep", exist_ok=True)
with open("/work/out/report.json", "w") as f:
    json.dump({"paths": paths.most_common(), "seen": sum(paths.values())}, f, sort_keys=True)
os.rename("/work/out/report.json", "/work/out/deep/report.json")
data = open("/work/out/deep/report.json", "rb").read()
print(json.loads(data)["paths"][0])
print("sha256", hashlib.sha256(data).hexdigest())
print("sorted", sorted(os.listdir("/work/out")), os.stat("/work/out/deep/report.json").st_size == len(data))
with open("/work/out/log", "a") as f:
    f.write("one\n"); f.flush(); os.fsync(f.fileno())
with open("/work/out/log", "a+b") as f:
    f.write(b"two\n"); f.seek(0); print(f.read())
os.truncate("/work/out/log", 3)
with zipfile.ZipFile("/work/out/a.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.write("/work/access.log", "in")
print("zip", zipfile.ZipFile("/work/out/a.zip").read("in") == text.encode())
print("clock", time.monotonic() > 0, datetime.date.today().year >= 2024, len({random.random() for _ in range(9)}))
db = sqlite3.connect("/work/out/db")
db.execute("create table t(a)"); db.executemany("insert into t values(?)", [(1,), (2,)]); db.commit(); db.close()
print("sqlite", sqlite3.connect("/work/out/db").execute("select sum(a) from t").fetchone())
print("args", sys.argv[1:], os.environ["GREETING"])
try:
    open("/data/new", "w")
except OSError as e:
    print("read-only", e.strerror, os.path.exists("/data/main.py"))
print("to the error output", file=sys.stderr)
sys.exit(7)
`

func testPython(t *testing.T, r *realRuntime) {
	pod := r.pod(t, map[string]string{
		"main.py": pythonScript,
		"access.log": "1 - \"GET /a HTTP/1.1\" 200\n2 - \"POST /b HTTP/1.0\" 200\n" +
			"3 - \"GET /a HTTP/2\" 404\nnonsense\n",
	})
	out, exit := pod.run(t, realContainer{
		image: "./python.wasm", args: []string{"/work/main.py", "x", "ä"}, env: []string{"GREETING=Moin"}, memory: 256 << 20,
		mounts: []sandbox.Mount{{Source: pod.work, Target: "/data", ReadOnly: true}},
	})
	report := `{"paths": [["/a", 2], ["/b", 1]], "seen": 3}`
	digest := sha256.Sum256([]byte(report))
	wantEnd(t, out, exit, 7, "['/a', 2]\n", "sha256 "+hex.EncodeToString(digest[:])+"\n", "sorted ['deep'] True\n", `b'one\ntwo\n'`,
		"zip True\n", "clock True True 9\n", "sqlite (3,)\n", "args ['x', 'ä'] Moin\n", "read-only Read-only file system True\n", "to the error output\n")
	if got := readFile(t, filepath.Join(pod.work, "out/deep/report.json")); got != report {
		t.Errorf("report: %s", got)
	}
	if got := readFile(t, filepath.Join(pod.work, "out/log")); got != "one" {
		t.Errorf("log: %q", got)
	}
}

func readFile(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return string(data)
}

func testPHP(t *testing.T, r *realRuntime) {
	pod := r.pod(t, map[string]string{"index.php": `<?php
header("X-Answer: 42");
parse_str($_SERVER["QUERY_STRING"], $q);
file_put_contents("/work/visits", "one\n", FILE_APPEND);
file_put_contents("/work/visits", "two\n", FILE_APPEND);
echo json_encode(["name" => $q["name"], "sum" => hash("sha256", $q["name"]), "visits" => file("/work/visits", FILE_IGNORE_NEW_LINES),
	"match" => preg_replace("/(e)dge/", "$1", $q["name"])]), "\n";
`})
	out, exit := pod.run(t, realContainer{
		image: "./php.wasm", memory: 384 << 20,
		env: []string{
			"SCRIPT_FILENAME=/work/index.php", "REQUEST_METHOD=GET", "QUERY_STRING=name=edgepod&x=1", "REDIRECT_STATUS=200",
			"GATEWAY_INTERFACE=CGI/1.1", "SERVER_PROTOCOL=HTTP/1.1",
		},
	})
	digest := sha256.Sum256([]byte("edgepod"))
	wantEnd(t, out, exit, 0, "X-Answer: 42\r\n", "Content-type: text/html; charset=UTF-8\r\n\r\n",
		`{"name":"edgepod","sum":"`+hex.EncodeToString(digest[:])+`","visits":["one","two"],"match":"epod"}`)
}

func testRuby(t *testing.T, r *realRuntime) {
	pod := r.pod(t, map[string]string{"main.rb": `
words = File.readlines("/work/words", chomp: true)
File.write("/work/out", words.group_by(&:size).transform_values(&:sort).sort.inspect)
puts File.read("/work/out")
puts Dir.children("/work").reject { |n| n.start_with?(".") }.sort.join(" ")
puts "edge pod".gsub(/(\w+) (\w+)/, '\2 \1'), ENV["GREETING"], ARGV.inspect
puts Comparable.instance_methods.sort.first(2).inspect, 2**200
begin
  File.read("/nothing")
rescue Errno::ENOENT => e
  puts e.message
end
exit 5
`, "words": "bb\na\ncc\n"})
	out, exit := pod.run(t, realContainer{
		image: "./ruby.wasm", args: []string{"/work/main.rb", "x"}, env: []string{"GREETING=Moin"}, memory: 768 << 20,
	})
	wantEnd(t, out, exit, 5, `[[1, ["a"]], [2, ["bb", "cc"]]]`, "main.rb out words\n", "pod edge\n", "Moin\n", `["x"]`+"\n",
		"1606938044258990275541962092341162602522202993782792835301376\n", "No such file or directory @ rb_sysopen - /nothing\n")
}

func testSQLite(t *testing.T, r *realRuntime) {
	pod := r.pod(t, map[string]string{
		"fill.sql":  "create table t(a integer primary key, b text); insert into t(b) values('x'),('y'),('z'); delete from t where b='y';",
		"query.sql": "select count(*), group_concat(b, '+'), max(a) from t; select name from sqlite_master;",
	})
	out, exit := pod.run(t, realContainer{name: "fill", image: "./sqlite.wasm", args: []string{"/work/db", ".read /work/fill.sql"}, memory: 128 << 20})
	wantEnd(t, out, exit, 0)
	out, exit = pod.run(t, realContainer{name: "query", image: "./sqlite.wasm", args: []string{"/work/db", ".read /work/query.sql"}, memory: 128 << 20})
	wantEnd(t, out, exit, 0, "2|x+z|3\nt\n")
}

// testQuickJS runs a script that needs no network.
func testQuickJS(t *testing.T, r *realRuntime) {
	pod := r.pod(t, map[string]string{"main.js": `
import * as std from "std";
const f = std.open("/work/out", "w");
f.puts(JSON.stringify({ sum: [1, 2, 3].reduce((a, b) => a + b), name: "edge".replace(/e/g, "E") }));
f.close();
setTimeout(() => print(std.loadFile("/work/out")), 10);
`})
	out, exit := pod.run(t, realContainer{image: "./quickjs.wasm", args: []string{"/work/main.js"}, memory: 128 << 20})
	wantEnd(t, out, exit, 0, `{"sum":6,"name":"EdgE"}`)
}

// fliteSum is the SHA-256 of the speech that testFlite asks for. Every engine computes the same.
const fliteSum = "ffcc0f084ebb6570ecbe57da396cb003dfcf16b4eb293c3db55f855248d1d71e"

func testFlite(t *testing.T, r *realRuntime) {
	pod := r.pod(t, nil)
	for _, name := range []string{"first", "second"} {
		out, exit := pod.run(t, realContainer{
			name: name, image: "./flite.wasm", args: []string{"-t", "Good morning, edge!", "-o", "/work/" + name + ".wav"}, memory: 256 << 20,
		})
		wantEnd(t, out, exit, 0)
		if sum := sha256.Sum256([]byte(readFile(t, filepath.Join(pod.work, name+".wav")))); hex.EncodeToString(sum[:]) != fliteSum {
			t.Errorf("the %s speech has the sum %x, want %s", name, sum, fliteSum)
		}
	}
}
