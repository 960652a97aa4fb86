package layer

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each link leads through the one before to many more folders, which the next entry would have made.
func TestLinksDoNotMakeFoldersWithoutEnd(t *testing.T) {
	var entries []tar.Header
	way := ""
	for i := range 30 {
		name := fmt.Sprint("s", i)
		entries = append(entries, symlink(name, way+strings.Repeat("d/", maxDepth/2)), file(name+"/x", ""))
		way = name + "/"
	}
	p := newPlace(t)
	_, err := Apply(t.Context(), p.root, bytes.NewReader(pack(t, entries...)), budget())
	var own Error
	if !errors.As(err, &own) || !strings.Contains(err.Error(), "too deep") {
		t.Errorf("%v, want an error of the layer about its depth", err)
	}
	p.check(t)
}

func TestAPathThatIsFollowedIsBounded(t *testing.T) {
	p := newPlace(t)
	if _, err := Resolve(p.root, strings.Repeat("d/", 1<<16)); err == nil {
		t.Error("a path of 65,536 folders was followed")
	}
	if got, err := Resolve(p.root, strings.Repeat("d/", maxDepth)); err != nil || strings.Count(got, "/") != maxDepth-1 {
		t.Errorf("a path of %d folders: %v", maxDepth, err)
	}
}

func TestLongPathsTakeLittleMemory(t *testing.T) {
	p := newPlace(t)
	a := &applier{root: p.root, budget: budget(), own: map[string]bool{}, times: map[string]time.Time{}, names: maxNames - 20}
	err := a.all(tar.NewReader(bytes.NewReader(pack(t, file("12345", ""), file("67890", ""), file("x", "")))))
	var own Error
	if !errors.As(err, &own) || !strings.Contains(err.Error(), "paths of its files") || a.budget.Files != budget().Files-3 {
		t.Errorf("%v, want an error of the layer about its paths at the third", err)
	}
}

// Names that are hidden over and over, and links that lead about, cost no more than a bounded number of steps.
func TestLeadingAboutIsBounded(t *testing.T) {
	about := []tar.Header{folder("d"), symlink("about", strings.Repeat("d/../", 700)+"d")}
	hidden := []tar.Header{folder("d")}
	for i := range 500 {
		about = append(about, file(fmt.Sprint("about/", i), ""))
		hidden = append(hidden, file(fmt.Sprint("d/", i), ""), file("d/"+opaqueName, ""))
	}
	for name, entries := range map[string][]tar.Header{"links": about, "whiteouts": hidden} {
		p := newPlace(t)
		b := &Budget{Bytes: 1 << 20, Files: 10_000, steps: maxSteps - 50_000}
		_, err := Apply(t.Context(), p.root, bytes.NewReader(pack(t, entries...)), b)
		var own Error
		if !errors.As(err, &own) || !strings.Contains(err.Error(), "lead about without end") {
			t.Errorf("%s: %v, want an error of the layer", name, err)
		}
		p.check(t)
	}
}
