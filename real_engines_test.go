//go:build linux

package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testRealEngines runs modules on both engines, over our system calls, and compares all that they print and leave behind.
func testRealEngines(t *testing.T, r *realRuntime) {
	// A program of its own: the race detector would make the engines' compilers ten times as slow.
	program := filepath.Join(r.scratch, "engines")
	if out, err := exec.Command("go", "build", "-o", program, "./testdata/engines").CombinedOutput(); err != nil {
		t.Fatalf("build testdata/engines: %v\n%s", err, out)
	}
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
			module := filepath.Join(r.modules, name+".wasm")
			first := runOn(t, []string{program, "wazero"}, module, c.args, c.files)
			second := runOn(t, []string{program, "wazy"}, module, c.args, c.files)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the engines differ (-wazero +wazy):\n%s", diff)
			}
			if name == "flite" && !strings.Contains(first, fliteSum) {
				t.Errorf("the speech is another than in a container:\n%s", first)
			}
			if first == "" {
				t.Error("there is nothing to compare")
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

// runOn runs a module with the files in its root, which must end well, and returns its output and the sums of all files that
// are in the root afterwards.
func runOn(t *testing.T, engine []string, module string, args []string, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		check(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
	}
	cmd := exec.Command(engine[0], append([]string{engine[1], root, module}, args...)...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &out)
	}
	check(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			fmt.Fprintf(&out, "%x %s\n", sha256.Sum256([]byte(readFile(t, path))), d.Name())
		}
		return err
	}))
	return out.String()
}
