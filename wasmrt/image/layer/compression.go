package layer

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"

	"github.com/klauspost/compress/zstd"
)

// unpack returns what a stream holds that may be packed by gzip or zstd: its first bytes tell, since media types of
// registries are often wrong. Reading takes a bounded amount of memory.
func unpack(r io.Reader) (io.ReadCloser, error) {
	const window = 32 << 20
	buffered := bufio.NewReaderSize(r, 64<<10)
	head, err := buffered.Peek(4)
	if err != nil && err != io.EOF {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, Error("the layer is damaged: " + err.Error())
		}
		return &decoder{z}, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(buffered, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
		if err != nil {
			return nil, Error("the layer is damaged: " + err.Error())
		}
		return &decoder{z.IOReadCloser()}, nil
	}
	return io.NopCloser(buffered), nil
}

// decoder makes errors of the format ones about the layer.
type decoder struct{ inner io.ReadCloser }

func (d *decoder) Read(p []byte) (int, error) {
	n, err := d.inner.Read(p)
	var disk *fs.PathError
	if err != nil && err != io.EOF && !errors.As(err, &disk) {
		err = Error("the layer is damaged: " + err.Error())
	}
	return n, err
}

func (d *decoder) Close() error { return d.inner.Close() }
