package module

import (
	"bytes"
	"errors"
	"io"
)

// What a file of WebAssembly is by its header.
type What int

// The kinds of files.
const (
	NotWasm What = iota
	Core
	Component
	// Cut is a header that is not complete, Unsupported one with another version.
	Cut
	Unsupported
)

var magic = []byte("\x00asm")

// Sniff tells what a file is by its first HeaderSize bytes, or all if it has fewer.
func Sniff(head []byte) What {
	switch {
	case !bytes.HasPrefix(head, magic):
		return NotWasm
	case len(head) < HeaderSize:
		return Cut
	}
	switch string(head[len(magic):HeaderSize]) {
	case "\x01\x00\x00\x00":
		return Core
	case "\x0d\x00\x01\x00":
		return Component
	}
	return Unsupported
}

// Parts of a component: sections of its own kind.
const (
	partCoreModule = 1
	partComponent  = 4
	partLast       = 12
)

// Layout is what can be told of a component.
type Layout struct {
	Sections []Section
	// Modules are the places of the core modules in it, in their order; modules of components within it are left out.
	Modules []Section
	// Components is how many components are within it.
	Components int
}

// ReadComponent reads how a component is put together, and nothing of what is in its parts.
func ReadComponent(src io.ReaderAt, size int64) (*Layout, error) {
	secs, err := sections(src, HeaderSize, size, partLast)
	if err != nil {
		return nil, err
	}
	l := &Layout{Sections: secs}
	for _, s := range secs {
		switch s.ID {
		case partCoreModule:
			l.Modules = append(l.Modules, s)
		case partComponent:
			l.Components++
		}
	}
	return l, nil
}

// Main returns the core module of a component that runs by itself: its first one, where that imports nothing but functions
// of WASI preview 1, or of the version before it.
func (l *Layout) Main(src io.ReaderAt) (*io.SectionReader, *Module, error) {
	if len(l.Modules) == 0 {
		return nil, nil, errors.New("there is no core module in it")
	}
	s := l.Modules[0]
	part := io.NewSectionReader(src, s.Offset, s.Size)
	head := make([]byte, min(HeaderSize, s.Size))
	if _, err := part.ReadAt(head, 0); err != nil && err != io.EOF {
		return nil, nil, err
	}
	if Sniff(head) != Core {
		return nil, nil, errors.New("its first module is no core module")
	}
	m, err := Read(part, s.Size)
	if err != nil {
		return nil, nil, err
	}
	for _, im := range m.Imports {
		if !im.WASI() {
			return nil, nil, errors.New("its main module imports " + shown(im.Module) + ", which is not of WASI preview 1")
		}
	}
	return part, m, nil
}
