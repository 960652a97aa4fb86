package inspect

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"edgepod/wasmrt/image/module"
)

// pretendedNote is for programs that run, and say that they listen, without anybody who could reach them.
const pretendedNote = "it is a Go program without a network: Go's port to WASI pretends to listen and to dial, and nobody is reached; `edgepod build` gives it real sockets"

// pretendsNetwork tells a Go program that has the network which Go's own port to WASI pretends, and neither of the ways to a
// real one: functions of a host beyond preview 1, or a listener that was handed over. Go keeps the names of its functions in
// the data, also where the name section has been left out.
func pretendsNetwork(src io.ReaderAt, m *module.Module) (bool, error) {
	if m.Language() != "go" {
		return false, nil
	}
	for _, im := range m.Imports {
		switch im.Name {
		case "sock_accept", "sock_recv", "sock_send", "sock_shutdown":
		default:
			if strings.HasPrefix(im.Name, "sock_") {
				return false, nil
			}
		}
	}
	var pretended, handedOver bool
	for _, s := range m.Sections {
		if s.Name != "data" {
			continue
		}
		found, err := contains(io.NewSectionReader(src, s.Offset, s.Size), "net.(*fakeNetFD).", "net.FileListener")
		if err != nil {
			return false, fmt.Errorf("read the module's data: %w", err)
		}
		pretended, handedOver = pretended || found[0], handedOver || found[1]
	}
	return pretended && !handedOver, nil
}

// contains tells which of the words are in what is read, in little memory.
func contains(r io.Reader, words ...string) ([]bool, error) {
	const chunk = 64 << 10
	found := make([]bool, len(words))
	longest := 0
	for _, w := range words {
		longest = max(longest, len(w))
	}
	buf := make([]byte, 0, chunk+longest)
	for {
		n, err := io.ReadFull(r, buf[len(buf):len(buf)+chunk])
		buf = buf[:len(buf)+n]
		for i, w := range words {
			found[i] = found[i] || bytes.Contains(buf, []byte(w))
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return found, nil
		default:
			return nil, err
		}
		buf = buf[:copy(buf, buf[len(buf)-longest:])]
	}
}
