package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"edgepod/server/registry"
)

var update = flag.Bool("update", false, "rewrite the generated parts of documents")

func readDocument(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPathsInDocumentsExist(t *testing.T) {
	quoted := regexp.MustCompile("`([A-Za-z0-9_./-]+)`")
	for _, document := range []string{"README.md", "ARCHITECTURE.md", "RATIONALE.md"} {
		found := 0
		for _, match := range quoted.FindAllStringSubmatch(readDocument(t, document), -1) {
			path := match[1]
			first, _, nested := strings.Cut(path, "/")
			if _, err := os.Stat(first); err != nil || !nested && filepath.Ext(path) == "" || first == "bin" {
				continue
			}
			found++
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s names %s: %v", document, path, err)
			}
		}
		if found == 0 {
			t.Errorf("%s names no path at all", document)
		}
	}
}

// TestCommandsInDocumentsExist tries each command line of the READMEs against the commands, flags and make targets.
func TestCommandsInDocumentsExist(t *testing.T) {
	documents, err := filepath.Glob("examples/*/README.md")
	if err != nil || len(documents) == 0 {
		t.Fatal("the examples have no READMEs")
	}
	makefile := readDocument(t, "Makefile")
	for _, document := range append(documents, "README.md") {
		commands := commandLines(readDocument(t, document))
		if len(commands) == 0 {
			t.Errorf("%s shows no command", document)
		}
		for _, words := range commands {
			switch filepath.Base(words[0]) {
			case "edgepod":
				if err := checkCommand(words[1:]); err != nil {
					t.Errorf("%s: %s: %v", document, strings.Join(words, " "), err)
				}
			case "make":
				for _, target := range words[1:] {
					if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
						t.Errorf("%s: make has no target %q", document, target)
					}
				}
			}
		}
	}
}

// commandLines returns the words of each line in shell blocks, with command substitutions as lines of their own.
func commandLines(document string) [][]string {
	var lines [][]string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(document, -1) {
		text := regexp.MustCompile(`\$\(([^)]*)\)`).ReplaceAllString(block[1], "\n$1\n")
		for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '|' || r == '&' }) {
			line, _, _ = strings.Cut(line, " #")
			if words := strings.Fields(line); len(words) > 0 {
				lines = append(lines, words)
			}
		}
	}
	return lines
}

// checkCommand finds the command and its flags; what follows "--" is another program's.
func checkCommand(words []string) error {
	if end := slices.Index(words, "--"); end >= 0 {
		words = words[:end]
	}
	root := newRootCommand(&app{})
	root.InitDefaultCompletionCmd()
	cmd, _, err := root.Find(words)
	if err != nil {
		return err
	}
	if cmd == root && len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		return fmt.Errorf("there is no command %q", words[0])
	}
	for _, word := range words {
		name, _, _ := strings.Cut(word, "=")
		switch {
		case strings.HasPrefix(name, "--"):
			if cmd.Flag(name[2:]) == nil && root.PersistentFlags().Lookup(name[2:]) == nil {
				return fmt.Errorf("there is no flag %s", name)
			}
		case len(name) > 1 && name[0] == '-':
			if cmd.Flags().ShorthandLookup(name[1:2]) == nil {
				return fmt.Errorf("there is no flag %s", name)
			}
		}
	}
	return nil
}

// TestSupportTable holds ARCHITECTURE.md's table to the one in the code.
func TestSupportTable(t *testing.T) {
	const file, begin, end = "ARCHITECTURE.md", "<!-- support table, made by `make docs` -->\n", "<!-- end of support table -->\n"
	document := readDocument(t, file)
	before, rest, ok := strings.Cut(document, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the table's marks", file)
	}
	var table strings.Builder
	table.WriteString("\n| field of a pod | support | what happens |\n| --- | --- | --- |\n")
	for _, row := range registry.Support() {
		values := ""
		if len(row.Values) > 0 {
			values = " = " + strings.Join(row.Values, ", ")
		}
		fmt.Fprintf(&table, "| `%s`%s | %s | %s |\n", row.Path, values, row.Level, strings.ReplaceAll(row.Text, "|", "\\|"))
	}
	table.WriteString("\n")
	want := before + begin + table.String() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if document != want {
		t.Errorf("%s has an old support table: run `make docs`", file)
	}
}
