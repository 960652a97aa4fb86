package depot

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"
)

// childVariable makes the test's program a process that writes to the depot in the folder until it is killed.
const childVariable = "EDGEPOD_TEST_DEPOT"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childVariable); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// writeUntilKilled pushes and deletes images in some repositories, and says before and after each change what it is.
func writeUntilKilled(dir string) error {
	d, err := Open(Config{Dir: dir})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	var wait sync.WaitGroup
	errs := make([]error, 3)
	for worker := range errs {
		name := fmt.Sprintf("a/app%d", worker)
		random := rand.New(rand.NewPCG(uint64(os.Getpid()), uint64(worker)))
		wait.Go(func() {
			for errs[worker] == nil {
				errs[worker] = writeOnce(d, name, random, say)
			}
		})
	}
	wait.Wait()
	return fmt.Errorf("%v", errs)
}

func writeOnce(d *Depot, name string, random *rand.Rand, say func(string, ...any)) error {
	ctx := context.Background()
	tag := fmt.Sprint("t", random.IntN(5))
	doc, err := d.look(name)
	if err == nil && doc.Tags[tag] != "" && random.IntN(3) == 0 {
		digest := doc.Tags[tag]
		say("begin %s %s gone", name, digest)
		if err := d.DeleteManifest(ctx, name, digest); err != nil {
			return err
		}
		say("done %s %s gone", name, digest)
		return d.Collect(ctx, time.Now().Add(1000*time.Hour))
	}
	layer := bytes.Repeat([]byte{byte(random.IntN(8))}, 200_000)
	if err := d.upload(ctx, name, layer, random.IntN(2) == 0); err != nil {
		return err
	}
	manifest := fmt.Appendf(nil, "manifest %d", random.Uint64())
	m := Manifest{Digest: DigestOf(manifest), Size: int64(len(manifest)), Blobs: []Digest{DigestOf(layer)}}
	say("begin %s %s %s", name, m.Digest, tag)
	if err := d.PutManifest(ctx, name, tag, m, manifest, roomy); err != nil {
		if strings.Contains(err.Error(), "does not have") {
			return nil // another worker's collection, for which every grace is over, was quicker
		}
		return err
	}
	say("done %s %s %s", name, m.Digest, tag)
	return nil
}

// TestNothingThatWasSaidIsLostByAKill kills a writing process at moments of all kinds, again and again on the same folder.
func TestNothingThatWasSaidIsLostByAKill(t *testing.T) {
	dir := t.TempDir()
	there := map[string]map[string]bool{} // repository, manifest
	random := rand.New(rand.NewPCG(5, 5))
	for round := range 12 {
		killAfter(t, dir, 1+random.IntN(60), there)
		d := open(t, dir, nil)
		d.checkWhole(t)
		for name, manifests := range there {
			doc, err := d.look(name)
			for digest, sure := range manifests {
				if err != nil {
					if sure {
						t.Errorf("round %d: %s is lost with %s", round, name, digest)
					}
					continue
				}
				_, has := doc.Manifests[Digest(digest)]
				if sure && !has {
					t.Errorf("round %d: %s of %s is lost", round, digest, name)
				}
				if manifests[digest] = has; !has {
					delete(manifests, digest)
				}
			}
			if err == nil && len(doc.Manifests) != len(manifests) {
				t.Errorf("round %d: %s has %d manifests, want %d", round, name, len(doc.Manifests), len(manifests))
			}
		}
	}
}

// killAfter lets a process write until it has said so many lines, and kills it. It brings the manifests up to date: those
// that are there for sure are true, and those whose change was begun are false.
func killAfter(t *testing.T, dir string, lines int, there map[string]map[string]bool) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), childVariable+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for scanner := bufio.NewScanner(out); scanner.Scan(); lines-- {
		fields := strings.Fields(scanner.Text())
		if len(fields) != 4 {
			t.Fatalf("the writer says %q", scanner.Text())
		}
		said, name, digest, gone := fields[0], fields[1], fields[2], fields[3] == "gone"
		if there[name] == nil {
			there[name] = map[string]bool{}
		}
		switch {
		case said == "begin":
			there[name][digest] = false
		case gone:
			delete(there[name], digest)
		default:
			there[name][digest] = true
		}
		if lines == 0 {
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
}
