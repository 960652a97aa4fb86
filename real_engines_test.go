//go:build linux

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"edgepod/wasmrt/engine"
	"edgepod/wasmrt/engine/wazero"
	"edgepod/wasmrt/engine/wazy"
	guestfs "edgepod/wasmrt/fs"
	"edgepod/wasmrt/wasi"
)

// testRealEngines runs modules on both engines, over our system calls, and compares all that they print and leave behind.
func testRealEngines(t *testing.T, r *realRuntime) {
	for name, c := range map[string]struct {
		args  []string
		files map[string]string
	}{
		"python": {[]string{"/main.py"}, map[string]string{"main.py": countingScript}},
		"flite":  {[]string{"-t", "Good morning, edge!", "-o", "/speech.wav"}, nil},
		"sqlite": {[]string{"/db", ".read /main.sql"}, map[string]string{"main.sql": countingQuery}},
		"quickjs": {[]string{"/main.js"}, map[string]string{
			"main.js": `for (let i = 1; i < 20; i++) print(i, Math.sin(i) ** i, Math.exp(-i), (i / 7).toFixed(i), Math.fround(i / 3));`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wasm, err := os.ReadFile(filepath.Join(r.modules, name+".wasm"))
			check(t, err)
			first := runOn(t, wazero.New, wasm, append([]string{name}, c.args...), c.files)
			second := runOn(t, wazy.New, wasm, append([]string{name}, c.args...), c.files)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the engines differ (-wazero +wazy):\n%s", diff)
			}
			if name == "flite" && !strings.Contains(first, fliteSum) {
				t.Errorf("the speech is another than in a container:\n%s", first)
			}
			if strings.Count(first, "\n") < 2 {
				t.Errorf("there is too little to compare: %q", first)
			}
		})
	}
}

const countingScript = `
import cmath, decimal, fractions, hashlib, json, math, random, re, statistics, struct, zlib

r = random.Random(7)
values = [r.gauss(0, 10) for _ in range(2000)]
print(statistics.fmean(values), statistics.stdev(values), math.fsum(values), max(values))
print([math.gamma(v) for v in (0.5, 4.5, 11.25)], cmath.sqrt(-2 + 3j), math.erf(0.3), 2 ** 0.5, 1e22 / 3)
print(struct.pack("<fd", 1 / 3, 1 / 3).hex(), float("nan"), -0.0, 5e-324, [round(v, 3) for v in values[:5]])
print(decimal.Decimal(2).sqrt(), fractions.Fraction(1, 3) ** 5, 3 ** 200 % 10 ** 30, pow(5, -1, 97))
text = json.dumps(values).encode()
packed = zlib.compress(text, 9)
print(len(packed), zlib.crc32(text), zlib.decompress(packed) == text)
print([hashlib.new(n, text).hexdigest() for n in ("md5", "sha1", "sha256", "sha3_256", "blake2b")])
print(len(re.findall(rb"-?\d+\.\d*7\d*", text)), sorted(values)[::400])
with open("/out", "wb") as f:
    f.write(packed)
`

const countingQuery = `
create table n(i integer primary key, x real);
with recursive c(i) as (select 1 union all select i + 1 from c where i < 2000)
	insert into n select i, 1000.0 / i from c;
create index by_x on n(x);
select count(*), sum(x), avg(x), min(x), max(x) from n;
select i, x, printf('%.17g %e', x, x) from n where x < 0.51 order by x limit 10;
select hex(cast(x as text)), round(x, 4), abs(-x) from n where i % 333 = 0;
`

// runOn runs a module in this process, with the files in its root, and returns its exit code, its output and the sums of all
// files in the root afterwards.
func runOn(t *testing.T, open func(context.Context, engine.Config) engine.Engine, wasm []byte, args []string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	tree, err := guestfs.New(guestfs.Config{Root: root})
	check(t, err)
	var out bytes.Buffer
	host, err := wasi.New(wasi.Config{Args: args, Stdout: &out, Stderr: &out, FS: tree})
	check(t, err)
	defer func() { check(t, host.Close()) }()

	ctx := context.Background()
	e := open(ctx, engine.Config{})
	defer func() { check(t, e.Close(ctx)) }()
	module, err := e.Compile(ctx, wasm)
	check(t, err)
	functions, err := host.Functions(module.Imports())
	check(t, err)
	guest, err := module.Link(ctx, functions)
	check(t, err)
	check(t, guest.Start(ctx))
	_, err = guest.Call(ctx, "_start")
	code, _, err := wasi.ExitCode(err)
	check(t, err)
	fmt.Fprintf(&out, "exit code %d\n", code)
	check(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			fmt.Fprintf(&out, "%x %s\n", sha256.Sum256([]byte(readFile(t, path))), d.Name())
		}
		return err
	}))
	return out.String()
}
