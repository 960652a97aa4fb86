// Package inspect judges modules, whether they run here and why not, and describes them to people and programs. It never
// compiles.
package inspect

import (
	"errors"
	"io"

	"edgepod/wasmrt/image/module"
)

// Where references lead, as Report.Source.
const (
	SourceFile     = "file"
	SourceBuiltin  = "built-in"
	SourceRegistry = "registry"
)

// How a module lies in an image, as Image.Layout.
const (
	LayoutModule = "module" // the only layer is the module
	LayoutFiles  = "files"  // it is a file in an ordinary image
)

// Report describes what a reference names.
type Report struct {
	// Reference as it was given, and where it leads: SourceFile, SourceBuiltin or SourceRegistry.
	Reference string `json:"reference"`
	Source    string `json:"source"`
	// Digest is the image's, or that of the file; ID the repository with it, for what is in a registry.
	Digest string `json:"digest,omitempty"`
	ID     string `json:"id,omitempty"`
	// Kind is "core module" or "component", or says what else it is.
	Kind string `json:"kind"`
	// Size of the file in bytes.
	Size int64 `json:"size"`
	// Note is for the user, where the reference stands for something else than it seems to.
	Note string `json:"note,omitempty"`
	// Runs tells whether a pod could run it here; otherwise Problems say why not.
	Runs     bool     `json:"runs"`
	Problems []string `json:"problems,omitempty"`

	Image     *Image     `json:"image,omitempty"`
	Component *Component `json:"component,omitempty"`
	Module    *Module    `json:"module,omitempty"`
}

// Image describes what is around a module in a registry.
type Image struct {
	// Layout is LayoutModule, LayoutFiles, or "" where the image is neither.
	Layout   string `json:"layout,omitempty"`
	Platform string `json:"platform,omitempty"`
	// Manifest is the digest of the image's manifest, where Digest is that of an index.
	Manifest string  `json:"manifest,omitempty"`
	Layers   []Layer `json:"layers,omitempty"`
	// ModulePath is the file of the module in the image.
	ModulePath string   `json:"modulePath,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Cmd        []string `json:"cmd,omitempty"`
	Env        []string `json:"env,omitempty"`
	WorkingDir string   `json:"workingDir,omitempty"`
}

// Layer is a part of an image, as it is transferred.
type Layer struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int64  `json:"size"`
}

// Component describes how a component is put together. Where its main module runs by itself, that is the report's Module.
type Component struct {
	Sections []Section `json:"sections"`
	// CoreModules are the sizes of the core modules in it; Components counts the components.
	CoreModules []int64 `json:"coreModules,omitempty"`
	Components  int     `json:"components,omitempty"`
}

// Module describes a core module.
type Module struct {
	Size int64 `json:"size"`
	// Language is a guess: "go", "tinygo", "rust", "c" and so on, or "".
	Language  string     `json:"language,omitempty"`
	Producers []Producer `json:"producers,omitempty"`
	Sections  []Section  `json:"sections"`
	// Imports by what they are for.
	Imports  []Capability `json:"imports,omitempty"`
	Exports  []Export     `json:"exports,omitempty"`
	Memories []Limits     `json:"memories,omitempty"`
	Tables   []Limits     `json:"tables,omitempty"`
	// Counts of what the module itself defines. DataBytes is how much of its memory it brings along.
	Functions int   `json:"functions"`
	Globals   int   `json:"globals"`
	Elements  int   `json:"elements"`
	Data      int   `json:"data"`
	DataBytes int64 `json:"dataBytes"`
	// StartFunction is the index of a function that runs before any export is called.
	StartFunction *uint32 `json:"startFunction,omitempty"`
	// Needs are the extensions of WebAssembly 1.0 that it uses.
	Needs []Need `json:"needs,omitempty"`
	// FunctionNames tells whether back-traces of it show names, Debug whether there is what debuggers read.
	FunctionNames bool `json:"functionNames,omitempty"`
	Debug         bool `json:"debug,omitempty"`
}

// Producer is a tool or a language that a module says it was made with: Field is "language", "processed-by" or "sdk".
type Producer struct {
	Field   string `json:"field"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// Section is a part of a module: Name is what the specification calls it, or "custom" with a name of its own.
type Section struct {
	Name   string `json:"name"`
	Custom string `json:"custom,omitempty"`
	Offset int64  `json:"offset"`
	Size   int64  `json:"size"`
}

// Capability is a group of imports.
type Capability struct {
	// Name is "files", "clock", "random", "sockets", "environment", "process" or "unknown".
	Name    string   `json:"name"`
	Imports []Import `json:"imports"`
}

// Import is one import.
type Import struct {
	Module string `json:"module"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	// Type of a function: (i32 i32) -> (i32).
	Type    string `json:"type,omitempty"`
	Offered bool   `json:"offered"`
}

// Export is one export.
type Export struct {
	Name string `json:"name"`
	Kind string `json:"kind"`
}

// Limits of a memory (in pages of 64 KiB) or of a table (in elements).
type Limits struct {
	Min uint64  `json:"min"`
	Max *uint64 `json:"max,omitempty"`
	// Imported ones come from outside.
	Imported bool `json:"imported,omitempty"`
	Shared   bool `json:"shared,omitempty"`
	Wide     bool `json:"wide,omitempty"`
}

// Need is an extension of WebAssembly 1.0.
type Need struct {
	Proposal  string `json:"proposal"`
	Supported bool   `json:"supported"`
}

// Describe fills in what there is to say of a file: Kind, Size, Component, Module, Runs and Problems, and a Note where that
// is not all.
func (w World) Describe(src io.ReaderAt, size int64, r *Report) error {
	r.Size = size
	head := make([]byte, min(size, SniffSize))
	if _, err := io.ReadFull(io.NewSectionReader(src, 0, size), head); err != nil {
		return err
	}
	r.Kind = "core module"
	switch module.Sniff(head) {
	case module.Core:
	case module.Component:
		r.Kind = "component"
		if l, err := module.ReadComponent(src, size); err == nil {
			r.Component = describeComponent(l)
		}
	default:
		r.Kind = "no WebAssembly that is known here"
	}
	part, m, err := Open(src, size)
	var problem Problem
	if errors.As(err, &problem) {
		r.Problems = append(r.Problems, err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	r.Module = w.describeModule(m)
	for _, p := range w.Problems(m) {
		r.Problems = append(r.Problems, p.Error())
	}
	r.Runs = len(r.Problems) == 0
	pretended, err := pretendsNetwork(part, m)
	if pretended {
		r.Note = pretendedNote
	}
	return err
}

func describeComponent(l *module.Layout) *Component {
	c := &Component{Components: l.Components}
	for _, m := range l.Modules {
		c.CoreModules = append(c.CoreModules, m.Size)
	}
	for _, s := range l.Sections {
		c.Sections = append(c.Sections, describeSection(s))
	}
	return c
}

func describeSection(s module.Section) Section {
	out := Section{Name: s.Name, Offset: s.Offset, Size: s.Size}
	if s.ID == 0 {
		out.Name, out.Custom = "custom", s.Name
	}
	return out
}

func (w World) describeModule(m *module.Module) *Module {
	out := &Module{
		Size: m.Size, Language: m.Language(), Functions: m.Functions, Globals: m.Globals, Elements: m.Elements,
		Data: m.Data, DataBytes: m.DataSize, Imports: w.capabilities(m), Debug: m.HasDebug(),
	}
	_, out.FunctionNames = m.Custom("name")
	if m.HasStart {
		out.StartFunction = &m.Start
	}
	for _, p := range m.Producers {
		out.Producers = append(out.Producers, Producer(p))
	}
	for _, s := range m.Sections {
		out.Sections = append(out.Sections, describeSection(s))
	}
	for _, ex := range m.Exports {
		out.Exports = append(out.Exports, Export{Name: ex.Name, Kind: ex.Kind.String()})
	}
	for _, p := range m.Needs {
		out.Needs = append(out.Needs, Need{Proposal: string(p), Supported: w.supports(p)})
	}
	for _, im := range m.Imports {
		switch im.Kind {
		case module.KindMemory:
			out.Memories = append(out.Memories, limits(im.Limits, true))
		case module.KindTable:
			out.Tables = append(out.Tables, limits(im.Limits, true))
		}
	}
	for _, l := range m.Memories {
		out.Memories = append(out.Memories, limits(l, false))
	}
	for _, t := range m.Tables {
		out.Tables = append(out.Tables, limits(t.Limits, false))
	}
	return out
}

func limits(l module.Limits, imported bool) Limits {
	out := Limits{Min: l.Min, Imported: imported, Shared: l.Shared, Wide: l.Wide}
	if l.HasMax {
		out.Max = &l.Max
	}
	return out
}
