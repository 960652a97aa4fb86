package sandboxtest_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"edgepod/wasmrt/sandbox"
	"edgepod/wasmrt/sandbox/sandboxtest"
)

func TestFakePassesTheSuite(t *testing.T) {
	sandboxtest.Run(t, func(*testing.T) *sandboxtest.Subject {
		f := sandboxtest.NewFake()
		f.OnStart(actOut)
		return &sandboxtest.Subject{
			Runtime: f, Image: "guest",
			Reopen: func(*testing.T) sandbox.Runtime { return f },
		}
	})
}

// actOut does what the suite's guest would.
func actOut(spec sandbox.ContainerSpec) *sandbox.Exit {
	switch spec.Args[1] {
	case "exit":
		code, err := strconv.Atoi(spec.Args[2])
		if err != nil {
			return nil
		}
		return &sandbox.Exit{Code: int32(code)}
	case "print":
		now := time.Now().UTC().Format(time.RFC3339Nano)
		text := fmt.Sprintf("%s stdout F %s\n%s stderr P %s\n", now, spec.Args[2], now, spec.Args[3])
		if err := os.WriteFile(spec.Log.Path, []byte(text), 0o600); err != nil {
			return &sandbox.Exit{Code: 1, Message: err.Error()}
		}
		return &sandbox.Exit{}
	}
	return nil
}
