//go:build unix

package edgepod

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func TestWherePortsAre(t *testing.T) {
	first := func(getenv func(string) string) (int, error) { return 5, nil }
	for _, c := range []struct {
		count, names, name string
		want               int
		bad                string
	}{
		{count: "2", names: "http:admin", want: 5},
		{count: "2", names: "http:admin", name: "http", want: 5},
		{count: "2", names: "http:admin", name: "admin", want: 6},
		{count: "1", names: "http:admin", name: "admin", bad: "no port is called"},
		{count: "2", names: "http", name: "unknown", bad: `no port is called "unknown", but ["http"]`},
		{bad: "no port is handed over"},
		{count: "x", bad: "no port is handed over"},
		{count: "-1", bad: "no port is handed over"},
	} {
		env := map[string]string{"LISTEN_FDS": c.count, "LISTEN_FDNAMES": c.names}
		got, err := portFD(c.name, first, func(name string) string { return env[name] })
		if c.bad == "" && (got != c.want || err != nil) || c.bad != "" && (err == nil || !strings.Contains(err.Error(), c.bad)) {
			t.Errorf("%+v: got %d, %v", c, got, err)
		}
	}
}

// helper tells the test program what it is to do as a process of its own.
const helper = "EDGEPOD_TEST_HELPER"

// asHelper runs this test again as a process of its own.
func asHelper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), helper+"=1")
	return cmd
}

func TestStopOfAProcess(t *testing.T) {
	if os.Getenv(helper) != "" {
		ctx, cancel := StopContext(context.Background())
		defer cancel()
		fmt.Println("waiting")
		<-ctx.Done()
		fmt.Println(context.Cause(ctx))
		os.Exit(7)
	}
	cmd := asHelper(t)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("waiting\n"))
	if _, err := io.ReadFull(out, line); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	if err != nil || string(rest) != ErrStopping.Error()+"\n" {
		t.Errorf("got %q, %v", rest, err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Error(err)
	}
}

func TestListenersOfAProcess(t *testing.T) {
	if os.Getenv(helper) != "" {
		l, err := Listener("http")
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		c, err := Dial(context.Background(), "tcp", l.Addr().String())
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Print("connected to the port of ", os.Getenv("LISTEN_FDNAMES"))
		c.Close()
		os.Exit(0)
	}
	l, err := Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := asHelper(t)
	cmd.ExtraFiles = []*os.File{file}
	cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=http")
	if text, err := cmd.CombinedOutput(); err != nil || string(text) != "connected to the port of http" {
		t.Errorf("%v\n%s", err, text)
	}
	cmd = asHelper(t)
	cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "LISTEN_FDNAMES=http", "LISTEN_PID=1")
	if text, err := cmd.CombinedOutput(); err == nil || string(text) != "the ports are those of process 1\n" {
		t.Errorf("%v\n%s", err, text)
	}
}
