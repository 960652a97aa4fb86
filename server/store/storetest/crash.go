package storetest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"edgepod/server/store"
)

const (
	crashCuts    = 20
	crashWriters = 8
	crashKeys    = 5   // of each writer
	crashAcks    = 300 // at most this many acknowledged writes before a cut
	gonePrefix   = "gone-"
	// crashEnv holds the folder and the number of the cut; with it, the test binary is the one to be killed.
	crashEnv   = "STORETEST_CRASH_DIR"
	crashRound = "STORETEST_CRASH_ROUND"
)

func testCrash(t *testing.T, open Open) {
	for _, loss := range Crash(t, open, Disk{Dir: t.TempDir()}, crashCuts) {
		t.Error(loss)
	}
}

// Disk is where the store of a crash test lives. Cut, if not nil, is called just before the process is killed, and Mend
// when it is gone: for what a power cut does to a disk.
type Disk struct {
	Dir       string
	Cut, Mend func(t *testing.T)
}

// Crash runs the test that calls it again, as another process that writes without end to a store of open's, and kills it
// at a random moment; so many times, on one folder. It returns what was lost of the writes that the process had told to be
// done. In that other process, Crash does not return.
func Crash(t *testing.T, open Open, disk Disk, cuts int) []string {
	if dir := os.Getenv(crashEnv); dir != "" {
		crashChild(t, open(t, dir))
	}
	r := random(t)
	ledger := &acks{firm: map[string]ack{}}
	var losses []string
	for cut := range cuts {
		ledger.begin()
		killWriter(t, ledger, disk, cut, 1+r.IntN(crashAcks))
		if disk.Mend != nil {
			disk.Mend(t)
		}
		s := open(t, disk.Dir)
		for _, loss := range ledger.check(t, s) {
			losses = append(losses, fmt.Sprintf("cut %d: %s", cut, loss))
		}
		if err := s.Close(); err != nil {
			t.Fatalf("close: %v", err)
		}
	}
	t.Logf("%d cuts, %d with the history whole", cuts, ledger.replayed)
	return losses
}

// IsWriter tells that this is the process that is to be killed.
func IsWriter() bool { return os.Getenv(crashEnv) != "" }

// ack is a line that the writing process prints after a commit.
type ack struct {
	writer   int
	key      string
	sequence int
	revision int64
	verb     store.Verb
	volatile bool
}

func (a ack) String() string {
	return fmt.Sprintf("%d %s %d %d %d %t", a.writer, a.key, a.sequence, a.revision, a.verb, a.volatile)
}

func parseAck(line string) (a ack, err error) {
	_, err = fmt.Sscanf(line, "%d %s %d %d %d %t", &a.writer, &a.key, &a.sequence, &a.revision, &a.verb, &a.volatile)
	return a, err
}

// acks are what must be true after a cut.
type acks struct {
	firm     map[string]ack // by key: the newest that must have lasted
	soft     [crashWriters][]ack
	revision int64
	begun    int64 // revision before the process was started
	replayed int   // histories that were found whole
}

// begin forgets volatile writes of a process that is gone.
func (l *acks) begin() {
	l.soft = [crashWriters][]ack{}
	l.begun = l.revision
}

// add notes an acknowledged write. A writer's volatile writes are firm once a durable one that came after them is.
func (l *acks) add(a ack) {
	l.revision = max(l.revision, a.revision)
	l.soft[a.writer] = append(l.soft[a.writer], a)
	if a.volatile {
		return
	}
	for _, a := range l.soft[a.writer] {
		l.firm[a.key] = a
	}
	l.soft[a.writer] = nil
}

// check compares a store with what was acknowledged.
func (l *acks) check(t *testing.T, s store.Store) (losses []string) {
	t.Helper()
	if got := s.Revision(); got < l.revision {
		losses = append(losses, fmt.Sprintf("revision went back from %d to %d", l.revision, got))
	}
	for key, a := range l.firm {
		e, err := s.Get(context.Background(), pod("default", key))
		switch {
		case a.verb == store.Delete && err == nil:
			losses = append(losses, fmt.Sprintf("%s is back, deleted at %d", key, a.revision))
		case errors.Is(err, store.ErrNotFound) && strings.HasPrefix(key, gonePrefix):
			// Deleted, or about to be when the cut came.
		case err != nil:
			losses = append(losses, fmt.Sprintf("%s, written at %d: %v", key, a.revision, err))
		default:
			if sequence := sequenceOf(e); sequence < a.sequence {
				losses = append(losses, fmt.Sprintf("%s is write %d again, after %d", key, sequence, a.sequence))
			}
		}
	}
	losses = append(losses, l.replay(t, s)...)
	e := must(t, s, write(store.Create, pod("default", fmt.Sprintf("check-%d", s.Revision())), "0"))
	if e.Revision <= l.revision {
		losses = append(losses, fmt.Sprintf("revision %d is given again, after %d", e.Revision, l.revision))
	}
	l.revision = max(l.revision, e.Revision)
	return losses
}

// replay checks that the history since the process was started leads to what is there, where the history reaches back.
func (l *acks) replay(t *testing.T, s store.Store) (losses []string) {
	t.Helper()
	c, err := s.Watch("pods", "", l.begun)
	if l.begun == 0 || errors.Is(err, store.ErrExpired) {
		return nil
	}
	if err != nil {
		return []string{fmt.Sprintf("watch after %d: %v", l.begun, err)}
	}
	last := map[store.Key]store.Event{}
	for c.Seen() < s.Revision() {
		events, _ := read(t, c)
		for _, ev := range events {
			last[ev.Entry.Key] = ev
		}
	}
	live := map[store.Key]int64{}
	for _, e := range list(t, s, store.Query{Resource: "pods"}).Entries {
		live[e.Key] = e.Revision
		if ev := last[e.Key]; e.Revision > l.begun && (ev.Entry == nil || ev.Deleted || ev.Entry.Revision != e.Revision) {
			losses = append(losses, fmt.Sprintf("%s at %d is not in the history", e.Key.Name, e.Revision))
		}
	}
	for key, ev := range last {
		if revision, ok := live[key]; ok == ev.Deleted || !ev.Deleted && revision != ev.Entry.Revision {
			losses = append(losses, fmt.Sprintf("%s has an event at %d and is at %d", key.Name, ev.Entry.Revision, revision))
		}
	}
	l.replayed++
	return losses
}

func sequenceOf(e *store.Entry) int {
	text, _, _ := strings.Cut(string(e.Value), "@")
	sequence, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return sequence
}

// killWriter starts the writing process, kills it after so many writes, and notes all that it told.
func killWriter(t *testing.T, ledger *acks, disk Disk, round, after int) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatalf("pipe: %v", err)
	}
	defer out.Close()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.count=1", "-test.run="+pattern(t.Name()))
	var output bytes.Buffer
	// The process has no time to remove the temporary folders of its test, so they go with ours.
	cmd.Env = append(os.Environ(), crashEnv+"="+disk.Dir, crashRound+"="+strconv.Itoa(round), "TMPDIR="+t.TempDir())
	cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = []*os.File{in}, &output, &output
	err = cmd.Start()
	in.Close()
	if err != nil {
		t.Fatalf("start the writing process: %v", err)
	}
	cut := false
	readAcks(t, out, ledger, func(count int) {
		if count != after {
			return
		}
		if disk.Cut != nil {
			cut = true
			disk.Cut(t)
		}
		if err := cmd.Process.Kill(); err != nil && !cut {
			t.Errorf("kill: %v", err)
		}
	})
	var exit *exec.ExitError
	err = cmd.Wait()
	killed := errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
	if !killed && !cut { // a cut disk's errors may end it first
		t.Fatalf("the writing process ended by itself: %v\n%s", err, output.String())
	}
}

// readAcks reads to the end; a line that was cut off in the middle is none.
func readAcks(t *testing.T, out io.Reader, ledger *acks, each func(count int)) {
	t.Helper()
	reader := bufio.NewReader(out)
	for count := 1; ; count++ {
		line, err := reader.ReadString('\n')
		if err != nil {
			return
		}
		a, err := parseAck(line)
		if err != nil {
			t.Fatalf("line %q of the writing process: %v", line, err)
		}
		ledger.add(a)
		each(count)
	}
}

// pattern selects one test or subtest.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// crashChild writes until it is killed.
func crashChild(t *testing.T, s store.Store) {
	round, err := strconv.Atoi(os.Getenv(crashRound))
	if err != nil {
		t.Fatalf("%s: %v", crashRound, err)
	}
	out := os.NewFile(3, "acks")
	heartbeats := round%2 == 1 // volatile writes, in every other round
	var writers sync.WaitGroup
	for w := range crashWriters {
		writers.Go(func() {
			r := rand.New(rand.NewPCG(uint64(round), uint64(w)))
			for sequence := round * 1_000_000; ; sequence++ {
				if err := crashWrite(s, out, w, sequence, r, heartbeats); err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
			}
		})
	}
	writers.Wait()
	t.FailNow()
}

// crashWrite changes one of the writer's keys, or makes one and deletes it.
func crashWrite(s store.Store, out io.Writer, w, sequence int, r *rand.Rand, heartbeats bool) error {
	if r.IntN(8) == 0 {
		name := fmt.Sprintf(gonePrefix+"%d-%d", w, sequence)
		if err := crashCommit(s, out, w, name, sequence, store.Create, heartbeats && r.IntN(2) == 0); err != nil {
			return err
		}
		return crashCommit(s, out, w, name, sequence, store.Delete, false)
	}
	name := fmt.Sprintf("key-%d-%d", w, r.IntN(crashKeys))
	volatile := heartbeats && r.IntN(3) == 0
	err := crashCommit(s, out, w, name, sequence, store.Update, volatile)
	if errors.Is(err, store.ErrNotFound) {
		err = crashCommit(s, out, w, name, sequence, store.Create, volatile)
	}
	return err
}

func crashCommit(s store.Store, out io.Writer, w int, name string, sequence int, verb store.Verb, volatile bool) error {
	op := store.Op{Verb: verb, Key: pod("default", name), Encode: valueOf(strconv.Itoa(sequence)), Volatile: volatile}
	e, err := s.Commit(context.Background(), op)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out, ack{w, name, sequence, e.Revision, verb, volatile})
	return err
}
