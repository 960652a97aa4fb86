package inspect

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"edgepod/wasmrt/image/module"
)

// capabilityNames are the groups of imports, in the order in which they are shown.
var capabilityNames = []string{"files", "clock", "random", "sockets", "environment", "process", "unknown"}

// prefixes tell the group of a function of WASI by the beginning of its name.
var prefixes = []struct{ prefix, capability string }{
	{"fd_", "files"},
	{"path_", "files"},
	{"clock_", "clock"},
	{"poll_", "clock"},
	{"random_", "random"},
	{"sock_", "sockets"},
	{"args_", "environment"},
	{"environ_", "environment"},
	{"proc_", "process"},
	{"sched_", "process"},
}

func capabilityOf(im module.Import) string {
	if !im.WASI() || im.Kind != module.KindFunc {
		return "unknown"
	}
	for _, p := range prefixes {
		if strings.HasPrefix(im.Name, p.prefix) {
			return p.capability
		}
	}
	return "unknown"
}

// capabilities groups the imports.
func (w World) capabilities(m *module.Module) (out []Capability) {
	groups := map[string][]Import{}
	for _, im := range m.Imports {
		shown := Import{Module: im.Module, Name: im.Name, Kind: im.Kind.String(), Offered: w.Offered(im) == nil}
		if im.Kind == module.KindFunc {
			shown.Type = signature(im.Params, im.Results)
		}
		name := capabilityOf(im)
		groups[name] = append(groups[name], shown)
	}
	for _, name := range capabilityNames {
		if imports := groups[name]; len(imports) > 0 {
			slices.SortStableFunc(imports, func(a, b Import) int { return strings.Compare(a.Module+"."+a.Name, b.Module+"."+b.Name) })
			out = append(out, Capability{Name: name, Imports: imports})
		}
	}
	return out
}

func signature(params, results []byte) string {
	return fmt.Sprintf("(%s) -> (%s)", typeNames(params), typeNames(results))
}

func typeNames(types []byte) string {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = typeName(t)
	}
	return strings.Join(names, " ")
}

func typeName(t byte) string {
	switch t {
	case 0x7f:
		return "i32"
	case 0x7e:
		return "i64"
	case 0x7d:
		return "f32"
	case 0x7c:
		return "f64"
	case 0x7b:
		return "v128"
	case 0x70:
		return "funcref"
	case 0x6f:
		return "externref"
	}
	return "ref"
}

// Plain is foreign text that can be shown in a message or on a terminal: short, and without characters that do anything.
func Plain(text string) string {
	const most = 300
	if len(text) > most {
		text = text[:most] + "…"
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
}
