package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// sources parses the Go files that are not tests, by folder.
func sources(t *testing.T) (*token.FileSet, map[string][]*ast.File) {
	t.Helper()
	set, folders := token.NewFileSet(), map[string][]*ast.File{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path != "." && strings.HasPrefix(entry.Name(), ".") || strings.HasPrefix(entry.Name(), "_") || entry.Name() == "testdata" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		folders[filepath.Dir(path)] = append(folders[filepath.Dir(path)], file)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return set, folders
}

func TestEveryPackageSaysOnceWhatItIs(t *testing.T) {
	_, folders := sources(t)
	for folder, files := range folders {
		var comments []string
		for _, file := range files {
			if file.Doc != nil {
				comments = append(comments, file.Doc.Text())
			}
		}
		name := files[0].Name.Name
		start := "Package " + name + " "
		if name == "main" {
			start = "Command "
		}
		if len(comments) != 1 || !strings.HasPrefix(comments[0], start) {
			t.Errorf("%s: want one package comment that begins with %q, got %q", folder, start, comments)
		}
	}
}

// TestNothingHappensBehindTheBack holds that packages neither register themselves nor keep state in variables: what is
// wired is wired where it can be read.
func TestNothingHappensBehindTheBack(t *testing.T) {
	set, folders := sources(t)
	for _, files := range folders {
		names, objects := map[string]bool{}, map[any]bool{}
		for _, file := range files {
			for _, name := range packageVariables(file) {
				names[name.Name], objects[name.Obj] = true, true
			}
		}
		for _, file := range files {
			for _, decl := range file.Decls {
				function, ok := decl.(*ast.FuncDecl)
				if !ok || function.Body == nil {
					continue
				}
				if function.Recv == nil && function.Name.Name == "init" {
					t.Errorf("%s: func init", set.Position(function.Pos()))
				}
				ast.Inspect(function.Body, func(n ast.Node) bool {
					for _, target := range assigned(n) {
						// A name without an object is declared in another file of the package.
						if name := root(target); name != nil && name.Name != "_" && names[name.Name] && (name.Obj == nil || objects[name.Obj]) {
							t.Errorf("%s: package variable %s is changed", set.Position(name.Pos()), name.Name)
						}
					}
					return true
				})
			}
		}
	}
}

func packageVariables(file *ast.File) []*ast.Ident {
	var names []*ast.Ident
	for _, decl := range file.Decls {
		general, ok := decl.(*ast.GenDecl)
		if !ok || general.Tok != token.VAR {
			continue
		}
		for _, spec := range general.Specs {
			names = append(names, spec.(*ast.ValueSpec).Names...)
		}
	}
	return names
}

// assigned returns what a statement changes.
func assigned(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	}
	return nil
}

// root is the variable that an expression is a part of, nil where it goes through a call or a pointer of another's.
func root(e ast.Expr) *ast.Ident {
	switch e := e.(type) {
	case *ast.Ident:
		return e
	case *ast.IndexExpr:
		return root(e.X)
	case *ast.SelectorExpr:
		return root(e.X)
	case *ast.StarExpr:
		return root(e.X)
	}
	return nil
}
