package inspect

import (
	"cmp"
	"fmt"
	"strings"
)

// Text describes the report to people. Of each list it shows at most so many items; 0: all. Nothing of the module's own
// words can do more on a terminal than be read.
func (r *Report) Text(most int) string {
	t := &writer{most: most}
	t.head(r)
	if r.Image != nil {
		t.image(r.Image)
	}
	if r.Component != nil {
		t.component(r.Component)
	}
	if r.Module != nil {
		t.module(r.Module)
	}
	return t.out.String()
}

// fieldWidth is where values begin.
const fieldWidth = 16

type writer struct {
	out  strings.Builder
	most int
}

// field writes a line with a name and a value, unless that is empty.
func (t *writer) field(name, format string, args ...any) {
	if value := fmt.Sprintf(format, args...); value != "" {
		fmt.Fprintf(&t.out, "%-*s %s\n", fieldWidth, name+":", strings.TrimSpace(Plain(value)))
	}
}

func (t *writer) title(format string, args ...any) { fmt.Fprintf(&t.out, "\n"+format+"\n", args...) }

// list writes indented lines.
func (t *writer) list(n int, line func(i int) string) {
	for i := range n {
		if t.most > 0 && i == t.most {
			fmt.Fprintf(&t.out, "  … and %d more\n", n-i)
			return
		}
		fmt.Fprintf(&t.out, "  %s\n", line(i))
	}
}

func (t *writer) head(r *Report) {
	t.field("Name", "%s", r.Reference)
	t.field("Found in", "%s", map[string]string{SourceFile: "a file", SourceBuiltin: "edgepod itself", SourceRegistry: "a registry"}[r.Source])
	t.field("Digest", "%s", r.Digest)
	t.field("Kind", "%s", r.Kind)
	if r.Size > 0 {
		t.field("Size", "%s", bytesText(r.Size))
	}
	t.field("Note", "%s", r.Note)
	if r.Runs {
		t.field("Runs here", "yes")
		return
	}
	t.field("Runs here", "no")
	t.list(len(r.Problems), func(i int) string { return r.Problems[i] })
}

func (t *writer) image(im *Image) {
	t.title("Image")
	t.field("  Layout", "%s", map[string]string{LayoutModule: "the module alone", LayoutFiles: "files, the module one of them"}[im.Layout])
	t.field("  Platform", "%s", im.Platform)
	t.field("  Manifest", "%s", im.Manifest)
	t.field("  Module", "%s", im.ModulePath)
	t.field("  Entrypoint", "%s", strings.Join(im.Entrypoint, " "))
	t.field("  Cmd", "%s", strings.Join(im.Cmd, " "))
	t.field("  Env", "%s", strings.Join(im.Env, " "))
	t.field("  Folder", "%s", im.WorkingDir)
	t.list(len(im.Layers), func(i int) string {
		l := im.Layers[i]
		return fmt.Sprintf("%s  %9s  %s", l.Digest, bytesText(l.Size), Plain(l.MediaType))
	})
}

func (t *writer) component(c *Component) {
	t.title("Component: %d core modules, %d components in it", len(c.CoreModules), c.Components)
	t.list(len(c.CoreModules), func(i int) string { return fmt.Sprintf("core module %d  %s", i, bytesText(c.CoreModules[i])) })
}

// producers are the fields of the section of this name in words for people.
var producers = map[string]string{"language": "Written in", "processed-by": "Made with", "sdk": "SDK"}

func (t *writer) module(m *Module) {
	t.title("Module")
	t.field("  Language", "%s", m.Language)
	for _, p := range m.Producers {
		field := strings.TrimSuffix(Plain(p.Field), ":")
		t.field("  "+cmp.Or(producers[field], field), "%s %s", p.Name, p.Version)
	}
	t.field("  Defines", "%d functions, %d globals, %d elements, %d pieces of data (%s)", m.Functions, m.Globals, m.Elements, m.Data, bytesText(m.DataBytes))
	for _, l := range m.Memories {
		t.field("  Memory", "%s", limitsText(l, "pages of 64Ki"))
	}
	for _, l := range m.Tables {
		t.field("  Table", "%s", limitsText(l, "elements"))
	}
	if m.StartFunction != nil {
		t.field("  Starts with", "function %d", *m.StartFunction)
	}
	t.field("  Back-traces", "%s", traceText(m))
	if len(m.Needs) > 0 {
		t.title("Needs of WebAssembly, beyond 1.0")
		t.list(len(m.Needs), func(i int) string {
			return m.Needs[i].Proposal + mark(m.Needs[i].Supported, "the engine does not have it")
		})
	}
	for _, c := range m.Imports {
		t.title("Imports: %s", c.Name)
		t.list(len(c.Imports), func(i int) string {
			im := c.Imports[i]
			return Plain(im.Module+"."+im.Name) + " " + importType(im) + mark(im.Offered, "not offered")
		})
	}
	t.title("Exports")
	t.list(len(m.Exports), func(i int) string { return fmt.Sprintf("%-9s %s", m.Exports[i].Kind, Plain(m.Exports[i].Name)) })
	t.title("Sections")
	t.list(len(m.Sections), func(i int) string {
		s := m.Sections[i]
		return fmt.Sprintf("%-10s %9s  at %-10d %s", Plain(s.Name), bytesText(s.Size), s.Offset, Plain(s.Custom))
	})
}

func importType(im Import) string {
	if im.Type != "" {
		return im.Type
	}
	return im.Kind
}

func mark(ok bool, otherwise string) string {
	if ok {
		return ""
	}
	return "   ! " + otherwise
}

func limitsText(l Limits, unit string) string {
	text := fmt.Sprintf("%d", l.Min)
	if l.Max != nil {
		text += fmt.Sprintf(" to %d", *l.Max)
	} else {
		text += " and more"
	}
	text += " " + unit
	for _, extra := range []struct {
		is   bool
		word string
	}{{l.Imported, "imported"}, {l.Shared, "shared"}, {l.Wide, "64-bit"}} {
		if extra.is {
			text += ", " + extra.word
		}
	}
	return text
}

func traceText(m *Module) string {
	switch {
	case m.FunctionNames && m.Debug:
		return "with function names, and source lines if the module is small"
	case m.FunctionNames:
		return "with function names"
	case m.Debug:
		return "with source lines if the module is small"
	}
	return "with numbers of functions only: it has no name section"
}

// bytesText is a number of bytes for people.
func bytesText(n int64) string {
	const unit = 1024
	value, names := float64(n), []string{"", "Ki", "Mi", "Gi"}
	for len(names) > 1 && value >= unit {
		value, names = value/unit, names[1:]
	}
	if names[0] == "" {
		return fmt.Sprintf("%d", n)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") + names[0]
}
