package process

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"edgepod/wasmrt/atomicfile"
)

//go:generate sh child/build.sh

//go:embed embed
var embedded embed.FS

// self is this program.
const self = "/proc/self/exe"

// program returns the path of the program that containers run: what the configuration names, the embedded one, which is
// written to dir under its hash at first use, or this program.
func program(configured, dir string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	data, err := embedded.ReadFile("embed/child.gz")
	if errors.Is(err, fs.ErrNotExist) {
		return self, nil
	}
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	path := filepath.Join(dir, hex.EncodeToString(sum[:]))
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm() == 0o755 {
		return path, nil
	}
	zipped, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return "", fmt.Errorf("unpack the containers' program: %w", err)
	}
	const most = 256 << 20
	plain, err := io.ReadAll(io.LimitReader(zipped, most))
	if err != nil {
		return "", fmt.Errorf("unpack the containers' program: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	return path, atomicfile.Write(path, plain, 0o755, true)
}
