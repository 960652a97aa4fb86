package module

import "strings"

// Language guesses what the module was written in: "go", "tinygo", "rust", "c", "c++", "zig", "swift", "assemblyscript", … in lower
// case, or "" where nothing tells.
func (m *Module) Language() string { return m.language }

func language(m *Module) string {
	if _, ok := m.Custom("go:buildid"); ok {
		return "go"
	}
	for _, ex := range m.Exports {
		if strings.HasPrefix(ex.Name, "tinygo_") || ex.Name == "go_scheduler" || ex.Name == "runtime.alloc" {
			return "tinygo"
		}
	}
	first := ""
	for _, p := range m.Producers {
		switch name := strings.ToLower(p.Name); {
		case p.Field == "processed-by" && name == "tinygo":
			return "tinygo"
		case p.Field == "processed-by" && strings.HasPrefix(name, "go cmd/"):
			return "go"
		case p.Field == "language" && (first == "" || rankLanguage(name) > rankLanguage(first)):
			first = name
		}
	}
	if first != "" {
		return plainLanguage(first)
	}
	for _, im := range m.Imports {
		if im.Module == "env" && im.Name == "abort" && len(im.Params) == 4 {
			return "assemblyscript"
		}
	}
	return ""
}

// rankLanguage prefers the language of the program to that of the library of C which it is linked with.
func rankLanguage(name string) int {
	switch plainLanguage(name) {
	case "c":
		return 1
	case "c++":
		return 2
	}
	return 3
}

// plainLanguage takes the version from the names that the languages of C have in this section.
func plainLanguage(name string) string {
	switch {
	case strings.HasPrefix(name, "c_plus_plus"), strings.HasPrefix(name, "c++"):
		return "c++"
	case name == "c", len(name) > 1 && name[0] == 'c' && name[1] >= '0' && name[1] <= '9', name == "ansi c":
		return "c"
	}
	return name
}

// producers reads the section of that name, as far as it is what it should be.
func producers(r *reader) (out []Producer) {
	if r.left() > maxProducersLen {
		return nil
	}
	for fields := r.count(maxProducers, "fields"); fields > 0 && r.err == nil; fields-- {
		field := r.name()
		for n := r.count(maxProducers, "producers"); n > 0 && r.err == nil; n-- {
			p := Producer{Field: field, Name: r.name(), Version: r.name()}
			if r.err == nil && len(out) < maxProducers {
				out = append(out, p)
			}
		}
	}
	r.err = nil // a custom section may hold anything
	return out
}
